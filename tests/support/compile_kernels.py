"""Compiles the kernels of the CPU into numba's cache, of both precisions at the same time.

Test processes side by side would compile the same kernels at the same time, each for itself.
"""

import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import torch

import lggd

EDGES = [(0, 1), (1, 2)]


def compile_kernels(dtype: torch.dtype) -> None:
    graph = lggd.Graph.from_edges(EDGES, symmetrize="max", dtype=dtype)
    for p in (1, 2, 3.5, math.inf):
        start = torch.ones(3, 2, dtype=dtype, requires_grad=True)
        solution = lggd.evolve(graph, [[0], [2]], start=start, times=[1.0], p=p)
        solution.value.sum().backward()
        solution.statistics.residual  # noqa: B018 - computed when it is read


if __name__ == "__main__":
    lggd.Graph.from_edges(EDGES, symmetrize="max").layout(1).csr  # noqa: B018 - loops without a precision
    # A fork has everything imported.
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        list(pool.map(compile_kernels, (torch.float32, torch.float64)))
