"""Dense graphs drawn edge by edge from learned probabilities, and what a loss on them says about these.

For N nodes and Q problems an epoch keeps 1½ numbers a pair of nodes and problem; all else is computed some rows at a
time, and only from the diagonal on, because graphs are symmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lggd.baselines.edge_predictor import row_blocks

# How close to 0 and 1 a probability may come: beyond, its log-odds could not be told apart in float32.
LEAST_CHANCE = 1e-7


class DrawnGraphs:
    """Graphs A' of Q problems, symmetric, of zeros and ones, with a loop at every node; drawn anew by `draw`.

    A pair i < j is an edge with probability P = α zᵢ·zⱼ + (1 - α) Aᵢⱼ, where all |zᵢ| ≤ 1 and zᵢ·zⱼ ≥ 0. It is decided
    by u, uniform in (0, 1): with soft = σ((logit P + logit u) / τ), whether soft > ½. Gradients are those of soft, that
    is d A'ᵢⱼ / dP = soft (1 - soft) / (τ P (1 - P)).

    Called on values `[Q, N, C]` it gives D'^-½ A' D'^-½ times them. After a backward pass through such products,
    `gradient` tells what the loss says about z.

    Args:
        pairs: the given edges i < j, each once and in order, int64 `[2, P]`.
        num_nodes: N.
        generators: what each problem draws from.
        alpha: how much is learned, from 0 to 1.
        temperature: τ.

    >>> graphs = DrawnGraphs(torch.tensor([[0], [1]]), 3, [torch.Generator()], alpha=0.0, temperature=1.0)
    >>> graphs.draw(torch.zeros(1, 3, 2))
    >>> graphs.entries.tolist()
    [[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    """

    def __init__(
        self, pairs: Tensor, num_nodes: int, generators: Sequence[torch.Generator], alpha: float, temperature: float
    ) -> None:
        self.generators, self.alpha, self.temperature = generators, alpha, temperature
        self.blocks = list(row_blocks(num_nodes, pairs.device))
        self.given = [_places(pairs, start, end, num_nodes) for start, end in self.blocks]
        problems, device = len(generators), pairs.device
        self.entries = torch.zeros(problems, num_nodes, num_nodes, device=device)
        self.slopes = [
            torch.zeros(problems, end - start, num_nodes - start, device=device) for start, end in self.blocks
        ]

    def draw(self, z: Tensor) -> None:
        """Draws all edges anew from node vectors `[Q, N, D]`."""
        self.z = z.detach()
        for (start, end), given, slope in zip(self.blocks, self.given, self.slopes, strict=True):
            height = end - start
            drawn = self._draw_block(start, end, given, slope)
            # What lies on the diagonal or below it is what lies above it, and the loops.
            drawn[:, :, :height].triu_(1)
            slope[:, :, :height].triu_(1)
            drawn[:, :, :height].add_(drawn[:, :, :height].transpose(1, 2).clone())
            drawn[:, :, :height].diagonal(dim1=1, dim2=2).fill_(1)
            self.entries[:, start:end, start:].copy_(drawn)
            self.entries[:, end:, start:end].copy_(drawn[:, :, height:].transpose(1, 2))
        # Exact: whole numbers.
        self.degree = self.entries.sum(2, keepdim=True).requires_grad_()
        self.scale = self.degree.rsqrt()
        self.told: list[tuple[Tensor, Tensor]] = []

    def _draw_block(self, start: int, end: int, given: Tensor, slope: Tensor) -> Tensor:
        """Zeros and ones for the rows from `start` to `end` and the columns from `start` on; fills in their slopes."""
        chance = torch.bmm(self.z[:, start:end] * self.alpha, self.z[:, start:].transpose(1, 2))
        # Each place once, so that the order does not matter.
        known = chance.new_full((1, 1), 1 - self.alpha).expand(len(chance), len(given))
        chance.view(len(chance), -1).index_add_(1, given, known)
        free = (chance - 0.5).abs_().lt_(0.5 - LEAST_CHANCE)
        chance.clamp_(LEAST_CHANCE, 1 - LEAST_CHANCE)
        odds = torch.empty_like(chance)
        for one, generator in zip(odds, self.generators, strict=True):
            one.uniform_(generator=generator)
        odds.logit_().add_(chance.logit())
        drawn = odds.gt(0).to(chance.dtype)
        soft = odds.div_(self.temperature).sigmoid_()
        torch.mul(soft, 1 - soft, out=slope)
        # Where a probability was at its limit it does not move.
        slope.div_(chance.sub_(chance * chance).mul_(self.temperature)).mul_(free)
        return drawn

    def __call__(self, values: Tensor) -> Tensor:
        product: Tensor = _Product.apply(self.scale * values, self)  # type: ignore[no-untyped-call]
        return self.scale * product

    def gradient(self) -> Tensor:
        """The gradient of the loss by z, `[Q, N, D]`; to be asked for once, after a backward pass."""
        if self.degree.grad is None:
            raise RuntimeError("`gradient` must come after a backward pass through products with this graph.")
        self.told.append((self.degree.grad, torch.ones_like(self.degree)))
        left, right = (torch.cat(side, dim=2) for side in zip(*self.told, strict=True))
        self.told.clear()
        # The loss changes by Gᵢⱼ + Gⱼᵢ with the edge i, j, where G = left · rightᵀ.
        left, right = torch.cat([left, right], dim=2), torch.cat([right, left], dim=2)
        z, result = self.z, torch.zeros_like(self.z)
        for (start, end), slope in zip(self.blocks, self.slopes, strict=True):
            by_chance = torch.bmm(left[:, start:end], right[:, start:].transpose(1, 2)).mul_(slope)
            result[:, start:end] += torch.bmm(by_chance, z[:, start:])
            result[:, start:] += torch.bmm(by_chance.transpose(1, 2), z[:, start:end])
        return result.mul_(self.alpha)


class _Product(torch.autograd.Function):
    """A' times values. What its gradient is for A' is low in rank, and is left with the graph until all is told."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, graph: DrawnGraphs) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(values)
        return torch.bmm(graph.entries, values)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (values,) = ctx.saved_tensors
        # Detached, for with their past they would hold on to the graph that holds them.
        ctx.graph.told.append((grad, values.detach()))
        return torch.bmm(ctx.graph.entries, grad), None


def _places(pairs: Tensor, start: int, end: int, num_nodes: int) -> Tensor:
    """Where the given edges lie in the block of rows from `start` to `end` and columns from `start` on."""
    here = (pairs[0] >= start) & (pairs[0] < end)
    return (pairs[0, here] - start) * (num_nodes - start) + pairs[1, here] - start
