"""The contents of a node's neighbourhood, beside its own: what a network sees that is to know more than one node."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize as unit_rows

from lggd.graph import Graph
from lggd.learning.contents import Dense, Sparse, compressed, side_by_side, sparse
from lggd.learning.workspace import Workspace

# How many numbers to work on at a time where a dense block of contents is needed.
ENTRIES_AT_ONCE = 2**24
# Steps of a personalised PageRank: a walk that goes back with a chance of 0.1 has done so by then two times in three.
PAGERANK_STEPS = 10


@dataclass(frozen=True, eq=False)
class Propagated:
    """`[X, ÂX, Â²X, …, ΠX]` without forming it: where X is sparse, Â^k (X W_k) is far cheaper than (Â^k X) W_k.

    Â is the adjacency with self-loops, normalised on both sides as in a GCN. Π is the personalised PageRank that
    restarts with the chance `pagerank`, after `PAGERANK_STEPS` steps; None leaves it out. With `normalize` the rows of
    every block have length 1.
    """

    base: Dense | Sparse
    adjacency: Sparse
    hops: int
    normalize: bool
    pagerank: float | None = None

    @property
    def num_blocks(self) -> int:
        return self.hops + 1 + (self.pagerank is not None)

    @property
    def num_nodes(self) -> int:
        return self.base.num_nodes

    @property
    def num_features(self) -> int:
        return self.num_blocks * self.base.num_features

    @cached_property
    def lengths(self) -> list[Tensor]:
        """The length of each row of X, ÂX, …, each `[N, 1]`; some columns of X at a time, to spare memory."""
        nodes, features = self.adjacency.rows.shape[0], self.base.num_features
        total = [torch.zeros(nodes, 1, device=self.adjacency.rows.device) for _ in range(self.num_blocks)]
        for columns in torch.split(torch.arange(features), max(1, ENTRIES_AT_ONCE // nodes)):
            chosen = torch.zeros(features, len(columns), device=total[0].device)
            chosen[columns, torch.arange(len(columns))] = 1.0
            blocks = formed_blocks(self.base.times(chosen), self.adjacency, self.hops, self.pagerank)
            for squares, block in zip(total, blocks, strict=True):
                squares += block.square().sum(1, keepdim=True)
        return [squares.sqrt() for squares in total]

    @cached_property
    def unit_base(self) -> Dense | Sparse:
        """X with rows of length 1, where they are wanted so."""
        return self.base.scaled(_inverse(self.lengths[0])) if self.normalize else self.base

    @cached_property
    def unit_steps(self) -> list[Sparse]:
        """Â for the last step of 1, 2, … hops, which brings rows to length 1, where they are wanted so."""
        if not self.normalize:
            return [self.adjacency] * self.hops
        return [self.adjacency.scaled(_inverse(length)) for length in self.lengths[1 : self.hops + 1]]

    @cached_property
    def _row_scale(self) -> Tensor:
        """What brings the rows of ΠX to length 1, `[N, 1]`, where they are wanted so."""
        last = self.lengths[-1]
        return _inverse(last).unsqueeze(1) if self.normalize else torch.ones_like(last)

    def times(self, weight: Tensor) -> Tensor:
        if weight.dim() == 3:
            return side_by_side(self, weight)
        first, *parts = weight.chunk(self.num_blocks)
        blocks = [self.unit_base.times(first)]
        for hop, (part, last) in enumerate(zip(parts, self.unit_steps, strict=False)):
            block = self.base.times(part)
            for _ in range(hop):
                block = self.adjacency.times(block)
            blocks.append(last.times(block))
        if self.pagerank is not None:
            start = self.base.times(parts[-1])
            blocks.append(self._row_scale * _pageranked(start, self.adjacency.times, self.pagerank))
        return functools.reduce(torch.add, blocks)

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, space: Workspace) -> None:
        first, *parts = weight.chunk(self.num_blocks)
        self.unit_base.multiply(first, bias, out, space)
        nothing = torch.zeros_like(bias)
        for hop, (part, last) in enumerate(zip(parts, self.unit_steps, strict=False)):
            block = space.empty(out.shape, out.dtype)
            self.base.multiply(part, nothing, block, space)
            for _ in range(hop):
                before, block = block, space.empty(out.shape, out.dtype)
                self.adjacency.multiply(before, nothing, block, space)
            last.add(block, out)
        if self.pagerank is not None:
            start = space.empty(out.shape, out.dtype)
            self.base.multiply(parts[-1], nothing, start, space)
            out.addcmul_(self._spread_in(start, space), self._row_scale)

    def vjp(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
        first, *parts = out.chunk(self.num_blocks)
        self.unit_base.vjp(grad, first, space)
        for hop, (part, last) in enumerate(zip(parts, self.unit_steps, strict=False)):
            block = space.empty(grad.shape, grad.dtype)
            last.vjp(grad, block, space)
            for _ in range(hop):
                before, block = block, space.empty(grad.shape, grad.dtype)
                self.adjacency.vjp(before, block, space)
            self.base.vjp(block, part, space)
        if self.pagerank is not None:
            start = space.empty(grad.shape, grad.dtype)
            torch.mul(grad, self._row_scale, out=start)
            # Π is symmetric, as Â is.
            self.base.vjp(self._spread_in(start, space), parts[-1], space)

    def _spread_in(self, start: Tensor, space: Workspace) -> Tensor:
        """Π · start, in memory of the workspace."""
        restart, nothing = self.pagerank or 0.0, start.new_zeros(start.shape[1])
        block, ahead, spare = start, *(space.empty(start.shape, start.dtype) for _ in range(2))
        for _ in range(PAGERANK_STEPS):
            self.adjacency.multiply(block, nothing, ahead, space)
            torch.add(start, ahead, alpha=(1 - restart) / restart, out=ahead).mul_(restart)
            block, ahead, spare = ahead, spare, ahead
        return block


def _pageranked(start: Tensor, step: Callable[[Tensor], Tensor], restart: float) -> Tensor:
    """h ← (1 − restart) Â h + restart · start, from h = start on; `step` multiplies with Â."""
    block = start
    for _ in range(PAGERANK_STEPS):
        block = (1 - restart) * step(block) + restart * start
    return block


def formed_blocks(x: Tensor, adjacency: Sparse, hops: int, pagerank: float | None) -> Iterator[Tensor]:
    """X, ÂX, …, ΠX, one after the other."""
    block = x
    yield block
    for _ in range(hops):
        block = adjacency.rows @ block
        yield block
    if pagerank is not None:
        yield _pageranked(x, adjacency.rows.matmul, pagerank)


def _inverse(length: Tensor) -> Tensor:
    """1 / length of each row, `[N]`; 0 for rows of nothing but 0."""
    return torch.where(length > 0, 1 / length, 0).squeeze(1)


def propagated(
    base: Dense | Sparse, graph: Graph, hops: int, normalize: bool, pagerank: float | None = None
) -> Dense | Propagated:
    """`[X, ÂX, Â²X, …, ΠX]`: computed once where X is dense; where it is sparse never, but for Π on a GPU.

    There one dense product is far faster than the many sparse ones that a PageRank takes.
    """
    adjacency = gcn_matrix(graph)
    if isinstance(base, Sparse) and (pagerank is None or not base.rows.is_cuda):
        return Propagated(base, adjacency, hops, normalize, pagerank)
    x = base.rows.to_dense() if isinstance(base, Sparse) else base.x
    blocks = formed_blocks(x, adjacency, hops, pagerank)
    return Dense(torch.cat([unit_rows(block) if normalize else block for block in blocks], 1))


def gcn_matrix(graph: Graph) -> Sparse:
    """Â = D̃^-½ (A + I) D̃^-½, with D̃ the degrees of A + I."""
    rows, columns = graph.edge_index
    nodes = torch.arange(graph.num_nodes, device=graph.device)
    weight = torch.cat([graph.weight.float(), torch.ones(graph.num_nodes, device=graph.device)])
    root = (graph.degree.float() + 1).rsqrt()
    index = torch.stack([torch.cat([rows, nodes]), torch.cat([columns, nodes])])
    value = weight * root[index[0]] * root[index[1]]
    return Sparse(compressed(sparse(index, value, (graph.num_nodes, graph.num_nodes)).coalesce()))
