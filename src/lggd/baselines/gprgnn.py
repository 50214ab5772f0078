"""GPR-GNN (Chien et al., 2021): an MLP scores the nodes, and a learned polynomial of Â propagates the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor, nn

from lggd.backbones.layers import Drop, Propagate
from lggd.backbones.polynomial import ScoringNetwork, mlp_scores, pagerank_coefficients, polynomial
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.training.engine import Callback
from lggd.training.optimization import Optimization, Targets
from lggd.training.randomness import dropout, keep_level
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

    Examples
    --------
    >>> import lggd
    >>> model = GPRGNN(hops=3, optimization=lggd.Optimization(epochs=5))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
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


class _PolynomialNetwork(ScoringNetwork):
    def __init__(self, model: GPRGNN, in_channels: int, num_classes: int) -> None:
        super().__init__(model, in_channels, num_classes)
        self.gamma = nn.Parameter(pagerank_coefficients(model.alpha, model.hops))

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        return polynomial(mlp_scores(parameters, x, drop), parameters["gamma"], graph)


class _PolynomialTraining(BaselineNetworks):
    """Networks with a separate dropout rate for the scores, and no weight decay for γ."""

    without_decay = ("gamma",)

    def __init__(self, model: GPRGNN, data: BaselineData, problems: Problems) -> None:
        super().__init__(partial(_PolynomialNetwork, model), data, problems)
        self.score_keep_level = keep_level(model.propagation_dropout)

    def _training_losses(self, targets: Targets) -> Tensor:
        scores = dropout(mlp_scores(self.stacked, self.x, self._dropout), self.generators, self.score_keep_level)
        return targets.losses(polynomial(scores, self.stacked["gamma"], self.graph))
