"""Compressed sparse rows (CSR), in which a graph is stored, and the sort that builds them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from lggd.errors import NotEnoughMemoryError
from lggd.system.files import size_in_words
from lggd.system.memory import Memory

Result = TypeVar("Result")

# Multiplications below which waking a second thread takes longer than the work itself.
MIN_PARALLEL_WORK = 50_000


def on_threads_that_pay(work: int, loop: Callable[..., Result], *arguments: Any) -> Result:
    """Calls `loop(*arguments)`, which does `work` multiplications, on one thread where that is faster."""
    threads = numba.get_num_threads()
    if threads == 1 or work >= MIN_PARALLEL_WORK:
        return loop(*arguments)
    numba.set_num_threads(1)
    try:
        return loop(*arguments)
    finally:
        numba.set_num_threads(threads)


Array = NDArray[np.generic]


# Edges of a graph on disk that are resident at a time: 16 bytes each at most.
EDGES_PER_BLOCK = 2**24


class Mapped(Protocol):
    """Memory that files are mapped into."""

    def release(self) -> None:
        """Gives back all resident pages."""

    def bounded(self) -> AbstractContextManager[None]:
        """Within it, pages are given back whenever many are resident."""


class Transposed(NamedTuple):
    """The same edges listed by their column: row j holds every i with an edge (i, j)."""

    indptr: Tensor
    indices: Tensor
    edge: Tensor  # edge[e] is the position of this entry in the original rows


@dataclass(frozen=True, eq=False)
class CSR:
    """Rows of neighbours, sorted within each row, every edge once.

    `indptr` is int64 `[N + 1]`, `indices` int32 `[E]`. `weight` is `[E]`, or None where every weight is 1.
    `symmetric` promises that (i, j) and (j, i) are both stored with the same weight. Of a graph on disk, all of these
    are `mapped` into memory, and `indices` are int64 where int32 does not suffice.
    """

    indptr: Tensor
    indices: Tensor
    weight: Tensor | None
    symmetric: bool
    stored_root_weight: Tensor | None = None
    mapped: Mapped | None = None

    @property
    def num_nodes(self) -> int:
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    @cached_property
    def root_weight(self) -> Tensor | None:
        """√w, `[E]`; None where every weight is 1."""
        if self.stored_root_weight is not None or self.weight is None:
            return self.stored_root_weight
        return self.weight.sqrt()

    def row_blocks(self) -> list[tuple[int, int]]:
        """Ranges of rows to work through in turn: all rows, or on disk as many as have `EDGES_PER_BLOCK` edges."""
        if self.mapped is None or self.num_edges <= EDGES_PER_BLOCK:
            return [(0, self.num_nodes)]
        ends = torch.arange(EDGES_PER_BLOCK, self.num_edges + EDGES_PER_BLOCK, EDGES_PER_BLOCK)
        ends = ends.clamp(max=self.num_edges).to(self.indptr.device)
        rows = torch.searchsorted(self.indptr, ends, right=False).unique().tolist()
        return list(itertools.pairwise([0, *(row for row in rows[:-1] if row), self.num_nodes]))

    def blocks(self) -> Iterator[tuple[int, int]]:
        """`row_blocks`; those of a graph on disk leave memory when they are done."""
        blocks = self.row_blocks()
        for first, last in blocks:
            yield first, last
            if self.mapped is not None and len(blocks) > 1:
                self.mapped.release()

    def bounded(self) -> AbstractContextManager[None]:
        """Within it, edges of a graph on disk that were read leave memory again, in whatever order they are read."""
        return nullcontext() if self.mapped is None else self.mapped.bounded()

    def root_weight_as(self, dtype: torch.dtype) -> Tensor | None:
        """√w `[E, 1]` in this precision, or of a graph on disk as it is stored; None where every weight is 1."""
        if self.weight is None:
            return None
        root = None if self.mapped is None else self.stored_root_weight
        return (self.weight.to(dtype).sqrt() if root is None else root).unsqueeze(1)

    def part(self, first: int, last: int) -> CSR:
        """The rows from `first` to before `last`, as the rows of a matrix with as many columns as before."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        weight = None if self.weight is None else self.weight[begin:end]
        return CSR(self.indptr[first : last + 1] - begin, self.indices[begin:end], weight, symmetric=False)

    @cached_property
    def rows(self) -> Tensor:
        """The row of each stored edge, int64 `[E]`."""
        nodes = torch.arange(self.num_nodes, device=self.indptr.device)
        return nodes.repeat_interleave(self.indptr.diff(), output_size=self.num_edges)

    @cached_property
    def transposed(self) -> Transposed:
        """The edges by column, in memory. On a symmetric graph only `edge` is new memory."""
        device = self.indptr.device
        if self.mapped is not None:
            self._check_transposable()
        columns, rows = self.indices.cpu().numpy(), self.rows.to("cpu", torch.int32).numpy()
        indptr, position = sort_edges(columns, rows, self.num_nodes)
        edge = torch.from_numpy(position).to(device)
        if self.symmetric:
            return Transposed(self.indptr, self.indices, edge)
        return Transposed(torch.from_numpy(indptr).to(device), torch.from_numpy(rows[position]).to(device), edge)

    def _check_transposable(self) -> None:
        # Rows, columns and two orders of the edges at a time.
        needed = Memory({"edges by column": 20 * self.num_edges}, self.indptr.device)
        if needed.fits is False:
            remedy = "Build the graph without directions, or use a machine with more memory."
            free = size_in_words(needed.free or 0)
            raise NotEnoughMemoryError(
                f"Edges of a directed graph on disk are sorted by column in memory, which takes {needed}, where {free} "
                f"are free. {remedy}"
            )

    @cached_property
    def incoming_weight(self) -> Tensor | None:
        """The weights along the transposed rows, `[E]`; None where every weight is 1."""
        if self.weight is None or self.symmetric:
            return self.weight
        return self.weight[self.transposed.edge.long()]

    @cached_property
    def incoming_length(self) -> Tensor:
        """1/√w along the transposed rows, float64 `[E]`; `[1]` where every weight is 1."""
        # Cached, because a root and a division per edge would double the time of a shortest path.
        weight = self.incoming_weight
        return torch.ones(1, dtype=torch.float64) if weight is None else weight.to(torch.float64).rsqrt()

    @cached_property
    def length_range(self) -> tuple[float, float]:
        """The shortest and the longest of `incoming_length`; (1, 1) without edges."""
        if self.num_edges == 0 or self.weight is None:
            return 1.0, 1.0
        if self.mapped is None:
            return float(self.incoming_length.min()), float(self.incoming_length.max())
        weights = (self.weight[int(self.indptr[first]) : int(self.indptr[last])] for first, last in self.blocks())
        ends = torch.stack([torch.stack(weight.aminmax()) for weight in weights if len(weight)])
        lightest, heaviest = ends[:, 0].min(), ends[:, 1].max()
        return float(heaviest.double().rsqrt()), float(lightest.double().rsqrt())

    def permuted(self, order: Tensor) -> tuple[CSR, Tensor]:
        """The same graph with node `order[r]` in row r, and the previous position of each entry."""
        rank = inverse(order).to(torch.int32)
        rows, columns = rank[self.rows].numpy(), rank[self.indices.long()].numpy()
        indptr, position = sort_edges(rows, columns, self.num_nodes)
        moved = torch.from_numpy(position)
        weight = None if self.weight is None else self.weight[moved]
        return CSR(torch.from_numpy(indptr), torch.from_numpy(columns[position]), weight, self.symmetric), moved

    def to_scipy(self, values: Array | None = None) -> sp.csr_array:
        """These entries, by default ones, as a SciPy array `[N, N]`; only on the CPU."""
        entries = np.broadcast_to(np.int8(1), self.num_edges) if values is None else values
        return sp.csr_array((entries, self.indices.numpy(), self.indptr.numpy()), shape=(self.num_nodes,) * 2)

    def to(self, device: torch.device) -> CSR:
        """The same rows on a device. Edges on disk that do not fit there stay on disk, copied block by block."""
        if self.mapped is not None and device.type == "cuda":
            size = 4 if self.weight is None else 4 + self.weight.element_size()
            if Memory({"edges": 2 * size * self.num_edges}, device).fits is False:
                return replace(self, indptr=self.indptr.to(device))
        weight = None if self.weight is None else self.weight.to(device)
        return CSR(self.indptr.to(device), self.indices.to(device), weight, self.symmetric)


