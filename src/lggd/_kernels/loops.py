"""The compiled loops of the CPU backend, over NumPy arrays.

They stay in one file: compiled code is cached on disk and rebuilt when this file changes, not when another does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit, prange

# Sums may be reordered into vector lanes, but NaN and infinity are preserved: they reveal divergence.
FAST = {"contract", "reassoc", "nsz"}

# Rows that a thread processes with one allocation of temporary memory.
BLOCK = 64

# How the upwind differences along the edges of a row are reduced to one number.
SUM, SQUARES, POWERS, LARGEST = 1, 2, 3, 4
# By p; all others are POWERS.
REDUCTIONS = {1.0: SUM, 2.0: SQUARES, np.inf: LARGEST}


# Each reduction is compiled separately, with the choice as a constant: the loops over columns then have no branches
# left and become vector instructions. `inline` lets the constant reach them. numba removes the branches of a kernel
# before it inlines, but those of an inlined function only afterwards: what a kernel has no use for is therefore left
# out in the kernel itself, which saves a third of the time to compile.


@njit(fastmath=FAST, inline="always")
def _add_edge(reduction, p, s, fi, fj, total, largest):
    """Adds the upwind differences √w (f(i) − f(j))₊ of one edge to its row's running totals."""
    zero = fi.dtype.type(0)
    for k in range(fi.size):
        diff = fi[k] - fj[k]
        if reduction == LARGEST:
            total[k] = s * diff if s * diff > total[k] else total[k]
        else:
            diff = s * (diff if diff > zero else zero)
            if reduction == SUM:
                total[k] += diff
            elif reduction == SQUARES:
                total[k] += diff * diff
            elif diff > zero:
                total[k] += (diff / largest[k]) ** p


@njit(fastmath=FAST)
def _positive_part(x):
    return x if x > x - x else x - x  # the zero in x's own precision


@njit(fastmath=FAST, inline="always")
def _sum_four_edges(e, end, indices, root, stride, f, fi, total):
    """Adds the differences for p = 1 four edges at a time, in half the time; returns the first edge left over."""
    while e + 4 <= end:
        a, b, c, d = f[indices[e]], f[indices[e + 1]], f[indices[e + 2]], f[indices[e + 3]]
        s, t = root[e * stride, 0], root[(e + 1) * stride, 0]
        u, v = root[(e + 2) * stride, 0], root[(e + 3) * stride, 0]
        for k in range(fi.size):
            here = fi[k]
            first = s * _positive_part(here - a[k]) + t * _positive_part(here - b[k])
            total[k] += first + (u * _positive_part(here - c[k]) + v * _positive_part(here - d[k]))
        e += 4
    return e


@njit(fastmath=FAST, inline="always")
def _reduce_row(reduction, p, i, indptr, indices, root, stride, f, total, largest):
    groups = root.shape[1]
    width = f.shape[1] // groups
    fi = f[i]
    total[:] = f.dtype.type(0)
    if groups == 1:
        for e in range(indptr[i], indptr[i + 1]):
            _add_edge(reduction, p, root[e * stride, 0], fi, f[indices[e]], total, largest)
    else:
        for e in range(indptr[i], indptr[i + 1]):
            fj = f[indices[e]]
            for g in range(groups):
                a, b = g * width, (g + 1) * width
                _add_edge(reduction, p, root[e, g], fi[a:b], fj[a:b], total[a:b], largest[a:b])


@njit(fastmath=FAST)
def _rescale_zeros(i, indptr, indices, root, stride, f, total):
    """Recomputes norms for p = 2 that are 0, scaled: squares of small differences may have underflowed."""
    two = f.dtype.type(2)
    largest, scaled = np.empty_like(total), np.empty_like(total)
    _reduce_row(LARGEST, two, i, indptr, indices, root, stride, f, largest, largest)
    if largest.max() > f.dtype.type(0):
        _reduce_row(POWERS, two, i, indptr, indices, root, stride, f, scaled, largest)
        for k in range(total.size):
            if total[k] == f.dtype.type(0):
                total[k] = largest[k] * np.sqrt(scaled[k])


