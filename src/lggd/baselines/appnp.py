"""APPNP (Gasteiger et al., 2019): an MLP scores the nodes, and personalized PageRank propagates the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from lggd.backbones.layers import Drop, Propagate
from lggd.backbones.polynomial import ScoringNetwork, mlp_scores, pagerank_coefficients, polynomial
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.graph.sparse import multiply_each
from lggd.training.engine import Callback
from lggd.training.optimization import Optimization, Targets
from lggd.training.randomness import LEVELS
from lggd.validation import check_fraction, check_int, check_real


@dataclass(eq=False, repr=False)
class APPNP(Baseline):
    """APPNP (Gasteiger et al., 2019): Σ_k γ_k Â^k H with the γ of truncated personalized PageRank, and an MLP H.

    H = W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂; γ_k = α(1 - α)^k for k < `hops`, and (1 - α)^hops for the last.
    During training, entries of Â are dropped too, anew in every multiplication. Â is the normalized adjacency matrix of
    a GCN. `GPRGNN` is the same with learned γ. As by the authors, weight decay applies to W₁ alone.

    Parameters
    ----------
    alpha : float
        Restart probability α, in [0, 1].
    hops : int
        Number of multiplications by Â.
    hidden : int
        Width of the hidden layer.
    dropout : float
        Dropout rate of inputs, hidden layer and entries of Â.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> APPNP(hops=3, optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    alpha: float = 0.1
    hops: int = 10
    hidden: int = 64
    dropout: float = 0.5
    optimization: Optimization = field(default=Optimization(weight_decay=5e-3), kw_only=True)

    def _check(self) -> None:
        check_real("alpha", self.alpha, 0, 1, remedy="It is the restart probability.")
        for name in ("hops", "hidden"):
            check_int(name, getattr(self, name), 1)
        check_fraction("dropout", self.dropout)

    def _capacity(self, data: BaselineData) -> int:
        return data.capacity_with_input_dropout

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return _EdgeDropoutTraining(partial(_PageRankNetwork, self), data, problems)


class _PageRankNetwork(ScoringNetwork):
    gamma: Tensor

    def __init__(self, model: APPNP, in_channels: int, num_classes: int) -> None:
        super().__init__(model, in_channels, num_classes)
        self.register_buffer("gamma", pagerank_coefficients(model.alpha, model.hops).unsqueeze(0))

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        return polynomial(mlp_scores(parameters, x, drop), self.gamma, graph)


class _EdgeDropoutTraining(BaselineNetworks):
    """Networks whose Â has dropout during training, drawn by each problem for itself."""

    without_decay = ("first.bias", "second.weight", "second.bias")

    def _training_losses(self, targets: Targets) -> Tensor:
        propagate = self.graph if self.keep_level == LEVELS else self._multiply_with_dropout
        return targets.losses(self.modules[0].logits(self.stacked, self.x, propagate, self._dropout))

    def _multiply_with_dropout(self, scores: Tensor) -> Tensor:
        entries = self._dropout(self.graph.values.unsqueeze(0)).squeeze(1)
        return multiply_each(scores, entries, self.graph.pattern)
