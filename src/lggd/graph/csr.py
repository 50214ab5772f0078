"""Compressed sparse rows (CSR), in which a graph is stored: sorted, ordered in memory, and their components."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numba
import numpy as np
import scipy.sparse as sp
import torch
from numba import njit
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from lggd._system.memory import MappedArrays, Memory, shortage

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Int64, Shaped

Array = NDArray[np.generic]
Result = TypeVar("Result")

CPU = torch.device("cpu")
# Below this many nodes a column of the state fits into cache and the order does not matter.
MIN_ORDERED_NODES = 50_000
# Reordering reads the edges about this many times, and does not pay off for solves that read them less often.
MIN_ORDERED_PASSES = 4
# Mean distance between neighbours in memory, as a fraction of N: 1/3 in a random order, below 1/100 in a good one.
SCATTERED = 0.05
# How the weights of duplicate edges combine; a mean is divided by their number.
REDUCTIONS: dict[str, np.ufunc] = {"max": np.maximum, "min": np.minimum, "sum": np.add, "mean": np.add}

# Multiplications below which waking a second thread takes longer than the work itself.
MIN_PARALLEL_WORK = 50_000


def run_parallel_if_worthwhile(work: int, loop: Callable[..., Result], *arguments: Any) -> Result:
    """Calls `loop(*arguments)`, of `work` multiplications, on one thread where waking others takes longer."""
    threads = numba.get_num_threads()
    if threads == 1 or work >= MIN_PARALLEL_WORK:
        return loop(*arguments)
    numba.set_num_threads(1)
    try:
        return loop(*arguments)
    finally:
        numba.set_num_threads(threads)


# Edges of a graph on disk that are resident at a time: 16 bytes each at most.
EDGES_PER_BLOCK = 2**24


@dataclass(frozen=True, eq=False)
class CSR:
    """Rows of neighbours, sorted within each row, every edge once.

    `indptr` is int64 `[N + 1]`, `indices` int32 `[E]`. `weight` is `[E]`, or None where every weight is 1.
    `symmetric` promises that (i, j) and (j, i) are both stored with the same weight. Of a graph on disk, all of these
    are `mapped` into memory, and `indices` are int64 where int32 does not suffice.
    """

    indptr: Int64[Tensor, " n+1"]
    indices: Int[Tensor, " e"]
    weight: Float[Tensor, " e"] | None
    symmetric: bool
    stored_root_weight: Tensor | None = None
    mapped: MappedArrays | None = None

    @property
    def num_nodes(self) -> int:
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    def row_ranges(self) -> list[tuple[int, int]]:
        """Ranges of rows to work through in turn: all rows, or on disk as many as have `EDGES_PER_BLOCK` edges."""
        if self.mapped is None or self.num_edges <= EDGES_PER_BLOCK:
            return [(0, self.num_nodes)]
        ends = torch.arange(EDGES_PER_BLOCK, self.num_edges + EDGES_PER_BLOCK, EDGES_PER_BLOCK)
        ends = ends.clamp(max=self.num_edges).to(self.indptr.device)
        rows = torch.searchsorted(self.indptr, ends).unique().tolist()
        return list(itertools.pairwise([0, *rows[:-1], self.num_nodes]))

    def blocks(self) -> Iterator[tuple[int, int]]:
        """`row_ranges`; those of a graph on disk leave memory when they are done."""
        blocks = self.row_ranges()
        for first, last in blocks:
            yield first, last
            if self.mapped is not None and len(blocks) > 1:
                self.mapped.release()

    def bounded(self) -> AbstractContextManager[None]:
        """Within it, edges of a graph on disk that were read leave memory again, in whatever order they are read."""
        return nullcontext() if self.mapped is None else self.mapped.bounded()

    def root_weight_as(self, dtype: torch.dtype) -> Float[Tensor, "e 1"] | None:
        """√w `[E, 1]` in this precision, or of a graph on disk as it is stored; None where every weight is 1."""
        if self.weight is None:
            return None
        root = self.stored_root_weight
        return (self.weight.to(dtype).sqrt() if root is None else root).unsqueeze(1)

    def part(self, first: int, last: int) -> CSR:
        """The rows from `first` to before `last`, as the rows of a matrix with as many columns as before."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        weight, root = (None if x is None else x[begin:end] for x in (self.weight, self.stored_root_weight))
        indptr, indices = self.indptr[first : last + 1] - begin, self.indices[begin:end]
        return CSR(indptr, indices, weight, symmetric=False, stored_root_weight=root)

    @cached_property
    def rows(self) -> Int64[Tensor, " e"]:
        """The row of each stored edge, int64 `[E]`."""
        nodes = torch.arange(self.num_nodes, device=self.indptr.device)
        return nodes.repeat_interleave(self.indptr.diff(), output_size=self.num_edges)

    @property
    def transposed(self) -> CSR:
        """The edges in the other direction: row j holds every i with an edge (i, j); in memory unless `symmetric`."""
        return self if self.symmetric else self._reversed[0]

    @property
    def column_order(self) -> Int[Tensor, " e"]:
        """The position of each edge of `transposed` in these rows, `[E]`."""
        return self._reversed[1]

    @cached_property
    def _reversed(self) -> tuple[CSR, Tensor]:
        """`transposed` and `column_order`; on a symmetric graph only the order is new memory."""
        if self.mapped is not None:
            self._check_transposable()
        edges, device, dtype = self.to(CPU), self.indptr.device, _index_type(self.num_edges)
        # Pointers and positions of one type: SciPy would copy the indices as int64 otherwise.
        rows = (np.arange(self.num_edges, dtype=dtype), edges.indices.numpy(), edges.indptr.numpy().astype(dtype))
        by_column = sp.csr_array(rows, shape=(self.num_nodes,) * 2).tocsc()  # sorted, because the rows are
        order = torch.from_numpy(by_column.data)
        if self.symmetric:
            # Not `self`: only the garbage collector would free a graph that refers to itself.
            return replace(self), order.to(device)
        indptr, indices = torch.from_numpy(by_column.indptr).long(), torch.from_numpy(by_column.indices)
        weight = None if edges.weight is None else edges.weight.index_select(0, order)
        transposed = CSR(indptr, indices.to(self.indices.dtype), weight, symmetric=False)
        return transposed.to(device), order.to(device)

    def _check_transposable(self) -> None:
        # Two orders, the rows and the weights of the edges at a time.
        size = 20 if self.num_edges < 2**31 else 36
        needed = Memory({"edges by column": size * self.num_edges}, self.indptr.device)
        if needed.fits is False:
            remedy = "Build the graph without directions, or use a machine with more memory."
            raise shortage("Sorting the edges of a directed graph on disk by column in memory", needed, remedy)

    @cached_property
    def length(self) -> Float[Tensor, "#e"]:
        """1/√w, float64 `[E]`; `[1]` where every weight is 1."""
        # Cached, because a root and a division per edge would double the time of a shortest path.
        return torch.ones(1, dtype=torch.float64) if self.weight is None else self.weight.to(torch.float64).rsqrt()

    @cached_property
    def length_range(self) -> tuple[float, float]:
        """The shortest and the longest of `length`; (1, 1) without edges."""
        if self.num_edges == 0 or self.weight is None:
            return 1.0, 1.0
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

    def arrays(self) -> tuple[Array, Array, Array, int]:
        """Row pointers, neighbours, and weights that are read as `weight[e * stride]`; only on the CPU."""
        weight, stride = (np.ones(1), 0) if self.weight is None else (self.weight.numpy(), 1)
        return self.indptr.numpy(), self.indices.numpy(), weight, stride

    def to_scipy(self, values: Array | None = None) -> sp.csr_array:
        """These entries, by default ones, as a SciPy array `[N, N]`; only on the CPU."""
        entries = np.broadcast_to(np.int8(1), self.num_edges) if values is None else values
        return sp.csr_array((entries, self.indices.numpy(), self.indptr.numpy()), shape=(self.num_nodes,) * 2)

    def to(self, device: torch.device) -> CSR:
        """The same rows on a device. Edges on disk that do not fit there stay on disk, copied block by block."""
        if self.mapped is not None and device.type == "cuda":
            size = self.indices.element_size() + (0 if self.weight is None else self.weight.element_size())
            if Memory({"edges": 2 * size * self.num_edges}, device).fits is False:
                return replace(self, indptr=self.indptr.to(device))
        weight = None if self.weight is None else self.weight.to(device)
        return CSR(self.indptr.to(device), self.indices.to(device), weight, self.symmetric)


