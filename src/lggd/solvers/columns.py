"""Independent columns in parallel threads. The compiled loops release the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import torch
from torch import Tensor

from lggd.solvers.problem import Problem


def solve_columns(
    problem: Problem, solve_one: Callable[[int, np.ndarray, np.ndarray, np.ndarray], int]
) -> tuple[Tensor, int]:
    """Calls `solve_one(column, starts, slowness [N], u [N])` for every column, u holding inf for it to fill in.

    Gives the values by row `[N, K]` and the largest of the numbers that the calls returned.
    """
    out = np.full((problem.columns, problem.layout.csr.num_nodes), np.inf)
    slowness = np.ascontiguousarray(problem.slowness.T)

    def work(column: int) -> int:
        starts = problem.starts[problem.bounds[column] : problem.bounds[column + 1]]
        return solve_one(column, starts, slowness[column if len(slowness) > 1 else 0], out[column])

    if problem.columns == 1:
        counts = [work(0)]
    else:
        with ThreadPoolExecutor(min(numba.get_num_threads(), problem.columns)) as threads:
            counts = list(threads.map(work, range(problem.columns)))
    return torch.from_numpy(out).T, max(counts)
