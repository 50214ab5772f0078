"""Dense graphs sampled edge by edge from learned probabilities, with gradients for these probabilities.

An epoch stores 1½ entries per pair of nodes and problem. Everything else is computed in blocks of rows, and only in the
upper triangle, because graphs are symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lggd.baselines.graph_autoencoder import row_blocks

# Probabilities are clamped to [ε, 1 - ε]: closer to 0 and 1, log-odds have no float32 precision.
EPSILON = 1e-7


class SampledGraphs:
    """Graphs A' of Q problems: symmetric, binary, with all self-loops; `sample` draws new ones.

    A pair i < j is an edge with probability P = α zᵢ·zⱼ + (1 - α) Aᵢⱼ, where all |zᵢ| ≤ 1 and zᵢ·zⱼ ≥ 0. With u uniform
    in (0, 1) and soft = σ((logit P + logit u) / τ), it is an edge if soft > ½. The straight-through gradient is that of
    soft: d A'ᵢⱼ / dP = soft (1 - soft) / (τ P (1 - P)).

    Calling it multiplies values `[Q, N, C]` by D'^-½ A' D'^-½. After a backward pass through such products, `gradient`
    returns the gradient of z. `pairs` are the edges i < j of A, sorted and without duplicates, `[2, P]`.

    >>> graphs = SampledGraphs(torch.tensor([[0], [1]]), 3, [torch.Generator()], alpha=0.0, temperature=1.0)
    >>> graphs.sample(torch.zeros(1, 3, 2))
    >>> graphs.adjacency.tolist()
    [[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    """

    def __init__(
        self, pairs: Tensor, num_nodes: int, generators: Sequence[torch.Generator], alpha: float, temperature: float
    ) -> None:
        self.generators, self.alpha, self.temperature = generators, alpha, temperature
        self.blocks = list(row_blocks(num_nodes, pairs.device))
        # Flat positions of the edges in each block: rows `start` to `end` and columns from `start` on.
        self.block_edges = []
        for start, end in self.blocks:
            rows, columns = pairs[:, (pairs[0] >= start) & (pairs[0] < end)] - start
            self.block_edges.append(rows * (num_nodes - start) + columns)
        self.adjacency = torch.zeros(len(generators), num_nodes, num_nodes, device=pairs.device)
        self.slopes = [torch.zeros_like(self.adjacency[:, start:end, start:]) for start, end in self.blocks]

    def sample(self, z: Tensor) -> None:
        """Samples all edges from embeddings `[Q, N, D]`."""
        self.z = z.detach()
        for (start, end), edges, slope in zip(self.blocks, self.block_edges, self.slopes, strict=True):
            height = end - start
            sampled = self._sample_block(start, end, edges, slope)
            square = sampled[:, :, :height]
            # Mirror the strict upper triangle and add the self-loops.
            square.triu_(1)
            slope[:, :, :height].triu_(1)
            square.add_(square.transpose(1, 2).clone())
            square.diagonal(dim1=1, dim2=2).fill_(1)
            self.adjacency[:, start:end, start:].copy_(sampled)
            self.adjacency[:, end:, start:end].copy_(sampled[:, :, height:].transpose(1, 2))
        # Exact: a sum of ones.
        self.degree = self.adjacency.sum(2, keepdim=True).requires_grad_()
        self.scale = self.degree.rsqrt()
        # The gradient of A' as a sum of outer products left · rightᵀ.
        self.gradient_factors: list[tuple[Tensor, Tensor]] = []

    def _sample_block(self, start: int, end: int, edges: Tensor, slope: Tensor) -> Tensor:
        """A' in rows `start` to `end` and columns from `start` on, as zeros and ones; writes d A'/dP into `slope`."""
        probability = torch.bmm(self.z[:, start:end] * self.alpha, self.z[:, start:].transpose(1, 2))
        # Each position occurs once, so that the order of additions does not matter.
        original = probability.new_full((1, 1), 1 - self.alpha).expand(len(probability), len(edges))
        probability.view(len(probability), -1).index_add_(1, edges, original)
        unclamped = (probability - 0.5).abs_().lt_(0.5 - EPSILON)
        probability.clamp_(EPSILON, 1 - EPSILON)
        logit = torch.empty_like(probability)
        for row, generator in zip(logit, self.generators, strict=True):
            row.uniform_(generator=generator)
        logit.logit_().add_(probability.logit())
        sampled = logit.gt(0).to(probability.dtype)
        soft = logit.div_(self.temperature).sigmoid_()
        torch.mul(soft, 1 - soft, out=slope)
        # A clamped probability has no gradient.
        slope.div_(probability.sub_(probability * probability).mul_(self.temperature)).mul_(unclamped)
        return sampled

    def __call__(self, values: Tensor) -> Tensor:
        product: Tensor = _AdjacencyProduct.apply(self.scale * values, self)  # type: ignore[no-untyped-call]
        return self.scale * product

    def gradient(self) -> Tensor:
        """Returns the gradient of z, `[Q, N, D]`; call it once after each backward pass."""
        if self.degree.grad is None:
            raise RuntimeError("`gradient` must follow a backward pass through products with this graph.")
        self.gradient_factors.append((self.degree.grad, torch.ones_like(self.degree)))
        left, right = (torch.cat(side, dim=2) for side in zip(*self.gradient_factors, strict=True))
        self.gradient_factors.clear()
        # Edge (i, j) is stored twice: its gradient is Gᵢⱼ + Gⱼᵢ with G = left · rightᵀ.
        left, right = torch.cat([left, right], dim=2), torch.cat([right, left], dim=2)
        z, grad = self.z, torch.zeros_like(self.z)
        for (start, end), slope in zip(self.blocks, self.slopes, strict=True):
            grad_probability = torch.bmm(left[:, start:end], right[:, start:].transpose(1, 2)).mul_(slope)
            grad[:, start:end] += torch.bmm(grad_probability, z[:, start:])
            grad[:, start:] += torch.bmm(grad_probability.transpose(1, 2), z[:, start:end])
        return grad.mul_(self.alpha)


class _AdjacencyProduct(torch.autograd.Function):
    """A' times values. The gradient of A' has low rank; its factors are collected by the graph."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, graph: SampledGraphs) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(values)
        return torch.bmm(graph.adjacency, values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        # Detached, to avoid a reference cycle between the values and the graph.
        ctx.graph.gradient_factors.append((grad, values.detach()))
        return torch.bmm(ctx.graph.adjacency, grad), None
