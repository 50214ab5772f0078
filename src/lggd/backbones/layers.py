"""PyG's layers for many networks at once, with sparse products: equal to PyG's up to rounding, but faster.

Parameters are those of PyG, stacked over Q networks: `[Q, …]`. Values are `[Q, N, F]`; the inputs of a first layer may
also be `[N, F]`, shared by all networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lggd.graph.sparse import SparseMatrix, SparsePattern, multiply_each

# Dropout of values [Q, …] or [N, F], independent for each network; the identity in evaluation.
Drop = Callable[[Tensor], Tensor]
# Multiplies [Q, N, C] by a matrix [N, N], as a SparseMatrix does.
Propagate = Callable[[Tensor], Tensor]


def batched_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x[q] · weight[q]ᵀ: `[Q, N, F]` or `[N, F]`, and `[Q, C, F]` → `[Q, N, C]`."""
    if x.dim() == 3:
        return torch.bmm(x, weight.transpose(1, 2))
    # One wide product for all networks: x is read once, not Q times.
    return (x @ weight.flatten(0, 1).t()).view(len(x), *weight.shape[:2]).transpose(0, 1)


def sparse_linear(x: SparseMatrix, weight: Tensor, drop: Drop) -> Tensor:
    """dropout(x) · weight[q]ᵀ of sparse x `[N, F]` shared by all, and `[Q, C, F]` → `[Q, N, C]`.

    Only nonzero entries have dropout, as the others stay 0.
    """
    entries = drop(x.values.unsqueeze(0))
    if entries.dim() == 2:  # the same for all networks
        product = x.with_values(entries[0])(weight.flatten(0, 1).t().contiguous())
        return product.view(-1, *weight.shape[:2]).transpose(0, 1)
    pairs = zip(entries.unbind(1)[0], weight.transpose(1, 2), strict=True)
    return torch.stack([x.with_values(own)(columns.contiguous()) for own, columns in pairs])


def gcn_conv(x: Tensor, weight: Tensor, bias: Tensor, adjacency: Propagate) -> Tensor:
    """ÂXW + b, as PyG's GCNConv: `[Q, N, F]` → `[Q, N, C]`."""
    return adjacency(batched_linear(x, weight)) + bias.unsqueeze(1)


def cheb_conv(x: Tensor, weights: Sequence[Tensor], bias: Tensor, laplacian: Propagate) -> Tensor:
    """Σ_k T_k(L̂)XΘ_k + b, as PyG's ChebConv: `[Q, N, F]` → `[Q, N, C]`.

    Uses Clenshaw's recurrence, which applies L̂ to the C output channels; PyG applies it to all F input channels.
    """
    terms = [batched_linear(x, weight) for weight in weights]
    first = terms[0] + bias.unsqueeze(1)
    if len(terms) == 1:
        return first
    if len(terms) == 2:
        return first + laplacian(terms[1])
    current, previous = terms[-2] + 2 * laplacian(terms[-1]), terms[-1]
    for term in reversed(terms[1:-2]):
        current, previous = term + 2 * laplacian(current) - previous, current
    return first + laplacian(current) - previous


def gat_conv(
    x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor, edges: SparsePattern, slope: float, drop: Drop
) -> Tensor:
    """Attention over neighbours, as PyG's GATConv, without its bias.

    `weight` is `[Q, H·C, F]`, `att_src` and `att_dst` `[Q, 1, H, C]`; returns `[Q, H, N, C]`.
    """
    problems, _, heads, channels = att_src.shape
    value = batched_linear(x, weight)
    value = value.view(problems, -1, heads, channels).transpose(1, 2).flatten(0, 1)
    att = torch.stack([att_src, att_dst], dim=-1).flatten(0, 2)
    source_score, target_score = torch.bmm(value, att).permute(2, 1, 0).contiguous()
    alpha = drop(attention(source_score, target_score, edges, slope).view(problems, heads, -1))
    return multiply_each(value, alpha.flatten(0, 1), edges).view(problems, heads, -1, channels)


def attention(source_score: Tensor, target_score: Tensor, edges: SparsePattern, slope: float) -> Tensor:
    """The softmax over the edges j → i into each node i of LeakyReLU(source_score[j] + target_score[i]).

    Scores are `[N, B]`, one column per head; returns `[B, E]`. Every node must have an incoming edge.
    """
    alpha: Tensor = _Attention.apply(source_score, target_score, edges, slope)  # type: ignore[no-untyped-call]
    return alpha


class _Attention(torch.autograd.Function):
    """A custom backward pass: on a GPU, autograd would sum the gradients of the gathers in a varying order."""

    @staticmethod
    def forward(ctx: Any, source_score: Tensor, target_score: Tensor, edges: SparsePattern, slope: float) -> Tensor:
        score = source_score.index_select(0, edges.columns) + target_score.index_select(0, edges.rows)
        alpha = functional.leaky_relu(score, slope)
        # Subtracts the maximum first, so that no exponential overflows and each sum is at least 1.
        alpha -= edges.row_max(alpha).index_select(0, edges.rows)
        alpha.exp_()
        alpha /= edges.row_sum(alpha).index_select(0, edges.rows)
        ctx.edges, ctx.slope = edges, slope
        ctx.save_for_backward(score, alpha)
        return alpha.t().contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (score, alpha), edges = ctx.saved_tensors, ctx.edges
        grad_score = alpha * grad.t()
        grad_score -= alpha * edges.row_sum(grad_score).index_select(0, edges.rows)
        grad_score = torch.ops.aten.leaky_relu_backward(grad_score, score, ctx.slope, False)
        return edges.column_sum(grad_score), edges.row_sum(grad_score), None, None


def scaled_laplacian(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> SparseMatrix:
    """L̂ = 2L/λ − I with λ = 2, the bound on the eigenvalues of the normalized Laplacian L; its diagonal is 0."""
    from torch_geometric.utils import get_laplacian, remove_self_loops

    weight = None if edge_weight is None else edge_weight.to(dtype)
    index, values = remove_self_loops(*get_laplacian(edge_index, weight, "sym", dtype, num_nodes))
    return SparseMatrix.from_edges(index, values, num_nodes)  # type: ignore[arg-type]


def edges_with_loops(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, dtype: torch.dtype
) -> SparsePattern:
    """The unweighted edges and one self-loop per node, as in PyG's GATConv."""
    from torch_geometric.utils import add_self_loops, remove_self_loops

    with_loops, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    return SparsePattern.from_edges(with_loops, num_nodes)
