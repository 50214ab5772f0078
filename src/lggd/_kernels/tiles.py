"""The Triton kernels of `cuda.py`: tiles of rows, their edges and some columns, `[R, E, C]`, reduced over the edges.

A row is written by one program and summed in a fixed order: no atomics, bitwise reproducible. Programs process rows in
the `order` of a schedule, so that the rows of a tile are about equally long. The first `num_long` rows have very many
neighbours and get separate tiles of one row and many edges, so that no program runs alone at the end.

Common arguments: `f` and other states are `[N, C]`, with C the `width`; `root` is √w, `[E, 1]` or `[E, G]` according to
`WEIGHTS`, and each of its `groups` spans `span` columns. Widths and spans are passed as a number times a constant, so
that the compiler knows what it may load at once. `INDEX` is the type of indices into a state. `numbers` holds p and
then factors: as plain arguments they would be rounded to float32. Only `cuda.py` calls these kernels.
"""

from __future__ import annotations

import triton
import triton.language as tl

from lggd._kernels import loops

SUM = tl.constexpr(loops.SUM)
SQUARES = tl.constexpr(loops.SQUARES)
LARGEST = tl.constexpr(loops.LARGEST)
POWERS = tl.constexpr(loops.POWERS)
# How √w is stored: not at all because it is 1, one for all columns, one per group of columns.
UNIT, SHARED, GROUPED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
# The value of a neighbour where a tile extends beyond its row: its upwind difference is 0.
OUTSIDE = tl.constexpr(float("inf"))


@triton.jit
def _power(x, exponent):
    return tl.exp2(tl.log2(x) * exponent)


@triton.jit
def _edge_tile(indices, start, end, k, EDGES: tl.constexpr):
    """Edges k, k + 1, … of some rows, `[R, E]`: their indices, which of them exist, and their neighbours."""
    edges = start[:, None] + k + tl.arange(0, EDGES)[None, :]
    real = edges < end[:, None]
    return edges, real, tl.load(indices + edges, mask=real, other=0)