@dataclass(frozen=True, eq=False)
class Layout:
    """An order of the nodes in memory: row r holds node `order[r]`; None means node r."""

    csr: CSR
    order: Tensor | None = None

    @cached_property
    def rank(self) -> Tensor | None:
        """The row of each node."""
        return None if self.order is None else inverse(self.order)

    def into_rows(self, by_node: Shaped[Tensor, " n *c"]) -> Shaped[Tensor, " n *c"]:
        """Reorders values from node order to row order."""
        return by_node if self.order is None else by_node.index_select(0, self.order)

    def to_nodes(self, by_row: Tensor, dim: int = 0) -> Tensor:
        """Reorders values from row order to node order."""
        return by_row if self.rank is None else by_row.index_select(dim, self.rank)

    def rows_of(self, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""
        return nodes if self.rank is None else self.rank[nodes]

    def nodes_of(self, rows: Tensor) -> Tensor:
        """The nodes in some rows."""
        return rows if self.order is None else self.order[rows]

    def edges_into_rows(self, by_edge: Shaped[Tensor, " e *c"]) -> Shaped[Tensor, " e *c"]:
        """Reorders values `[E, …]` from the order of the graph's `edge_index` to that of these rows."""
        return by_edge if self._edge_order is None else by_edge.index_select(0, self._edge_order)

    @cached_property
    def in_node_order(self) -> tuple[CSR, Tensor | None]:
        """The rows sorted by node, and the position of each of their entries in these rows; None means the same."""
        if self.rank is None:
            return self.csr, None
        csr, position = self.csr.to(CPU).permuted(self.rank.cpu())
        return csr.to(self.csr.indptr.device), position.to(self.csr.indptr.device, torch.int64)

    @cached_property
    def _edge_order(self) -> Tensor | None:
        position = self.in_node_order[1]
        return None if position is None else inverse(position)

    def for_passes(self, passes: int) -> Layout:
        """This layout, or a reordered one if `passes` over all edges repay the reordering."""
        large = self.csr.indptr.device.type == "cpu" and self.csr.num_nodes >= MIN_ORDERED_NODES
        if not large or self.order is not None:
            return self
        # Once there is a better one, it is used for all work.
        return self._reordered if passes >= MIN_ORDERED_PASSES or "_reordered" in self.__dict__ else self

    @cached_property
    def _reordered(self) -> Layout:
        if mean_gap(self.csr) <= SCATTERED:
            return self
        nodes = reverse_cuthill_mckee(self.csr.to_scipy(), symmetric_mode=self.csr.symmetric)
        order = torch.from_numpy(nodes.astype(np.int64))
        return Layout(self.csr.permuted(order)[0], order)


def mean_gap(csr: CSR, max_edges: int = 100_000) -> float:
    """The mean of |i - j| / N over at most `max_edges` edges of rows i and columns j."""
    if csr.num_edges == 0:
        return 0.0
    sample = np.linspace(0, csr.num_edges - 1, min(csr.num_edges, max_edges)).astype(np.int64)
    rows = np.searchsorted(csr.indptr.numpy(), sample, side="right") - 1
    return float(np.abs(rows - csr.indices.numpy()[sample]).mean() / csr.num_nodes)


def inverse(order: Tensor) -> Tensor:
    """The permutation that undoes `order`."""
    rank = torch.empty_like(order)
    rank[order] = torch.arange(order.numel(), dtype=order.dtype, device=order.device)
    return rank


def sort_edges(rows: Array, columns: Array, num_nodes: int) -> tuple[Array, Array]:
    """Row pointers `[N + 1]` and the positions of the edges in (row, column) order."""
    # SciPy's conversions are stable counting sorts, first by column and then by row: linear in the number of edges.
    entries = sp.coo_array((np.arange(len(rows), dtype=_index_type(len(rows))), (rows, columns)), (num_nodes,) * 2)
    entries.has_canonical_format = True  # equal edges stay apart
    by_row = entries.tocsc().tocsr()
    return by_row.indptr.astype(np.int64), by_row.data


def _index_type(count: int) -> type[np.signedinteger[Any]]:
    return np.int32 if count < 2**31 else np.int64


def merge_duplicates(rows: Array, columns: Array, weight: Array | None, num_nodes: int, rule: str) -> CSR:
    """The CSR of an edge list. `rule` says how weights of duplicate edges combine: a key of `REDUCTIONS`."""
    indptr, position = sort_edges(rows, columns, num_nodes)
    rows, columns = rows[position], columns[position]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    if weight is not None:
        weight = weight[position]
    if not first.all():
        starts = np.flatnonzero(first)
        if weight is not None:
            weight = REDUCTIONS[rule].reduceat(weight, starts)
            if rule == "mean":
                weight = weight / np.diff(starts, append=len(first))
        rows, columns = rows[starts], columns[starts]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=num_nodes))])
    indptr, columns = np.ascontiguousarray(indptr, dtype=np.int64), np.ascontiguousarray(columns, dtype=np.int32)
    kept = None if weight is None else torch.from_numpy(weight)
    return CSR(torch.from_numpy(indptr), torch.from_numpy(columns), kept, symmetric=False)


