"""The fast iterative method: relaxes nodes whose neighbours changed until none does. No heap, no order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numba import njit

from lggd.results import Solution
from lggd.solvers.eikonal_problem import EikonalProblem
from lggd.solvers.marching import newton
from lggd.validation import check_int, check_real


@dataclass(frozen=True)
class FastIterative:
    """The fast iterative method, for every p in [1, ∞] and any potential.

    Slower than marching on one core, but independent of any order among nodes: a check of marching, and the form that
    suits wide machines. Values decrease from infinity, so an early stop leaves them too large.

    Parameters
    ----------
    tolerance : float
        Stops where no value decreases by more than this fraction.
    max_sweeps : int
        Stops after this many sweeps with `Status.NOT_CONVERGED`.

    Examples
    --------
    >>> import lggd
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> lggd.distance(path, [0], solver=FastIterative()).value.tolist()
    [0.0, 1.0, 2.0]
    """

    tolerance: float = 1e-14
    max_sweeps: int = 1_000_000

    def __post_init__(self) -> None:
        check_real("tolerance", self.tolerance, 0, 1, closed="left")
        check_int("max_sweeps", self.max_sweeps, 1)

    def solve(self, problem: EikonalProblem) -> Solution:
        indptr, indices, _, stride = problem.incoming
        edges = (indptr, indices, stride, *problem.outgoing)
        sweep = partial(_sweep, problem.p, self.tolerance, self.max_sweeps, *edges)
        by_row, sweeps = problem.solve_columns(sweep)
        return problem.solution(by_row, self, sweeps, converged=sweeps <= self.max_sweeps)


@njit(nogil=True, cache=True)
def _sweep(p, tolerance, max_sweeps, indptr, indices, stride, row_ptr, row_indices, row_weight, starts, slowness, u):
    """Relaxes until the queue is empty and returns the number of sweeps: one more than allowed if that was exceeded."""
    idle, queued, boundary = 0, 1, 2
    state = np.full(u.size, idle, np.int32)
    active, following = np.empty(u.size, np.int32), np.empty(u.size, np.int32)
    for i in starts:
        u[i] = 0.0
        state[i] = boundary
    count = 0
    for i in starts:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if state[j] == idle:
                state[j] = queued
                active[count] = j
                count += 1
    sweeps = 0
    while count > 0:
        sweeps += 1
        if sweeps > max_sweeps:
            break
        next_count = 0
        for n in range(count):
            i = active[n]
            state[i] = idle
            r, t = slowness[i if slowness.size > 1 else 0], np.inf
            for e in range(row_ptr[i], row_ptr[i + 1]):
                t = min(t, u[row_indices[e]] + r / np.sqrt(np.float64(row_weight[e * stride])))
            if p < np.inf and t < np.inf:
                t = newton(p, t, r, i, row_ptr, row_indices, row_weight, stride, u, state, False)
            # A first finite value always counts; inf − inf below is NaN and compares false.
            if not (t < u[i] - tolerance * u[i] or (u[i] == np.inf and t < np.inf)):
                continue
            u[i] = t
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if state[j] == idle and u[j] > t:
                    state[j] = queued
                    following[next_count] = j
                    next_count += 1
        active, following = following, active
        count = next_count
    return sweeps
