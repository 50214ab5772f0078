"""SGC (Wu et al., 2019): logistic regression on propagated node features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, batched_linear
from lggd.backbones.network import Network
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.training.engine import Callback
from lggd.training.optimization import Optimization
from lggd.validation import check_int


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

    def _check(self) -> None:
        check_int("hops", self.hops, 1)

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        adjacency = normalized_adjacency(data.edge_index, data.edge_weight, data.num_nodes, data.x.dtype)
        with torch.no_grad():
            x = data.x
            for _ in range(self.hops):
                x = adjacency(x)
        return BaselineNetworks(_LogisticRegression, replace(data, x=x), problems)


class _LogisticRegression(Network):
    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__(GCN(dropout=0.0), normalized_adjacency)
        self.linear = nn.Linear(in_channels, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparseMatrix, drop: Drop) -> Tensor:
        return batched_linear(x, parameters["linear.weight"]) + parameters["linear.bias"].unsqueeze(1)
