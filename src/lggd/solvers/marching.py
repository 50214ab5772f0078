"""Fast marching: nodes become final in order of their distance, each from its final neighbours alone. One pass, exact.

A node's value depends only on smaller ones (∇⁻ looks down), so the nearest node of the front can no longer change. For
p = 1 and p = 2 the final neighbours enter through running sums, O(1) an edge; for p = ∞ through a minimum; for other p
through a scalar root.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit
from torch import Tensor

from lggd.solvers.columns import solve_columns
from lggd.solvers.dijkstra import shortest
from lggd.solvers.heap import FAR, FINAL, PADDING, drop_first, fill, sift_up
from lggd.solvers.local import newton
from lggd.solvers.problem import Problem

# How the final neighbours of a node are gathered, and the numbers that gathering keeps a node.
SUM, SQUARES, POWERS = 1, 2, 3
KEPT = {SUM: 2, SQUARES: 3, POWERS: 0}


@dataclass(frozen=True)
class FastMarching:
    """Exact, for every p in [1, ∞] and any potential: O(E log F) at worst, where F is the size of the front.

    p = 1, 2 and ∞ cost a few operations an edge. Other p solve a small equation a relaxation, far more work. Columns
    run in parallel threads.
    """

    def solve(self, problem: Problem) -> tuple[Tensor, int | None]:
        if math.isinf(problem.p):
            return shortest(problem), None
        csr = problem.layout.csr
        own_weight = np.ones(1) if csr.weight is None else csr.weight.numpy()
        edges = (*problem.incoming, csr.indptr.numpy(), csr.indices.numpy(), own_weight)
        march = compiled(SUM if problem.p == 1 else SQUARES if problem.p == 2 else POWERS)

        def one(column: int, starts: np.ndarray, slowness: np.ndarray, u: np.ndarray) -> int:
            march(problem.p, *edges, starts, slowness, u)
            return 0

        return solve_columns(problem, one)[0], None


@njit(inline="always")
def _from_sum(kept, j, s, ui, slowness):  # type: ignore[no-untyped-def]
    """p = 1: Σ s(t − u) = 1/ρ over the final neighbours, so t = (1/ρ + Σ s·u) / Σ s."""
    kept[j, 0] += s
    kept[j, 1] += s * ui
    return (slowness + kept[j, 1]) / kept[j, 0]


@njit(inline="always")
def _from_squares(kept, j, w, ui, slowness):  # type: ignore[no-untyped-def]
    """p = 2: Σ w(t − u)² = 1/ρ². With the weighted mean of u and its spread Σ w(u − mean)², t = mean + √((1/ρ² − spread)/Σw).

    The spread grows by a product of non-negative factors (Chan, Golub and LeVeque). Welford's form multiplies by
    u − mean after the update instead, which cancels where w is much larger than all earlier weights together.
    """
    total = kept[j, 0] + w
    away, share = ui - kept[j, 1], w / total
    kept[j, 2] += kept[j, 0] * share * away * away
    kept[j, 1] += share * away
    kept[j, 0] = total
    return kept[j, 1] + np.sqrt(max(slowness * slowness - kept[j, 2], 0.0) / total)


@cache
def compiled(gathering: int) -> Callable[..., None]:
    """The march for one gathering. Compiled at its first call, then kept on disk."""
    numbers = KEPT[gathering]

    @njit(nogil=True, cache=True)
    def march(p, indptr, indices, weight, stride, row_ptr, row_indices, row_weight, starts, slowness, u):  # type: ignore[no-untyped-def]
        place = np.full(u.size, FAR, np.int32)
        kept = np.zeros((u.size, numbers))
        # The front is far smaller than the graph: of these two, memory is only ever touched as far as it reaches.
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
                if gathering == SQUARES:
                    t = _from_squares(kept, j, w, ui, r)
                else:
                    s = np.sqrt(w) if stride else w  # a root an edge is dear where every weight is 1
                    t = _from_sum(kept, j, s, ui, r) if gathering == SUM else ui + r / s
                if gathering == POWERS and at != FAR:
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
