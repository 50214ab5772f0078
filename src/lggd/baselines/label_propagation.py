"""Label propagation (Zhou et al., 2004): labels spread along the edges, without node features and training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lggd.baselines.untrained import UntrainedBaseline, one_hot, to_probabilities
from lggd.estimator.inputs import stored_graph
from lggd.graph.sparse import SparseMatrix
from lggd.graph.streamed_matrix import StreamedMatrix
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

    def _probabilities(self, data: Any) -> Tensor:
        graph = stored_graph(data)
        if graph is None:
            return super()._probabilities(data)
        # In float32, whose states take half the memory.
        start = one_hot(self.labels_, self.num_classes_).float()
        matrix = StreamedMatrix.normalized_adjacency(graph.csr, self_loops=False)
        return to_probabilities(spread(start, matrix, self.alpha, self.iterations), self.labels_)

    def _scores(self, edge_index: Tensor, edge_weight: Tensor | None, labels: Tensor) -> Tensor:
        matrix = symmetric_normalized(edge_index, edge_weight, len(labels))
        return spread(one_hot(labels, self.num_classes_), matrix, self.alpha, self.iterations)


def spread(
    start: Tensor,
    matrix: SparseMatrix | StreamedMatrix,
    alpha: float,
    iterations: int,
    after_step: Callable[[Tensor], Tensor] = lambda values: values,
) -> Tensor:
    """Iterates F ← `after_step`(α S F + (1 - α) F₀) from F = F₀ = `start`, `[N, K]`."""
    values = start
    with torch.no_grad():
        for _ in range(iterations):
            values = after_step(alpha * matrix(values) + (1 - alpha) * start)
    return values


def symmetric_normalized(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> SparseMatrix:
    """S = D^-½ A D^-½ in float64, without self-loops; the row of an isolated node is 0."""
    count = edge_index.shape[1]
    weight = torch.ones(count, device=edge_index.device) if edge_weight is None else edge_weight.detach()
    adjacency = SparseMatrix.from_edges(edge_index, weight.double(), num_nodes)
    degree = adjacency.pattern.row_sum(adjacency.values.unsqueeze(1)).squeeze(1)
    root = torch.where(degree > 0, degree, torch.inf).rsqrt()
    return adjacency.with_values(adjacency.values * root[adjacency.pattern.rows] * root[adjacency.pattern.columns])
