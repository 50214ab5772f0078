"""The rows of Â = D̃^-½ (A + I) D̃^-½ of one block, with the bits of the whole matrix in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray
from torch import Tensor

from lggd.cluster.rows import BlockRows
from lggd.graph.sparse import multiply_rows

Array = NDArray[Any]
_NO_BIAS = torch.empty(0)


class NormalizedRows:
    """Â, or without `self_loops` D^-½ A D^-½, of a block of rows; 8 bytes an edge.

    Degrees of the halo are those of the stored graph.
    """

    def __init__(self, rows: BlockRows, self_loops: bool) -> None:
        csr, degree = rows.csr, rows.stored.degree
        near = torch.cat([degree[rows.first : rows.last], degree[torch.from_numpy(rows.halo)]]).float()
        inverse = (near + 1 if self_loops else near).pow(-0.5)
        root = inverse.masked_fill(inverse == torch.inf, 0).numpy()
        weight = np.ones(1, np.float32) if csr.weight is None else csr.weight.float().numpy()
        indptr, indices = csr.indptr.numpy(), csr.indices.numpy()
        loops = int(self_loops)
        starts = indptr + loops * np.arange(len(indptr))
        columns, values = np.empty(int(starts[-1]), np.int32), np.empty(int(starts[-1]), np.float32)
        below = int(np.searchsorted(rows.halo, rows.first))  # nodes of the halo that come before the own ones
        _fill(indptr, indices, weight, csr.weight is not None, root, loops, rows.owned, below, starts, columns, values)
        narrow = len(columns) < 2**31
        self._rows = (starts.astype(np.int32) if narrow else starts, columns)
        self._values = torch.from_numpy(values)

    def add_product(self, x: Tensor, out: Tensor) -> None:
        """out ← out + Â x, from `[owned + halo, D]` to `[owned, D]`."""
        multiply_rows(self._rows, self._values, x, _NO_BIAS, out)


@njit(parallel=True, cache=True)
def _fill(indptr, indices, weight, weighted, root, loops, owned, below, starts, columns, values):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Writes the entries of each row in the order of the graph's columns, the self-loop in its place."""
    for i in prange(indptr.size - 1):
        out, open_loop = starts[i], loops == 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            # Whether the loop comes before column j: an own node after i, or a node of the halo after the own ones.
            if open_loop and ((j < owned and j > i) or j >= owned + below):
                columns[out], values[out] = i, root[i] * root[i]
                out += 1
                open_loop = False
            w = weight[e] if weighted else weight[0]
            columns[out], values[out] = j, (root[j] * w) * root[i]
            out += 1
        if open_loop:
            columns[out], values[out] = i, root[i] * root[i]