@njit(fastmath=FAST, inline="always")
def _norm_sum(i, indptr, indices, root, stride, f, total):
    """‖∇⁻_w f(i)‖_1 of every column."""
    groups = root.shape[1]
    width = f.shape[1] // groups
    one, zero = f.dtype.type(1), f.dtype.type(0)
    if f.shape[1] == 1:
        # A single column leaves nothing to vectorize over but the edges of the row.
        here, row_sum = f[i, 0], zero
        for e in range(indptr[i], indptr[i + 1]):
            diff = here - f[indices[e], 0]
            row_sum += root[e * stride, 0] * (diff if diff > zero else zero)
        total[0] = row_sum
        return
    fi = f[i]
    total[:] = zero
    if groups == 1:
        e = _sum_four_edges(indptr[i], indptr[i + 1], indices, root, stride, f, fi, total)
        while e < indptr[i + 1]:
            _add_edge(SUM, one, root[e * stride, 0], fi, f[indices[e]], total, total)
            e += 1
    elif width == 1:
        for e in range(indptr[i], indptr[i + 1]):
            fj, s = f[indices[e]], root[e]
            for k in range(fi.size):
                total[k] += s[k] * _positive_part(fi[k] - fj[k])
    else:
        for e in range(indptr[i], indptr[i + 1]):
            fj = f[indices[e]]
            for g in range(groups):
                a, b = g * width, (g + 1) * width
                _add_edge(SUM, one, root[e, g], fi[a:b], fj[a:b], total[a:b], total[a:b])


@njit(fastmath=FAST, inline="always")
def _norm_squares(i, indptr, indices, root, stride, f, total):
    """‖∇⁻_w f(i)‖_2 of every column."""
    _reduce_row(SQUARES, f.dtype.type(2), i, indptr, indices, root, stride, f, total, total)
    underflowed = False
    for k in range(total.size):
        underflowed |= total[k] == f.dtype.type(0)
        total[k] = np.sqrt(total[k])
    if underflowed:
        _rescale_zeros(i, indptr, indices, root, stride, f, total)


@njit(fastmath=FAST, inline="always")
def _norm_powers(p, i, indptr, indices, root, stride, f, total):
    """‖∇⁻_w f(i)‖_p of every column; divided by the largest difference, no power overflows or underflows."""
    power = f.dtype.type(p)
    largest = np.empty_like(total)
    _reduce_row(LARGEST, power, i, indptr, indices, root, stride, f, largest, largest)
    _reduce_row(POWERS, power, i, indptr, indices, root, stride, f, total, largest)
    for k in range(total.size):
        total[k] = largest[k] * total[k] ** (f.dtype.type(1) / power)


@njit(fastmath=FAST, inline="always")
def _add_edge_vjp(reduction, p, s, upper, lower, a, norm, argmax, j, grad):
    """Adds a · s · ∂‖·‖_p/∂(s (upper − lower)₊) to `grad`, for one edge."""
    zero = upper.dtype.type(0)
    for k in range(upper.size):
        factor = s * a[k]
        if reduction == SUM:
            grad[k] += factor if upper[k] > lower[k] else zero
        elif reduction == LARGEST:
            grad[k] += factor if argmax[k] == j else zero
        elif upper[k] > lower[k]:
            share = s * (upper[k] - lower[k]) / norm[k]
            grad[k] += factor * (share if reduction == SQUARES else share ** (p - 1))


@njit(fastmath=FAST, inline="always")
def _vjp_from_incoming(reduction, p, i, indptr, indices, root, stride, f, a, norms, argmax, grad):
    groups = root.shape[1]
    width = f.shape[1] // groups
    if groups == 1:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            _add_edge_vjp(reduction, p, root[e * stride, 0], f[j], f[i], a[j], norms[j], argmax[j], i, grad)
    else:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for g in range(groups):
                c, d = g * width, (g + 1) * width
                _add_edge_vjp(
                    reduction, p, root[e, g],
                    f[j, c:d], f[i, c:d], a[j, c:d], norms[j, c:d], argmax[j, c:d], i, grad[c:d],
                )  # fmt: skip


@njit(fastmath=FAST, inline="always")
def _vjp_from_outgoing(reduction, p, i, indptr, indices, root, stride, f, a, norms, argmax, grad):
    groups = root.shape[1]
    width = f.shape[1] // groups
    fi, ai, ni, wi = f[i], a[i], norms[i], argmax[i]
    if groups == 1:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            _add_edge_vjp(reduction, p, root[e * stride, 0], fi, f[j], ai, ni, wi, j, grad)
    else:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for g in range(groups):
                c, d = g * width, (g + 1) * width
                _add_edge_vjp(reduction, p, root[e, g], fi[c:d], f[j, c:d], ai[c:d], ni[c:d], wi[c:d], j, grad[c:d])


