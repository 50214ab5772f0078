"""GPR-GNN (Chien et al., 2021): an MLP scores the nodes, and a learned polynomial of Â propagates the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor, nn
from torch.optim import Optimizer

from lggd.backbones.layers import Drop
from lggd.backbones.training import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.baselines.initialization import adam_without_decay_of, build_modules, max_problems_with_input_dropout
from lggd.baselines.polynomial import ScoringNetwork, mlp_scores, pagerank_coefficients, polynomial
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
    hops : int
        Degree of the polynomial.
    hidden : int
        Width of the hidden layer.
    dropout : float
        Dropout rate of inputs and hidden layer.
    propagation_dropout : float
        Dropout rate of H.

    Examples
    --------
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
        check_real("alpha", self.alpha, 0, 1, remedy="It is the restart probability.")
        for name in ("hops", "hidden"):
            check_int(name, getattr(self, name), 1)
        for name in ("dropout", "propagation_dropout"):
            check_fraction(name, getattr(self, name))

    def _capacity(self, data: BaselineData) -> int:
        return max_problems_with_input_dropout(data)

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return _PolynomialTraining(self, data, problems)


class _PolynomialNetwork(ScoringNetwork):
    def __init__(self, model: GPRGNN, sizes: tuple[int, int]) -> None:
        super().__init__(model.hidden, model.dropout, sizes, normalized_adjacency)
        self.gamma = nn.Parameter(pagerank_coefficients(model.alpha, model.hops))

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparseMatrix, drop: Drop) -> Tensor:
        return polynomial(mlp_scores(parameters, x, drop), parameters["gamma"], graph)


class _PolynomialTraining(StackedBackbones):
    """Networks with a separate dropout rate for the scores, and no weight decay for γ."""

    def __init__(self, model: GPRGNN, data: BaselineData, problems: Problems) -> None:
        build = partial(_PolynomialNetwork, model, (data.x.shape[1], data.num_classes))
        modules, seeds = build_modules(problems, build, data.x.device)
        super().__init__(modules, data.x, data.edge_index, data.edge_weight, seeds)
        self.score_keep_level = keep_level(model.propagation_dropout)

    def optimizer(self, optimizations: Sequence[Optimization]) -> Optimizer:
        """Adam without weight decay for γ."""
        return adam_without_decay_of(("gamma",), self.stacked, optimizations[0])

    def _training_losses(self, targets: Targets) -> Tensor:
        scores = dropout(mlp_scores(self.stacked, self.x, self._dropout), self.generators, self.score_keep_level)
        return targets.losses(polynomial(scores, self.stacked["gamma"], self.graph))
