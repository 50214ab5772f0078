"""Networks of two graph convolutions, GCN, GAT and ChebNet, and their layers for many networks at once.

The layers equal PyG's up to rounding, but are faster. The parameters of a `layer` are PyG's by name, stacked over Q
networks: `[Q, …]`. Values are `[Q, N, F]`; the inputs of a first layer may also be `[N, F]`, shared by all networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones.network import BackboneChoice, Drop, Network, Propagate
from lggd.graph.sparse import SparseMatrix, SparsePattern, multiply_each, normalized_adjacency
from lggd.training.engine import without_prefix

# PyG's slope of LeakyReLU below 0.
NEGATIVE_SLOPE = 0.2


def layers(parameters: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters of the layers `first` and `second` of a network, by their names in the layer."""
    return without_prefix("first.", parameters), without_prefix("second.", parameters)


def batched_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x[q] · weight[q]ᵀ: `[Q, N, F]` or `[N, F]`, and `[Q, C, F]` → `[Q, N, C]`."""
    if x.dim() == 3:
        return torch.bmm(x, weight.transpose(1, 2))
    # One wide product for all networks: x is read once, not Q times.
    return (x @ weight.flatten(0, 1).t()).view(len(x), *weight.shape[:2]).transpose(0, 1)


def gcn_conv(x: Tensor, layer: Mapping[str, Tensor], adjacency: Propagate) -> Tensor:
    """ÂXW + b, as PyG's GCNConv: `[Q, N, F]` → `[Q, N, C]`."""
    return adjacency(batched_linear(x, layer["lin.weight"])) + layer["bias"].unsqueeze(1)


def cheb_conv(x: Tensor, layer: Mapping[str, Tensor], laplacian: Propagate) -> Tensor:
    """Σ_k T_k(L̂)XΘ_k + b, as PyG's ChebConv: `[Q, N, F]` → `[Q, N, C]`.

    Uses Clenshaw's recurrence, which applies L̂ to the C output channels; PyG applies it to all F input channels.
    """
    terms = [batched_linear(x, layer[f"lins.{k}.weight"]) for k in range(len(layer) - 1)]
    first = terms[0] + layer["bias"].unsqueeze(1)
    if len(terms) == 1:
        return first
    if len(terms) == 2:
        return first + laplacian(terms[1])
    current, previous = terms[-2] + 2 * laplacian(terms[-1]), terms[-1]
    for term in reversed(terms[1:-2]):
        current, previous = term + 2 * laplacian(current) - previous, current
    return first + laplacian(current) - previous


def gat_conv(x: Tensor, layer: Mapping[str, Tensor], edges: SparsePattern, drop: Drop) -> Tensor:
    """Attention over neighbours, as PyG's GATConv, without its bias: `[Q, N, F]` → `[Q, H, N, C]` with H heads."""
    problems, _, heads, channels = layer["att_src"].shape
    value = batched_linear(x, layer["lin.weight"])
    value = value.view(problems, -1, heads, channels).transpose(1, 2).flatten(0, 1)
    att = torch.stack([layer["att_src"], layer["att_dst"]], dim=-1).flatten(0, 2)
    source_score, target_score = torch.bmm(value, att).permute(2, 1, 0).contiguous()
    alpha = drop(attention(source_score, target_score, edges).view(problems, heads, -1))
    return multiply_each(value, alpha.flatten(0, 1), edges).view(problems, heads, -1, channels)


def attention(source_score: Tensor, target_score: Tensor, edges: SparsePattern) -> Tensor:
    """The softmax over the edges j → i into each node i of LeakyReLU(source_score[j] + target_score[i]).

    Scores are `[N, B]`, one column per head; returns `[B, E]`. Every node must have an incoming edge.
    """
    alpha: Tensor = _Attention.apply(source_score, target_score, edges)  # type: ignore[no-untyped-call]  # torch has no type for it
    return alpha


class _Attention(torch.autograd.Function):
    """A custom backward pass: on a GPU, autograd would sum the gradients of the gathers in a varying order."""

    @staticmethod
    def forward(ctx: Any, source_score: Tensor, target_score: Tensor, edges: SparsePattern) -> Tensor:
        score = source_score.index_select(0, edges.columns) + target_score.index_select(0, edges.rows)
        alpha = functional.leaky_relu(score, NEGATIVE_SLOPE)
        # Subtracts the maximum first, so that no exponential overflows and each sum is at least 1.
        alpha -= edges.row_max(alpha).index_select(0, edges.rows)
        alpha.exp_()
        alpha /= edges.row_sum(alpha).index_select(0, edges.rows)
        ctx.edges = edges
        ctx.save_for_backward(score, alpha)
        return alpha.t().contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (score, alpha), edges = ctx.saved_tensors, ctx.edges
        grad_score = alpha * grad.t()
        grad_score -= alpha * edges.row_sum(grad_score).index_select(0, edges.rows)
        grad_score = torch.ops.aten.leaky_relu_backward(grad_score, score, NEGATIVE_SLOPE, False)
        return edges.column_sum(grad_score), edges.row_sum(grad_score), None


def scaled_laplacian(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> SparseMatrix:
    """L̂ = 2L/λ − I with λ = 2, the bound on the eigenvalues of the normalized Laplacian L; its diagonal is 0."""
    from torch_geometric.utils import get_laplacian, remove_self_loops

    weight = None if edge_weight is None else edge_weight.to(dtype)
    index, values = remove_self_loops(*get_laplacian(edge_index, weight, "sym", dtype, num_nodes))
    return SparseMatrix.from_edges(index, values, num_nodes)


def edges_with_loops(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> SparsePattern:
    """The unweighted edges and one self-loop per node, as in PyG's GATConv."""
    from torch_geometric.utils import add_self_loops, remove_self_loops

    with_loops, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    return SparsePattern.from_edges(with_loops, num_nodes)


class _GCNNetwork(Network):
    def __init__(self, choice: GCN, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__(choice.dropout, normalized_adjacency)
        self.first, self.second = GCNConv(in_channels, choice.hidden), GCNConv(choice.hidden, num_classes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        first, second = layers(parameters)
        return gcn_conv(drop(functional.relu(gcn_conv(x, first, graph))), second, graph)


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

        super().__init__(choice.dropout, edges_with_loops)
        self.first = GATConv(in_channels, choice.hidden, choice.heads)
        self.second = GATConv(choice.hidden * choice.heads, num_classes, concat=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        # Omits the edge weights, so that the cached graph does not depend on them.
        return super().forward(x, edge_index)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparsePattern, drop: Drop) -> Tensor:
        first, second = layers(parameters)
        hidden = gat_conv(drop(x), first, graph, drop).transpose(1, 2).flatten(2) + first["bias"].unsqueeze(1)
        return gat_conv(drop(functional.elu(hidden)), second, graph, drop).mean(1) + second["bias"].unsqueeze(1)


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
    needs_edge_index = True


class _ChebNetwork(Network):
    def __init__(self, choice: ChebNet, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import ChebConv

        super().__init__(choice.dropout, scaled_laplacian)
        self.first = ChebConv(in_channels, choice.hidden, choice.terms)
        self.second = ChebConv(choice.hidden, num_classes, choice.terms)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagate, drop: Drop) -> Tensor:
        first, second = layers(parameters)
        return cheb_conv(drop(functional.relu(cheb_conv(x, first, graph))), second, graph)


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
