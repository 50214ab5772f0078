"""GAT: graph attention (Veličković et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.layers import Drop, edges_with_loops, gat_conv
from lggd.backbones.network import Network, check_backbone, check_sizes
from lggd.estimator.storage import saveable
from lggd.graph.sparse import SparsePattern


@saveable
@dataclass(frozen=True)
class GAT:
    """Two-layer graph attention network (Veličković et al., 2018).

    dropout → `heads` heads of width `hidden`, concatenated → ELU → dropout → one head of width K; attention weights
    have dropout, too. The default reads the paper's "hidden size 32" as the width of each head, so that the hidden
    layer has 256 units. Edge weights are ignored.

    Parameters
    ----------
    hidden : int
        Width of each head of the hidden layer.
    heads : int
        Number of heads of the hidden layer.
    dropout : float
        Dropout rate of inputs, hidden layer and attention weights, in [0, 1).

    Examples
    --------
    >>> import torch
    >>> module = GAT(hidden=4, heads=2).build(in_channels=5, num_classes=3)
    >>> module(torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 3])
    """

    hidden: int = 32
    heads: int = 8
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_backbone(self, "hidden", "heads")

    def build(self, in_channels: int, num_classes: int) -> nn.Module:
        """Return a new module, initialized from torch's global random state."""
        check_sizes(in_channels, num_classes)
        return _GATNetwork(self, in_channels, num_classes)


class _GATNetwork(Network):
    def __init__(self, choice: GAT, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__(choice, edges_with_loops)
        self.first = GATConv(in_channels, choice.hidden, choice.heads)
        self.second = GATConv(choice.hidden * choice.heads, num_classes, concat=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        # Omits the edge weights, so that the cached graph does not depend on them.
        return super().forward(x, edge_index)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparsePattern, drop: Drop) -> Tensor:
        def layer(name: str, x: Tensor) -> Tensor:
            weight, att_src, att_dst = (parameters[f"{name}.{key}"] for key in ("lin.weight", "att_src", "att_dst"))
            return gat_conv(x, weight, att_src, att_dst, graph, getattr(self, name).negative_slope, drop)

        hidden = layer("first", drop(x)).transpose(1, 2).flatten(2) + parameters["first.bias"].unsqueeze(1)
        return layer("second", drop(functional.elu(hidden))).mean(1) + parameters["second.bias"].unsqueeze(1)
