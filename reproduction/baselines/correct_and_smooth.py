"""Correct and smooth (Huang et al., 2021): the predictions of a model, corrected by labels that spread along edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lggd import LGGDClassifier, Optimization
from lggd.backbones import Perceptron
from lggd.baselines.baseline import check_same_size, one_hot, to_probabilities
from lggd.baselines.label_propagation import propagation_matrix, spread
from lggd.estimator import Member, saveable
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.validation import check_fraction, check_instance, check_int, check_positive

# Spreads errors `[N, K]` over the graph; the function is applied after every iteration.
Spread = Callable[[Tensor, Callable[[Tensor], Tensor]], Tensor]
# Smaller spread errors are not scaled up: their direction is noise.
MAX_FACTOR = 1000.0


@saveable
@dataclass(frozen=True)
class AutoScale:
    """Scales the spread error of each node to the mean size of the errors on labelled nodes.

    Examples
    --------
    >>> AutoScale()
    AutoScale()
    """

    def corrections(self, errors: Tensor, labelled: Tensor, spread_errors: Spread) -> Tensor:
        """Returns what is added to the predictions, `[N, K]`, from the errors on labelled nodes."""
        smoothed = spread_errors(errors, lambda values: values.clamp(-1, 1))
        factor = errors.abs().sum() / labelled.sum() / smoothed.abs().sum(1, keepdim=True)
        return torch.where(factor <= MAX_FACTOR, factor, 1.0) * smoothed


@saveable
@dataclass(frozen=True)
class FixedScale:
    """Keeps the errors of labelled nodes while they spread, and multiplies the result by a number.

    Parameters
    ----------
    scale : float
        The factor.

    Examples
    --------
    >>> FixedScale(scale=0.5)
    FixedScale(scale=0.5)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    def corrections(self, errors: Tensor, labelled: Tensor, spread_errors: Spread) -> Tensor:
        """Returns what is added to the predictions, `[N, K]`, from the errors on labelled nodes."""
        return self.scale * spread_errors(errors, lambda values: torch.where(labelled.unsqueeze(1), errors, values))


def _perceptron() -> LGGDClassifier:
    return LGGDClassifier(None, Perceptron(), Optimization(weight_decay=5e-4))


@dataclass(eq=False, repr=False)
class CorrectAndSmooth(Member):
    """Correct and smooth (Huang et al., 2021) the predictions of another model, which is trained first.

    Correct: the errors Y - Z on labelled nodes spread as in `LabelPropagation` and are added to the predictions Z.
    Smooth: the result, with Y on labelled nodes, spreads in the same way. Labels that are added later change both
    steps; the model is not trained again.

    Parameters
    ----------
    model : Member
        The model that predicts Z; its own seed is not used.
    correct_alpha, smooth_alpha : float
        Weight of the neighbours in both steps, in [0, 1).
    iterations : int
        Number of iterations of each step.
    scaling : AutoScale or FixedScale
        How spread errors are scaled.
    seed : int or torch.Generator
        Random seed of the model.

    Attributes
    ----------
    model_ : Member
        The fitted model. See `Member` for the others.

    Examples
    --------
    >>> import lggd
    >>> base = lggd.LGGDClassifier(None, lggd.GCN(), optimization=lggd.Optimization(epochs=20))
    >>> model = CorrectAndSmooth(base).fit(lggd.load("karate"))
    >>> model.add_labels([2], [0]).predict().shape
    torch.Size([34])
    """

    model: Member = field(default_factory=_perceptron)
    correct_alpha: float = 0.8
    smooth_alpha: float = 0.8
    iterations: int = 50
    scaling: AutoScale | FixedScale = AutoScale()
    seed: int | torch.Generator = 0

    _inner = "model"

    def __post_init__(self) -> None:
        self.model_: Any  # set by fit

    @property
    def accepts_labels(self) -> bool:
        return True  # the model itself keeps the labels that it was trained on

    def check_settings(self) -> None:
        check_instance("model", self.model, Member, "a model such as LGGDClassifier()")
        for name in ("correct_alpha", "smooth_alpha"):
            check_fraction(name, getattr(self, name), "It is the weight of the neighbours.")
        check_int("iterations", self.iterations, 1)
        check_instance("scaling", self.scaling, (AutoScale, FixedScale), "AutoScale() or FixedScale()")
        self.model.check_settings()

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        self._start(nodes, labels.num_classes)
        self._fit_inner(nodes, labels, seed, callback)
        self._set_labels(labels.train.clone())

    def _probabilities(self, nodes: NodeData) -> Tensor:
        check_same_size(nodes, len(self.labels_))
        matrix = propagation_matrix(*nodes.edges, len(self.labels_))
        truth, labelled = one_hot(self.labels_, self.num_classes_), self.labels_ >= 0
        predicted = self.model_._probabilities(nodes).double()
        errors = torch.where(labelled.unsqueeze(1), truth - predicted, 0.0)

        spread_errors = partial(spread, matrix, self.correct_alpha, self.iterations)
        corrected = predicted + self.scaling.corrections(errors, labelled, spread_errors)
        start = torch.where(labelled.unsqueeze(1), truth, corrected)
        smoothed = spread(matrix, self.smooth_alpha, self.iterations, start, lambda values: values.clamp(0, 1))
        return to_probabilities(smoothed, self.labels_)
