"""Evolving f in time until it no longer changes: the distance, by time stepping."""

from __future__ import annotations

import math
import time as clock

import torch
from torch import Tensor

from lggd.equation.boundary import Sources
from lggd.equation.potential import Potential
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.solvers.adjoint import Stepper
from lggd.solvers.cauchy import FAR, CauchyProblem
from lggd.solvers.scheme import RK4, FixedStep, choose_step
from lggd.solvers.solution import Solution, Statistics, Status
from lggd.validation import check_int, check_positive

# The residual is a pass over the edges of its own: computing it after every step would add a quarter to RK4's work.
STEPS_PER_CHECK = 8


def evolve_to_steady_state(
    graph: Graph,
    sources: Sources,
    *,
    start: Tensor | None = None,
    p: float = 1,
    potential: Potential | None = None,
    weight: Tensor | None = None,
    scheme: FixedStep = RK4(),
    far: float = FAR,
    tol: float = 1e-6,
    max_steps: int = 100_000,
) -> Solution:
    """Evolves f until it is steady: ρ‖∇⁻f‖_p = 1 within `tol`. Not differentiable; `distance` is exact and faster.

    Parameters
    ----------
    graph, sources, start, p, potential, weight, scheme, far
        As in `evolve`; sources are required, and `TorchDiffEq` is not supported.
    tol : float
        Stops where the residual is at most this, or as small as rounding allows.
    max_steps : int
        Stops after this many steps with `Status.NOT_STEADY`.

    Returns
    -------
    Solution
        With `value` [1, N, K]; nodes that cannot reach a source are at inf.

    Examples
    --------
    >>> path = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> [round(x, 3) for x in evolve_to_steady_state(path, [0], far=10.0).value[0, :, 0].tolist()]
    [0.0, 1.0, 2.0]
    """
    began = clock.perf_counter()
    problem = CauchyProblem(graph, sources, start, p, potential, weight, far)
    if problem.boundary is None:
        raise InputError("sources", "be passed: without a boundary f grows without bound")
    check_positive("tol", tol)
    check_int("max_steps", max_steps, 1)
    size, _ = choose_step(scheme, problem.field)
    if math.isinf(size):
        size = 1.0
    rows = problem.start.detach().clone()
    stepper = Stepper(problem.field.detached(), scheme.tableau, rows)
    # The residual sums up to `cfl_bound` times f, so rounding alone keeps it from falling below this fraction of f.
    rounding = 4 * torch.finfo(rows.dtype).eps * problem.field.cfl_bound
    steps, residual = 0, problem.residual(rows)
    while not (steady := residual <= max(tol, rounding * _largest(rows, problem))) and steps < max_steps:
        for _ in range(min(STEPS_PER_CHECK, max_steps - steps)):
            before = rows.clone() if scheme.force else rows
            stepper.step(rows, size)
            steps += 1
            if scheme.force:
                problem.check_finite(before, rows, steps, size)
        residual = problem.residual(rows)
    value = problem.to_nodes(rows).masked_fill(~problem.layout.to_nodes(problem.reachable), math.inf)
    seconds, evaluations = clock.perf_counter() - began, steps * len(scheme.tableau.weights)
    statistics = Statistics(type(scheme).__name__, seconds, steps, evaluations, size, _residual=lambda: residual)
    return Solution(value.unsqueeze(0), Status.STEADY if steady else Status.NOT_STEADY, statistics)


def _largest(rows: Tensor, problem: CauchyProblem) -> float:
    """The largest value among the rows that can reach the boundary; the others grow without bound."""
    return float(rows[:, : problem.columns].masked_fill(~problem.reachable, 0).max())
