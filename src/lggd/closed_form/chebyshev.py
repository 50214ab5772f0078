"""Sums of Chebyshev polynomials of a sparse matrix for few columns, as of nodes that arrive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.nn.functional import pad

from lggd.closed_form.filters import chebyshev_sums
from lggd.graph.sparse import SparseMatrix

# Numbers in a vector register of a CPU: so many columns at once are one instruction for each entry of the matrix.
REGISTER = 8
# Up to this many numbers, x stays in the cache of one core and a whole sum is one compiled loop: waking other threads
# for each of a hundred products would take longer than the products.
MOST_CACHED = 2**16


def narrow_sums(matrix: SparseMatrix, x: Tensor, series: Sequence[Sequence[float]]) -> list[Tensor]:
    """`chebyshev_sums`, faster for `REGISTER` columns or fewer on a CPU, `[N, D]` each."""
    columns, wide = x.shape[1], pad(x, (0, -x.shape[1] % REGISTER))
    if wide.shape[1] > REGISTER or wide.numel() > MOST_CACHED or x.dtype != torch.float32 or x.is_cuda:
        sums: Sequence[Tensor] = chebyshev_sums(matrix, wide, series)
    else:
        sums = list(_cached_sums(matrix, wide, series))
    return [total[:, :columns] for total in sums]


def _cached_sums(matrix: SparseMatrix, x: Tensor, series: Sequence[Sequence[float]]) -> Tensor:
    """The same for `REGISTER` columns, `[S, N, REGISTER]`."""
    coefficients = np.zeros((max(2, *map(len, series)), len(series)), dtype=np.float32)
    for column, own in zip(coefficients.T, series, strict=True):
        column[: len(own)] = own
    sums = torch.empty(len(series), *x.shape)
    values, work = matrix.values.detach().numpy(), (x.reshape(-1).clone().numpy(), np.zeros(x.numel(), np.float32))
    _sum_loop(*matrix.pattern._arrays, values, coefficients, *work, sums.view(len(series), -1).numpy())
    return sums


@njit(fastmath={"contract", "reassoc", "nsz"}, cache=True)
def _sum_loop(indptr, indices, values, coefficients, current, previous, sums):  # type: ignore[no-untyped-def]
    # A row of eight sums in eight variables becomes one vector register, which no array would.
    for j in range(sums.shape[0]):
        for k in range(current.size):
            sums[j, k] = coefficients[0, j] * current[k]
    for order in range(1, coefficients.shape[0]):
        factor = np.float32(1.0 if order == 1 else 2.0)
        for i in range(indptr.size - 1):
            at = 8 * i
            a, b, c, d = -previous[at], -previous[at + 1], -previous[at + 2], -previous[at + 3]
            e, f, g, h = -previous[at + 4], -previous[at + 5], -previous[at + 6], -previous[at + 7]
            for entry in range(indptr[i], indptr[i + 1]):
                other, value = 8 * np.int64(indices[entry]), factor * values[entry]
                a += value * current[other]
                b += value * current[other + 1]
                c += value * current[other + 2]
                d += value * current[other + 3]
                e += value * current[other + 4]
                f += value * current[other + 5]
                g += value * current[other + 6]
                h += value * current[other + 7]
            previous[at], previous[at + 1], previous[at + 2], previous[at + 3] = a, b, c, d
            previous[at + 4], previous[at + 5], previous[at + 6], previous[at + 7] = e, f, g, h
        for j in range(sums.shape[0]):
            coefficient = coefficients[order, j]
            if coefficient != 0:
                for k in range(previous.size):
                    sums[j, k] += coefficient * previous[k]
        previous, current = current, previous
