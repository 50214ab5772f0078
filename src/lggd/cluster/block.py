"""Rows of a graph on a worker as a block: its rows, and its halo (the nodes outside that they read).

A block numbers its own nodes first and then those of its halo, both ascending. The neighbours of a row keep their
order, so that it is summed as on one machine, to the same bits. What it computes is a program: its `run(units)` is a
generator that yields a tensor `[owned + halo, C]` whenever it is about to read the values of the halo, which blocks
exchange. Its other methods take and return tensors, which travel as arrays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray
from torch import Tensor

from lggd.graph.csr import CSR
from lggd.graph.stored_graph import StoredGraph

Array = NDArray[Any]

# A row costs about as much as this many edges, beside its edges.
ROW_COST = 4


def split_rows(indptr: Array, blocks: int) -> list[int]:
    """The bounds of ranges of rows with about equally many edges, `blocks + 1` row numbers."""
    nodes = len(indptr) - 1
    total = int(indptr[-1]) + ROW_COST * nodes

    def cost(row: int) -> int:
        return int(indptr[row]) + ROW_COST * row

    inner = [bisect_left(range(nodes), total * block // blocks, key=cost) for block in range(1, blocks)]
    return [0, *inner, nodes]


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The rows [first, last) of a graph in local numbers.

    Attributes
    ----------
    csr : CSR
        The rows of the own nodes; `indices` are local.
    halo : NDArray[int64]
        The numbers in the graph of the nodes outside that these rows read, ascending.
    """

    first: int
    last: int
    csr: CSR
    halo: Array
    stored: StoredGraph

    @classmethod
    def cut(cls, stored: StoredGraph, first: int, last: int) -> BlockRows:
        """The rows [first, last) of a stored graph; reads their edges once."""
        part = stored.csr.part(first, last)
        columns = part.indices.numpy()
        outside = np.zeros(stored.csr.num_nodes, np.bool_)
        _mark(columns, first, last, outside)
        halo = np.flatnonzero(outside)
        position = np.empty(len(outside), np.int32)
        position[halo] = np.arange(last - first, last - first + len(halo), dtype=np.int32)
        position[first:last] = np.arange(last - first, dtype=np.int32)
        local = np.empty(len(columns), np.int32)
        _renumber(columns, position, local)
        return cls(first, last, replace(part, indices=torch.from_numpy(local)), halo, stored)

    @property
    def owned(self) -> int:
        return self.last - self.first

    @cached_property
    def size(self) -> int:
        """Own nodes and those of the halo."""
        return self.owned + len(self.halo)

    def slices(self, bounds: list[int]) -> list[tuple[int, int]]:
        """Which local numbers belong to the halo nodes of each block."""
        cuts = np.searchsorted(self.halo, bounds) + self.owned
        return [(int(a), int(b)) for a, b in pairwise(cuts)]


@njit(parallel=True, cache=True)
def _mark(columns, first, last, outside):  # type: ignore[no-untyped-def]  # pragma: no cover
    for e in prange(columns.size):
        j = columns[e]
        if j < first or j >= last:
            outside[j] = True


@njit(parallel=True, cache=True)
def _renumber(columns, position, local):  # type: ignore[no-untyped-def]  # pragma: no cover
    for e in prange(columns.size):
        local[e] = position[columns[e]]


def as_arrays(value: Any) -> Any:
    """Tensors as arrays, also in lists and tuples: Ray passes on arrays without copying them."""
    if type(value) in (list, tuple):
        return type(value)(map(as_arrays, value))
    return value.numpy() if isinstance(value, Tensor) else value


def as_tensors(value: Any) -> Any:
    """Arrays as tensors of their own: those from Ray's object store cannot be written to."""
    if type(value) in (list, tuple):
        return type(value)(map(as_tensors, value))
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value


class Block:
    """The rows [bounds[number], bounds[number + 1]) of a stored graph. Ray runs it as an actor."""

    def __init__(self, folder: str, bounds: Sequence[int], number: int, threads: int, verify: bool) -> None:
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
        torch.set_num_threads(threads)
        self.bounds, self.number, self._graph = list(bounds), number, (folder, verify)
        self._outgoing: list[Array] = []
        self._program: Any = None
        self._running: Iterator[Tensor] = iter(())
        self._open: Tensor | None = None  # the tensor whose halo is filled next

    def open(self) -> None:
        """Reads its rows. Not done when it is created: Ray would not pass on what is wrong with the graph."""
        folder, verify = self._graph
        stored = StoredGraph.open(folder, verify=verify)
        self.rows = BlockRows.cut(stored, self.bounds[self.number], self.bounds[self.number + 1])
        self._halo = self.rows.slices(self.bounds)

    def halo_sizes(self) -> list[int]:
        """The number of nodes that it reads from each block."""
        return [end - begin for begin, end in self._halo]

    def wanted(self) -> list[Array]:
        """The nodes that it reads from each block, by their numbers in the graph."""
        return [self.rows.halo[a - self.rows.owned : b - self.rows.owned] for a, b in self._halo]

    def serve(self, *wanted: Array) -> None:
        """Notes which nodes the blocks that read from this one want, in the order of these blocks."""
        self._outgoing = [nodes - self.rows.first for nodes in wanted]

    def prepare(self, program: type[Any], arguments: tuple[Any, ...]) -> None:
        """Starts a program: `program(rows, *arguments)`."""
        self._program = program(self.rows, *as_tensors(arguments))
        self._running, self._open = iter(()), None

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a method of the program."""
        return as_arrays(getattr(self._program, name)(*as_tensors(arguments)))

    def start(self, units: Sequence[Any]) -> Any:
        """Begins some units of work; returns the values that the other blocks need first."""
        self._running = self._program.run(units)
        return self._advance()

    def resume(self, *values: Array) -> Any:
        """Continues with the values of the halo, from each block that it reads from; returns those needed next."""
        tensor, self._open = self._open, None
        if tensor is None:
            raise RuntimeError("A block was resumed that has not been started.")
        filled, ranges = tensor.numpy(), [each for each in self._halo if each[0] < each[1]]
        for (begin, end), received in zip(ranges, values, strict=True):
            filled[begin:end] = received
        return self._advance()

    def _advance(self) -> Any:
        self._open = next(self._running, None)
        if self._open is None:
            return () if len(self._outgoing) != 1 else None
        values = self._open.numpy()
        sent = [values[nodes] for nodes in self._outgoing]
        return sent[0] if len(sent) == 1 else tuple(sent)

    def ping(self) -> int:
        """Answers with the number of the block."""
        return self.number