@triton.jit
def _root_tile(root, edges, real, columns, width, groups, span, WEIGHTS: tl.constexpr):
    """√w of the edges, `[R, E, 1]` or `[R, E, C]`."""
    if WEIGHTS == SHARED:
        s = tl.load(root + edges, mask=real, other=0.0)[:, :, None]
    else:
        at = edges[:, :, None] * groups + (columns // span)[None, None, :]
        s = tl.load(root + at, mask=real[:, :, None] & (columns < width)[None, None, :], other=0.0)
    return s


@triton.jit
def _reduce_edges(
    f, indices, root, start, end, here, largest, power, columns, width, groups, span,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """The differences √w (f(i) − f(j))₊ of some rows, reduced over j: `[R, C]`. POWERS: divided by the largest."""
    # Edges are summed separately until the end, because sums across threads synchronize them.
    total = tl.zeros([here.shape[0], EDGES, here.shape[1]], here.dtype)
    for k in range(0, tl.max(end - start, 0), EDGES):
        edges, real, j = _edge_tile(indices, start, end, k, EDGES)
        at = j.to(start.dtype)[:, :, None] * width + columns[None, None, :]
        there = tl.load(f + at, mask=real[:, :, None] & (columns < width)[None, None, :], other=OUTSIDE)
        diff = tl.maximum(here[:, None, :] - there, 0.0)
        if WEIGHTS != UNIT:
            diff *= _root_tile(root, edges, real, columns, width, groups, span, WEIGHTS)
        if REDUCTION == SUM:
            total += diff
        elif REDUCTION == SQUARES:
            total += diff * diff
        elif REDUCTION == LARGEST:
            total = tl.maximum(total, diff)
        else:
            total += _power(diff / tl.where(largest > 0, largest, 1.0)[:, None, :], power)
    return tl.max(total, 1) if REDUCTION == LARGEST else tl.sum(total, 1)


@triton.jit
def _scaled_norm(
    f, indices, root, start, end, here, power, columns, width, groups, span, WEIGHTS: tl.constexpr, EDGES: tl.constexpr
):  # fmt: skip
    """Divided by the largest difference, no power overflows or underflows, for any p."""
    largest = _reduce_edges(
        f, indices, root, start, end, here, here, power, columns, width, groups, span, LARGEST, WEIGHTS, EDGES
    )
    total = _reduce_edges(
        f, indices, root, start, end, here, largest, power, columns, width, groups, span, POWERS, WEIGHTS, EDGES
    )
    return largest * _power(total, 1.0 / power)


@triton.jit
def _norm(
    f, indices, root, start, end, here, power, columns, width, groups, span,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """‖∇⁻f‖_p of some rows, `[R, C]`."""
    if REDUCTION == POWERS:
        norm = _scaled_norm(f, indices, root, start, end, here, power, columns, width, groups, span, WEIGHTS, EDGES)
    else:
        norm = _reduce_edges(
            f, indices, root, start, end, here, here, power, columns, width, groups, span, REDUCTION, WEIGHTS, EDGES
        )
    if REDUCTION == SQUARES:
        underflowed = norm == 0
        norm = tl.sqrt(norm)
        # Squares of small differences may have underflowed.
        if tl.max(tl.max(underflowed.to(tl.int32), 1), 0) > 0:
            again = _scaled_norm(
                f, indices, root, start, end, here, power, columns, width, groups, span, WEIGHTS, EDGES
            )
            norm = tl.where(underflowed, again, norm)
    return norm


@triton.jit
def _load_rows(order, first, nodes, ROWS: tl.constexpr, INDEX: tl.constexpr):
    """The rows at positions first, first + 1, … of the order, and which of these exist."""
    place = first + tl.arange(0, ROWS)
    return tl.load(order + place, mask=place < nodes, other=0).to(INDEX), place < nodes


@triton.jit
def _bounds(indptr, rows, real):
    """Where some rows start and end, in the index type of the rows."""
    start = tl.load(indptr + rows, mask=real, other=0)
    end = tl.load(indptr + rows + 1, mask=real, other=0)
    return start.to(rows.dtype), end.to(rows.dtype)


@triton.jit
def _combine(numbers, place, a, b, c, slope, TERMS: tl.constexpr):
    """numbers[place]·a + … over the first TERMS of a, b, c, and the next number times the slope."""
    total = tl.load(numbers + place + TERMS) * slope + tl.load(numbers + place) * a
    if TERMS > 1:
        total += tl.load(numbers + place + 1) * b
    if TERMS > 2:
        total += tl.load(numbers + place + 2) * c
    return total


@triton.jit
def _evaluate_rows(
    order, first, y, a, b, c, u, v, w, rho, boundary_mask, indptr, indices, root, numbers,
    nodes, width, groups, span, rho_groups, rho_span,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, TERMS: tl.constexpr, TARGETS: tl.constexpr, BOUNDARY: tl.constexpr,
    INDEX: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    rows, valid = _load_rows(order, first, nodes, ROWS, INDEX)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start, end = _bounds(indptr, rows, valid)
    at, real = rows[:, None] * width + columns[None, :], valid[:, None] & (columns < width)[None, :]
    here = tl.load(y + at, mask=real, other=0.0)
    power = tl.load(numbers)
    norm = _norm(y, indices, root, start, end, here, power, columns, width, groups, span, REDUCTION, WEIGHTS, EDGES)
    if TARGETS == 0:
        tl.store(u + at, norm, mask=real)
    else:
        rho_at = rows[:, None] * rho_groups + (columns // rho_span)[None, :]
        slope = 1.0 - tl.load(rho + rho_at, mask=real, other=0.0) * norm
        if BOUNDARY:
            slope = tl.where(tl.load(boundary_mask + at, mask=real, other=0) != 0, 0.0, slope)
        # All terms are read before any target is written: they may share memory.
        term_a = tl.load(a + at, mask=real, other=0.0)
        term_b, term_c = term_a, term_a
        if TERMS > 1:
            term_b = tl.load(b + at, mask=real, other=0.0)
        if TERMS > 2:
            term_c = tl.load(c + at, mask=real, other=0.0)
        tl.store(u + at, _combine(numbers, 1, term_a, term_b, term_c, slope, TERMS), mask=real)
        if TARGETS > 1:
            tl.store(v + at, _combine(numbers, 2 + TERMS, term_a, term_b, term_c, slope, TERMS), mask=real)
        if TARGETS > 2:
            tl.store(w + at, _combine(numbers, 3 + 2 * TERMS, term_a, term_b, term_c, slope, TERMS), mask=real)


@triton.jit
def evaluate_kernel(
    order, num_long, y, a, b, c, u, v, w, rho, boundary_mask, indptr, indices, root, numbers,
    nodes, units, groups, spans, rho_groups, rho_spans,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, TERMS: tl.constexpr, TARGETS: tl.constexpr, BOUNDARY: tl.constexpr,
    INDEX: tl.constexpr, VECTOR: tl.constexpr, SPAN: tl.constexpr, RHO_SPAN: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr, LONG_EDGES: tl.constexpr,
):  # fmt: skip
    """Without TARGETS u ← ‖∇⁻y‖_p, else the first of u, v, w ← sums of the first of a, b, c and of F(y)."""
    pid, width, span, rho_span = tl.program_id(0), units * VECTOR, spans * SPAN, rho_spans * RHO_SPAN
    if pid < num_long:
        _evaluate_rows(
            order, pid, y, a, b, c, u, v, w, rho, boundary_mask, indptr, indices, root, numbers,
            nodes, width, groups, span, rho_groups, rho_span,
            REDUCTION, WEIGHTS, TERMS, TARGETS, BOUNDARY, INDEX, 1, COLUMNS, LONG_EDGES,
        )  # fmt: skip
    else:
        _evaluate_rows(
            order, num_long + (pid - num_long) * ROWS, y, a, b, c, u, v, w, rho, boundary_mask, indptr, indices, root,
            numbers, nodes, width, groups, span, rho_groups, rho_span,
            REDUCTION, WEIGHTS, TERMS, TARGETS, BOUNDARY, INDEX, ROWS, COLUMNS, EDGES,
        )  # fmt: skip


@triton.jit
def _share(s, diff, norm, power, REDUCTION: tl.constexpr):
    """∂‖·‖_p/∂(√w·diff) = (√w·diff/norm)^(p−1), 0 where the difference is not positive."""
    share = tl.where(diff > 0, s * diff / tl.where(norm > 0, norm, 1.0), 0.0)
    if REDUCTION == POWERS:
        share = _power(share, power - 1.0)
    return share


@triton.jit
def _vjp_tile(
    f, a, norms, argmax, indices, root, root_t, start, end, rows, here, own, norm, best, power,
    columns, width, groups, span,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, SYMMETRIC_WEIGHTS: tl.constexpr,
    OWN: tl.constexpr, OTHERS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """∂(a·norm)/∂f(i): its own differences grow with f(i) (OWN), those of others towards it shrink (OTHERS).

    `a`, `norms`, `argmax` belong to all rows; `own`, `norm`, `best` to these. `root_t` is √w(j, i).
    """
    total = tl.zeros([here.shape[0], EDGES, here.shape[1]], here.dtype)
    for k in range(0, tl.max(end - start, 0), EDGES):
        edges, real, j = _edge_tile(indices, start, end, k, EDGES)
        at = j.to(start.dtype)[:, :, None] * width + columns[None, None, :]
        full = real[:, :, None] & (columns < width)[None, None, :]
        diff = here[:, None, :] - tl.load(f + at, mask=full, other=OUTSIDE)
        s = 1.0
        if WEIGHTS != UNIT and (OWN or SYMMETRIC_WEIGHTS):
            s = _root_tile(root, edges, real, columns, width, groups, span, WEIGHTS)
        if OWN:
            if REDUCTION == SUM:
                grad = tl.where(diff > 0, own[:, None, :], 0.0)
            elif REDUCTION == LARGEST:
                grad = tl.where((best[:, None, :] == j[:, :, None]) & full, own[:, None, :], 0.0)
            else:
                grad = own[:, None, :] * _share(s, diff, norm[:, None, :], power, REDUCTION)
            total += s * grad
        if OTHERS:
            other = tl.load(a + at, mask=full, other=0.0)
            if WEIGHTS != UNIT and not SYMMETRIC_WEIGHTS:
                s = _root_tile(root_t, edges, real, columns, width, groups, span, WEIGHTS)
            if REDUCTION == SUM:
                grad = tl.where(diff < 0, other, 0.0)
            elif REDUCTION == LARGEST:
                other_best = tl.load(argmax + at, mask=full, other=-1)
                grad = tl.where(other_best == rows[:, None, None], other, 0.0)
            else:
                # Beyond the row's end the difference is −∞: replaced by 0 before it is multiplied by 0.
                rise = tl.where(full, -diff, 0.0)
                grad = other * _share(s, rise, tl.load(norms + at, mask=full, other=1.0), power, REDUCTION)
            total -= s * grad
    return tl.sum(total, 1)


@triton.jit
def _vjp_rows(
    order, first, f, a, norms, argmax, out, indptr, indices, root, indptr_t, indices_t, root_t, numbers,
    nodes, width, groups, span,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, SYMMETRIC_WEIGHTS: tl.constexpr, SYMMETRIC: tl.constexpr,
    INDEX: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    rows, valid = _load_rows(order, first, nodes, ROWS, INDEX)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start, end = _bounds(indptr, rows, valid)
    at, real = rows[:, None] * width + columns[None, :], valid[:, None] & (columns < width)[None, :]
    here, own = tl.load(f + at, mask=real, other=0.0), tl.load(a + at, mask=real, other=0.0)
    norm, best, power = here, rows[:, None], tl.load(numbers)
    if REDUCTION == LARGEST:
        best = tl.load(argmax + at, mask=real, other=-1)
    elif REDUCTION != SUM:
        norm = tl.load(norms + at, mask=real, other=1.0)
    total = _vjp_tile(
        f, a, norms, argmax, indices, root, root_t, start, end, rows, here, own, norm, best, power,
        columns, width, groups, span, REDUCTION, WEIGHTS, SYMMETRIC_WEIGHTS, True, SYMMETRIC, EDGES,
    )  # fmt: skip
    if not SYMMETRIC:
        # The transposed rows list the nodes that have these as neighbours; they may be long where these rows are short.
        start, end = _bounds(indptr_t, rows, valid)
        total += _vjp_tile(
            f, a, norms, argmax, indices_t, root_t, root_t, start, end, rows, here, own, norm, best, power,
            columns, width, groups, span, REDUCTION, WEIGHTS, False, False, True, EDGES,
        )  # fmt: skip
    tl.store(out + at, total, mask=real)


@triton.jit
def vjp_kernel(
    order, num_long, f, a, norms, argmax, out, indptr, indices, root, indptr_t, indices_t, root_t, numbers,
    nodes, units, groups, spans,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, SYMMETRIC_WEIGHTS: tl.constexpr, SYMMETRIC: tl.constexpr,
    INDEX: tl.constexpr, VECTOR: tl.constexpr, SPAN: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr, LONG_EDGES: tl.constexpr,
):  # fmt: skip
    """out ← Σ_i a(i) ∂‖∇⁻f(i)‖_p/∂f, computed by the rows of the derivative."""
    pid, width, span = tl.program_id(0), units * VECTOR, spans * SPAN
    if pid < num_long:
        _vjp_rows(
            order, pid, f, a, norms, argmax, out, indptr, indices, root, indptr_t, indices_t, root_t, numbers,
            nodes, width, groups, span, REDUCTION, WEIGHTS, SYMMETRIC_WEIGHTS, SYMMETRIC, INDEX, 1, COLUMNS, LONG_EDGES,
        )  # fmt: skip
    else:
        _vjp_rows(
            order, num_long + (pid - num_long) * ROWS, f, a, norms, argmax, out,
            indptr, indices, root, indptr_t, indices_t, root_t, numbers,
            nodes, width, groups, span, REDUCTION, WEIGHTS, SYMMETRIC_WEIGHTS, SYMMETRIC, INDEX, ROWS, COLUMNS, EDGES,
        )  # fmt: skip


@triton.jit
def root_kernel(
    f, a, norms, argmax, rows, indices, root, numbers, out, edges, width, groups, span,
    REDUCTION: tl.constexpr, WEIGHTS: tl.constexpr, COLUMNS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """out ← Σ a(i) ∂‖∇⁻f(i)‖_p/∂√w for every edge, over the columns that share its weight: `[E, G]`."""
    edge = tl.cast(tl.program_id(0), tl.int64) * EDGES + tl.arange(0, EDGES)
    group = tl.program_id(1)
    i, j = tl.load(rows + edge, mask=edge < edges, other=0), tl.load(indices + edge, mask=edge < edges, other=0)
    power, s = tl.load(numbers), 1.0
    if WEIGHTS != UNIT:
        s = tl.load(root + edge * groups + group, mask=edge < edges, other=0.0)[:, None]
    total = tl.zeros([EDGES], dtype=f.dtype.element_ty)
    for k in range(0, span, COLUMNS):
        columns = k + tl.arange(0, COLUMNS)
        full = (edge < edges)[:, None] & (columns < span)[None, :]
        at = i[:, None] * width + group * span + columns[None, :]
        there = j.to(tl.int64)[:, None] * width + group * span + columns[None, :]
        diff = tl.load(f + at, mask=full, other=0.0) - tl.load(f + there, mask=full, other=0.0)
        own = tl.load(a + at, mask=full, other=0.0)
        if REDUCTION == SUM:
            grad = own * tl.maximum(diff, 0.0)
        elif REDUCTION == LARGEST:
            grad = tl.where(tl.load(argmax + at, mask=full, other=-1) == j[:, None], own * diff, 0.0)
        else:
            grad = own * diff * _share(s, diff, tl.load(norms + at, mask=full, other=1.0), power, REDUCTION)
        total += tl.sum(grad, 1)
    tl.store(out + edge * groups + group, total, mask=edge < edges)


@triton.jit
def largest_kernel(
    f, norms, argmax, indptr, indices, root, width, groups, span, WEIGHTS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """The largest upwind difference of each row and its neighbour: the first of equals, -1 where none is positive."""
    row = tl.cast(tl.program_id(0), tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    here = tl.load(f + row * width + columns, mask=inside, other=0.0)
    largest, best = tl.zeros_like(here), tl.full([COLUMNS], -1, tl.int32)
    for e in range(tl.load(indptr + row), tl.load(indptr + row + 1)):
        j = tl.load(indices + e)
        diff = here - tl.load(f + tl.cast(j, tl.int64) * width + columns, mask=inside, other=OUTSIDE)
        if WEIGHTS == SHARED:
            diff *= tl.load(root + e)
        elif WEIGHTS == GROUPED:
            diff *= tl.load(root + e * groups + columns // span, mask=inside, other=0.0)
        best = tl.where(diff > largest, j, best)
        largest = tl.maximum(diff, largest)
    tl.store(norms + row * width + columns, largest, mask=inside)
    tl.store(argmax + row * width + columns, best, mask=inside)


@triton.jit
def cotangent_kernel(
    a, b, c, d, out, rho, boundary_mask, numbers, size, width, rho_groups, rho_span,
    TERMS: tl.constexpr, BOUNDARY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out ← −ρ (n₁a + n₂b + n₃c + n₄d) off the boundary, 0 on it; of the sum only the first TERMS."""
    at = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = at < size
    total = tl.load(numbers + 1) * tl.load(a + at, mask=real, other=0.0)
    if TERMS > 1:
        total += tl.load(numbers + 2) * tl.load(b + at, mask=real, other=0.0)
    if TERMS > 2:
        total += tl.load(numbers + 3) * tl.load(c + at, mask=real, other=0.0)
    if TERMS > 3:
        total += tl.load(numbers + 4) * tl.load(d + at, mask=real, other=0.0)
    total *= -tl.load(rho + at // width * rho_groups + at % width // rho_span, mask=real, other=0.0)
    if BOUNDARY:
        total = tl.where(tl.load(boundary_mask + at, mask=real, other=0) != 0, 0.0, total)
    tl.store(out + at, total, mask=real)
