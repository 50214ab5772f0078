"""MLPs that score nodes, and polynomials of Â that propagate the scores: MLP, SGC, APPNP and GPR-GNN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd._system.memory import Cache, identity_key
from lggd.backbones.convolutions import batched_linear
from lggd.backbones.network import BackboneChoice, Drop, Network, Propagate, no_dropout
from lggd.graph.sparse import SparseMatrix, multiply_each, normalized_adjacency
from lggd.learning.node_features import SparseFeatures
from lggd.validation import check_real

# Node features with a smaller fraction of nonzero entries are multiplied as a sparse matrix on a CPU.
SPARSE = 0.15


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


class _Perceptron(Network):
    def __init__(self, choice: Perceptron | APPNP | GPR, in_channels: int, num_classes: int) -> None:
        super().__init__(choice.dropout, normalized_adjacency)
        self.first, self.second = nn.Linear(in_channels, choice.hidden), nn.Linear(choice.hidden, num_classes)
        self._sparse: Cache[SparseFeatures] = Cache(capacity=1)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        return self.scores(parameters, x, drop)

    def scores(self, parameters: Mapping[str, Tensor], x: Tensor, drop: Drop) -> Tensor:
        """H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂, `[Q, N, K]`."""
        projected = self._project(x, parameters["first.weight"], drop)
        hidden = drop(functional.relu(projected + parameters["first.bias"].unsqueeze(1)))
        return batched_linear(hidden, parameters["second.weight"]) + parameters["second.bias"].unsqueeze(1)

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
class Perceptron(BackboneChoice):
    """A multilayer perceptron W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂ of the node features. Edges are not used.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    dropout : float
        Dropout rate of inputs and hidden layer, in [0, 1).

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGDClassifier(None, Perceptron(), lggd.Optimization(weight_decay=5e-4, epochs=20))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    hidden: int = 64
    dropout: float = 0.5
    network = _Perceptron


class _SGCNetwork(Network):
    def __init__(self, choice: SGC, in_channels: int, num_classes: int) -> None:
        super().__init__(0.0, normalized_adjacency)
        self.hops, self.linear = choice.hops, nn.Linear(in_channels, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        values = batched_linear(x, parameters["linear.weight"])
        for _ in range(self.hops):  # of K columns, not of all those of x
            values = graph(values)
        return values + parameters["linear.bias"].unsqueeze(1)


@dataclass(frozen=True)
class SGC(BackboneChoice):
    """Simple graph convolution (Wu et al., 2019): Â^hops x W + b, a GCN without hidden layers.

    Â is the normalized adjacency matrix of a GCN. The authors train it on Cora with the learning rate 0.2 and the
    weight decay 1.3e-5.

    Parameters
    ----------
    hops : int
        Number of multiplications by Â.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGDClassifier(None, SGC(hops=3), lggd.Optimization(lr=0.2, weight_decay=1.3e-5, epochs=20))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    hops: int = 2
    network = _SGCNetwork


class _APPNPNetwork(_Perceptron):
    without_decay = ("first.bias", "second.weight", "second.bias")

    def __init__(self, choice: APPNP, in_channels: int, num_classes: int) -> None:
        super().__init__(choice, in_channels, num_classes)
        self.gamma = nn.Parameter(pagerank_coefficients(choice.alpha, choice.hops), requires_grad=False)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Any, drop: Drop) -> Tensor:
        adjacency = graph if drop is no_dropout else partial(_multiply_with_dropout, graph, drop)
        return polynomial(self.scores(parameters, x, drop), parameters["gamma"], adjacency)


def _multiply_with_dropout(matrix: SparseMatrix, drop: Drop, values: Tensor) -> Tensor:
    entries = drop(matrix.values.unsqueeze(0))
    if entries.dim() == 2:  # the same for all networks
        return SparseMatrix(matrix.pattern, entries[0])(values)
    return multiply_each(values, entries.squeeze(1), matrix.pattern)


@dataclass(frozen=True)
class APPNP(BackboneChoice):
    """APPNP (Gasteiger et al., 2019): Σ_k γ_k Â^k H with the γ of truncated personalized PageRank, and an MLP H.

    H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂; γ_k = α(1 - α)^k for k < `hops`, and (1 - α)^hops for the last.
    During training, entries of Â are dropped too, anew in every multiplication. Â is the normalized adjacency matrix of
    a GCN. `GPR` is the same with learned γ. As by the authors, weight decay, 5e-3 on Cora, applies to W₁ alone.

    Parameters
    ----------
    alpha : float
        Restart probability α, in [0, 1].
    hops : int
        Number of multiplications by Â.
    hidden : int
        Width of the hidden layer.
    dropout : float
        Dropout rate of inputs, hidden layer and entries of Â, in [0, 1).

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGDClassifier(None, APPNP(hops=3), lggd.Optimization(weight_decay=5e-3, epochs=20))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    alpha: float = 0.1
    hops: int = 10
    hidden: int = 64
    dropout: float = 0.5
    network = _APPNPNetwork
    needs_edge_index = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("alpha", self.alpha, 0, 1, remedy="It is the restart probability.")


class _GPRNetwork(_Perceptron):
    without_decay = ("gamma",)

    def __init__(self, choice: GPR, in_channels: int, num_classes: int) -> None:
        super().__init__(choice, in_channels, num_classes)
        self.gamma = nn.Parameter(pagerank_coefficients(choice.alpha, choice.hops))
        self.propagation_dropout = choice.propagation_dropout

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        scores = drop(self.scores(parameters, x, drop), self.propagation_dropout)
        return polynomial(scores, parameters["gamma"], graph)


@dataclass(frozen=True)
class GPR(BackboneChoice):
    """Generalized PageRank, the network of GPR-GNN (Chien et al., 2021): Σ_k γ_k Â^k H, k = 0, …, `hops`.

    H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂ scores each node by its own features; the learned γ spreads the scores
    over near and far neighbours. γ starts at personalized PageRank, α(1 - α)^k and (1 - α)^hops for the last, and has
    no weight decay. Edge weights are the entries of A. The authors train it on Cora with the weight decay 5e-4.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    hops : int
        Degree of the polynomial. With 0, an MLP that does not use the edges.
    dropout : float
        Dropout rate of inputs and hidden layer, in [0, 1).
    propagation_dropout : float
        Dropout rate of the scores H, in [0, 1).
    alpha : float
        Restart probability α of the initial γ, in [0, 1].

    Examples
    --------
    >>> module = GPR(hops=2).build(in_channels=5, num_classes=3)
    >>> module(torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """

    hidden: int = 64
    hops: int = 10
    dropout: float = 0.5
    propagation_dropout: float = 0.5
    alpha: float = 0.1
    network = _GPRNetwork
    may_be_zero = ("hops",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real("alpha", self.alpha, 0, 1, remedy="It is the restart probability.")
