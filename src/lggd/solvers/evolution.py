"""Evolving f in time: all at once, differentiably, with `evolve`; step by step with `Evolution`."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from lggd.equation.boundary import Sources
from lggd.equation.potential import Potential
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.memory import Memory, explaining_shortage
from lggd.solvers import adjoint, parity
from lggd.solvers.adjoint import Plan, Stepper
from lggd.solvers.cauchy import CauchyProblem
from lggd.solvers.footprint import REMEDY, evolution_memory
from lggd.solvers.scheme import RK4, FixedStep, TorchDiffEq
from lggd.solvers.solution import Solution, Statistics, Status

FAR = 1e6
# The residual is a pass over the edges of its own: looking after every step would cost a quarter of RK4's work.
STEPS_BETWEEN_LOOKS = 8


def evolve(
    graph: Graph,
    sources: Sources | None,
    *,
    start: Tensor | None = None,
    times: Sequence[float] = (1, 2, 3, 4, 5),
    p: float = 1,
    potential: Potential | None = None,
    weight: Tensor | None = None,
    scheme: FixedStep | TorchDiffEq = RK4(),
    far: float = FAR,
    checkpoints: bool = False,
    until: Literal["steady"] | None = None,
    tol: float = 1e-6,
    max_steps: int = 100_000,
) -> Solution:
    """∂f/∂t = 1 − ρ‖∇⁻f‖_p, f = 0 on the sources, f(·, 0) = `start` (paper, Eq. 8): `.value [T, N, K]` at `times`.

    - `sources` as in `distance`; None holds nothing (the paper's Solver 1, for learning) and then needs a `start`.
    - `start` is `[N]` or `[N, K]`; None is 0 on the sources and `far` elsewhere. On the sources it is 0 in any case.
    - `weight` replaces the graph's weights by `[E]` or, a column each, `[E, K]` along `graph.edge_index`.
    - Gradients flow to start, potential and weight, exactly: they are those of the discrete scheme.
      `checkpoints=True` keeps O(√steps) states for them instead of all, for one more pass forward; so do evolutions
      whose states would take gigabytes.
    - `until="steady"` ignores `times` and runs until the residual is at most `tol`, or as small as rounding allows:
      `.value [1, N, K]`, unreachable nodes at inf, no gradients.

    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> solution = evolve(path, [0], times=(1.0, 20.0), far=10.0)
    >>> [round(x, 3) for x in solution.value[-1, :, 0].tolist()]
    [0.0, 1.0, 2.0]
    """
    began = clock.perf_counter()
    problem = CauchyProblem(graph, sources, start, p, potential, weight, far)
    if until is not None:
        if until != "steady":
            raise InputError("until", 'be "steady" or None', repr(until), "For a time, pass times=[t].")
        return _until_steady(problem, scheme, tol, max_steps, began)
    ends = check_times(times)
    if isinstance(scheme, TorchDiffEq):
        outputs, evaluations = parity.odeint(problem, ends, scheme)
        step, steps, status = scheme.step, None, Status.REACHED
    else:
        size, may_overshoot = problem.choose_step(scheme)
        plan = make_plan(scheme, ends, size, checkpoints)
        if not checkpoints:
            plan = plan.within_memory(problem.start.nbytes, problem.start.device)
        with explaining_shortage("The evolution", lambda: _memory(problem, plan, scheme), REMEDY):
            outputs = _run(problem, plan)
        step, steps = max(plan.sizes), plan.steps
        evaluations = steps * len(scheme.tableau.weights)
        status = Status.MAY_OVERSHOOT if may_overshoot else Status.REACHED
    last = outputs[-1].detach()
    statistics = Statistics(
        method=type(scheme).__name__,
        seconds=clock.perf_counter() - began,
        steps=steps,
        evaluations=evaluations,
        step=step,
        _residual=lambda: problem.residual(last),
    )
    return Solution(problem.to_nodes(outputs), status, statistics)


class Evolution:
    """The evolution driven by hand: look at `state` and `time`, `step()` on, `run_until(t)`. Arguments as in `evolve`.

    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> evolution = Evolution(path, [0], far=10.0).run_until(20.0)
    >>> [round(x, 3) for x in evolution.state[:, 0].tolist()]
    [0.0, 1.0, 2.0]
    """

    def __init__(
        self,
        graph: Graph,
        sources: Sources | None,
        *,
        start: Tensor | None = None,
        p: float = 1,
        potential: Potential | None = None,
        weight: Tensor | None = None,
        scheme: FixedStep = RK4(),
        far: float = FAR,
    ) -> None:
        self.problem = CauchyProblem(graph, sources, start, p, potential, weight, far)
        self.step_size, self.may_overshoot = self.problem.choose_step(scheme)
        self.time, self.steps = 0.0, 0
        self._rows = self.problem.start.detach().clone()
        self._stepper = Stepper(self.problem.field.detached(), scheme.tableau, self._rows)

    @property
    def state(self) -> Tensor:
        """f(·, time) by node, `[N, K]`; a copy."""
        return self.problem.to_nodes(self._rows).clone()

    @property
    def residual(self) -> float:
        """max |∂f/∂t| over the nodes that can reach the boundary: 0 once the distance is found."""
        return self.problem.residual(self._rows)

    def step(self, size: float | None = None) -> Evolution:
        """Moves on by one step, of `step_size` unless a smaller one is asked for."""
        if size is not None and not 0 < size <= self.step_size:
            raise InputError("size", f"lie in (0, {self.step_size:g}]", size, "The bound is the scheme's step.")
        if size is None and math.isinf(self.step_size):
            raise InputError("size", "be given here: on a graph without edges no step is too large")
        self._advance(size or self.step_size)
        return self

    def _advance(self, size: float) -> None:
        before = self._rows.clone()
        self._stepper.step(self._rows, size)
        if not bool(torch.isfinite(self._rows).all()):
            raise self.problem.explain_divergence(before, self._rows, self.steps + 1, size)
        self.steps += 1
        self.time += size

    def run_until(self, t: float) -> Evolution:
        """Moves on to time `t` exactly, in equal steps none larger than `step_size`."""
        if not self.time <= t < math.inf:
            raise InputError("t", f"be finite and not before the present time {self.time:g}", t)
        span = t - self.time
        count = _count_steps(span, self.step_size)
        for _ in range(count):
            self._advance(span / count)
        self.time = float(t)
        return self


def check_times(times: Sequence[float]) -> tuple[float, ...]:
    """The output times as floats: positive, finite, increasing."""
    try:
        ends = tuple(float(t) for t in times)
    except (TypeError, ValueError):
        raise InputTypeError("times", "be a sequence of numbers", repr(times), "For a single one, pass [t].") from None
    if not ends:
        raise InputError("times", "hold at least one time", "none")
    for before, after in zip((0.0, *ends), ends, strict=False):
        if not before < after < math.inf:
            raise InputError("times", "be positive, finite and increasing", f"{after:g} after {before:g}")
    return ends


def make_plan(scheme: FixedStep, ends: tuple[float, ...], size: float, checkpoints: bool) -> Plan:
    """Equal steps between outputs, none larger than `size`, so that every output lies at the end of a step."""
    spans = [after - before for before, after in zip((0.0, *ends), ends, strict=False)]
    counts = tuple(_count_steps(span, size) for span in spans)
    sizes = tuple(span / count for span, count in zip(spans, counts, strict=True))
    return Plan(scheme.tableau, counts, sizes, adjoint.spacing(sum(counts), checkpoints))


def _count_steps(span: float, size: float) -> int:
    if span <= 0:
        return 0
    # A span that is a whole number of steps but for rounding takes just that number.
    return max(1, math.ceil(span / size * (1 - 1e-12) - 1e-9))


def _run(problem: CauchyProblem, plan: Plan) -> Tensor:
    field = problem.field
    inputs = (problem.start, field.rho, field.root_weight)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        outputs: Tensor = adjoint.Evolve.apply(*inputs, field.detached(), plan)  # type: ignore[no-untyped-call]
    else:
        outputs = adjoint.run(field.detached(), plan, problem.start.detach())
    if not bool(torch.isfinite(outputs).all()):
        _raise_divergence(problem, plan, outputs.detach())
    return outputs


def _memory(problem: CauchyProblem, plan: Plan, scheme: FixedStep) -> Memory:
    inputs = (problem.start, problem.field.rho, problem.field.root_weight)
    steps = plan.steps if any(x is not None and x.requires_grad for x in inputs) else 0
    return evolution_memory(problem.graph, problem.columns, scheme, len(plan.counts), steps, problem.start.dtype)


def _raise_divergence(problem: CauchyProblem, plan: Plan, outputs: Tensor) -> None:
    """Replays the last stretch that began finite, a step at a time, to name the step at which it went wrong."""
    bad = int((~torch.isfinite(outputs.flatten(1)).all(1)).nonzero()[0])
    state = (outputs[bad - 1] if bad else problem.start.detach()).clone()
    stepper = Stepper(problem.field.detached(), plan.tableau, state)
    for n in range(plan.counts[bad]):
        before = state.clone()
        stepper.step(state, plan.sizes[bad])
        if not bool(torch.isfinite(state).all()):
            raise problem.explain_divergence(before, state, sum(plan.counts[:bad]) + n + 1, plan.sizes[bad])


def _until_steady(
    problem: CauchyProblem, scheme: FixedStep | TorchDiffEq, tol: float, max_steps: int, began: float
) -> Solution:
    if isinstance(scheme, TorchDiffEq):
        raise ValueError(f'`until="steady"` needs a stepping scheme such as RK4(), got {scheme}.')
    if problem.boundary is None:
        raise ValueError('`until="steady"` needs sources: without a boundary f grows for ever.')
    if not 0 < tol < math.inf:
        raise InputError("tol", "be positive", tol)
    if max_steps < 1:
        raise InputError("max_steps", "be at least 1", max_steps)
    size, _ = problem.choose_step(scheme)
    if math.isinf(size):
        size = 1.0
    rows = problem.start.detach().clone()
    stepper = Stepper(problem.field.detached(), scheme.tableau, rows)
    steps, residual = 0, problem.residual(rows)
    # The residual is a sum of up to `bound` times f, so rounding alone keeps it from falling below this much of f.
    rounding = 4 * torch.finfo(rows.dtype).eps * problem.bound
    while residual > max(tol, rounding * _largest(rows, problem)) and steps < max_steps:
        for _ in range(min(STEPS_BETWEEN_LOOKS, max_steps - steps)):
            before = rows.clone() if scheme.force else rows
            stepper.step(rows, size)
            steps += 1
            if scheme.force and not bool(torch.isfinite(rows).all()):
                raise problem.explain_divergence(before, rows, steps, size)
        residual = problem.residual(rows)
    final, steady = residual, residual <= max(tol, rounding * _largest(rows, problem))
    value = problem.to_nodes(rows)
    value = value.masked_fill(~problem.layout.to_nodes(problem.reachable), math.inf).unsqueeze(0)
    statistics = Statistics(
        method=type(scheme).__name__,
        seconds=clock.perf_counter() - began,
        steps=steps,
        evaluations=steps * len(scheme.tableau.weights),
        step=size,
        _residual=lambda: final,
    )
    return Solution(value, Status.STEADY if steady else Status.NOT_STEADY, statistics)


def _largest(rows: Tensor, problem: CauchyProblem) -> float:
    """The largest value among the rows that can reach the boundary; the others grow for ever."""
    return float(rows[:, : problem.columns].masked_fill(~problem.reachable, 0).max())
