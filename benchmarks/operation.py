"""The hot operation as an evolution calls it, the same as message passing does it, and the yardstick for both."""

from __future__ import annotations

from functools import cache, cached_property

import torch
from torch import Tensor

from benchmarks.timing import race_on
from lggd.graph import Graph
from lggd.kernels import backend_for
from lggd.solvers.cauchy import CauchyProblem


def problem_of(graph: Graph, columns: int) -> CauchyProblem:
    """An evolution of random columns with p = 1, in float32, on the graph's device; nothing is held."""
    random = torch.Generator(graph.device).manual_seed(0)
    start = torch.rand(graph.num_nodes, columns, generator=random, device=graph.device)
    return CauchyProblem(graph, None, start, 1, None, None, 0)


class Operation:
    """One evaluation for K columns: on the rows of an evolution, with its idle columns, into memory of its own."""

    def __init__(self, graph: Graph, columns: int) -> None:
        problem = problem_of(graph, columns)
        self.graph, self.columns, self.layout = graph, columns, problem.layout
        self.field, self.rows = problem.field, problem.start
        self.slope, self.out = torch.empty_like(self.rows), torch.empty_like(self.rows)
        self.backend = backend_for(graph.device)

    @property
    def carried(self) -> int:
        """How many columns there are with the idle ones."""
        return self.rows.shape[1]

    @cached_property
    def cotangent(self) -> Tensor:
        random = torch.Generator(self.graph.device).manual_seed(1)
        return torch.rand(self.rows.shape, generator=random, device=self.graph.device)

    def norm(self) -> Tensor:
        return self.backend.norm(self.field, self.rows)

    def stage(self) -> None:
        """The first stage of a step: the slope, and the state moved along it."""
        self.backend.stage(self.field, self.rows, [self.rows], [self.out, self.slope], [[1.0, 0.1], [0.0, 1.0]])

    def vjp(self) -> Tensor:
        return self.backend.vjp(self.field, self.rows, [self.cotangent], [1.0], False, False)[0]

    @property
    def gathered(self) -> int:
        """Bytes of a stage, idle columns not counted.

        Per edge an index and a neighbour's row; per node a row read, two written, and the pointers.
        """
        graph, columns = self.graph, self.columns
        return graph.num_edges * (4 + 4 * columns) + graph.num_nodes * (12 + 12 * columns)


def scatter_falls(edge_index: Tensor, f: Tensor) -> Tensor:
    """‖∇⁻f‖₁ the way message passing does it: gather both ends of every edge, scatter the sum."""
    rows, columns = edge_index
    fall = (f[rows] - f[columns]).clamp_(min=0)
    index = rows.unsqueeze(1).expand_as(fall)
    return torch.zeros_like(f).scatter_add_(0, index, fall)


def scatter_rate(edge_index: Tensor, rho: Tensor, f: Tensor) -> Tensor:
    """The right-hand side that way."""
    return 1 - rho * scatter_falls(edge_index, f)


@cache
def copy_bandwidth(device: torch.device) -> float:
    """Bytes read and written a second by a large copy."""
    source = torch.rand((256 if device.type == "cuda" else 64) * 2**20, device=device)
    target = torch.empty_like(source)
    best = race_on(device, {"copy": 10}, turns=7, copy=lambda: target.copy_(source))
    return 2 * source.nbytes / best["copy"]
