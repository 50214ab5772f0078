"""Progress of training: one report per epoch to a callback, and the curves of all epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

# Training curves: a list of values by name, one value per epoch.
History = dict[str, list[float]]


@dataclass(frozen=True)
class Progress:
    """An epoch that has just ended.

    Parameters
    ----------
    stage : str
        The name of the stage, such as "distances" or "backbone".
    epoch, epochs : int
        The number of this epoch, counted from 1, and the maximum number of epochs.
    metrics : mapping of str to float
        Measurements of this epoch, such as the losses.

    Examples
    --------
    >>> import lggd
    >>> seen = []
    >>> model = lggd.LGGDClassifier(None, lggd.GCN(), lggd.Optimization(epochs=3))
    >>> _ = model.fit(lggd.load("karate"), callback=seen.append)
    >>> [(progress.stage, progress.epoch) for progress in seen]
    [('backbone', 1), ('backbone', 2), ('backbone', 3)]
    """

    stage: str
    epoch: int
    epochs: int
    metrics: Mapping[str, float] = field(default_factory=dict)


Callback = Callable[[Progress], None]
