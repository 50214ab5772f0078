"""Labels spread along edges (Zhou et al., 2004)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.baselines.baseline import UntrainedBaseline, check_same_size, one_hot, to_probabilities
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.inputs import NodeData
from lggd.validation import check_fraction, check_int


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
