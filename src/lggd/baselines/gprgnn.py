"""GPR-GNN (Chien et al.): classes are scored node by node, and the scores spread by a polynomial that is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, batched_linear, gcn_adjacency
from lggd.backbones.networks import Network, check_counts, check_share
from lggd.backbones.propagation import Propagation
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.starting import dropout_seeds, starting_modules
from lggd.errors import InputError
from lggd.training.dropout import LEVELS, draw_kept, kept_levels
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback
from lggd.training.targets import Targets

# Contents of so many entries, those of all problems together, are dropped from at once.
ENTRIES_AT_ONCE = 2**29


@dataclass(eq=False)
class GPRGNN(Baseline):
    """Σ_k γ_k Â^k H for k from 0 to `hops`, where H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂ scores each node.

    Â is the matrix of a GCN. γ is learned, of any sign and sum, without weight decay, and starts as personalised
    PageRank: γ_k = α(1 - α)^k, and (1 - α)^hops for the last. The optimization is the one published for Cora.

    Args:
        alpha: α, how likely PageRank returns at each step.
        hops: how far scores spread.
        hidden: the width of the hidden layer.
        dropout: the share of inputs and of hidden values that is dropped in training.
        propagation_dropout: the share of the scores H that is dropped in training.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> GPRGNN(hops=3, optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    alpha: float = 0.1
    hops: int = 10
    hidden: int = 64
    dropout: float = 0.5
    propagation_dropout: float = 0.5
    optimization: Optimization = field(default=Optimization(weight_decay=5e-4), kw_only=True)

    def _check(self) -> None:
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, Real) or not 0 <= self.alpha <= 1:
            raise InputError("alpha", "lie in [0, 1]", repr(self.alpha), "It is the chance to return.")
        check_counts(hops=self.hops, hidden=self.hidden)
        check_share(dropout=self.dropout, propagation_dropout=self.propagation_dropout)

    def _capacity(self, subject: BaselineData) -> int:
        return max(1, ENTRIES_AT_ONCE // subject.x.numel())

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        def make() -> _PolynomialNetwork:
            return _PolynomialNetwork(self, subject.x.shape[1], subject.num_classes)

        modules = starting_modules(problems, make, subject.x.device)
        return _Polynomials(modules, subject, dropout_seeds(problems), self.propagation_dropout)


def pagerank(alpha: float, hops: int) -> Tensor:
    """Where a walk of at most `hops` steps ends that stops with probability α before each: float32 `[hops + 1]`.

    >>> pagerank(0.5, 2)
    tensor([0.5000, 0.2500, 0.2500])
    """
    return torch.tensor([alpha * (1 - alpha) ** k for k in range(hops)] + [(1 - alpha) ** hops], dtype=torch.float32)


class _PolynomialNetwork(Network):
    def __init__(self, model: GPRGNN, in_channels: int, num_classes: int) -> None:
        # A stack asks a choice for its dropout, and whether two are equal; of this network GCN says enough.
        super().__init__(GCN(model.hidden, model.dropout), gcn_adjacency)
        self.first, self.second = nn.Linear(in_channels, model.hidden), nn.Linear(model.hidden, num_classes)
        self.gamma = nn.Parameter(pagerank(model.alpha, model.hops))

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagation, drop: Drop) -> Tensor:
        return _polynomial(_scores(parameters, x, drop), parameters["gamma"], graph)


def _scores(parameters: Mapping[str, Tensor], x: Tensor, drop: Drop) -> Tensor:
    """H, `[Q, N, K]`."""
    hidden = batched_linear(drop(x), parameters["first.weight"]) + parameters["first.bias"].unsqueeze(1)
    hidden = drop(functional.relu(hidden))
    return batched_linear(hidden, parameters["second.weight"]) + parameters["second.bias"].unsqueeze(1)


def _polynomial(scores: Tensor, gamma: Tensor, spread: Propagation) -> Tensor:
    """Σ_k γ_k Â^k H, from H `[Q, N, K]` and γ `[Q, hops + 1]`."""
    first, *others = gamma[:, :, None, None].unbind(1)
    total = first * scores
    for coefficient in others:
        scores = spread(scores)
        total = total + coefficient * scores
    return total


class _Polynomials(StackedBackbones):
    """Networks that drop scores at a rate of their own, and whose γ never decays."""

    def __init__(
        self, modules: Sequence[Network], subject: BaselineData, seeds: Sequence[int], propagation_dropout: float
    ) -> None:
        super().__init__(modules, subject.x, subject.edge_index, subject.edge_weight, seeds)
        self.kept_levels_of_scores = max(1, kept_levels(propagation_dropout))

    def optimizer(self, optimizations: Sequence[Optimization]) -> torch.optim.Adam:
        """One Adam for all."""
        gamma = self.stacked["gamma"]
        layers = [value for value in self.stacked.values() if value is not gamma]
        groups = [
            {"params": layers, "weight_decay": optimizations[0].weight_decay},
            {"params": [gamma], "weight_decay": 0.0},
        ]
        return torch.optim.Adam(groups, lr=optimizations[0].lr, fused=True, capturable=self.x.is_cuda)

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        scores = self._dropped_scores(_scores(self.stacked, self.x, self._dropout))
        losses = asked.losses(_polynomial(scores, self.stacked["gamma"], self.graph))
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def _dropped_scores(self, scores: Tensor) -> Tensor:
        if self.kept_levels_of_scores == LEVELS:
            return scores
        kept = draw_kept(self.generators, scores.shape[1:], self.kept_levels_of_scores)
        return scores * kept.to(scores.dtype).mul_(LEVELS / self.kept_levels_of_scores)
