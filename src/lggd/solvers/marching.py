"""Fast marching: nodes become final in order of their distance, each from its final neighbours only. One pass, exact.

A node's value depends only on smaller ones (∇⁻ is an upwind gradient), so the nearest node of the front is final. For
p = 1 and p = 2 the final neighbours enter through running sums, O(1) per edge; for p = ∞ through a minimum; for other p
through a scalar root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numba import njit

from lggd.results import Solution
from lggd.solvers.dijkstra import FAR, FINAL, PADDING, drop_first, fill, shortest, sift_up
from lggd.solvers.eikonal_problem import EikonalProblem

# How final neighbours are accumulated, and the number of running sums per node.
SUM, SQUARES, POWERS = 1, 2, 3
NUM_SUMS = {SUM: 2, SQUARES: 3, POWERS: 0}
# Newton's method converges quadratically; this only bounds the loop.
MAX_STEPS = 60


@dataclass(frozen=True)
class FastMarching:
    """Fast marching: exact, for every p in [1, ∞] and any potential, in O(E log F) time, F the size of the front.

    p = 1, 2 and ∞ cost a few operations per edge; other p solve a scalar equation per relaxation, which is far slower.
    Columns run in parallel threads.

    Examples
    --------
    >>> import lggd
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> lggd.distance(path, [0], p=2, solver=FastMarching()).value.tolist()
    [0.0, 1.0, 2.0]
    """

    def solve(self, problem: EikonalProblem) -> Solution:
        if math.isinf(problem.p):
            return problem.solution(shortest(problem), self)
        march = compiled(SUM if problem.p == 1 else SQUARES if problem.p == 2 else POWERS)
        march = partial(march, problem.p, *problem.incoming, *problem.outgoing)
        return problem.solution(problem.solve_columns(march)[0], self)


@njit(inline="always")
def _from_sum(sums, j, s, ui, slowness):
    """p = 1: Σ s(t − u) = 1/ρ over the final neighbours, so t = (1/ρ + Σ s·u) / Σ s."""
    sums[j, 0] += s
    sums[j, 1] += s * ui
    return (slowness + sums[j, 1]) / sums[j, 0]


@njit(inline="always")
def _from_squares(sums, j, w, ui, slowness):
    """p = 2: Σ w(t − u)² = 1/ρ², so t = mean + √((1/ρ² − S)/Σw), with mean = Σ w·u / Σw and S = Σ w(u − mean)².

    S grows by a product of non-negative factors (Chan, Golub and LeVeque), which keeps its relative error at a few
    roundings. Welford's form has u − (the new mean) as a factor: that cancels where w exceeds all earlier weights.
    """
    total = sums[j, 0] + w
    deviation, share = ui - sums[j, 1], w / total
    sums[j, 2] += sums[j, 0] * share * deviation * deviation
    sums[j, 1] += share * deviation
    sums[j, 0] = total
    return sums[j, 1] + np.sqrt(max(slowness * slowness - sums[j, 2], 0.0) / total)


@njit(inline="always")
def newton(p, t, slowness, i, indptr, indices, weight, stride, u, place, final_only):
    """The t with ‖√w(i,·)(t − u)₊‖_p = 1/ρ(i), given the values u of the neighbours, from any t at or above it.

    The norm is convex in t, so Newton's method decreases monotonically. With `final_only`, only neighbours that have
    left the front count.
    """
    for _ in range(MAX_STEPS):
        largest = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if u[j] < t and not (final_only and place[j] != FINAL):
                largest = max(largest, np.sqrt(np.float64(weight[e * stride])) * (t - u[j]))
        if largest == 0.0:
            break
        total = 0.0
        slope = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if u[j] < t and not (final_only and place[j] != FINAL):
                s = np.sqrt(np.float64(weight[e * stride]))
                share = s * (t - u[j]) / largest
                power = 1.0 if p == 1.0 else share if p == 2.0 else share ** (p - 1.0)
                total += power * share
                slope += power * s
        root = total ** (1.0 / p)
        # d‖·‖/dt = Σ s·share^(p−1) / ‖share‖^(p−1), and ‖·‖ = largest · ‖share‖.
        decrease = (largest * root - slowness) / (slope / root ** (p - 1.0))
        if not decrease > 1e-15 * abs(t):
            break
        t -= decrease
    return t


@cache
def compiled(mode: int) -> Callable[..., None]:
    """The march for one mode of accumulation. Compiled at its first call, then cached on disk."""
    num_sums = NUM_SUMS[mode]

    @njit(nogil=True, cache=True)
    def march(p, indptr, indices, weight, stride, row_ptr, row_indices, row_weight, starts, slowness, u):
        place = np.full(u.size, FAR, np.int32)
        sums = np.zeros((u.size, num_sums))
        # The front is far smaller than the graph: only as much of this memory is ever touched.
        keys, nodes = np.empty(u.size + PADDING + 1), np.empty(u.size, np.int32)
        varies = 1 if slowness.size > 1 else 0
        size = fill(keys, nodes, place, starts)
        while size > 0:
            i, ui = nodes[0], keys[0]
            u[i] = ui
            place[i] = FINAL
            size -= 1
            drop_first(keys, nodes, place, size)
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                at = place[j]
                if at == FINAL:
                    continue
                w, r = np.float64(weight[e * stride]), slowness[j * varies]
                if mode == SQUARES:
                    t = _from_squares(sums, j, w, ui, r)
                else:
                    s = np.sqrt(w) if stride else w  # a root per edge is expensive where every weight is 1
                    t = _from_sum(sums, j, s, ui, r) if mode == SUM else ui + r / s
                if mode == POWERS and at != FAR:
                    t = min(t, keys[at])
                    t = newton(p, t, r, j, row_ptr, row_indices, row_weight, stride, u, place, True)
                t = max(t, ui)  # rounding must not let a node overtake one that is final
                if at == FAR:
                    at = size
                    size += 1
                    keys[size + PADDING - 1] = np.inf
                elif t >= keys[at]:
                    continue
                sift_up(keys, nodes, place, at, t, j)

    return march
