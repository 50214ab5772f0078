"""An MLP, SGC, APPNP and GPR-GNN: networks that decouple scores of single nodes from their propagation along edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from lggd.backbones.convolutions import batched_linear
from lggd.backbones.network import Drop, Network, Propagate
from lggd.backbones.polynomial import ScoringNetwork, mlp_scores, pagerank_coefficients, polynomial
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.graph.sparse import SparseMatrix, multiply_each, normalized_adjacency
from lggd.progress import Callback
from lggd.training.problems import LEVELS, Optimization, Targets, dropout, keep_level
from lggd.validation import check_real


@dataclass(eq=False, repr=False)
class MLPClassifier(Baseline):
    """A multilayer perceptron W₂ dropout(ReLU(W₁ dropout(x) + b₁)) + b₂ on the node features. Edges are not used.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    dropout : float
        Dropout rate of inputs and hidden layer.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> MLPClassifier(optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    hidden: int = 64
    dropout: float = 0.5
    optimization: Optimization = field(default=Optimization(weight_decay=5e-4), kw_only=True)

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return BaselineNetworks(partial(_Perceptron, self.hidden, self.dropout), data, problems)


class _Perceptron(ScoringNetwork):
    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        return mlp_scores(parameters, x, drop)


@dataclass(eq=False, repr=False)
class SGC(Baseline):
    """Simple graph convolution (Wu et al., 2019): softmax(Â^hops x W + b), a GCN without hidden layers.

    Â is the normalized adjacency matrix of a GCN. Â^hops x is computed once; W and b are trained as in logistic
    regression. The default optimization has the authors' learning rate and weight decay of Cora.

    Parameters
    ----------
    hops : int
        How often the node features are propagated.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> SGC(hops=3, optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    hops: int = 2
    optimization: Optimization = field(default=Optimization(lr=0.2, weight_decay=1.3e-5), kw_only=True)

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        adjacency = normalized_adjacency(data.edge_index, data.edge_weight, data.num_nodes, data.x.dtype)
        with torch.no_grad():
            x = data.x
            for _ in range(self.hops):
                x = adjacency(x)
        return BaselineNetworks(_LogisticRegression, replace(data, x=x), problems)


class _LogisticRegression(Network):
    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__(0.0, normalized_adjacency)
        self.linear = nn.Linear(in_channels, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparseMatrix, drop: Drop) -> Tensor:
        return batched_linear(x, parameters["linear.weight"]) + parameters["linear.bias"].unsqueeze(1)


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

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return _EdgeDropoutTraining(partial(_PolynomialNetwork, self, False), data, problems)


class _PolynomialNetwork(ScoringNetwork):
    """Σ_k γ_k Â^k H with the γ of personalized PageRank, from which it may be learned."""

    def __init__(self, model: APPNP | GPRGNN, learned: bool, in_channels: int, num_classes: int) -> None:
        super().__init__(model.hidden, model.dropout, in_channels, num_classes)
        self.gamma = nn.Parameter(pagerank_coefficients(model.alpha, model.hops), requires_grad=learned)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        return polynomial(mlp_scores(parameters, x, drop), parameters["gamma"], graph)


class _EdgeDropoutTraining(BaselineNetworks):
    """Networks whose Â has dropout during training, drawn by each problem for itself."""

    without_decay = ("first.bias", "second.weight", "second.bias")

    def _training_graph(self) -> Propagate:
        return self.graph if self.keep_level == LEVELS else self._multiply_with_dropout

    def _multiply_with_dropout(self, scores: Tensor) -> Tensor:
        entries = self._dropout(self.graph.values.unsqueeze(0)).squeeze(1)
        return multiply_each(scores, entries, self.graph.pattern)


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

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return _PolynomialTraining(self, data, problems)


class _PolynomialTraining(BaselineNetworks):
    """Networks with a separate dropout rate for the scores, and no weight decay for γ."""

    without_decay = ("gamma",)

    def __init__(self, model: GPRGNN, data: BaselineData, problems: Problems) -> None:
        super().__init__(partial(_PolynomialNetwork, model, True), data, problems)
        self.score_keep_level = keep_level(model.propagation_dropout)

    def _training_losses(self, targets: Targets) -> Tensor:
        scores = dropout(mlp_scores(self.stacked, self.x, self._dropout), self.generators, self.score_keep_level)
        return targets.losses(polynomial(scores, self.stacked["gamma"], self.graph))
