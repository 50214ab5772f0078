"""The evolution of many problems at once: columns of one state, each as far as it needs to go."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.equation.operators import check_p
from lggd.graph import Graph
from lggd.kernels import Field, idle_columns
from lggd.learning.parameters import Equation
from lggd.solvers.adjoint import Evolve, Plan, run
from lggd.solvers.evolution import check_times, make_plan
from lggd.solvers.scheme import FixedStep, choose_step

# An evolution reads the edges some hundred times: more than enough for reordering to pay.
PASSES = 100
# The most bytes that weights may take for the sake of speed.
WORTH_SPREADING = 2**28


class Flow:
    """∂f/∂t = 1 − ρ‖∇⁻f‖_p for Q problems of K columns each, read off at the times that each problem asks for.

    `horizons[q]` are increasing indices into `times`, equally many for every problem, and some problem needs the last
    time. A problem leaves the state at its last one.
    The step depends on what the equation can become, not on what it has become: it is the same at all epochs, and the
    same for a problem on its own.
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
        self.graph, self.layout, self.p = graph, graph.layout(PASSES), check_p(p)
        self.horizons = [list(h) for h in horizons]
        self._itineraries: dict[int, _Itinerary] = {}
        largest_rho, largest_root = equation.limits()
        bound = self._field(largest_rho, largest_root, None, symmetric=True).cfl_number().max()
        self.step, self.may_overshoot = choose_step(scheme, self.p, float(bound))
        self.plan = make_plan(scheme, check_times(times), self.step, checkpoints=False)

    @property
    def evaluations(self) -> int:
        """Passes over the edges of a solve."""
        return self.plan.steps * len(self.plan.tableau.weights)

    def __call__(self, equation: Equation, start: Tensor, boundary_mask: Tensor | None = None) -> Tensor:
        """From `start [N, R·Q, K]`, with 0 held on the `boundary_mask` of that shape, to `[M, N, R·Q, K]`, M horizons.

        R > 1 solves R variants of the Q problems, with other starts and boundaries, in the same passes over the edges.
        """
        way = self._itinerary(start.shape[1])
        if boundary_mask is not None:
            start = start.masked_fill(boundary_mask, 0)
            boundary_mask = self.layout.into_rows(boundary_mask.index_select(1, way.order))
        state = self.layout.into_rows(start.index_select(1, way.order))
        rho, root = equation.rho(), equation.root_weight()
        rho = self.layout.into_rows(rho if rho.shape[1] == 1 else rho.index_select(1, way.problem))
        if root is not None:
            root = self.layout.edges_into_rows(root if root.shape[1] == 1 else root.index_select(1, way.problem))
        kept, symmetric = self.plan.within_memory(start.nbytes, start.device), equation.theta_edges is None
        found = []
        for k, (steps, size) in enumerate(zip(self.plan.counts, self.plan.sizes, strict=True)):
            plan = Plan(self.plan.tableau, (steps,), (size,), kept.every, kept.stages)
            state = self._advance(plan, state[:, : way.running[k]], rho, root, boundary_mask, symmetric)
            found.append(state.index_select(1, way.read[k]))
        arranged = torch.cat(found, 1).index_select(1, way.arrange)
        by_horizon = arranged.view(len(start), -1, *start.shape[1:]).transpose(0, 1)
        return self.layout.to_nodes(by_horizon, dim=1)

    def _itinerary(self, columns: int) -> _Itinerary:
        if columns not in self._itineraries:
            self._itineraries[columns] = _Itinerary(self.horizons, columns, len(self.plan.counts), self.graph.device)
        return self._itineraries[columns]

    def _advance(
        self, plan: Plan, state: Tensor, rho: Tensor, root: Tensor | None, boundary_mask: Tensor | None, symmetric: bool
    ) -> Tensor:
        nodes, problems, classes = state.shape
        rho, root = self._parameters(rho[:, :problems], None if root is None else root[:, :problems], classes)
        by_problem = any(x is not None and x.shape[1] not in (1, problems * classes) for x in (rho, root))
        # Where columns share parameters with the others of their problem, each problem has idle columns of its own.
        own = idle_columns(self.graph.device, classes) if by_problem else 0
        state = pad(state, (0, own))
        columns = problems * (classes + own)
        idle = 0 if by_problem else idle_columns(self.graph.device, columns)
        flat = pad(state.reshape(nodes, columns), (0, idle))
        if boundary_mask is not None:
            boundary_mask = pad(boundary_mask[:, :problems], (0, own), value=True).reshape(nodes, columns)
            boundary_mask = pad(boundary_mask, (0, idle), value=True).contiguous()
        if idle:  # padding by nothing would copy
            rho = rho if rho.shape[1] == 1 else pad(rho, (0, idle), value=1.0)
            root = root if root is None or root.shape[1] == 1 else pad(root, (0, idle), value=1.0)
        field = self._field(rho, root, boundary_mask, symmetric)
        inputs = (flat, rho, root)
        if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
            flat = Evolve.apply(*inputs, field.detached(), plan)[0]  # type: ignore[no-untyped-call]
        else:
            flat = run(field.detached(), plan, flat)[0]
        return flat[:, :columns].view(nodes, problems, classes + own)[..., :classes]

    def _parameters(self, rho: Tensor, root: Tensor | None, classes: int) -> tuple[Tensor, Tensor | None]:
        """Those that differ by problem, repeated for every column where memory allows: a CPU is faster so."""
        given = [rho] if root is None else [rho, root]
        wide = any(x.shape[1] > 1 and x.nbytes * classes > WORTH_SPREADING for x in given)
        if self.graph.device.type == "cpu" and not wide:
            given = [x if x.shape[1] == 1 else x.repeat_interleave(classes, 1) for x in given]
        return given[0].contiguous(), None if root is None else given[1].contiguous()

    def _field(self, rho: Tensor, root: Tensor | None, boundary_mask: Tensor | None, symmetric: bool) -> Field:
        return Field(
            self.layout.csr, self.p, rho, root, boundary_mask, symmetric=symmetric and not self.graph.is_directed
        )


class _Itinerary:
    """How problems lie in the state, who is still running after each time, who is read off, and where that belongs.

    All of it on the device from the start: an evolution that is recorded there cannot bring numbers along.
    """

    def __init__(self, horizons: Sequence[Sequence[int]], columns: int, times: int, device: torch.device) -> None:
        asked = [horizons[q % len(horizons)] for q in range(columns)]
        # Those that run longest come first: the columns still running are always the first ones.
        order = sorted(range(columns), key=lambda q: -asked[q][-1])
        reads = [[place for place, q in enumerate(order) if k in asked[q]] for k in range(times)]
        found = [(k, order[place]) for k in range(times) for place in reads[k]]
        where = {event: place for place, event in enumerate(found)}
        arrange = [where[asked[q][m], q] for m in range(len(asked[0])) for q in range(columns)]
        self.running = [sum(ends[-1] >= k for ends in asked) for k in range(times)]
        self.order, self.arrange = torch.tensor(order, device=device), torch.tensor(arrange, device=device)
        self.problem = self.order % len(horizons)
        self.read = [torch.tensor(places, dtype=torch.int64, device=device) for places in reads]
