"""The upwind norm as an evolution calls it, the same by message passing, and the copy bandwidth to compare with."""

from __future__ import annotations

from functools import cache, cached_property

import torch
from torch import Tensor

from benchmarks.timing import race_on
from lggd._kernels import backend_for
from lggd.graph import Graph
from lggd.solvers.cauchy import CauchyProblem


def problem_of(graph: Graph, columns: int) -> CauchyProblem:
    """An evolution of random columns with p = 1, in float32, on the graph's device, without a boundary."""
    random = torch.Generator(graph.device).manual_seed(0)
    start = torch.rand(graph.num_nodes, columns, generator=random, device=graph.device)
    return CauchyProblem(graph, None, start, 1, None, None, 0)


class Operation:
    """One evaluation for K columns: on the rows of an evolution, padding included, into preallocated memory."""

    def __init__(self, graph: Graph, columns: int) -> None:
        problem = problem_of(graph, columns)
        self.graph, self.columns, self.layout = graph, columns, problem.layout
        self.field, self.rows = problem.field, problem.start
        self.slope, self.out = torch.empty_like(self.rows), torch.empty_like(self.rows)
        self.backend = backend_for(graph.device)

    @property
    def carried(self) -> int:
        """The number of columns, padding included."""
        return self.rows.shape[1]

    @cached_property
    def cotangent(self) -> Tensor:
        random = torch.Generator(self.graph.device).manual_seed(1)
        return torch.rand(self.rows.shape, generator=random, device=self.graph.device)

    def norm(self) -> Tensor:
        return self.backend.norm(self.field, self.rows)

    def stage(self) -> None:
        """The first stage of a step: the slope, and the state after a step along it."""
        self.backend.stage(self.field, self.rows, [self.rows], [self.out, self.slope], [[1.0, 0.1], [0.0, 1.0]])

    def vjp(self) -> Tensor:
        return self.backend.vjp(self.field, self.rows, [self.cotangent], [1.0], False, False)[0]

    @property
    def gathered(self) -> int:
        """Bytes of a stage, without padding.

        Per edge an index and a neighbour's row; per node one row read, two rows written, and the pointers.
        """
        graph, columns = self.graph, self.columns
        return graph.num_edges * (4 + 4 * columns) + graph.num_nodes * (12 + 12 * columns)


def scatter_norm(edge_index: Tensor, f: Tensor) -> Tensor:
    """‖∇⁻f‖₁ by message passing: gathers both ends of every edge, scatters the sum."""
    rows, columns = edge_index
    difference = (f[rows] - f[columns]).clamp_(min=0)
    index = rows.unsqueeze(1).expand_as(difference)
    return torch.zeros_like(f).scatter_add_(0, index, difference)


def scatter_rate(edge_index: Tensor, rho: Tensor, f: Tensor) -> Tensor:
    """The right-hand side by message passing."""
    return 1 - rho * scatter_norm(edge_index, f)


@cache
def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second read and written by a large copy."""
    source = torch.rand((256 if device.type == "cuda" else 64) * 2**20, device=device)
    target = torch.empty_like(source)
    best = race_on(device, {"copy": 10}, turns=7, copy=lambda: target.copy_(source))
    return 2 * source.nbytes / best["copy"]
