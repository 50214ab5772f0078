"""PyG's layers for many problems at once, with our sums over neighbours: the same numbers to rounding, only faster.

Parameters are PyG's, those of Q problems stacked: `[Q, …]`. Values are `[Q, N, F]`; those of a first layer may also be
`[N, F]`, the same for all problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lggd.backbones.attention import attention
from lggd.backbones.propagation import Propagation, SortedEdges, spread_each

# Drops some of the values `[Q, …]` or `[N, F]`, each problem its own; gives them as they are in evaluation.
Drop = Callable[[Tensor], Tensor]


def batched_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x[q] · weight[q]ᵀ: `[Q, N, F]` or `[N, F]`, and `[Q, C, F]` → `[Q, N, C]`."""
    if x.dim() == 3:
        return torch.bmm(x, weight.transpose(1, 2))
    # One wide product for all: x is read once, not Q times.
    return (x @ weight.flatten(0, 1).t()).view(len(x), *weight.shape[:2]).transpose(0, 1)


def gcn_conv(x: Tensor, weight: Tensor, bias: Tensor, spread: Propagation) -> Tensor:
    """ÂXW + b, as PyG's GCNConv has it: `[Q, N, F]` → `[Q, N, C]`."""
    return spread(batched_linear(x, weight)) + bias.unsqueeze(1)


def cheb_conv(x: Tensor, weights: Sequence[Tensor], bias: Tensor, spread: Propagation) -> Tensor:
    """Σ_k T_k(L̂)XΘ_k + b, as PyG's ChebConv has it: `[Q, N, F]` → `[Q, N, C]`.

    By Clenshaw's recurrence, which applies L̂ after Θ: to the C channels that come out, where PyG takes all F.
    """
    terms = [batched_linear(x, weight) for weight in weights]
    first = terms[0] + bias.unsqueeze(1)
    if len(terms) == 1:
        return first
    if len(terms) == 2:
        return first + spread(terms[1])
    current, previous = terms[-2] + 2 * spread(terms[-1]), terms[-1]
    for term in reversed(terms[1:-2]):
        current, previous = term + 2 * spread(current) - previous, current
    return first + spread(current) - previous


def gat_conv(
    x: Tensor, weight: Tensor, of_source: Tensor, of_target: Tensor, edges: SortedEdges, slope: float, drop: Drop
) -> Tensor:
    """Neighbours weighed by attention, head by head, as PyG's GATConv has it, without its bias.

    `weight` is `[Q, H·C, F]`, `of_source` and `of_target` `[Q, 1, H, C]`; gives `[Q, H, N, C]`.
    """
    problems, _, heads, channels = of_source.shape
    value = batched_linear(x, weight)
    value = value.view(problems, -1, heads, channels).transpose(1, 2).flatten(0, 1)
    both = torch.stack([of_source, of_target], dim=-1).flatten(0, 2)
    sent, received = torch.bmm(value, both).permute(2, 1, 0).contiguous()
    share = drop(attention(sent, received, edges, slope).view(problems, heads, -1))
    return spread_each(value, share.flatten(0, 1), edges).view(problems, heads, -1, channels)


# -- The graph as each kind of layer reads it --------------------------------------------------------------------------


def gcn_adjacency(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype) -> Propagation:
    """Â = D̃^-½ (A + I) D̃^-½, as GCNConv reads a graph: a loop that is there already keeps its weight."""
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    index, entry = gcn_norm(edge_index, _cast(edge_weight, dtype), num_nodes, dtype=dtype)
    return _propagation(index, entry, num_nodes)


def scaled_laplacian(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype) -> Propagation:
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
