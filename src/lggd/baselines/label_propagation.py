"""Labels spread along edges, alone (Zhou et al., 2004) or over the predictions of a model (correct and smooth)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lggd.baselines.baseline import (
    UntrainedBaseline,
    check_same_size,
    one_hot,
    to_probabilities,
)
from lggd.baselines.decoupled import MLPClassifier
from lggd.estimator import Member
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.validation import check_fraction, check_instance, check_int, check_positive


@dataclass(eq=False, repr=False)
class LabelPropagation(UntrainedBaseline):
    """Label propagation (Zhou et al., 2004): F ← α S F + (1 - α) Y, from F = Y, with S = D^-½ A D^-½.

    Y is 1 at the class of each labelled node and 0 elsewhere. The probabilities are rows of F divided by their sum;
    nodes that no label reaches get the share of each class among the labels. There is no training and no randomness.

    Parameters
    ----------
    alpha : float
        Weight α of the neighbours, in [0, 1).
    iterations : int
        Number of iterations.
    seed : int or torch.Generator
        Not used.

    Examples
    --------
    >>> import lggd
    >>> model = LabelPropagation().fit(lggd.load("karate"))
    >>> model.add_labels([2], [0]).predict().shape
    torch.Size([34])
    """

    alpha: float = 0.9
    iterations: int = 50

    def check_settings(self) -> None:
        check_fraction("alpha", self.alpha, "It is the weight of the neighbours.")
        check_int("iterations", self.iterations, 1)

    def _probabilities(self, nodes: NodeData) -> Tensor:
        if nodes.graph is None:
            return super()._probabilities(nodes)
        check_same_size(nodes, len(self.labels_))
        # In float32, whose states take half the memory.
        start = one_hot(self.labels_, self.num_classes_).float()
        matrix = StreamedMatrix.normalized_adjacency(nodes.graph.csr, self_loops=False)
        return to_probabilities(spread(matrix, self.alpha, self.iterations, start), self.labels_)

    def _scores(self, edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> Tensor:
        matrix = propagation_matrix(edge_index, edge_weight, len(labels))
        return spread(matrix, self.alpha, self.iterations, one_hot(labels, self.num_classes_))


def spread(
    matrix: SparseMatrix | StreamedMatrix,
    alpha: float,
    iterations: int,
    start: Tensor,
    after_step: Callable[[Tensor], Tensor] = lambda values: values,
) -> Tensor:
    """Iterates F ← `after_step`(α S F + (1 - α) F₀) from F = F₀ = `start`, `[N, K]`."""
    values = start
    with torch.no_grad():
        for _ in range(iterations):
            values = after_step(alpha * matrix(values) + (1 - alpha) * start)
    return values


def propagation_matrix(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> SparseMatrix:
    """S = D^-½ A D^-½ in float64."""
    return normalized_adjacency(edge_index, edge_weight, num_nodes, torch.float64, self_loops=False)


# Spreads errors `[N, K]` over the graph; the function is applied after every iteration.
Spread = Callable[[Tensor, Callable[[Tensor], Tensor]], Tensor]
# Smaller spread errors are not scaled up: their direction is noise.
MAX_FACTOR = 1000.0


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

    model: Member = field(default_factory=MLPClassifier)
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
        check_instance("model", self.model, Member, "a model such as MLPClassifier()")
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
