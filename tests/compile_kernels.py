"""Compiles the kernels of one precision into numba's cache: `python tests/compile_kernels.py float32`.

Test processes side by side would compile the same kernels at the same time, each for itself.
"""

import math
import sys

import torch

import lggd

dtype = getattr(torch, sys.argv[1])
graph = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", dtype=dtype)
for p in (1, 2, 3.5, math.inf):
    start = torch.ones(3, 2, dtype=dtype, requires_grad=True)
    solution = lggd.evolve(graph, [[0], [2]], start=start, times=[1.0], p=p)
    solution.value.sum().backward()
    solution.statistics.residual  # noqa: B018 - computed when it is read
