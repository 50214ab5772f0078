"""GPR-GNN (Chien et al., 2021): an MLP scores the nodes, and a learned polynomial of Â propagates the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, batched_linear
from lggd.backbones.network import Network
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback
from lggd.training.randomness import dropout, keep_level
from lggd.training.targets import Targets
from lggd.validation import check_fraction, check_int, check_real


@dataclass(eq=False, repr=False)
class GPRGNN(Baseline):
    """GPR-GNN (Chien et al., 2021): Σ_k γ_k Â^k H with learned γ, k = 0, …, `hops`, and an MLP H of the node features.

    H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂, and Â is the normalized adjacency matrix of a GCN. γ is learned
    without constraints and weight decay, and initialized to personalized PageRank: γ_k = α(1 - α)^k, and (1 - α)^hops
    for the last. The default optimization is the one published for Cora.

    Parameters
    ----------
    alpha : float
        Restart probability α of the initial γ, in [0, 1].
    hops, hidden : int
        Degree of the polynomial, and width of the hidden layer.
    dropout, propagation_dropout : float
        Dropout rates of inputs and hidden layer, and of H.
    """

    alpha: float = 0.1
    hops: int = 10
    hidden: int = 64
    dropout: float = 0.5
    propagation_dropout: float = 0.5
    optimization: Optimization = field(default=Optimization(weight_decay=5e-4), kw_only=True)

    def _check(self) -> None:
        check_real("alpha", self.alpha, 0, 1, remedy="It is the restart probability.")
        for name in ("hops", "hidden"):
            check_int(name, getattr(self, name), 1)
        for name in ("dropout", "propagation_dropout"):
            check_fraction(name, getattr(self, name))

    def _capacity(self, data: BaselineData) -> int:
        return data.capacity_with_input_dropout

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return _PolynomialTraining(self, data, problems)


def pagerank_coefficients(alpha: float, hops: int) -> Tensor:
    """The coefficients of truncated personalized PageRank, which sum to 1: float32 `[hops + 1]`.

    >>> pagerank_coefficients(0.5, 2)
    tensor([0.5000, 0.2500, 0.2500])
    """
    return torch.tensor([alpha * (1 - alpha) ** k for k in range(hops)] + [(1 - alpha) ** hops], dtype=torch.float32)


class _PolynomialNetwork(Network):
    def __init__(self, model: GPRGNN, in_channels: int, num_classes: int) -> None:
        # GCN provides the settings that stacking needs: the dropout rate, and whether two networks are equal.
        super().__init__(GCN(model.hidden, model.dropout), normalized_adjacency)
        self.first, self.second = nn.Linear(in_channels, model.hidden), nn.Linear(model.hidden, num_classes)
        self.gamma = nn.Parameter(pagerank_coefficients(model.alpha, model.hops))

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparseMatrix, drop: Drop) -> Tensor:
        return _polynomial(_scores(parameters, x, drop), parameters["gamma"], graph)


def _scores(parameters: Mapping[str, Tensor], x: Tensor, drop: Drop) -> Tensor:
    """H, `[Q, N, K]`."""
    hidden = batched_linear(drop(x), parameters["first.weight"]) + parameters["first.bias"].unsqueeze(1)
    hidden = drop(functional.relu(hidden))
    return batched_linear(hidden, parameters["second.weight"]) + parameters["second.bias"].unsqueeze(1)


def _polynomial(scores: Tensor, gamma: Tensor, adjacency: SparseMatrix) -> Tensor:
    """Σ_k γ_k Â^k H, from H `[Q, N, K]` and γ `[Q, hops + 1]`."""
    first, *others = gamma[:, :, None, None].unbind(1)
    total = first * scores
    for coefficient in others:
        scores = adjacency(scores)
        total = total + coefficient * scores
    return total


class _PolynomialTraining(BaselineNetworks):
    """Networks with a separate dropout rate for the scores, and no weight decay for γ."""

    without_decay = ("gamma",)

    def __init__(self, model: GPRGNN, data: BaselineData, problems: Problems) -> None:
        super().__init__(partial(_PolynomialNetwork, model), data, problems)
        self.score_keep_level = keep_level(model.propagation_dropout)

    def _training_losses(self, targets: Targets) -> Tensor:
        scores = dropout(_scores(self.stacked, self.x, self._dropout), self.generators, self.score_keep_level)
        return targets.losses(_polynomial(scores, self.stacked["gamma"], self.graph))
