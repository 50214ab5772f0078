"""The hot operation on CPU cores: one thread a row, no temporaries of the size of the edges, the same bits every time.

Rows are written by one thread each and summed in a fixed order, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray
from torch import Tensor

from lggd.kernels.field import Field

Array = NDArray[Any]

# Sums may be reordered into vector lanes, but NaN and infinity keep their meaning: they are how divergence is seen.
FAST = {"contract", "reassoc", "nsz"}

# How the falls along the edges of a row are gathered into one number.
SUM, SQUARES, POWERS, LARGEST = 1, 2, 3, 4


def norm(field: Field, f: Tensor) -> Tensor:
    """‖∇⁻_w f‖_p, `[N, C]`."""
    out = torch.empty_like(f)
    compiled(_gathering(field.p)).norm(field.p, *_rows(field), f.numpy(), out.numpy())
    return out


def stage(
    field: Field, y: Tensor, base: Tensor, slopes: Tensor, s: int, coefficients: list[float], out: Tensor
) -> None:
    """slopes[s] ← F(y), then out ← base + Σ_{r ≤ s} coefficients[r] · slopes[r]. `out` may be `base`, not `y`."""
    factors = np.array(coefficients, slopes.numpy().dtype)
    held = _NOTHING_HELD if field.held is None else field.held.numpy()
    compiled(_gathering(field.p)).stage(
        field.p, *_rows(field), field.rho.numpy(), held,
        y.numpy(), base.numpy(), slopes.numpy(), s, factors, out.numpy(),
    )  # fmt: skip


def pull_back(
    field: Field, y: Tensor, cotangent: Tensor, wants_rho: bool, wants_root: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The product of `cotangent [N, C]` with the Jacobian of F at y: with respect to y, to ρ and to √w."""
    gathering, (nodes, columns) = _gathering(field.p), y.shape
    rho = field.rho
    by_group = (nodes, rho.shape[1], columns // rho.shape[1])
    downstream = (cotangent.reshape(by_group) * -rho.unsqueeze(2)).reshape(nodes, columns)
    if field.held is not None:
        downstream.masked_fill_(field.held, 0)

    shared = field.root_weight is None or field.root_weight.shape[1] == 1
    one_pass = gathering == SUM and shared and field.csr.symmetric and field.mirrored and not wants_root
    # What a gathering does not need is passed with no columns: no memory, and the same compiled kernel.
    norms, winners = y.new_empty(nodes, 0), torch.empty(nodes, 0, dtype=torch.int32)
    if wants_rho or gathering != SUM:
        norms = torch.empty_like(y)
        if gathering == LARGEST:
            winners = torch.empty(y.shape, dtype=torch.int32)
            _largest(*_rows(field), y.numpy(), norms.numpy(), winners.numpy())
        else:
            compiled(gathering).norm(field.p, *_rows(field), y.numpy(), norms.numpy())
    grad_root = y.new_empty(0, 0)
    if wants_root:
        root_groups = 1 if field.root_weight is None else field.root_weight.shape[1]
        grad_root = torch.empty(field.csr.num_edges, root_groups, dtype=y.dtype)
    grad_y = torch.empty_like(y)
    compiled(gathering).pull_back(
        field.p, *_rows(field), *_columns(field),
        y.numpy(), downstream.numpy(), norms.numpy(), winners.numpy(), grad_y.numpy(), grad_root.numpy(), one_pass,
    )  # fmt: skip
    grad_rho = downstream.mul_(norms).reshape(by_group).sum(2).div_(rho) if wants_rho else None
    return grad_y, grad_rho, grad_root if wants_root else None


_NOTHING_HELD = np.empty((0, 0), np.bool_)
_UNIT = {dtype: torch.ones((1, 1), dtype=dtype).numpy() for dtype in (torch.float32, torch.float64)}


def _gathering(p: float) -> int:
    return SUM if p == 1 else SQUARES if p == 2 else LARGEST if math.isinf(p) else POWERS


def _rows(field: Field) -> tuple[Array, Array, Array, int]:
    """Row pointers, neighbours, √w `[E, G]` and the stride of its rows.

    Unit weights are a single 1 read with stride 0: no memory, no bandwidth, and the same compiled kernel.
    """
    csr = field.csr
    if field.root_weight is None:
        return csr.indptr.numpy(), csr.indices.numpy(), _UNIT[field.rho.dtype], 0
    return csr.indptr.numpy(), csr.indices.numpy(), field.root_weight.contiguous().numpy(), 1


def _columns(field: Field) -> tuple[Array, Array, Array]:
    """The same by column: what the rows of the transposed graph hold."""
    csr, root = field.csr, field.root_weight_by_column
    transposed = csr if csr.symmetric else csr.transposed
    by_column = _UNIT[field.rho.dtype] if root is None else root.contiguous().numpy()
    return transposed.indptr.numpy(), transposed.indices.numpy(), by_column


# Each gathering is compiled on its own, with the choice frozen into the code: the loops over columns then have no
# branches left and become vector instructions. `inline` lets the constant reach them.


@njit(fastmath=FAST, inline="always")
def _add_falls(gathering, p, s, fi, fj, total, largest):  # type: ignore[no-untyped-def]
    """Adds the falls of one edge to its row's running totals."""
    zero = fi.dtype.type(0)
    for k in range(fi.size):
        fall = fi[k] - fj[k]
        if gathering == LARGEST:
            total[k] = s * fall if s * fall > total[k] else total[k]
        else:
            fall = s * (fall if fall > zero else zero)
            if gathering == SUM:
                total[k] += fall
            elif gathering == SQUARES:
                total[k] += fall * fall
            elif fall > zero:
                total[k] += (fall / largest[k]) ** p


@njit(fastmath=FAST)
def _down(drop):  # type: ignore[no-untyped-def]
    return drop if drop > drop - drop else drop - drop


@njit(fastmath=FAST, inline="always")
def _sum_by_fours(e, end, indices, root, stride, f, fi, total):  # type: ignore[no-untyped-def]
    """Adds the falls of p = 1 four edges at a time, and gives the first edge left over.

    That is a quarter of the loads and stores of `total`, and of the loops to set up: half the time for many columns.
    """
    while e + 4 <= end:
        a, b, c, d = f[indices[e]], f[indices[e + 1]], f[indices[e + 2]], f[indices[e + 3]]
        s, t = root[e * stride, 0], root[(e + 1) * stride, 0]
        u, v = root[(e + 2) * stride, 0], root[(e + 3) * stride, 0]
        for k in range(fi.size):
            here = fi[k]
            first = s * _down(here - a[k]) + t * _down(here - b[k])
            total[k] += first + (u * _down(here - c[k]) + v * _down(here - d[k]))
        e += 4
    return e


@njit(fastmath=FAST, inline="always")
def _walk_row(gathering, p, i, indptr, indices, root, stride, f, total, largest):  # type: ignore[no-untyped-def]
    groups = root.shape[1]
    width = f.shape[1] // groups
    fi = f[i]
    total[:] = f.dtype.type(0)
    if groups == 1:
        e = indptr[i]
        if gathering == SUM:
            e = _sum_by_fours(e, indptr[i + 1], indices, root, stride, f, fi, total)
        while e < indptr[i + 1]:
            _add_falls(gathering, p, root[e * stride, 0], fi, f[indices[e]], total, largest)
            e += 1
    else:
        for e in range(indptr[i], indptr[i + 1]):
            fj = f[indices[e]]
            for g in range(groups):
                a, b = g * width, (g + 1) * width
                _add_falls(gathering, p, root[e, g], fi[a:b], fj[a:b], total[a:b], largest[a:b])


@njit(fastmath=FAST)
def _rescue(i, indptr, indices, root, stride, f, total):  # type: ignore[no-untyped-def]
    """Norms for p = 2 that came out 0, once more and scaled: falls may be too small to square without being 0."""
    two = f.dtype.type(2)
    largest, scaled = np.empty_like(total), np.empty_like(total)
    _walk_row(LARGEST, two, i, indptr, indices, root, stride, f, largest, largest)
    if largest.max() > f.dtype.type(0):
        _walk_row(POWERS, two, i, indptr, indices, root, stride, f, scaled, largest)
        for k in range(total.size):
            if total[k] == f.dtype.type(0):
                total[k] = largest[k] * np.sqrt(scaled[k])


@njit(fastmath=FAST, inline="always")
def _row_norm(gathering, p, i, indptr, indices, root, stride, f, total):  # type: ignore[no-untyped-def]
    zero = f.dtype.type(0)
    if gathering == SUM and f.shape[1] == 1:
        # A single column has no columns to vectorize over; the edges of the row take their place.
        here, one = f[i, 0], zero
        for e in range(indptr[i], indptr[i + 1]):
            fall = here - f[indices[e], 0]
            one += root[e * stride, 0] * (fall if fall > zero else zero)
        total[0] = one
    elif gathering == POWERS:
        # Divided by the largest fall, no power overflows or vanishes, whatever p.
        power = f.dtype.type(p)
        largest = np.empty_like(total)
        _walk_row(LARGEST, power, i, indptr, indices, root, stride, f, largest, largest)
        _walk_row(POWERS, power, i, indptr, indices, root, stride, f, total, largest)
        for k in range(total.size):
            total[k] = largest[k] * total[k] ** (f.dtype.type(1) / power)
    else:
        _walk_row(gathering, p, i, indptr, indices, root, stride, f, total, total)
        if gathering == SQUARES:
            vanished = False
            for k in range(total.size):
                vanished |= total[k] == zero
                total[k] = np.sqrt(total[k])
            if vanished:
                _rescue(i, indptr, indices, root, stride, f, total)


@njit(fastmath=FAST, inline="always")
def _pull_falls(gathering, p, s, upper, lower, a, norm, winner, j, grad):  # type: ignore[no-untyped-def]
    """Adds a · ∂‖falls from upper to lower‖_p/∂(fall) · s to `grad`, for one edge."""
    zero = upper.dtype.type(0)
    for k in range(upper.size):
        pull = s * a[k]
        if gathering == SUM:
            grad[k] += pull if upper[k] > lower[k] else zero
        elif gathering == LARGEST:
            grad[k] += pull if winner[k] == j else zero
        elif upper[k] > lower[k]:
            share = s * (upper[k] - lower[k]) / norm[k]
            grad[k] += pull * (share if gathering == SQUARES else share ** (p - 1))


@njit(fastmath=FAST, inline="always")
def _pull_from_above(gathering, p, i, indptr, indices, root, stride, f, a, norms, winners, grad):  # type: ignore[no-untyped-def]
    groups = root.shape[1]
    width = f.shape[1] // groups
    if groups == 1:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            _pull_falls(gathering, p, root[e * stride, 0], f[j], f[i], a[j], norms[j], winners[j], i, grad)
    else:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for g in range(groups):
                c, d = g * width, (g + 1) * width
                _pull_falls(
                    gathering, p, root[e, g],
                    f[j, c:d], f[i, c:d], a[j, c:d], norms[j, c:d], winners[j, c:d], i, grad[c:d],
                )  # fmt: skip


@njit(fastmath=FAST, inline="always")
def _pull_from_own(gathering, p, i, indptr, indices, root, stride, f, a, norms, winners, grad):  # type: ignore[no-untyped-def]
    groups = root.shape[1]
    width = f.shape[1] // groups
    fi, ai, ni, wi = f[i], a[i], norms[i], winners[i]
    if groups == 1:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            _pull_falls(gathering, p, root[e * stride, 0], fi, f[j], ai, ni, wi, j, grad)
    else:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for g in range(groups):
                c, d = g * width, (g + 1) * width
                _pull_falls(gathering, p, root[e, g], fi[c:d], f[j, c:d], ai[c:d], ni[c:d], wi[c:d], j, grad[c:d])


@njit(fastmath=FAST, inline="always")
def _pull_sum_both_ways(i, indptr, indices, root, stride, f, a, grad):  # type: ignore[no-untyped-def]
    """Both directions of an edge at once, where they share one weight, and two edges at a time."""
    zero = f.dtype.type(0)
    fi, ai = f[i], a[i]
    e, end = indptr[i], indptr[i + 1]
    while e < end:
        # An odd last edge is paired with itself at weight 0.
        other = min(e + 1, end - 1)
        s, t = root[e * stride, 0], root[other * stride, 0] if other > e else zero
        fj, fk, aj, ak = f[indices[e]], f[indices[other]], a[indices[e]], a[indices[other]]
        for k in range(fi.size):
            here, pull, x, y, px, py = fi[k], ai[k], fj[k], fk[k], aj[k], ak[k]
            first = pull if here > x else zero
            first -= px if x > here else zero
            second = pull if here > y else zero
            second -= py if y > here else zero
            grad[k] += s * first + t * second
        e += 2


@njit(fastmath=FAST, inline="always")
def _pull_root(gathering, p, s, upper, lower, a, norm, winner, j):  # type: ignore[no-untyped-def]
    """Σ_k a · ∂‖falls‖_p/∂s for one edge, over the columns that share its weight."""
    zero = upper.dtype.type(0)
    total = zero
    for k in range(upper.size):
        drop = upper[k] - lower[k]
        if gathering == SUM:
            total += a[k] * (drop if drop > zero else zero)
        elif gathering == LARGEST:
            total += a[k] * drop if winner[k] == j else zero
        elif drop > zero:
            share = s * drop / norm[k]
            total += a[k] * drop * (share if gathering == SQUARES else share ** (p - 1))
    return total


class Compiled(NamedTuple):
    norm: Callable[..., None]
    stage: Callable[..., None]
    pull_back: Callable[..., None]


@cache
def compiled(gathering: int) -> Compiled:
    """The three loops over rows for one gathering. Compiled at their first call, then kept on disk."""

    @njit(parallel=True, fastmath=FAST, cache=True)
    def norm(p, indptr, indices, root, stride, f, out):  # type: ignore[no-untyped-def]
        for i in prange(indptr.size - 1):
            _row_norm(gathering, p, i, indptr, indices, root, stride, f, out[i])

    @njit(parallel=True, fastmath=FAST, cache=True)
    def stage(p, indptr, indices, root, stride, rho, held, y, base, slopes, s, factors, out):  # type: ignore[no-untyped-def]
        columns, groups = y.shape[1], rho.shape[1]
        width = columns // groups
        one, zero = y.dtype.type(1), y.dtype.type(0)
        for i in prange(indptr.size - 1):
            slope, new, old = slopes[s, i], out[i], base[i]
            _row_norm(gathering, p, i, indptr, indices, root, stride, y, slope)
            for g in range(groups):
                r, part = rho[i, g], slope[g * width : (g + 1) * width]
                for k in range(part.size):
                    part[k] = one - r * part[k]
            if held.size:
                for k in range(columns):
                    if held[i, k]:
                        slope[k] = zero
            for k in range(columns):
                new[k] = old[k] + factors[s] * slope[k]
            for r in range(s):
                if factors[r] != zero:
                    earlier = slopes[r, i]
                    for k in range(columns):
                        new[k] += factors[r] * earlier[k]

    @njit(parallel=True, fastmath=FAST, cache=True)
    def pull_back(
        p, indptr, indices, root, stride, indptr_t, indices_t, root_t, f, a, norms, winners, grad, grad_root, one_pass
    ):  # type: ignore[no-untyped-def]
        # grad(i) = a(i)·∂norm(i)/∂f(i) + Σ_j a(j)·∂norm(j)/∂f(i), pulled by row i: no two threads share a sum.
        groups = root.shape[1]
        width = f.shape[1] // groups
        power = f.dtype.type(p)
        for i in prange(indptr.size - 1):
            gi = grad[i]
            gi[:] = f.dtype.type(0)
            if gathering == SUM and one_pass:
                _pull_sum_both_ways(i, indptr, indices, root, stride, f, a, gi)
                continue
            _pull_from_above(gathering, power, i, indptr_t, indices_t, root_t, stride, f, a, norms, winners, gi)
            # Raising f(i) shortens the falls towards it, just summed, and lengthens its own, summed next.
            for k in range(gi.size):
                gi[k] = -gi[k]
            _pull_from_own(gathering, power, i, indptr, indices, root, stride, f, a, norms, winners, gi)
            if grad_root.size:
                for e in range(indptr[i], indptr[i + 1]):
                    j = indices[e]
                    for g in range(groups):
                        c, d = g * width, (g + 1) * width
                        grad_root[e, g] = _pull_root(
                            gathering, power, root[e * stride, g],
                            f[i, c:d], f[j, c:d], a[i, c:d], norms[i, c:d], winners[i, c:d], j,
                        )  # fmt: skip

    return Compiled(norm, stage, pull_back)


@njit(parallel=True, fastmath=FAST, cache=True)
def _largest(indptr, indices, root, stride, f, norms, winners):  # type: ignore[no-untyped-def]
    """The largest fall of each row and the neighbour it leads to: the first of equals, -1 where nothing falls."""
    columns = f.shape[1]
    width = columns // root.shape[1]
    zero = f.dtype.type(0)
    for i in prange(indptr.size - 1):
        norms[i] = zero
        winners[i] = -1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for k in range(columns):
                fall = root[e * stride, k // width] * (f[i, k] - f[j, k])
                if fall > norms[i, k]:
                    norms[i, k] = fall
                    winners[i, k] = j
