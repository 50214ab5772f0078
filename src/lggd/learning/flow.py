"""The equation of many problems, with fixed or learned coefficients, and their evolution as columns of one state."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from lggd._kernels import PaddedState
from lggd.equation import DegreePotential, Field, Potential, check_p, read_potential
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.solvers.adjoint import integrate
from lggd.solvers.scheme import FixedStep, Plan, check_times, choose_step, evolution_layout, make_plan
from lggd.training.problems import StackedParameter, parameter_generators

# On a CPU, coefficients by problem are repeated for every column up to this many bytes: that is faster.
MAX_REPEATED_BYTES = 2**28
# Maximum number of columns per solve: beyond some hundred, wider states save no time and take memory.
MAX_COLUMNS = 512


@dataclass(frozen=True)
class LearnedPotential:
    """ρ(i) = 2σ(θ_i) · base(i), with θ_i learned per node (the paper's ρ(x), Table 1, row 10).

    It starts at the base and stays below twice the base, so that the step in time is known before training.

    Parameters
    ----------
    base : DegreePotential

    Examples
    --------
    >>> LearnedPotential(DegreePotential(-0.5))
    LearnedPotential(base=DegreePotential(alpha=-0.5))
    """

    base: DegreePotential = DegreePotential(-1.0)


@dataclass(frozen=True)
class LearnedEdgeWeights:
    """√w(i, j) is multiplied by √σ(θ_ij), with θ learned per direction of an edge (the authors' code).

    θ is initialized uniformly in [-1, 1].

    Parameters
    ----------
    potential : DegreePotential or LearnedPotential
        ρ, which may be learned as well.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGD(potential=LearnedEdgeWeights(), times=(1,), optimization=lggd.Optimization(epochs=3))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    potential: DegreePotential | LearnedPotential = DegreePotential(-1.0)


LearnedCoefficients = LearnedPotential | LearnedEdgeWeights
Coefficients = Potential | LearnedCoefficients


class Equation:
    """ρ and √w of Q problems on a graph, with their current learned values; differentiable."""

    def __init__(self, graph: Graph, coefficients: Coefficients | None, generators: Sequence[torch.Generator]) -> None:
        problems, device = len(generators), graph.device
        potential = coefficients.potential if isinstance(coefficients, LearnedEdgeWeights) else coefficients
        self.theta_nodes: Tensor | None = None
        self.theta_edges: Tensor | None = None
        if isinstance(potential, LearnedPotential):
            self.theta_nodes = torch.zeros(problems, graph.num_nodes, device=device, requires_grad=True)
            potential = potential.base
        if isinstance(coefficients, LearnedEdgeWeights):
            seeded = parameter_generators(generators)
            initial = [torch.empty(graph.num_edges).uniform_(-1, 1, generator=generator) for generator in seeded]
            self.theta_edges = torch.stack(initial).to(device).requires_grad_()
        self.potential = potential
        self._read(graph)

    def _read(self, graph: Graph) -> None:
        self.graph = graph
        self.base = read_potential(self.potential, graph, 1, torch.float32)
        self.root = graph.csr.root_weight_as(torch.float32)

    def on(self, graph: Graph) -> Equation:
        """The learned values on another graph with the same nodes and, where edges are learned, the same edges."""
        if self.theta_edges is not None and not torch.equal(graph.edge_index, self.graph.edge_index):
            raise InputError("data", "have the edges whose weights were learned", "others", "Fit on the new graph.")
        other = copy.copy(self)
        other._read(graph)
        return other

    def parameters(self) -> list[StackedParameter]:
        """All tensors that training changes."""
        thetas = (("theta_nodes", self.theta_nodes), ("theta_edges", self.theta_edges))
        return [StackedParameter(name, theta) for name, theta in thetas if theta is not None]

    def rho(self) -> Tensor:
        """ρ by node: `[N, Q]`, or `[N, 1]` where all problems share it."""
        return self.base if self.theta_nodes is None else self.base * (2 * torch.sigmoid(self.theta_nodes)).t()

    def root_weight(self) -> Tensor | None:
        """√w along the graph's edges: `[E, Q]`, `[E, 1]` where all problems share it, None where it is 1."""
        if self.theta_edges is None:
            return self.root
        learned = torch.sigmoid(self.theta_edges).sqrt().t()
        return learned if self.root is None else self.root * learned

    def limits(self) -> tuple[Tensor, Tensor | None]:
        """The largest ρ `[N, 1]` and √w `[E, 1]` that training can reach."""
        return self.base * (1 if self.theta_nodes is None else 2), self.root


class Flow:
    """∂f/∂t = 1 − ρ‖∇⁻f‖_p for Q problems of K columns each, with outputs at the times of each problem.

    `horizons[q]` are increasing indices into `times`, the same number for every problem, and some problem has the last
    time. A problem is dropped after its last time. The step depends on the bounds of the learned coefficients,
    not on their current values: it is the same in all epochs, and the same for a problem on its own.
    """

    def __init__(
        self, equation: Equation, times: Sequence[float], horizons: Sequence[Sequence[int]], p: float, scheme: FixedStep
    ) -> None:
        self.equation, self.graph, self.p = equation, equation.graph, check_p(p)
        self.times, self.scheme = check_times(times), scheme
        self.layout, self.horizons = evolution_layout(self.graph), [list(h) for h in horizons]
        self.symmetric = equation.theta_edges is None and not self.graph.is_directed
        self._schedules: dict[int, ColumnSchedule] = {}
        largest = Field(self.layout.csr, self.p, *self._by_row(*equation.limits()))
        self.step, self.may_overshoot = choose_step(scheme, self.p, largest.cfl_bound)
        self.plan = make_plan(scheme, self.times, self.step)

    def on(self, graph: Graph) -> Flow:
        """The flow on another graph; see `Equation.on`."""
        return Flow(self.equation.on(graph), self.times, self.horizons, self.p, self.scheme)

    def __call__(self, start: Tensor, boundary_mask: Tensor | None = None) -> Tensor:
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
        rho, root = self.equation.rho(), self.equation.root_weight()
        rho = rho if rho.shape[1] == 1 else rho.index_select(1, schedule.problem)
        root = root if root is None or root.shape[1] == 1 else root.index_select(1, schedule.problem)
        rho, root = self._by_row(rho, root)
        plan, outputs = self.plan.within_memory(start.nbytes, start.device), []
        for k, running in enumerate(schedule.running):
            state = self.advance(plan.segment(k), state[:, :running], rho, root, boundary_mask)
            outputs.append(state.index_select(1, schedule.outputs[k]))
        by_problem = torch.cat(outputs, 1).index_select(1, schedule.arrange)
        by_horizon = by_problem.view(len(start), -1, *start.shape[1:]).transpose(0, 1)
        return self.layout.to_nodes(by_horizon, dim=1)

    def _by_row(self, rho: Tensor, root: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """ρ and √w in the order of the rows."""
        return self.layout.into_rows(rho), None if root is None else self.layout.edges_into_rows(root)

    def advance(
        self, plan: Plan, state: Tensor, rho: Tensor, root: Tensor | None, boundary_mask: Tensor | None
    ) -> Tensor:
        """The running problems `[N, Q, K]` at the end of a plan with one output."""
        problems, classes = state.shape[1:]
        rho, root = self._parameters(rho[:, :problems], None if root is None else root[:, :problems], classes)
        boundary_mask = None if boundary_mask is None else boundary_mask[:, :problems]
        padded = PaddedState.build(self.layout.csr, self.p, state, rho, root, boundary_mask, self.symmetric)
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


class BoundarySolver:
    """Solves the evolution from `start [N, Q, K]` with f = 0 on the labelled nodes of each class."""

    def __init__(self, flow: Flow, start: Tensor) -> None:
        self.flow, self.start = flow, start

    def distances(self, boundaries: Sequence[Tensor]) -> list[Tensor]:
        """Distances `[N, T, K]` for each boundary: int64 `[N]`, a class, or -1 where f is free."""
        _, problems, classes = self.start.shape
        per_solve = max(1, MAX_COLUMNS // (problems * classes))
        solved: list[Tensor] = []
        for labels in torch.split(torch.stack(list(boundaries), 1), per_solve, 1):
            start, mask = self.start.repeat(1, labels.shape[1], 1), boundary_mask(labels, classes)
            with torch.no_grad():
                value = self.flow(start, mask.repeat_interleave(problems, 1))  # [M, N, R·Q, K]
            solved += torch.unflatten(value, 2, (-1, problems)).permute(2, 1, 3, 0, 4).flatten(2, 3).unbind(0)
        return solved

    def cross_fitted(self, labels: Tensor, fold: Tensor, folds: int) -> tuple[Tensor, Tensor]:
        """Distances `[N, T, K]` and whether a label is reachable `[N]`; the nodes of a fold are solved without it.

        `fold` is int64 `[N]`, -1 for nodes whose solve uses all labels.
        """
        boundaries = [labels, *(torch.where(fold == j, -1, labels) for j in range(folds))]
        solved = self.distances(boundaries)
        distances, reachable = solved[0].clone(), self.reachable(labels)
        for j, boundary in enumerate(boundaries[1:]):
            left_out = fold == j
            distances[left_out] = solved[j + 1][left_out]
            reachable[left_out] = self.reachable(boundary)[left_out]
        return distances, reachable

    def reachable(self, boundary: Tensor) -> Tensor:
        """Which nodes share a component with a labelled one, bool `[N]`."""
        component = self.flow.graph.components
        labelled = torch.zeros(int(component.max()) + 1, dtype=torch.bool, device=component.device)
        labelled[component[boundary >= 0]] = True
        return labelled[component]


def boundary_mask(labels: Tensor, num_classes: int) -> Tensor:
    """Where f = 0: the nodes of each class, bool `[…, K]`, from labels `[…]` that are -1 where a node has none."""
    return one_hot(labels.clamp(min=0), num_classes).bool() & (labels >= 0).unsqueeze(-1)
