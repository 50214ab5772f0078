"""Networks of two graph convolutions: GCN, GAT and ChebNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from lggd.backbones.layers import Drop, Propagate, cheb_conv, edges_with_loops, gat_conv, gcn_conv, scaled_laplacian
from lggd.backbones.network import BackboneChoice, Network
from lggd.estimator.settings import saveable
from lggd.graph.sparse import SparsePattern, normalized_adjacency


class _GCNNetwork(Network):
    def __init__(self, choice: GCN, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__(choice, normalized_adjacency)
        self.first, self.second = GCNConv(in_channels, choice.hidden), GCNConv(choice.hidden, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        hidden = functional.relu(gcn_conv(x, parameters["first.lin.weight"], parameters["first.bias"], graph))
        return gcn_conv(drop(hidden), parameters["second.lin.weight"], parameters["second.bias"], graph)


@saveable
@dataclass(frozen=True)
class GCN(BackboneChoice):
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
    network = _GCNNetwork


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


@saveable
@dataclass(frozen=True)
class GAT(BackboneChoice):
    """Two-layer graph attention network (Veličković et al., 2018).

    dropout → `heads` heads of width `hidden`, concatenated → ELU → dropout → one head of width K; attention weights
    have dropout, too. The default reads the paper's "hidden size 32" as the width of each head, so that the hidden
    layer has 256 units. Edge weights are ignored.

    Parameters
    ----------
    hidden, heads : int
        Width of each head of the hidden layer, and number of heads.
    dropout : float
        Dropout rate of inputs, hidden layer and attention weights, in [0, 1).

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGDClassifier(None, GAT(hidden=4, heads=2), lggd.Optimization(epochs=5))
    >>> model.fit(lggd.load("karate")).predict_proba().shape
    torch.Size([34, 2])
    """

    hidden: int = 32
    heads: int = 8
    dropout: float = 0.5
    network = _GATNetwork


class _ChebNetwork(Network):
    def __init__(self, choice: ChebNet, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import ChebConv

        super().__init__(choice, scaled_laplacian)
        self.first = ChebConv(in_channels, choice.hidden, choice.terms)
        self.second = ChebConv(choice.hidden, num_classes, choice.terms)
        self.terms = choice.terms

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        def layer(name: str, x: Tensor) -> Tensor:
            weights = [parameters[f"{name}.lins.{term}.weight"] for term in range(self.terms)]
            return cheb_conv(x, weights, parameters[f"{name}.bias"], graph)

        return layer("second", drop(functional.relu(layer("first", x))))


@saveable
@dataclass(frozen=True)
class ChebNet(BackboneChoice):
    """Two-layer Chebyshev network (Defferrard et al., 2016), with ReLU and dropout between the layers.

    A layer is Σ_k T_k(L̂)XΘ_k + b, where T_k is the k-th Chebyshev polynomial and L̂ = −D^-½ A D^-½ the normalized
    Laplacian, shifted to [−1, 1]. Edge weights are the entries of A; self-loops are ignored.

    Parameters
    ----------
    hidden : int
        Width of the hidden layer.
    terms : int
        Number of Chebyshev polynomials per layer, `K` in PyG. The default reads the paper's "two-step propagation" as
        one step per layer (T₀ and T₁), two in total; use terms=3 for two steps per layer.
    dropout : float
        Dropout rate of the hidden layer, in [0, 1).

    Examples
    --------
    >>> module = ChebNet().build(in_channels=5, num_classes=3)
    >>> sum(parameter.numel() for parameter in module.parameters()) == (2 * 5 * 32 + 32) + (2 * 32 * 3 + 3)
    True
    """

    hidden: int = 32
    terms: int = 2
    dropout: float = 0.5
    network = _ChebNetwork
