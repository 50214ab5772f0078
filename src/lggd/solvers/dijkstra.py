"""Shortest paths: p = ∞, where the edge (i, j) is 1/(ρ(i)√w(i, j)) long."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from lggd.solvers.columns import solve_columns
from lggd.solvers.marching import LARGEST, march
from lggd.solvers.problem import Problem


@dataclass(frozen=True)
class Dijkstra:
    """Exact, for p = ∞ alone. Breadth-first where every edge is equally long, with a heap otherwise."""

    def solve(self, problem: Problem) -> tuple[Tensor, int | None]:
        if not math.isinf(problem.p):
            raise ValueError(
                f"`solver=Dijkstra()` finds shortest paths, p = inf, got p={problem.p}. Use FastMarching()."
            )
        csr, slowness = problem.layout.csr, problem.slowness
        if csr.weight is None and (slowness == slowness[:1]).all():
            return hops(problem) * torch.from_numpy(slowness[0]), None
        return march(LARGEST, problem), None


def hops(problem: Problem) -> Tensor:
    """The number of edges to the boundary by row `[N, K]`, float64; inf where there is no way."""
    indptr, indices, _, _ = problem.incoming

    def one(column: int, starts: np.ndarray, slowness: np.ndarray, u: np.ndarray) -> int:
        _breadth_first(indptr, indices, starts, u)
        return 0

    return solve_columns(problem, one)[0]


@njit(nogil=True, cache=True)
def _breadth_first(indptr, indices, starts, u):  # type: ignore[no-untyped-def]
    queue = np.empty(u.size, np.int32)
    queue[: starts.size] = starts
    for i in starts:
        u[i] = 0.0
    first, last = 0, starts.size
    while first < last:
        i = queue[first]
        first += 1
        further = u[i] + 1.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if u[j] == np.inf:
                u[j] = further
                queue[last] = j
                last += 1
