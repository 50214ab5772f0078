"""The settings of training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lggd.validation import check_int, check_positive, check_real


@dataclass(frozen=True)
class Optimization:
    """The settings of Adam and of early stopping. The defaults are the paper's for backbones.

    Parameters
    ----------
    lr, weight_decay : float
        Learning rate and L2 regularisation.
    epochs : int
        Maximum number of epochs.
    patience : int or None
        Stop after this many epochs without a better validation score; None never stops early.

    Examples
    --------
    >>> Optimization(lr=0.05, epochs=200)
    Optimization(lr=0.05, weight_decay=1e-06, epochs=200, patience=100)
    """

    lr: float = 0.01
    weight_decay: float = 1e-6
    epochs: int = 5000
    patience: int | None = 100

    def __post_init__(self) -> None:
        check_positive("lr", self.lr)
        check_real("weight_decay", self.weight_decay, 0, math.inf, closed="left", rule="be 0 or above and finite")
        check_int("epochs", self.epochs, minimum=1)
        if self.patience is not None:
            check_int("patience", self.patience, minimum=1)