@njit(fastmath=FAST, inline="always")
def _vjp_sum_symmetric(i, indptr, indices, root, stride, f, a, grad):
    """p = 1, both directions of an edge at once where they share one weight, and two edges at a time."""
    zero = f.dtype.type(0)
    fi, ai = f[i], a[i]
    e, end = indptr[i], indptr[i + 1]
    while e < end:
        # An odd last edge is paired with itself at weight 0.
        other = min(e + 1, end - 1)
        s, t = root[e * stride, 0], root[other * stride, 0] if other > e else zero
        fj, fk, aj, ak = f[indices[e]], f[indices[other]], a[indices[e]], a[indices[other]]
        for k in range(fi.size):
            here, factor, x, y, px, py = fi[k], ai[k], fj[k], fk[k], aj[k], ak[k]
            first = factor if here > x else zero
            first -= px if x > here else zero
            second = factor if here > y else zero
            second -= py if y > here else zero
            grad[k] += s * first + t * second
        e += 2


@njit(fastmath=FAST, inline="always")
def _vjp_sum_by_column(i, indptr, indices, root, root_t, f, a, grad, grad_root):
    """p = 1, both directions of an edge at once where every column has its own weights; `root_t` is √w(j, i)."""
    # Without groups to look up, the columns become vector lanes again.
    zero = f.dtype.type(0)
    fi, ai = f[i], a[i]
    for e in range(indptr[i], indptr[i + 1]):
        fj, aj, out, back = f[indices[e]], a[indices[e]], root[e], root_t[e]
        for k in range(fi.size):
            diff = fi[k] - fj[k]
            # One term: the order of two would differ between new code and code from the cache, optimized once more.
            lower = -(back[k] * aj[k]) if diff < zero else zero
            grad[k] += out[k] * ai[k] if diff > zero else lower
        if grad_root.size:
            for_edge = grad_root[e]
            for k in range(fi.size):
                for_edge[k] = ai[k] * _positive_part(fi[k] - fj[k])


@njit(fastmath=FAST, inline="always")
def _root_vjp(reduction, p, s, upper, lower, a, norm, argmax, j):
    """Σ_k a · ∂‖·‖_p/∂s for one edge, over the columns that share its weight."""
    zero = upper.dtype.type(0)
    total = zero
    for k in range(upper.size):
        diff = upper[k] - lower[k]
        if reduction == SUM:
            total += a[k] * (diff if diff > zero else zero)
        elif reduction == LARGEST:
            total += a[k] * diff if argmax[k] == j else zero
        elif diff > zero:
            share = s * diff / norm[k]
            total += a[k] * diff * (share if reduction == SQUARES else share ** (p - 1))
    return total


@njit(fastmath=FAST, inline="always")
def _combine(terms, i, factors, slope, total):
    """total ← Σ_r factors[r] · terms[r][i] + factors[-1] · slope."""
    first, last, term = factors[0], factors[-1], terms[0][i]
    for k in range(total.size):
        total[k] = last * slope[k] + first * term[k]
    for r in range(1, factors.size - 1):
        factor, term = factors[r], terms[r][i]
        for k in range(total.size):
            total[k] += factor * term[k]


class Kernels(NamedTuple):
    norm: Callable[..., None]
    stage: Callable[..., None]
    vjp: Callable[..., None]


