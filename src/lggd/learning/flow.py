"""The evolution of many problems at once: columns of one state, each up to its own last time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lggd.equation.operators import check_p
from lggd.graph import Graph
from lggd.kernels import Field
from lggd.learning.parameters import Equation
from lggd.solvers.adjoint import integrate
from lggd.solvers.plan import PaddedState, Plan, check_times, evolution_layout, make_plan
from lggd.solvers.scheme import FixedStep, choose_step

# On a CPU, parameters by problem are repeated for every column up to this many bytes: that is faster.
MAX_REPEATED_BYTES = 2**28


class Flow:
    """∂f/∂t = 1 − ρ‖∇⁻f‖_p for Q problems of K columns each, with outputs at the times of each problem.

    `horizons[q]` are increasing indices into `times`, the same number for every problem, and some problem has the last
    time. A problem leaves the state at its own last time. The step depends on the bounds of the learned coefficients,
    not on their current values: it is the same in all epochs, and the same for a problem on its own.
    """

    def __init__(
        self,
        graph: Graph,
        equation: Equation,
        times: Sequence[float],
        horizons: Sequence[Sequence[int]],
        p: float,
        scheme: FixedStep,
    ) -> None:
        self.graph, self.layout, self.p = graph, evolution_layout(graph), check_p(p)
        self.horizons = [list(h) for h in horizons]
        self._schedules: dict[int, ColumnSchedule] = {}
        largest = Field(self.layout.csr, self.p, *self._by_row(*equation.limits()))
        self.step, self.may_overshoot = choose_step(scheme, largest)
        self.plan = make_plan(scheme, check_times(times), self.step)

    def __call__(self, equation: Equation, start: Tensor, boundary_mask: Tensor | None = None) -> Tensor:
        """From `start [N, R·Q, K]`, with f = 0 on the `boundary_mask` of that shape, to `[M, N, R·Q, K]`, M horizons.

        R > 1 solves R variants of the Q problems, with other starts and boundaries, in the same passes over the edges.
        """
        columns = start.shape[1]
        if columns not in self._schedules:
            self._schedules[columns] = ColumnSchedule(self.horizons, columns, len(self.plan.counts), start.device)
        schedule = self._schedules[columns]
        if boundary_mask is not None:
            start = start.masked_fill(boundary_mask, 0)
            boundary_mask = self.layout.into_rows(boundary_mask.index_select(1, schedule.order))
        state = self.layout.into_rows(start.index_select(1, schedule.order))
        rho, root = self._by_row(equation.rho(), equation.root_weight(), schedule.problem)
        plan, symmetric = self.plan.within_memory(start.nbytes, start.device), equation.theta_edges is None
        outputs = []
        for k, running in enumerate(schedule.running):
            state = self._advance(plan.segment(k), state[:, :running], rho, root, boundary_mask, symmetric)
            outputs.append(state.index_select(1, schedule.outputs[k]))
        by_problem = torch.cat(outputs, 1).index_select(1, schedule.arrange)
        by_horizon = by_problem.view(len(start), -1, *start.shape[1:]).transpose(0, 1)
        return self.layout.to_nodes(by_horizon, dim=1)

    def _by_row(self, rho: Tensor, root: Tensor | None, problem: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """ρ and √w in the order of the rows, with the columns of each `problem` where they differ."""
        if problem is not None and rho.shape[1] > 1:
            rho = rho.index_select(1, problem)
        if problem is not None and root is not None and root.shape[1] > 1:
            root = root.index_select(1, problem)
        return self.layout.into_rows(rho), None if root is None else self.layout.edges_into_rows(root)

    def _advance(
        self, plan: Plan, state: Tensor, rho: Tensor, root: Tensor | None, boundary_mask: Tensor | None, symmetric: bool
    ) -> Tensor:
        """The running problems `[N, Q, K]` at the end of a plan with one output."""
        problems, classes = state.shape[1:]
        rho, root = self._parameters(rho[:, :problems], None if root is None else root[:, :problems], classes)
        boundary_mask = None if boundary_mask is None else boundary_mask[:, :problems]
        symmetric = symmetric and not self.graph.is_directed
        padded = PaddedState.build(self.layout.csr, self.p, state, rho, root, boundary_mask, symmetric)
        return padded.unpad(integrate(padded.field, plan, padded.state)[0])

    def _parameters(self, rho: Tensor, root: Tensor | None, classes: int) -> tuple[Tensor, Tensor | None]:
        """ρ and √w; those that differ by problem are repeated for every column where memory allows it."""
        by_problem = [x for x in (rho, root) if x is not None and x.shape[1] > 1]
        if self.graph.device.type == "cpu" and all(x.nbytes * classes <= MAX_REPEATED_BYTES for x in by_problem):
            rho = rho if rho.shape[1] == 1 else rho.repeat_interleave(classes, 1)
            root = root if root is None or root.shape[1] == 1 else root.repeat_interleave(classes, 1)
        return rho, root


class ColumnSchedule:
    """The order of problems in the state, and for each time the number still running and the positions of the outputs.

    All index tensors are on the device from the start: a captured CUDA graph cannot copy them there.
    """

    def __init__(self, horizons: Sequence[Sequence[int]], columns: int, times: int, device: torch.device) -> None:
        ends = [horizons[q % len(horizons)] for q in range(columns)]
        # Problems that run longest come first: those still running are always the first ones.
        order = sorted(range(columns), key=lambda q: -ends[q][-1])
        outputs = [[index for index, q in enumerate(order) if k in ends[q]] for k in range(times)]
        position = {event: n for n, event in enumerate((k, order[index]) for k in range(times) for index in outputs[k])}
        arrange = [position[ends[q][m], q] for m in range(len(ends[0])) for q in range(columns)]
        self.running = [sum(end[-1] >= k for end in ends) for k in range(times)]
        self.order, self.arrange = torch.tensor(order, device=device), torch.tensor(arrange, device=device)
        self.problem = self.order % len(horizons)
        self.outputs = [torch.tensor(indices, dtype=torch.int64, device=device) for indices in outputs]
