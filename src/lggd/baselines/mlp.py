"""An MLP on the node features alone: what the graph is worth shows in comparison with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from lggd.backbones.layers import Drop, Propagate
from lggd.backbones.polynomial import ScoringNetwork, mlp_scores
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.training.engine import Callback
from lggd.training.optimization import Optimization
from lggd.validation import check_fraction, check_int


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

    def _check(self) -> None:
        check_int("hidden", self.hidden, 1)
        check_fraction("dropout", self.dropout)

    def _capacity(self, data: BaselineData) -> int:
        return data.capacity_with_input_dropout

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return BaselineNetworks(partial(_Perceptron, self), data, problems)


class _Perceptron(ScoringNetwork):
    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        return mlp_scores(parameters, x, drop)