def connected_components(csr: CSR) -> Int64[Tensor, " n"]:
    """The (weakly) connected component of each row, int64 `[N]`, numbered in the order of their first rows."""
    device, parent = csr.indptr.device, np.arange(csr.num_nodes)
    csr = csr if device.type == "cpu" else csr.to(CPU)
    indptr, indices = csr.indptr.numpy(), csr.indices.numpy()
    for first, last in csr.blocks():
        _join(first, last, indptr, indices, parent)
    return torch.from_numpy(_number(parent)).to(device)


@njit(cache=True, inline="always")
def _root(parent, i):
    """The first node of the set of i; halves the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True)
def _join(first, last, indptr, indices, parent):
    """Joins the sets of both ends of every edge; the smaller root stays one, so that a root is the first of its set."""
    for i in range(first, last):
        a = _root(parent, i)
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if parent[j] != a:
                b = _root(parent, j)
                if b < a:
                    parent[a] = b
                    a = b
                elif a < b:
                    parent[b] = a


@njit(cache=True)
def _number(parent):
    """Numbers the sets in the order of their roots, in place."""
    count = 0
    for i in range(parent.size):
        # A parent is never larger than its child, and has its number already.
        if parent[i] == i:
            parent[i] = count
            count += 1
        else:
            parent[i] = parent[parent[i]]
    return parent
