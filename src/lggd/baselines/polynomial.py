"""MLPs that score nodes, and polynomials of Â that propagate the scores, for many problems at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, Propagate, batched_linear
from lggd.backbones.network import Network
from lggd.graph.sparse import normalized_adjacency


class ScoringModel(Protocol):
    """The settings of an MLP."""

    @property
    def hidden(self) -> int: ...

    @property
    def dropout(self) -> float: ...


class ScoringNetwork(Network):
    """A network whose first step is an MLP with one hidden layer, the two linear layers `first` and `second`."""

    def __init__(self, model: ScoringModel, in_channels: int, num_classes: int) -> None:
        # GCN provides the settings that stacking needs: the dropout rate, and whether two networks are equal.
        super().__init__(GCN(model.hidden, model.dropout), normalized_adjacency)
        self.first, self.second = nn.Linear(in_channels, model.hidden), nn.Linear(model.hidden, num_classes)


def mlp_scores(parameters: Mapping[str, Tensor], x: Tensor, drop: Drop) -> Tensor:
    """H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂, `[Q, N, K]`, of the layers of a `ScoringNetwork`."""
    hidden = batched_linear(drop(x), parameters["first.weight"]) + parameters["first.bias"].unsqueeze(1)
    hidden = drop(functional.relu(hidden))
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
