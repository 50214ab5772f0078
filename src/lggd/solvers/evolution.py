"""The evolution of f in time: differentiable, to given times, or step by step."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lggd._system.memory import explaining_shortage
from lggd.equation import Potential, Sources
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.results import Solution, Statistics, Status
from lggd.solvers.adjoint import Stepper, integrate
from lggd.solvers.cauchy import INITIAL_VALUE, CauchyProblem
from lggd.solvers.scheme import (
    REMEDY,
    RK4,
    FixedStep,
    Plan,
    check_times,
    choose_step,
    count_steps,
    evolution_memory,
    make_plan,
)

if TYPE_CHECKING:
    from jaxtyping import Float


def evolve(
    graph: Graph, sources: Sources | None, *, start: Float[Tensor, " n *k"] | None = None,
    times: Sequence[float] = (1, 2, 3, 4, 5), p: float = 1, potential: Potential | None = None,
    weight: Float[Tensor, " e *h"] | None = None, scheme: FixedStep = RK4(),
    initial_value: float = INITIAL_VALUE, checkpoints: bool = False,
) -> Solution:  # fmt: skip
    """Solves ∂f/∂t = 1 − ρ‖∇⁻f‖_p with f = 0 on the sources and f(·, 0) = `start` (paper, Eq. 8).

    Gradients with respect to `start`, `potential` and `weight` are exact: those of the discrete scheme.

    Parameters
    ----------
    graph, p, potential
        As in `distance`.
    sources : node ids, mask [N], mask [N, K] or list of K sets, optional
        Where f stays 0. None imposes no boundary (the paper's Solver 1, for learning) and requires a `start`.
    start : Tensor [N] or [N, K], optional
        The initial condition; 0 on the sources in any case. None is `initial_value` off the sources.
    times : sequence of float
        The T output times: positive and increasing.
    weight : Tensor [E] or [E, K], optional
        Replaces the graph's weights, along `graph.edge_index`.
    scheme : RK4, SSPRK3 or Euler
    initial_value : float
        The start off the sources where `start` is None.
    checkpoints : bool
        Saves O(√steps) states for the backward pass instead of all, at the cost of a second forward pass. Always on
        for evolutions whose states would take gigabytes.

    Returns
    -------
    Solution
        With `value` [T, N, K].

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> solution = evolve(path, [0], times=(1.0, 20.0), initial_value=10.0)
    >>> [round(x, 3) for x in solution.value[-1, :, 0].tolist()]
    [0.0, 1.0, 2.0]
    """
    began = clock.perf_counter()
    problem, ends = CauchyProblem(graph, sources, start, p, potential, weight, initial_value), check_times(times)
    size, may_overshoot = choose_step(scheme, problem.field.p, problem.field.cfl_bound)
    plan = make_plan(scheme, ends, size, checkpoints)
    if not checkpoints:
        plan = plan.within_memory(problem.start.nbytes, problem.start.device)
    inputs = (problem.start, problem.field.rho, problem.field.root_weight)
    saved = plan.steps if any(x is not None and x.requires_grad for x in inputs) else 0
    needed = (graph, problem.columns, scheme, len(ends), saved, problem.start.dtype)
    with explaining_shortage("The evolution", lambda: evolution_memory(*needed), REMEDY):
        outputs = integrate(problem.field, plan, problem.start)
    if not bool(torch.isfinite(outputs).all()):
        _raise_divergence(problem, plan, outputs.detach())
    last, seconds = outputs[-1].detach(), clock.perf_counter() - began
    statistics = Statistics(
        type(scheme).__name__, seconds, plan.steps, plan.evaluations, max(plan.sizes),
        _residual=lambda: problem.residual(last),
    )  # fmt: skip
    return Solution(problem.to_nodes(outputs), Status.MAY_OVERSHOOT if may_overshoot else Status.REACHED, statistics)


class Evolution:
    """An evolution advanced step by step, without gradients.

    Read `state` and `time`, advance with `step()` or `run_until(t)`.

    Parameters
    ----------
    graph, sources, start, p, potential, weight, scheme, initial_value
        As in `evolve`.

    Attributes
    ----------
    time, steps : float, int
        The current time, and the number of steps taken.
    step_size : float
        The largest step that the scheme takes.
    may_overshoot : bool
        Whether `step_size` exceeds the scheme's monotone limit.

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> evolution = Evolution(path, [0], initial_value=10.0).run_until(20.0)
    >>> [round(x, 3) for x in evolution.state[:, 0].tolist()]
    [0.0, 1.0, 2.0]
    """

    def __init__(
        self, graph: Graph, sources: Sources | None, *, start: Float[Tensor, " n *k"] | None = None, p: float = 1,
        potential: Potential | None = None, weight: Float[Tensor, " e *h"] | None = None, scheme: FixedStep = RK4(),
        initial_value: float = INITIAL_VALUE,
    ) -> None:  # fmt: skip
        self.problem = CauchyProblem(graph, sources, start, p, potential, weight, initial_value)
        field = self.problem.field
        self.step_size, self.may_overshoot = choose_step(scheme, field.p, field.cfl_bound)
        self.time, self.steps = 0.0, 0
        self._rows = self.problem.start.detach().clone()
        self._stepper = Stepper(field.detached(), scheme.tableau, self._rows)
        self._may_diverge = scheme.force  # other steps are within the stable limit

    @property
    def state(self) -> Float[Tensor, "n k"]:
        """f(·, time) by node, `[N, K]`; a copy."""
        return self.problem.to_nodes(self._rows).clone()

    @property
    def residual(self) -> float:
        """max |∂f/∂t| over the nodes that can reach the boundary: 0 at the distance."""
        return self.problem.residual(self._rows)

    def step(self, size: float | None = None) -> Evolution:
        """Advances by one step, of `step_size` or of a smaller `size`."""
        if size is not None and not 0 < size <= self.step_size:
            raise InputError("size", f"lie in (0, {self.step_size:g}]", size, "The bound is the scheme's step.")
        if size is None and math.isinf(self.step_size):
            raise InputError("size", "be passed for a graph without edges, where no step is too large")
        self._advance(size or self.step_size)
        return self

    def _advance(self, size: float) -> None:
        before = self._rows.clone() if self._may_diverge else self._rows
        self._stepper.step(self._rows, size)
        if self._may_diverge:
            self.problem.check_finite(before, self._rows, self.steps + 1, size)
        self.steps += 1
        self.time += size

    def run_until(self, t: float) -> Evolution:
        """Advances to time `t` exactly, in equal steps of at most `step_size`."""
        if not self.time <= t < math.inf:
            raise InputError("t", f"be finite and not before the current time {self.time:g}", t)
        span = t - self.time
        count = count_steps(span, self.step_size)
        for _ in range(count):
            self._advance(span / count)
        self.time = float(t)
        return self


def _raise_divergence(problem: CauchyProblem, plan: Plan, outputs: Float[Tensor, "t n c"]) -> None:
    """Repeats the steps from the last finite output one by one, to name the step that diverged."""
    first = int((~torch.isfinite(outputs.flatten(1)).all(1)).nonzero()[0])
    state = (outputs[first - 1] if first else problem.start.detach()).clone()
    stepper = Stepper(problem.field.detached(), plan.tableau, state)
    for n in range(plan.counts[first]):
        before = state.clone()
        stepper.step(state, plan.sizes[first])
        problem.check_finite(before, state, sum(plan.counts[:first]) + n + 1, plan.sizes[first])
