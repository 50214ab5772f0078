"""The eikonal problem: ρ(i)‖∇⁻_w f(i)‖_p = 1 off the boundary, f = 0 on it (paper, Eq. 7)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd._kernels import largest_residual
from lggd.equation import Boundary, Field, Potential, Sources, check_p, mask_of, read_potential
from lggd.graph import Graph, check_graph
from lggd.graph.csr import CPU, Array, Layout
from lggd.results import Solution, Statistics, Status

if TYPE_CHECKING:
    from jaxtyping import Float64

# solve(starts, slowness [N] or [1], u [N]) fills u, which is inf initially, and returns the number of sweeps or None.
SolveColumn = Callable[[np.ndarray, np.ndarray, np.ndarray], int | None]


@dataclass(frozen=True, eq=False)
class EikonalProblem:
    """A graph, K boundaries, the exponent and the potential: read, checked and arranged by row on the CPU."""

    graph: Graph
    layout: Layout
    p: float
    starts: Sequence[Tensor]  # the boundary rows of each column, int64
    potential: Float64[Tensor, "#n g"]  # by row, in 1 or K columns; [1, 1] where it is 1
    single: bool
    began: float  # start of the clock, for the statistics

    @classmethod
    def read(cls, graph: Graph, sources: Sources, p: float, potential: Potential | None) -> EikonalProblem:
        began, p = time.perf_counter(), check_p(p)
        boundary = Boundary.read(sources, check_graph(graph).num_nodes)
        columns = len(boundary.columns)
        layout = graph.to(CPU).layout(passes=columns)
        rho = torch.ones(1, 1, dtype=torch.float64)
        if potential is not None:
            by_node = read_potential(potential, graph, columns, torch.float64).detach().to(CPU)
            rho = layout.into_rows(by_node).contiguous()
        starts = [layout.rows_of(torch.from_numpy(nodes)) for nodes in boundary.columns]
        return cls(graph, layout, p, starts, rho, boundary.single, began)

    @property
    def slowness(self) -> NDArray[np.float64]:
        """1/ρ by row: `[N, 1]` or `[N, K]`, and `[1, ·]` where it is the same for every row."""
        return np.asarray(1 / self.potential.numpy())

    @property
    def incoming(self) -> tuple[Array, Array, Array, int]:
        """For each node, the nodes that depend on it, to which a front spreads: the `CSR.arrays`."""
        return self.layout.csr.transposed.arrays()

    @property
    def outgoing(self) -> tuple[Array, Array, Array]:
        """The neighbours that each node depends on: row pointers, indices, and weights read with the same stride."""
        return self.layout.csr.arrays()[:3]

    def solve_columns(self, solve: SolveColumn) -> tuple[Float64[Tensor, "n k"], int]:
        """Values by row `[N, K]` and the largest number of sweeps of a column.

        Columns run in parallel threads: the compiled loops release the interpreter lock.
        """
        columns = len(self.starts)
        out = np.full((columns, self.layout.csr.num_nodes), np.inf)
        slowness = np.ascontiguousarray(self.slowness.T)

        def work(k: int) -> int:
            return solve(self.starts[k].int().numpy(), slowness[k % len(slowness)], out[k]) or 0

        with self.layout.csr.bounded():
            if columns == 1:
                return torch.from_numpy(out).T, work(0)
            with ThreadPoolExecutor(min(numba.get_num_threads(), columns)) as threads:
                return torch.from_numpy(out).T, max(threads.map(work, range(columns)))

    def solution(
        self, by_row: Float64[Tensor, "n k"], solver: Solver, sweeps: int | None = None, converged: bool = True
    ) -> Solution:
        """The solution with these values by row `[N, K]`, its status and its statistics."""
        status = Status.EXACT if bool(torch.isfinite(by_row).all()) else Status.UNREACHABLE
        if not converged:
            status = Status.NOT_CONVERGED
        value = self.layout.to_nodes(by_row).to(self.graph.device)
        seconds = time.perf_counter() - self.began
        statistics = Statistics(type(solver).__name__, seconds, sweeps, _residual=lambda: self.residual(by_row))
        return Solution(value.squeeze(1) if self.single else value, status, statistics)

    def residual(self, by_row: Float64[Tensor, "n k"]) -> float:
        """max |ρ‖∇⁻f‖_p − 1| off the boundary, where f `[N, K]` is finite; of a graph on disk with √w as stored."""
        csr = self.layout.csr
        field = Field(csr, self.p, self.potential, csr.root_weight_as(torch.float64))
        finite = torch.isfinite(by_row)
        # A finite node never depends on an infinite one, so any larger number may replace infinity.
        above = float(by_row[finite].max()) + 1
        filled = torch.where(finite, by_row, torch.full_like(by_row, above)).contiguous()
        return largest_residual(field, filled, finite & ~mask_of(self.starts, csr.num_nodes))


class Solver(Protocol):
    """A method for the eikonal problem. `solve` returns the values by node, `[N]` or `[N, K]`, with their status."""

    def solve(self, problem: EikonalProblem) -> Solution: ...
