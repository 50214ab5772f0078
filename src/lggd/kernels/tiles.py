"""What Triton compiles for `cuda.py`: tiles of rows, their edges and some columns, `[R, E, C]`, reduced over the edges.

A row is written by one program and summed in a fixed order: no atomics, the same bits every time. Programs take rows
in a given `order`, in which rows of a tile are about equally long. The first `num_long` of them have very many
neighbours and get tiles of their own, of one row and many edges, so that no program works alone at the end.

What comes again and again: `f` and its like are `[N, C]`, with C the `width`; `root` is √w, `[E, 1]` or `[E, G]` as
`WEIGHTS` says, and each of its `groups` spans `span` columns. Widths and spans are told as a number times a constant,
so that the compiler knows what it may load at once. `INDEX` is the type that places in a state are counted in.
`numbers` holds p and then factors: as plain arguments they would be rounded to float32. Only `cuda.py` calls these
kernels.
"""

from __future__ import annotations

import triton
import triton.language as tl

from lggd.kernels import loops

SUM = tl.constexpr(loops.SUM)
SQUARES = tl.constexpr(loops.SQUARES)
LARGEST = tl.constexpr(loops.LARGEST)
POWERS = tl.constexpr(loops.POWERS)
# How √w lies in memory: nowhere because it is 1, one for all columns, one a group of columns.
UNIT, SHARED, GROUPED = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
# Stands in for a neighbour where a tile reaches beyond its row: nothing falls towards it.
FAR = tl.constexpr(float("inf"))


@triton.jit
def _power(x, exponent):
    return tl.exp2(tl.log2(x) * exponent)


