"""Connected components by one pass over the edges, which may be on disk."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor

from lggd.graph.csr import CSR


def connected_components(csr: CSR) -> Tensor:
    """The (weakly) connected component of each row, int64 `[N]`, numbered in the order of their first rows."""
    device, parent = csr.indptr.device, np.arange(csr.num_nodes)
    csr = csr if device.type == "cpu" else csr.to(torch.device("cpu"))
    indptr, indices = csr.indptr.numpy(), csr.indices.numpy()
    for first, last in csr.blocks():
        _join(first, last, indptr, indices, parent)
    return torch.from_numpy(_number(parent)).to(device)


@njit(cache=True, inline="always")
def _root(parent, i):  # type: ignore[no-untyped-def]
    """The first node of the set of i; halves the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True)
def _join(first, last, indptr, indices, parent):  # type: ignore[no-untyped-def]
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
def _number(parent):  # type: ignore[no-untyped-def]
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
