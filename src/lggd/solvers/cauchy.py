"""The initial value problem: ∂f/∂t = 1 − ρ‖∇⁻f‖_p off the boundary, f = 0 on it, f(·, 0) = φ₀ (paper, Eq. 8)."""

from __future__ import annotations

import math
from functools import cached_property
from numbers import Real

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.equation.boundary import Boundary, Sources
from lggd.equation.operators import check_p
from lggd.equation.potential import Potential, read_potential
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.kernels import Field, backend_for, idle_columns
from lggd.solvers.dijkstra import hops
from lggd.solvers.problem import Problem
from lggd.solvers.scheme import FixedStep, choose_step

# An evolution reads the edges some hundred times: more than enough for reordering to pay.
PASSES = 100


class CauchyProblem:
    """Reads, checks and arranges by row what an evolution depends on. Differentiable in start, potential and weight.

    `sources=None` leaves every node free (the paper's Solver 1). `start=None` is 0 on the boundary and `far` elsewhere.
    """

    def __init__(
        self,
        graph: Graph,
        sources: Sources | None,
        start: Tensor | None,
        p: float,
        potential: Potential | None,
        weight: Tensor | None,
        far: float,
    ) -> None:
        if not isinstance(graph, Graph):
            raise InputTypeError("graph", "be a lggd.Graph", type(graph).__name__, "Build one, as Graph.from_scipy.")
        self.graph, self.layout = graph, graph.layout(PASSES)
        self.boundary = None if sources is None else Boundary.read(sources, graph.num_nodes)
        by_node = self._read_start(start, far)
        self.columns = by_node.shape[1]
        rho = read_potential(potential, graph, self.columns, by_node.dtype)
        root_weight = self._read_weight(weight, by_node.dtype)
        boundary_mask = None if self.boundary is None else self.boundary.mask(graph.num_nodes).to(graph.device)
        if boundary_mask is not None:
            by_node = by_node.masked_fill(boundary_mask, 0)
            boundary_mask = self.layout.into_rows(self._carried(boundary_mask, True)).contiguous()
        self.start = self.layout.into_rows(self._carried(by_node, 0.0)).contiguous()
        self.field = Field(
            self.layout.csr,
            check_p(p),
            self.layout.into_rows(rho if rho.shape[1] == 1 else self._carried(rho, 1.0)).contiguous(),
            root_weight if root_weight is None or root_weight.shape[1] == 1 else self._carried(root_weight, 1.0),
            boundary_mask,
            symmetric=weight is None and not graph.is_directed,
        )

    def _carried(self, columns: Tensor, filling: float) -> Tensor:
        return pad(columns, (0, idle_columns(self.graph.device, self.columns)), value=filling)

    def to_nodes(self, rows: Tensor) -> Tensor:
        """States by row `[…, N, C]` as values by node `[…, N, K]`, without the idle columns."""
        return self.layout.to_nodes(rows[..., : self.columns], dim=-2)

    def _read_start(self, start: Tensor | None, far: float) -> Tensor:
        graph, boundary = self.graph, self.boundary
        if start is None:
            if boundary is None:
                raise InputError("start", "be given where sources=None: without a boundary nothing else sets f")
            if not isinstance(far, Real) or not 0 <= far < math.inf:
                raise InputError("far", "be non-negative and finite", far)
            shape = (graph.num_nodes, len(boundary.columns))
            return torch.full(shape, float(far), dtype=graph.dtype, device=graph.device)
        if not isinstance(start, Tensor) or not start.is_floating_point():
            given = start.dtype if isinstance(start, Tensor) else type(start).__name__
            raise InputTypeError("start", "be a floating-point tensor", given, "Use torch.as_tensor(start, dtype=…).")
        if start.dtype not in (torch.float32, torch.float64):
            raise InputTypeError("start", "be float32 or float64", start.dtype, "Convert it with start.float().")
        value = (start.unsqueeze(1) if start.dim() == 1 else start).to(graph.device)
        columns = len(boundary.columns) if boundary is not None else value.shape[1] if value.dim() == 2 else 1
        if value.dim() != 2 or value.shape[0] != graph.num_nodes or value.shape[1] not in (1, columns):
            wanted = f"[{graph.num_nodes}, {columns}]"
            raise InputError("start", f"have shape {wanted} (nodes, columns)", list(start.shape))
        bad = ~(torch.isfinite(value) & (value >= 0))
        if bool(bad.any()):
            node, column = (int(x) for x in bad.nonzero()[0])
            raise InputError(
                "start",
                "be non-negative and finite",
                f"{float(value[node, column]):g} at node {node}, column {column}",
                "Distances start at 0 or above: take the absolute value.",
            )
        return value.expand(-1, columns)

    def _read_weight(self, weight: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        if weight is None:
            own = self.layout.csr.weight
            return None if own is None else own.to(dtype).sqrt().unsqueeze(1)
        if not isinstance(weight, Tensor):
            raise InputTypeError("weight", "be a tensor", type(weight).__name__, "Use torch.as_tensor(weight).")
        value = weight.unsqueeze(1) if weight.dim() == 1 else weight
        edges = self.graph.num_edges
        if value.dim() != 2 or value.shape[0] != edges or value.shape[1] not in (1, self.columns):
            wanted = f"[{edges}] or [{edges}, {self.columns}]"
            raise InputError("weight", f"have shape {wanted}, along graph.edge_index", list(weight.shape))
        bad = ~(torch.isfinite(value) & (value > 0))
        if bool(bad.any()):
            edge, column = (int(x) for x in bad.nonzero()[0])
            raise InputError("weight", "be positive and finite", f"{float(value[edge, column]):g} on edge {edge}")
        value = value.to(device=self.graph.device, dtype=dtype).sqrt()
        return self.layout.edges_into_rows(value).contiguous()

    @cached_property
    def bound(self) -> float:
        """max_i ρ(i)‖√w(i,·)‖_p; times the step it must stay below the scheme's limits. 0 without edges."""
        return float(self.field.cfl_number().max())

    def choose_step(self, scheme: FixedStep) -> tuple[float, bool]:
        """The step to take, and whether it lies above the scheme's monotone limit."""
        return choose_step(scheme, self.field.p, self.bound)

    @cached_property
    def reachable(self) -> Tensor:
        """Which rows can reach the boundary of each column, `[N, K]`."""
        if self.boundary is None:
            return torch.ones_like(self.start[:, : self.columns], dtype=torch.bool)
        steady = Problem.read(self.graph, list(self.boundary.columns), self.field.p, None)
        by_node = steady.layout.to_nodes(torch.isfinite(hops(steady)))
        return self.layout.into_rows(by_node.to(self.graph.device))

    def residual(self, rows: Tensor) -> float:
        """max |1 − ρ‖∇⁻f‖_p| over the free rows that can reach the boundary; 0 where there are none."""
        field = self.field
        off = (1 - field.rho.detach() * backend_for(rows.device).norm(field.detached(), rows)).abs()[:, : self.columns]
        free = (
            self.reachable if field.boundary_mask is None else self.reachable & ~field.boundary_mask[:, : self.columns]
        )
        return float(off.masked_fill(~free, 0).max())

    def explain_divergence(self, before: Tensor, after: Tensor, step_number: int, size: float) -> FloatingPointError:
        """The error that names the node, the step and the parameter behind a value that is no longer finite."""
        row, column = (int(x) for x in (~torch.isfinite(after)).nonzero()[0])
        node = row if self.layout.order is None else int(self.layout.order[row])
        cfl_number = self.field.cfl_number()
        steep = float(cfl_number[row, min(column, cfl_number.shape[1] - 1)])
        return FloatingPointError(
            f"Node {node}, column {column}, became {float(after[row, column])} in step {step_number} (it was "
            f"{float(before[row, column]):g}): there `step` × ρ‖√w‖_p is {size * steep:.4g}, and "
            f"{size * self.bound:.4g} at its largest. Use step=None, which keeps it within the scheme's limit."
        )