@triton.jit
def _edge_tile(indices, start, end, k, EDGES: tl.constexpr):
    """Edges k, k + 1, … of some rows, `[R, E]`: their numbers, which of them exist, and where they lead."""
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
def _gather(
    f, indices, root, start, end, here, largest, power, columns, width, groups, span,
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """The falls √w (f(i) − f(j))₊ of some rows, gathered over j: `[R, C]`. POWERS: of shares of the largest."""
    # Edges are added up apart until the last, because adding neighbouring threads' numbers makes them wait.
    total = tl.zeros([here.shape[0], EDGES, here.shape[1]], here.dtype)
    for k in range(0, tl.max(end - start, 0), EDGES):
        edges, real, j = _edge_tile(indices, start, end, k, EDGES)
        at = j.to(start.dtype)[:, :, None] * width + columns[None, None, :]
        there = tl.load(f + at, mask=real[:, :, None] & (columns < width)[None, None, :], other=FAR)
        fall = tl.maximum(here[:, None, :] - there, 0.0)
        if WEIGHTS != UNIT:
            fall *= _root_tile(root, edges, real, columns, width, groups, span, WEIGHTS)
        if HOW == SUM:
            total += fall
        elif HOW == SQUARES:
            total += fall * fall
        elif HOW == LARGEST:
            total = tl.maximum(total, fall)
        else:
            total += _power(fall / tl.where(largest > 0, largest, 1.0)[:, None, :], power)
    return tl.max(total, 1) if HOW == LARGEST else tl.sum(total, 1)


@triton.jit
def _scaled_norm(
    f, indices, root, start, end, here, power, columns, width, groups, span, WEIGHTS: tl.constexpr, EDGES: tl.constexpr
):  # fmt: skip
    """Divided by the largest fall, no power overflows or vanishes, whatever p."""
    largest = _gather(
        f, indices, root, start, end, here, here, power, columns, width, groups, span, LARGEST, WEIGHTS, EDGES
    )
    total = _gather(
        f, indices, root, start, end, here, largest, power, columns, width, groups, span, POWERS, WEIGHTS, EDGES
    )
    return largest * _power(total, 1.0 / power)


@triton.jit
def _norm(
    f, indices, root, start, end, here, power, columns, width, groups, span,
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """‖∇⁻f‖_p of some rows, `[R, C]`."""
    if HOW == POWERS:
        norm = _scaled_norm(f, indices, root, start, end, here, power, columns, width, groups, span, WEIGHTS, EDGES)
    else:
        norm = _gather(
            f, indices, root, start, end, here, here, power, columns, width, groups, span, HOW, WEIGHTS, EDGES
        )
    if HOW == SQUARES:
        vanished = norm == 0
        norm = tl.sqrt(norm)
        # Falls may be too small to square without being 0.
        if tl.max(tl.max(vanished.to(tl.int32), 1), 0) > 0:
            again = _scaled_norm(
                f, indices, root, start, end, here, power, columns, width, groups, span, WEIGHTS, EDGES
            )
            norm = tl.where(vanished, again, norm)
    return norm


@triton.jit
def _take_rows(order, first, nodes, ROWS: tl.constexpr, INDEX: tl.constexpr):
    """The rows in places first, first + 1, … of the order, and which of these places there are."""
    place = first + tl.arange(0, ROWS)
    return tl.load(order + place, mask=place < nodes, other=0).to(INDEX), place < nodes


@triton.jit
def _bounds(indptr, rows, real):
    """Where some rows start and end, counted as the rows are."""
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
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, TERMS: tl.constexpr, TARGETS: tl.constexpr, BOUNDARY: tl.constexpr,
    INDEX: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    rows, meant = _take_rows(order, first, nodes, ROWS, INDEX)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start, end = _bounds(indptr, rows, meant)
    at, real = rows[:, None] * width + columns[None, :], meant[:, None] & (columns < width)[None, :]
    here = tl.load(y + at, mask=real, other=0.0)
    power = tl.load(numbers)
    norm = _norm(y, indices, root, start, end, here, power, columns, width, groups, span, HOW, WEIGHTS, EDGES)
    if TARGETS == 0:
        tl.store(u + at, norm, mask=real)
    else:
        rho_at = rows[:, None] * rho_groups + (columns // rho_span)[None, :]
        slope = 1.0 - tl.load(rho + rho_at, mask=real, other=0.0) * norm
        if BOUNDARY:
            slope = tl.where(tl.load(boundary_mask + at, mask=real, other=0) != 0, 0.0, slope)
        # All terms are read before any target is written, for they may lie in the same place.
        one = tl.load(a + at, mask=real, other=0.0)
        two, three = one, one
        if TERMS > 1:
            two = tl.load(b + at, mask=real, other=0.0)
        if TERMS > 2:
            three = tl.load(c + at, mask=real, other=0.0)
        tl.store(u + at, _combine(numbers, 1, one, two, three, slope, TERMS), mask=real)
        if TARGETS > 1:
            tl.store(v + at, _combine(numbers, 2 + TERMS, one, two, three, slope, TERMS), mask=real)
        if TARGETS > 2:
            tl.store(w + at, _combine(numbers, 3 + 2 * TERMS, one, two, three, slope, TERMS), mask=real)


@triton.jit
def evaluate_kernel(
    order, num_long, y, a, b, c, u, v, w, rho, boundary_mask, indptr, indices, root, numbers,
    nodes, units, groups, spans, rho_groups, rho_spans,
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, TERMS: tl.constexpr, TARGETS: tl.constexpr, BOUNDARY: tl.constexpr,
    INDEX: tl.constexpr, VECTOR: tl.constexpr, SPAN: tl.constexpr, RHO_SPAN: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr, LONG_EDGES: tl.constexpr,
):  # fmt: skip
    """Without TARGETS u ← ‖∇⁻y‖_p, else the first of u, v, w ← sums of the first of a, b, c and of F(y)."""
    pid, width, span, rho_span = tl.program_id(0), units * VECTOR, spans * SPAN, rho_spans * RHO_SPAN
    if pid < num_long:
        _evaluate_rows(
            order, pid, y, a, b, c, u, v, w, rho, boundary_mask, indptr, indices, root, numbers,
            nodes, width, groups, span, rho_groups, rho_span,
            HOW, WEIGHTS, TERMS, TARGETS, BOUNDARY, INDEX, 1, COLUMNS, LONG_EDGES,
        )  # fmt: skip
    else:
        _evaluate_rows(
            order, num_long + (pid - num_long) * ROWS, y, a, b, c, u, v, w, rho, boundary_mask, indptr, indices, root,
            numbers, nodes, width, groups, span, rho_groups, rho_span,
            HOW, WEIGHTS, TERMS, TARGETS, BOUNDARY, INDEX, ROWS, COLUMNS, EDGES,
        )  # fmt: skip


@triton.jit
def _share(s, fall, norm, power, HOW: tl.constexpr):
    """∂‖falls‖_p/∂(√w·fall) = (√w·fall/norm)^(p−1), 0 where nothing falls."""
    share = tl.where(fall > 0, s * fall / tl.where(norm > 0, norm, 1.0), 0.0)
    if HOW == POWERS:
        share = _power(share, power - 1.0)
    return share


@triton.jit
def _pull(
    f, a, norms, argmax, indices, root, back, start, end, rows, here, mine, norm, winner, power,
    columns, width, groups, span,
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, SYMMETRIC_WEIGHTS: tl.constexpr, OWN: tl.constexpr, OTHERS: tl.constexpr,
    EDGES: tl.constexpr,
):  # fmt: skip
    """What raising f(i) does to a·norm: its own falls grow (OWN), those of others towards it shrink (OTHERS).

    `a`, `norms`, `argmax` belong to all rows; `mine`, `norm`, `winner` to these. `back` is √w of the way back.
    """
    total = tl.zeros([here.shape[0], EDGES, here.shape[1]], here.dtype)
    for k in range(0, tl.max(end - start, 0), EDGES):
        edges, real, j = _edge_tile(indices, start, end, k, EDGES)
        at = j.to(start.dtype)[:, :, None] * width + columns[None, None, :]
        full = real[:, :, None] & (columns < width)[None, None, :]
        fall = here[:, None, :] - tl.load(f + at, mask=full, other=FAR)
        s = 1.0
        if WEIGHTS != UNIT and (OWN or SYMMETRIC_WEIGHTS):
            s = _root_tile(root, edges, real, columns, width, groups, span, WEIGHTS)
        if OWN:
            if HOW == SUM:
                pull = tl.where(fall > 0, mine[:, None, :], 0.0)
            elif HOW == LARGEST:
                pull = tl.where((winner[:, None, :] == j[:, :, None]) & full, mine[:, None, :], 0.0)
            else:
                pull = mine[:, None, :] * _share(s, fall, norm[:, None, :], power, HOW)
            total += s * pull
        if OTHERS:
            theirs = tl.load(a + at, mask=full, other=0.0)
            if WEIGHTS != UNIT and not SYMMETRIC_WEIGHTS:
                s = _root_tile(back, edges, real, columns, width, groups, span, WEIGHTS)
            if HOW == SUM:
                pull = tl.where(fall < 0, theirs, 0.0)
            elif HOW == LARGEST:
                found = tl.load(argmax + at, mask=full, other=-1)
                pull = tl.where(found == rows[:, None, None], theirs, 0.0)
            else:
                # Beyond the row's end the fall is −∞: a finite one must take its place before it meets a theirs of 0.
                rise = tl.where(full, -fall, 0.0)
                pull = theirs * _share(s, rise, tl.load(norms + at, mask=full, other=1.0), power, HOW)
            total -= s * pull
    return tl.sum(total, 1)


@triton.jit
def _pull_rows(
    order, first, f, a, norms, argmax, out, indptr, indices, root, indptr_t, indices_t, back, numbers,
    nodes, width, groups, span,
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, SYMMETRIC_WEIGHTS: tl.constexpr, SYMMETRIC: tl.constexpr,
    INDEX: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    rows, meant = _take_rows(order, first, nodes, ROWS, INDEX)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    start, end = _bounds(indptr, rows, meant)
    at, real = rows[:, None] * width + columns[None, :], meant[:, None] & (columns < width)[None, :]
    here, mine = tl.load(f + at, mask=real, other=0.0), tl.load(a + at, mask=real, other=0.0)
    norm, winner, power = here, rows[:, None], tl.load(numbers)
    if HOW == LARGEST:
        winner = tl.load(argmax + at, mask=real, other=-1)
    elif HOW != SUM:
        norm = tl.load(norms + at, mask=real, other=1.0)
    total = _pull(
        f, a, norms, argmax, indices, root, back, start, end, rows, here, mine, norm, winner, power,
        columns, width, groups, span, HOW, WEIGHTS, SYMMETRIC_WEIGHTS, True, SYMMETRIC, EDGES,
    )  # fmt: skip
    if not SYMMETRIC:
        # Those who see these rows are listed elsewhere, and may be many where these rows are short.
        start, end = _bounds(indptr_t, rows, meant)
        total += _pull(
            f, a, norms, argmax, indices_t, back, back, start, end, rows, here, mine, norm, winner, power,
            columns, width, groups, span, HOW, WEIGHTS, False, False, True, EDGES,
        )  # fmt: skip
    tl.store(out + at, total, mask=real)


@triton.jit
def pull_kernel(
    order, num_long, f, a, norms, argmax, out, indptr, indices, root, indptr_t, indices_t, back, numbers,
    nodes, units, groups, spans,
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, SYMMETRIC_WEIGHTS: tl.constexpr, SYMMETRIC: tl.constexpr,
    INDEX: tl.constexpr, VECTOR: tl.constexpr, SPAN: tl.constexpr,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr, LONG_EDGES: tl.constexpr,
):  # fmt: skip
    """out ← Σ_i a(i) ∂‖∇⁻f(i)‖_p/∂f, pulled by the rows that it is with respect to."""
    pid, width, span = tl.program_id(0), units * VECTOR, spans * SPAN
    if pid < num_long:
        _pull_rows(
            order, pid, f, a, norms, argmax, out, indptr, indices, root, indptr_t, indices_t, back, numbers,
            nodes, width, groups, span, HOW, WEIGHTS, SYMMETRIC_WEIGHTS, SYMMETRIC, INDEX, 1, COLUMNS, LONG_EDGES,
        )  # fmt: skip
    else:
        _pull_rows(
            order, num_long + (pid - num_long) * ROWS, f, a, norms, argmax, out,
            indptr, indices, root, indptr_t, indices_t, back, numbers,
            nodes, width, groups, span, HOW, WEIGHTS, SYMMETRIC_WEIGHTS, SYMMETRIC, INDEX, ROWS, COLUMNS, EDGES,
        )  # fmt: skip


@triton.jit
def root_kernel(
    f, a, norms, argmax, rows, indices, root, numbers, out, edges, width, groups, span,
    HOW: tl.constexpr, WEIGHTS: tl.constexpr, COLUMNS: tl.constexpr, EDGES: tl.constexpr,
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
        fall = tl.load(f + at, mask=full, other=0.0) - tl.load(f + there, mask=full, other=0.0)
        mine = tl.load(a + at, mask=full, other=0.0)
        if HOW == SUM:
            pull = mine * tl.maximum(fall, 0.0)
        elif HOW == LARGEST:
            pull = tl.where(tl.load(argmax + at, mask=full, other=-1) == j[:, None], mine * fall, 0.0)
        else:
            pull = mine * fall * _share(s, fall, tl.load(norms + at, mask=full, other=1.0), power, HOW)
        total += tl.sum(pull, 1)
    tl.store(out + edge * groups + group, total, mask=edge < edges)


@triton.jit
def largest_kernel(
    f, norms, argmax, indptr, indices, root, width, groups, span, WEIGHTS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """The largest fall of each row and the neighbour it leads to: the first of equals, -1 where nothing falls."""
    row = tl.cast(tl.program_id(0), tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    here = tl.load(f + row * width + columns, mask=inside, other=0.0)
    largest, winner = tl.zeros_like(here), tl.full([COLUMNS], -1, tl.int32)
    for e in range(tl.load(indptr + row), tl.load(indptr + row + 1)):
        j = tl.load(indices + e)
        fall = here - tl.load(f + tl.cast(j, tl.int64) * width + columns, mask=inside, other=FAR)
        if WEIGHTS == SHARED:
            fall *= tl.load(root + e)
        elif WEIGHTS == GROUPED:
            fall *= tl.load(root + e * groups + columns // span, mask=inside, other=0.0)
        winner = tl.where(fall > largest, j, winner)
        largest = tl.maximum(fall, largest)
    tl.store(norms + row * width + columns, largest, mask=inside)
    tl.store(argmax + row * width + columns, winner, mask=inside)


@triton.jit
def weigh_kernel(
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
