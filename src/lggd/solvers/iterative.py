"""The fast iterative method: relax the nodes whose neighbours changed until none does. No heap, no order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from torch import Tensor

from lggd.errors import InputError
from lggd.solvers.columns import solve_columns
from lggd.solvers.local import newton
from lggd.solvers.problem import Problem


@dataclass(frozen=True)
class FastIterative:
    """Sweeps over an active list until no value falls by more than `tolerance` relative; all columns in parallel.

    Slower than marching on one core, but it makes no use of an order among nodes: an independent check of marching, and
    the form that suits wide machines. Values come down from infinity, so an early stop leaves them too large.
    """

    tolerance: float = 1e-14
    max_sweeps: int = 1_000_000

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise InputError("tolerance", "lie in [0, 1)", self.tolerance)
        if self.max_sweeps < 1:
            raise InputError("max_sweeps", "be at least 1", self.max_sweeps)

    def solve(self, problem: Problem) -> tuple[Tensor, int | None]:
        csr, incoming = problem.layout.csr, problem.incoming
        own_weight = np.ones(1) if csr.weight is None else csr.weight.numpy()
        edges = (
            incoming.indptr,
            incoming.indices,
            incoming.stride,
            csr.indptr.numpy(),
            csr.indices.numpy(),
            own_weight,
        )

        def one(column: int, starts: np.ndarray, slowness: np.ndarray, u: np.ndarray) -> int:
            return int(_sweep(problem.p, *edges, starts, slowness, u, self.tolerance, self.max_sweeps))

        return solve_columns(problem, one)


@njit(nogil=True, cache=True)
def _sweep(  # type: ignore[no-untyped-def]
    p, indptr, indices, stride, row_ptr, row_indices, row_weight, starts, slowness, u, tolerance, max_sweeps
):
    """Relaxes until nothing waits, and gives the number of sweeps: one more than allowed if it ran out of them."""
    idle, waiting, boundary_mask = 0, 1, 2
    state = np.full(u.size, idle, np.int32)
    active, following = np.empty(u.size, np.int32), np.empty(u.size, np.int32)
    for i in starts:
        u[i] = 0.0
        state[i] = boundary_mask
    count = 0
    for i in starts:
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if state[j] == idle:
                state[j] = waiting
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
            # From infinity the first fall always counts; inf − inf below is NaN and compares false.
            if not (t < u[i] - tolerance * u[i] or (u[i] == np.inf and t < np.inf)):
                continue
            u[i] = t
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if state[j] == idle and u[j] > t:
                    state[j] = waiting
                    following[next_count] = j
                    next_count += 1
        active, following = following, active
        count = next_count
    return sweeps