def _kernels(reduction: int) -> Kernels:
    """The loops over the rows from `first` to before `last`, compiled at their first call, then cached on disk."""

    @njit(parallel=True, fastmath=FAST, cache=True)
    def norm(p, first, last, indptr, indices, root, stride, f, out):
        for i in prange(first, last):
            if reduction == SUM:
                _norm_sum(i, indptr, indices, root, stride, f, out[i])
            elif reduction == SQUARES:
                _norm_squares(i, indptr, indices, root, stride, f, out[i])
            elif reduction == POWERS:
                _norm_powers(p, i, indptr, indices, root, stride, f, out[i])
            else:
                _reduce_row(LARGEST, p, i, indptr, indices, root, stride, f, out[i], out[i])

    @njit(parallel=True, fastmath=FAST, cache=True)
    def stage(p, first, last, indptr, indices, root, stride, rho, boundary_mask, y, terms, targets, factors):
        columns, groups = y.shape[1], rho.shape[1]
        width = columns // groups
        one, zero = y.dtype.type(1), y.dtype.type(0)
        for block in prange((last - first + BLOCK - 1) // BLOCK):
            # A row's slope and sums are buffered: targets may be terms.
            slope, sums = np.empty(columns, y.dtype), np.empty((len(factors), columns), y.dtype)
            for i in range(first + block * BLOCK, min(last, first + (block + 1) * BLOCK)):
                if reduction == SUM:
                    _norm_sum(i, indptr, indices, root, stride, y, slope)
                elif reduction == SQUARES:
                    _norm_squares(i, indptr, indices, root, stride, y, slope)
                elif reduction == POWERS:
                    _norm_powers(p, i, indptr, indices, root, stride, y, slope)
                else:
                    _reduce_row(LARGEST, p, i, indptr, indices, root, stride, y, slope, slope)
                for g in range(groups):
                    r, part = rho[i, g], slope[g * width : (g + 1) * width]
                    for k in range(part.size):
                        part[k] = one - r * part[k]
                if boundary_mask.size:
                    on_boundary = boundary_mask[i]
                    for k in range(columns):
                        slope[k] = zero if on_boundary[k] else slope[k]
                for t in range(len(factors)):
                    _combine(terms, i, factors[t], slope, sums[t])
                for t in range(len(factors)):
                    target, total = targets[t][i], sums[t]
                    for k in range(columns):
                        target[k] = total[k]

    @njit(parallel=True, fastmath=FAST, cache=True)
    def vjp(
        p, first, last, indptr, indices, root, stride, indptr_t, indices_t, root_t,
        f, a, norms, argmax, grad, grad_root, one_pass, symmetric,
    ):  # fmt: skip
        # grad(i) = a(i)·∂norm(i)/∂f(i) + Σ_j a(j)·∂norm(j)/∂f(i), computed by row i: no two threads share a sum.
        groups = root.shape[1]
        width = f.shape[1] // groups
        power = f.dtype.type(p)
        for i in prange(first, last):
            gi = grad[i]
            gi[:] = f.dtype.type(0)
            if reduction == SUM and one_pass:
                _vjp_sum_symmetric(i, indptr, indices, root, stride, f, a, gi)
                continue
            if reduction == SUM and width == 1 and groups > 1 and symmetric:
                _vjp_sum_by_column(i, indptr, indices, root, root_t, f, a, gi, grad_root)
                continue
            _vjp_from_incoming(reduction, power, i, indptr_t, indices_t, root_t, stride, f, a, norms, argmax, gi)
            # Raising f(i) decreases the differences towards it, just summed, and increases its own, summed next.
            for k in range(gi.size):
                gi[k] = -gi[k]
            _vjp_from_outgoing(reduction, power, i, indptr, indices, root, stride, f, a, norms, argmax, gi)
            if grad_root.size:
                for e in range(indptr[i], indptr[i + 1]):
                    j = indices[e]
                    for g in range(groups):
                        c, d = g * width, (g + 1) * width
                        grad_root[e, g] = _root_vjp(
                            reduction, power, root[e * stride, g],
                            f[i, c:d], f[j, c:d], a[i, c:d], norms[i, c:d], argmax[i, c:d], j,
                        )  # fmt: skip

    return Kernels(norm, stage, vjp)


KERNELS = {reduction: _kernels(reduction) for reduction in (SUM, SQUARES, POWERS, LARGEST)}


@njit(parallel=True, fastmath=FAST, cache=True)
def find_largest(first, last, indptr, indices, root, stride, f, norms, argmax):
    """The largest upwind difference of each row and its neighbour: the first of equals, -1 where none is positive."""
    columns = f.shape[1]
    width = columns // root.shape[1]
    zero = f.dtype.type(0)
    for i in prange(first, last):
        norms[i] = zero
        argmax[i] = -1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for k in range(columns):
                diff = root[e * stride, k // width] * (f[i, k] - f[j, k])
                if diff > norms[i, k]:
                    norms[i, k] = diff
                    argmax[i, k] = j
