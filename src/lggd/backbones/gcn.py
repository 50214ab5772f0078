"""GCN: graph convolutions (Kipf and Welling, 2017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from lggd.backbones.layers import Drop, Propagate, gcn_conv
from lggd.backbones.network import Network, check_backbone, check_sizes
from lggd.estimator.storage import saveable
from lggd.graph.sparse import normalized_adjacency


@saveable
@dataclass(frozen=True)
class GCN:
    """Two-layer graph convolutional network (Kipf and Welling, 2017), as trained in the paper.

    Â dropout(ReLU(ÂXW₁ + b₁)) W₂ + b₂ with Â = D̃^-½ (A + I) D̃^-½. The input has no dropout. Edge weights are the
    entries of A.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    dropout : float
        Dropout rate of the hidden layer, in [0, 1).

    Examples
    --------
    >>> module = GCN().build(in_channels=5, num_classes=3)
    >>> sum(parameter.numel() for parameter in module.parameters()) == (5 * 32 + 32) + (32 * 3 + 3)
    True
    """

    hidden: int = 32
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_backbone(self, "hidden")

    def build(self, in_channels: int, num_classes: int) -> nn.Module:
        """Return a new module, initialized from torch's global random state."""
        check_sizes(in_channels, num_classes)
        return _GCNNetwork(self, in_channels, num_classes)


class _GCNNetwork(Network):
    def __init__(self, choice: GCN, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__(choice, normalized_adjacency)
        self.first, self.second = GCNConv(in_channels, choice.hidden), GCNConv(choice.hidden, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        hidden = gcn_conv(x, parameters["first.lin.weight"], parameters["first.bias"], graph)
        hidden = drop(functional.relu(hidden))
        return gcn_conv(hidden, parameters["second.lin.weight"], parameters["second.bias"], graph)
