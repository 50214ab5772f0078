"""The steady problem: ρ(i)‖∇⁻_w f(i)‖_p = 1 off the boundary, f = 0 on it (paper, Eq. 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd.equation.boundary import Boundary, Sources
from lggd.equation.operators import check_p
from lggd.equation.potential import Potential, read_potential
from lggd.errors import InputTypeError
from lggd.graph import Graph
from lggd.graph.layout import CPU, Layout
from lggd.kernels import Field, backend_for


class Incoming(NamedTuple):
    """For each node, the nodes that see it: how a front spreads. Weights are read as `weight[e * stride]`."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weight: NDArray[np.floating]
    stride: int


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph, K boundaries, the exponent and the potential, read, checked and arranged by row on the CPU."""

    graph: Graph
    layout: Layout
    p: float
    starts: NDArray[np.int32]  # the boundary rows of all columns, one after another
    bounds: NDArray[np.int64]  # column k owns starts[bounds[k]:bounds[k + 1]]
    potential: Tensor  # float64 by row: [N, 1] or [N, K], and [1, 1] where it is 1
    single: bool

    @classmethod
    def read(cls, graph: Graph, sources: Sources, p: float, potential: Potential | None) -> Problem:
        if not isinstance(graph, Graph):
            raise InputTypeError("graph", "be a lggd.Graph", type(graph).__name__, "Build one, as Graph.from_scipy.")
        p = check_p(p)
        boundary = Boundary.read(sources, graph.num_nodes)
        columns = len(boundary.columns)
        on_cpu = graph.to(CPU)
        layout = on_cpu.layout(passes=columns)
        if potential is None:
            rho = torch.ones(1, 1, dtype=torch.float64)
        else:
            rho = layout.into_rows(
                read_potential(potential, graph, columns, torch.float64).detach().to(CPU)
            ).contiguous()
        ids = [torch.from_numpy(nodes) for nodes in boundary.columns]
        rows = [nodes if layout.rank is None else layout.rank[nodes] for nodes in ids]
        return cls(
            graph,
            layout,
            p,
            torch.cat(rows).to(torch.int32).numpy(),
            np.cumsum([0] + [len(nodes) for nodes in rows]),
            rho,
            boundary.single,
        )

    @property
    def columns(self) -> int:
        return len(self.bounds) - 1

    @property
    def slowness(self) -> NDArray[np.float64]:
        """1/ρ by row: `[N, 1]` or `[N, K]`, and `[1, ·]` where every row has the same."""
        return np.asarray(1 / self.potential.numpy())

    @property
    def incoming(self) -> Incoming:
        csr = self.layout.csr
        indptr, indices = (csr.indptr, csr.indices) if csr.symmetric else csr.transposed[:2]
        if csr.incoming_weight is None:
            return Incoming(indptr.numpy(), indices.numpy(), np.ones(1, np.float64), 0)
        return Incoming(indptr.numpy(), indices.numpy(), csr.incoming_weight.numpy(), 1)

    def residual(self, by_row: Tensor) -> float:
        """max |ρ‖∇⁻f‖_p − 1| off the boundary, where f `[N, K]` is finite."""
        csr = self.layout.csr
        root = None if csr.weight is None else csr.weight.to(torch.float64).sqrt().unsqueeze(1)
        boundary_mask = torch.zeros(by_row.shape, dtype=torch.bool)
        for k in range(self.columns):
            boundary_mask[torch.from_numpy(self.starts[self.bounds[k] : self.bounds[k + 1]]).long(), k] = True
        field = Field(csr, self.p, self.potential, root, boundary_mask)
        finite = torch.isfinite(by_row)
        # A node that is finite never falls towards an infinite one, so any larger number may stand for infinity.
        above = float(by_row[finite].max()) + 1
        filled = torch.where(finite, by_row, torch.full_like(by_row, above))
        off = 1 - self.potential * backend_for(CPU).norm(field, filled)
        return float(off.abs().masked_fill(boundary_mask | ~finite, 0).max())


class Solver(Protocol):
    """A way to solve the steady problem. `solve` gives values by row `[N, K]`, and sweeps where there are any."""

    def solve(self, problem: Problem) -> tuple[Tensor, int | None]: ...
