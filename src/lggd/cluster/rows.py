"""Rows of a graph as blocks: who owns which, and the rows of one block with its halo, the nodes outside that they read.

A block numbers its own nodes first and then those of its halo, both ascending. The neighbours of a row keep their
order, so that it is summed as on one machine, to the same bits.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

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
        indptr = stored.csr.indptr.numpy()
        begin, end = int(indptr[first]), int(indptr[last])
        columns = np.asarray(stored.csr.indices.numpy()[begin:end])
        outside = np.zeros(stored.csr.num_nodes, np.bool_)
        _mark(columns, first, last, outside)
        halo = np.flatnonzero(outside)
        position = np.empty(len(outside), np.int32)
        position[halo] = np.arange(last - first, last - first + len(halo), dtype=np.int32)
        position[first:last] = np.arange(last - first, dtype=np.int32)
        local = np.empty(len(columns), np.int32)
        _renumber(columns, position, local)
        weight, root = (
            None if values is None else values[begin:end] for values in (stored.csr.weight, stored.csr.root_weight)
        )
        starts = torch.from_numpy(np.asarray(indptr[first : last + 1]) - begin)
        csr = CSR(starts, torch.from_numpy(local), weight, symmetric=False, stored_root_weight=root)
        return cls(first, last, csr, halo, stored)

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

    def root_weight(self, dtype: torch.dtype) -> Tensor | None:
        """√w of the edges of these rows, `[E]`; None where every weight is 1."""
        weight, root = self.csr.weight, self.csr.root_weight
        if weight is None or root is None:
            return None
        return root if root.dtype == dtype else weight.to(dtype).sqrt()


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
