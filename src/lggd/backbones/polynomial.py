"""MLPs that score nodes, and polynomials of Â that propagate the scores, for many problems at once; GPR-GNN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd._system.memory import Cache, identity_key
from lggd.backbones.convolutions import batched_linear
from lggd.backbones.network import BackboneChoice, Drop, Network, Propagate
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.learning.node_features import SparseFeatures

# Node features with a smaller fraction of nonzero entries are multiplied as a sparse matrix on a CPU.
SPARSE = 0.15
# The restart probability of the PageRank that a learned polynomial starts from.
RESTART = 0.1


class ScoringNetwork(Network):
    """A network whose first step is an MLP with one hidden layer, the two linear layers `first` and `second`."""

    def __init__(self, hidden: int, dropout: float, in_channels: int, num_classes: int) -> None:
        super().__init__(dropout, normalized_adjacency)
        self.first, self.second = nn.Linear(in_channels, hidden), nn.Linear(hidden, num_classes)


def mlp_scores(parameters: Mapping[str, Tensor], x: Tensor, drop: Drop) -> Tensor:
    """H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂, `[Q, N, K]`, of the layers of a `ScoringNetwork`."""
    return _scores(parameters, batched_linear(drop(x), parameters["first.weight"]), drop)


def _scores(parameters: Mapping[str, Tensor], projected: Tensor, drop: Drop) -> Tensor:
    """The scores from W₁ dropout(x) `[Q, N, C]`."""
    hidden = drop(functional.relu(projected + parameters["first.bias"].unsqueeze(1)))
    return batched_linear(hidden, parameters["second.weight"]) + parameters["second.bias"].unsqueeze(1)


def polynomial(scores: Tensor, gamma: Tensor, adjacency: Propagate) -> Tensor:
    """Σ_k γ_k Â^k H, from H `[Q, N, K]` and γ `[Q, hops + 1]`, or `[1, hops + 1]` for all."""
    first, *others = gamma[:, :, None, None].unbind(1)
    total = first * scores
    for coefficient in others:
        scores = adjacency(scores)
        total = total + coefficient * scores
    return total


def pagerank_coefficients(alpha: float, hops: int) -> Tensor:
    """The coefficients of truncated personalized PageRank, which sum to 1: float32 `[hops + 1]`.

    >>> pagerank_coefficients(0.5, 2)
    tensor([0.5000, 0.2500, 0.2500])
    """
    return torch.tensor([alpha * (1 - alpha) ** k for k in range(hops)] + [(1 - alpha) ** hops], dtype=torch.float32)


class _GPRNetwork(ScoringNetwork):
    def __init__(self, choice: GPR, in_channels: int, num_classes: int) -> None:
        super().__init__(choice.hidden, choice.dropout, in_channels, num_classes)
        self.gamma = nn.Parameter(pagerank_coefficients(RESTART, choice.hops))
        self._sparse: Cache[SparseFeatures] = Cache(capacity=1)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        scores = _scores(parameters, self._project(x, parameters["first.weight"], drop), drop)
        return polynomial(drop(scores), parameters["gamma"], graph)

    def _project(self, x: Tensor, weight: Tensor, drop: Drop) -> Tensor:
        """W₁ dropout(x) `[Q, N, C]`."""
        if x.dim() == 3 or x.is_cuda or x.requires_grad:  # sparse entries are constants
            return batched_linear(drop(x), weight)
        sparse = self._sparse(identity_key(x), lambda: _nonzero_entries(x))
        if sparse.values.numel() > SPARSE * x.numel():
            return batched_linear(drop(x), weight)
        # Only nonzero entries have dropout, as the others stay 0.
        entries, weight = drop(sparse.values.unsqueeze(0)), weight.transpose(1, 2)
        if entries.dim() == 2:  # the same for all networks
            return sparse.with_values(entries[0]).matmul(weight)
        return sparse.matmul_each(entries.squeeze(1), weight)


def _nonzero_entries(x: Tensor) -> SparseFeatures:
    rows, columns = x.nonzero().unbind(1)
    entries = x.detach()[rows, columns]
    return SparseFeatures(SparseMatrix.from_entries(rows, columns, entries, (x.shape[0], x.shape[1])))


@dataclass(frozen=True)
class GPR(BackboneChoice):
    """Generalized PageRank, the network of GPR-GNN (Chien et al., 2021): Σ_k γ_k Â^k H, k = 0, …, `hops`.

    H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂ scores each node by its own features; the learned γ, which starts at
    personalized PageRank, spreads the scores over near and far neighbours. Scores have dropout, too. Edge weights are
    the entries of A.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    hops : int
        Degree of the polynomial. With 0, an MLP that does not use the edges.
    dropout : float
        Dropout rate of inputs, hidden layer and scores, in [0, 1).

    Examples
    --------
    >>> module = GPR(hops=2).build(in_channels=5, num_classes=3)
    >>> module(torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """

    hidden: int = 64
    hops: int = 10
    dropout: float = 0.5
    network = _GPRNetwork
    may_be_zero = ("hops",)
