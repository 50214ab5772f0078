"""PyG's layers with our sums over neighbours: the same parameters and the same numbers to rounding, only faster."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones.propagation import Propagation, SortedEdges


def convolved(layer: Any, x: Tensor, spread: Propagation) -> Tensor:
    """ÂXW + b, as PyG's GCNConv has it: `[N, F]` → `[N, C]`."""
    result: Tensor = spread(layer.lin(x)) + layer.bias
    return result


def filtered(layer: Any, x: Tensor, spread: Propagation) -> Tensor:
    """Σ_k T_k(L̂)XΘ_k + b, as PyG's ChebConv has it: `[N, F]` → `[N, C]`.

    By Clenshaw's recurrence, which applies L̂ after Θ: to the C channels that come out, where PyG takes all F.
    """
    terms: list[Tensor] = [linear(x) for linear in layer.lins]
    bias: Tensor = layer.bias
    if len(terms) == 1:
        return terms[0] + bias
    current, previous = terms[-1], torch.zeros_like(terms[-1])
    for term in reversed(terms[1:-1]):
        current, previous = term + 2 * spread(current) - previous, current
    return terms[0] + spread(current) - previous + bias


def attended(layer: Any, x: Tensor, edges: SortedEdges) -> Tensor:
    """Neighbours weighed by attention, head by head, as PyG's GATConv has it: `[N, F]` → `[N, heads·C]` or `[N, C]`."""
    from torch_geometric.utils import softmax

    value = layer.lin(x).view(-1, layer.heads, layer.out_channels)
    sent, received = (value * layer.att_src).sum(-1), (value * layer.att_dst).sum(-1)
    score = functional.leaky_relu(
        sent.index_select(0, edges.source) + received.index_select(0, edges.target), layer.negative_slope
    )
    share = softmax(score, edges.target, num_nodes=edges.num_nodes)
    share = functional.dropout(share, layer.dropout, layer.training)
    heads = zip(share.t().contiguous(), value.unbind(1), strict=True)
    summed = torch.stack([Propagation(edges, of_head)(x_of_head) for of_head, x_of_head in heads], dim=1)
    result: Tensor = (summed.flatten(1) if layer.concat else summed.mean(1)) + layer.bias
    return result


# -- The graph as each kind of layer reads it --------------------------------------------------------------------------


def adjacency_with_loops(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> Propagation:
    """Â = D̃^-½ (A + I) D̃^-½, as GCNConv reads a graph: a loop that is there already keeps its weight."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    index, entry = gcn_norm(edge_index, _cast(edge_weight, dtype), num_nodes, dtype=dtype)
    return _propagation(index, entry, num_nodes)


def moved_laplacian(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype) -> Propagation:
    """L̂ = 2L/λ − I with λ = 2, the bound of the normalised Laplacian L. As L has ones on its diagonal, L̂ has none."""
    from torch_geometric.utils import get_laplacian, remove_self_loops

    laplacian = get_laplacian(edge_index, _cast(edge_weight, dtype), "sym", dtype, num_nodes)
    index, entry = remove_self_loops(*laplacian)
    return _propagation(index, entry, num_nodes)


def edges_with_loops(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype) -> SortedEdges:
    """The edges without their weights, and each node's loop once, as GATConv reads a graph."""
    from torch_geometric.utils import add_self_loops, remove_self_loops

    without_loops, _ = remove_self_loops(edge_index)
    with_loops, _ = add_self_loops(without_loops, num_nodes=num_nodes)
    return SortedEdges(with_loops, num_nodes)


def _propagation(edge_index: Tensor, entry: Tensor, num_nodes: int) -> Propagation:
    edges = SortedEdges(edge_index, num_nodes)
    return Propagation(edges, entry[edges.order])


def _cast(edge_weight: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if edge_weight is None else edge_weight.to(dtype)
