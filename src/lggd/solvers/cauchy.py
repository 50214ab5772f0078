"""The initial value problem: ∂f/∂t = 1 − ρ‖∇⁻f‖_p off the boundary, f = 0 on it, f(·, 0) = φ₀ (paper, Eq. 8)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lggd._kernels import PaddedState, largest_residual
from lggd.equation import Boundary, Potential, Sources, check_p, read_potential
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph, check_graph
from lggd.solvers.dijkstra import hops
from lggd.solvers.eikonal_problem import EikonalProblem
from lggd.solvers.scheme import evolution_layout
from lggd.validation import check_entries, check_real

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

# f(·, 0) off the boundary where `start` is None: above any distance in practice.
INITIAL_VALUE = 1e6


class CauchyProblem:
    """The inputs of an evolution, checked and arranged by row. Differentiable in start, potential and weight.

    `sources=None` leaves every node free (the paper's Solver 1). `start=None` is 0 on the boundary and `initial_value`
    elsewhere.
    """

    def __init__(
        self, graph: Graph, sources: Sources | None, start: Tensor | None, p: float, potential: Potential | None,
        weight: Tensor | None, initial_value: float,
    ) -> None:  # fmt: skip
        self.graph, self.layout = check_graph(graph), evolution_layout(graph)
        self.boundary = None if sources is None else Boundary.read(sources, graph.num_nodes)
        by_node = read_start(graph, self.boundary, start, initial_value)
        self.columns = by_node.shape[1]
        rho = self.layout.into_rows(read_potential(potential, graph, self.columns, by_node.dtype))
        root_weight = self._read_weight(weight, by_node.dtype)
        boundary_mask = None
        if self.boundary is not None:
            mask = self.boundary.mask(graph.num_nodes).to(graph.device)
            by_node = by_node.masked_fill(mask, 0)
            boundary_mask = self.layout.into_rows(mask).unsqueeze(1)
        padded = PaddedState.build(
            self.layout.csr, check_p(p), self.layout.into_rows(by_node).unsqueeze(1), rho, root_weight, boundary_mask,
            symmetric=weight is None and not graph.is_directed,
        )  # fmt: skip
        self.start, self.field = padded.state, padded.field

    def to_nodes(self, rows: Float[Tensor, "*t n c"]) -> Float[Tensor, "*t n k"]:
        """States by row `[…, N, C]` as values by node `[…, N, K]`, without the idle columns."""
        return self.layout.to_nodes(rows[..., : self.columns], dim=-2)

    def _read_weight(self, weight: Float[Tensor, " e *k"] | None, dtype: torch.dtype) -> Float[Tensor, "e h"] | None:
        if weight is None:
            return self.layout.csr.root_weight_as(dtype)
        if not isinstance(weight, Tensor):
            raise InputTypeError("weight", "be a tensor", type(weight).__name__, "Use torch.as_tensor(weight).")
        value = weight.unsqueeze(1) if weight.dim() == 1 else weight
        edges = self.graph.num_edges
        if value.dim() != 2 or value.shape[0] != edges or value.shape[1] not in (1, self.columns):
            rule = f"have shape [{edges}] or [{edges}, {self.columns}], along graph.edge_index"
            raise InputError("weight", rule, list(weight.shape))
        check_entries("weight", value, torch.isfinite(value) & (value > 0), "be positive and finite", "edge")
        return self.layout.edges_into_rows(value.to(device=self.graph.device, dtype=dtype).sqrt())

    @cached_property
    def reachable(self) -> Bool[Tensor, "n k"]:
        """Which rows can reach the boundary of each column, `[N, K]`."""
        if self.boundary is None:
            return torch.ones_like(self.start[:, : self.columns], dtype=torch.bool)
        problem = EikonalProblem.read(self.graph, list(self.boundary.columns), self.field.p, None)
        by_node = problem.layout.to_nodes(torch.isfinite(hops(problem)))
        return self.layout.into_rows(by_node.to(self.graph.device))

    def residual(self, rows: Float[Tensor, "n c"]) -> float:
        """max |1 − ρ‖∇⁻f‖_p| over the free rows that can reach the boundary; 0 where there are none."""
        field, free = self.field, self.reachable
        if field.boundary_mask is not None:
            free = free & ~field.boundary_mask[:, : self.columns]
        return largest_residual(field, rows, free)

    def check_finite(
        self, before: Float[Tensor, "n c"], after: Float[Tensor, "n c"], step_number: int, size: float
    ) -> None:
        """Raises an error with the node, the step and the parameter to change if a state is no longer finite."""
        finite = torch.isfinite(after)
        if bool(finite.all()):
            return
        row, column = (int(x) for x in (~finite).nonzero()[0])
        node = int(self.layout.nodes_of(torch.tensor(row)))
        cfl_number = self.field.cfl_number()
        here = float(cfl_number[row, min(column, cfl_number.shape[1] - 1)])
        raise FloatingPointError(
            f"Node {node}, column {column}, became {float(after[row, column])} in step {step_number} (it was "
            f"{float(before[row, column]):g}): there `step` × ρ‖√w‖_p is {size * here:.4g}, and "
            f"{size * self.field.cfl_bound:.4g} at its largest. Use step=None, which stays within the scheme's limit."
        )


def read_start(
    graph: Graph, boundary: Boundary | None, start: Float[Tensor, " n *k"] | None, initial_value: float
) -> Float[Tensor, "n c"]:
    """f(·, 0) by node, checked, `[N, K]`."""
    if start is None:
        if boundary is None:
            raise InputError("start", "be passed where sources=None: without a boundary nothing else determines f")
        check_real("initial_value", initial_value, 0, closed="left", rule="be non-negative and finite")
        shape = (graph.num_nodes, len(boundary.columns))
        return torch.full(shape, float(initial_value), dtype=graph.dtype, device=graph.device)
    if not isinstance(start, Tensor) or not start.is_floating_point():
        kind = start.dtype if isinstance(start, Tensor) else type(start).__name__
        raise InputTypeError("start", "be a floating-point tensor", kind, "Use torch.as_tensor(start, dtype=…).")
    if start.dtype not in (torch.float32, torch.float64):
        raise InputTypeError("start", "be float32 or float64", start.dtype, "Convert it with start.float().")
    value = (start.unsqueeze(1) if start.dim() == 1 else start).to(graph.device)
    columns = len(boundary.columns) if boundary is not None else value.shape[1] if value.dim() == 2 else 1
    if value.dim() != 2 or value.shape[0] != graph.num_nodes or value.shape[1] not in (1, columns):
        rule = f"have shape [{graph.num_nodes}, {columns}] (nodes, columns)"
        raise InputError("start", rule, list(start.shape))
    valid, remedy = torch.isfinite(value) & (value >= 0), "Distances start at 0 or above: take the absolute value."
    check_entries("start", value, valid, "be non-negative and finite", "node", remedy)
    return value.expand(-1, columns)