def inverse(order: Tensor) -> Tensor:
    """The permutation that undoes `order`."""
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel(), dtype=order.dtype, device=order.device)
    return rank


def sort_edges(rows: Array, columns: Array, num_nodes: int) -> tuple[Array, Array]:
    """Row pointers `[N + 1]` and the positions of the edges in (row, column) order."""
    # Two stable counting sorts, first by column and then by row: linear in the number of edges.
    dtype = np.int32 if len(rows) < 2**31 else np.int64
    by_column = np.empty(len(rows), dtype)
    _counting_sort(columns, np.arange(len(rows), dtype=dtype), num_nodes, by_column)
    position = np.empty(len(rows), dtype)
    indptr = _counting_sort(rows, by_column, num_nodes, position)
    return indptr, position


def merge_duplicates(rows: Array, columns: Array, weight: Array | None, num_nodes: int, rule: str) -> CSR:
    """The CSR of an edge list. Duplicates become one edge with the largest (`max`) or the total (`sum`) weight."""
    indptr, position = sort_edges(rows, columns, num_nodes)
    rows, columns = rows[position], columns[position]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    if weight is not None:
        weight = weight[position]
    if not first.all():
        starts = np.flatnonzero(first)
        if weight is not None:
            reduce = np.maximum if rule == "max" else np.add
            weight = reduce.reduceat(weight, starts)
        rows, columns = rows[starts], columns[starts]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=num_nodes))])
    indptr, columns = np.ascontiguousarray(indptr, dtype=np.int64), np.ascontiguousarray(columns, dtype=np.int32)
    kept = None if weight is None else torch.from_numpy(weight)
    return CSR(torch.from_numpy(indptr), torch.from_numpy(columns), kept, symmetric=False)


@njit(cache=True)
def _counting_sort(key, items, num_nodes, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Writes `items` into `out`, ordered by `key[item]` and stable; returns where each key starts."""
    start = np.zeros(num_nodes + 1, np.int64)
    for e in range(key.size):
        start[key[e] + 1] += 1
    for i in range(num_nodes):
        start[i + 1] += start[i]
    cursor = start[:-1].copy()
    for n in range(items.size):
        e = items[n]
        k = key[e]
        out[cursor[k]] = e
        cursor[k] += 1
    return start
