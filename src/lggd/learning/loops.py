"""The compiled loops behind networks on a CPU: products with sparse rows, and dropping. Over arrays alone."""

# mypy: allow-untyped-defs, allow-untyped-decorators, allow-untyped-calls
from __future__ import annotations

from typing import Any

from numba import njit, prange
from numpy.typing import NDArray

from lggd.kernels.loops import FAST
from lggd.kernels.threads import on_threads_that_pay

Array = NDArray[Any]


def add_products(indptr: Array, indices: Array, values: Array, dense: Array, start: Array, out: Array) -> None:
    """out ← start + A · dense, with A in compressed rows and `start` a row that is added to all.

    Where `start` has no entries it is what `out` holds.
    """
    on_threads_that_pay(values.size * dense.shape[1], _add_products, indptr, indices, values, dense, start, out)


def drop(values: Array, lots: Array, levels: int, factor: float) -> None:
    """values ← factor · values where the lot, a byte, is below `levels`, else 0. As many lots as values, or more."""
    on_threads_that_pay(values.size, _drop, values, lots, levels, factor)


@njit(parallel=True, fastmath=FAST, cache=True)
def _add_products(indptr, indices, values, dense, start, out):
    # Four entries at a time: a quarter of the loads and stores of the sum, and half the time of torch's product.
    columns = dense.shape[1]
    for i in prange(indptr.size - 1):
        total = out[i]
        if start.size:
            for k in range(columns):
                total[k] = start[k]
        e, end = indptr[i], indptr[i + 1]
        while e + 4 <= end:
            a, b, c, d = dense[indices[e]], dense[indices[e + 1]], dense[indices[e + 2]], dense[indices[e + 3]]
            s, t, u, v = values[e], values[e + 1], values[e + 2], values[e + 3]
            for k in range(columns):
                total[k] += (s * a[k] + t * b[k]) + (u * c[k] + v * d[k])
            e += 4
        while e < end:
            a, s = dense[indices[e]], values[e]
            for k in range(columns):
                total[k] += s * a[k]
            e += 1


@njit(parallel=True, fastmath=FAST, cache=True)
def _drop(values, lots, levels, factor):
    zero, scale = values.dtype.type(0), values.dtype.type(factor)
    for i in prange(values.size):
        values[i] = scale * values[i] if lots[i] < levels else zero
