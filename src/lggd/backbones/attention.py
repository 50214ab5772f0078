"""Attention: how much each node listens to each of its neighbours, and the gradient of it in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones.propagation import SortedEdges


def attention(sent: Tensor, received: Tensor, edges: SortedEdges, slope: float) -> Tensor:
    """The softmax over the edges j → i into a node i of LeakyReLU(sent[j] + received[i]).

    `sent` and `received` are `[N, B]`, a column a head; gives the shares `[B, E]` in the order of `edges`, among which
    every node must have one.
    """
    share: Tensor = _Attention.apply(sent, received, edges, slope)  # type: ignore[no-untyped-call]
    return share


class _Attention(torch.autograd.Function):
    """By hand, because gathers and scatters would add up their gradients in an order that changes on a GPU."""

    @staticmethod
    def forward(ctx: Any, sent: Tensor, received: Tensor, edges: SortedEdges, slope: float) -> Tensor:
        score = sent.index_select(0, edges.source) + received.index_select(0, edges.target)
        share = functional.leaky_relu(score, slope)
        # The largest is taken off first, so that no power overflows and each sum is at least 1.
        share -= edges.maxima(share).index_select(0, edges.target)
        share.exp_()
        share /= edges.sums(share).index_select(0, edges.target)
        ctx.edges, ctx.slope = edges, slope
        ctx.save_for_backward(score, share)
        return share.t().contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (score, share), edges = ctx.saved_tensors, ctx.edges
        by_score = share * grad.t()
        by_score -= share * edges.sums(by_score).index_select(0, edges.target)
        by_score = torch.ops.aten.leaky_relu_backward(by_score, score, ctx.slope, False)
        return edges.sums_by_source(by_score), edges.sums(by_score), None, None
