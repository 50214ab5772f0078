"""Time stepping: explicit Runge-Kutta schemes, the largest step of each, and the plan of the steps of an evolution.

With `z = step · max_i ρ(i)‖√w(i,·)‖_p` there are two limits:

- monotone, z = 1 for all of them: up to it no node falls below the distance it converges to, from any start. Above it
  a node that starts high (at 10⁶, say) can overshoot, or pull its neighbours, as far below zero, from where they
  rise again by only one unit per unit of time. For Euler this is a theorem, for SSPRK3 too (it averages Euler steps).
  For RK4 it is where the fourth stage changes sign: it is (1 − z)(1 + z²/3) times the value at the start of the step.
- stable: above it values can grow without bound or oscillate around the answer. It is refused unless `force=True`.

For p = 1 the slopes form a triangular matrix, so the stable limit is the scheme's classical one on the real axis. For
p > 1 they do not, and steps with z above about 1.1 have been observed to diverge: there both limits are 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch

from lggd._kernels import idle_columns
from lggd._system.memory import Memory
from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.graph.csr import Layout
from lggd.validation import check_instance, check_positive

MONOTONE = 1.0
# An evolution reads the edges some hundred times: more than enough for reordering to pay off.
PASSES = 100
# Up to this many bytes on a CPU, or this fraction of a GPU's memory, the start of every stage is saved, so that the
# backward pass need not recompute them. Beyond it only the state before each step is saved, and beyond this many times
# the limit only some of those.
STAGE_BYTES = 2**28
STAGE_FRACTION = 1 / 16
STATES_LIMIT = 4
REMEDY = "Use fewer columns at a time, float32, or checkpoints=True where gradients are needed."


@dataclass(frozen=True)
class Tableau:
    """Stage s starts from f + h Σ_r `stages[s][r]` k_r; the step ends at f + h Σ_r `weights[r]` k_r."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class FixedStep:
    """A Runge-Kutta scheme with equal steps: its tableau, and the largest stable z for p = 1."""

    step: float | None = None
    force: bool = False
    tableau: ClassVar[Tableau]
    stable: ClassVar[float]

    def __post_init__(self) -> None:
        if self.step is not None:
            check_positive("step", self.step, "Use step=None for the largest safe step.")

    def stable_at(self, p: float) -> float:
        """The largest stable z for this exponent."""
        return self.stable if p == 1 else MONOTONE


@dataclass(frozen=True)
class Euler(FixedStep):
    """Forward Euler, first order: f + h·F(f).

    Parameters
    ----------
    step : float, optional
        The step in time; None takes the largest one within the monotone limit.
    force : bool
        Allows a step above the stable limit.

    Examples
    --------
    >>> import lggd, torch
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> lggd.evolve(path, [0], start=torch.full((3,), 5.0), times=[9.0], scheme=Euler(step=0.5)).statistics.steps
    18
    """

    stable: ClassVar[float] = 2.0
    tableau: ClassVar[Tableau] = Tableau(((),), (1.0,))


@dataclass(frozen=True)
class SSPRK3(FixedStep):
    """Shu and Osher's strong-stability-preserving scheme, third order: as robust at kinks as Euler, more accurate.

    Parameters
    ----------
    step, force
        As for `Euler`.

    Examples
    --------
    >>> import lggd, torch
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> solution = lggd.evolve(path, [0], start=torch.full((3,), 5.0), times=[9.0], scheme=SSPRK3())
    >>> solution.statistics.evaluations == 3 * solution.statistics.steps  # three stages per step
    True
    """

    stable: ClassVar[float] = 2.512
    tableau: ClassVar[Tableau] = Tableau(((), (1.0,), (0.25, 0.25)), (1 / 6, 1 / 6, 2 / 3))


@dataclass(frozen=True)
class RK4(FixedStep):
    """The 3/8 rule, fourth order: torchdiffeq's rk4, which the paper used.

    Parameters
    ----------
    step, force
        As for `Euler`.

    Examples
    --------
    >>> import lggd, torch
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> solution = lggd.evolve(path, [0], start=torch.full((3,), 5.0), times=[9.0], scheme=RK4(step=0.1))
    >>> solution.statistics.step, solution.statistics.steps
    (0.1, 90)
    """

    stable: ClassVar[float] = 2.785
    tableau: ClassVar[Tableau] = Tableau(((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8))


def choose_step(scheme: FixedStep, p: float, bound: float) -> tuple[float, bool]:
    """The step to take, infinite without edges, and whether it lies above the monotone limit.

    `bound` is the largest ρ(i)‖√w(i,·)‖_p, as `Field.cfl_bound`.
    """
    check_instance("scheme", scheme, FixedStep, "a stepping scheme such as RK4()")
    stable = scheme.stable_at(p)
    monotone = MONOTONE / bound if bound else math.inf
    if scheme.step is None:
        return monotone, False
    # A step at exactly the limit must not be refused because of rounding.
    if scheme.step * bound > stable * (1 + 1e-6) and not scheme.force:
        product = f"step × max ρ‖√w‖_p must not exceed {stable} for {type(scheme).__name__}"
        received = f"{scheme.step:g}, where it is {scheme.step * bound:.4g}"
        remedy = "Use step=None, a smaller potential such as DegreePotential(-1), or force=True."
        raise InputError("step", f"be at most {stable / bound:.4g} on this graph ({product})", received, remedy)
    return scheme.step, scheme.step > monotone * (1 + 1e-6)


def evolution_layout(graph: Graph) -> Layout:
    """The memory layout that evolutions run on."""
    return graph.layout(PASSES)


@dataclass(frozen=True)
class Plan:
    """`counts[k]` steps of `sizes[k]` lead to output k.

    For the backward pass it saves the state before every `checkpoint_every`-th step, or with `save_stages` the start of
    every stage of every step.
    """

    tableau: Tableau
    counts: tuple[int, ...]
    sizes: tuple[float, ...]
    checkpoint_every: int = 1
    save_stages: bool = False

    @property
    def steps(self) -> int:
        return sum(self.counts)

    @property
    def evaluations(self) -> int:
        """Evaluations of the right-hand side, each one pass over all edges."""
        return self.steps * len(self.tableau.weights)

    def segment(self, k: int) -> Plan:
        """The steps from output k − 1 to output k only."""
        return replace(self, counts=self.counts[k : k + 1], sizes=self.sizes[k : k + 1])

    def within_memory(self, state_bytes: int, device: torch.device) -> Plan:
        """The same steps, saving as much as memory allows: stages, or states, or about √steps of the states."""
        limit = STAGE_BYTES
        if device.type == "cuda":
            limit = int(STAGE_FRACTION * torch.cuda.get_device_properties(device).total_memory)
        if self.evaluations * state_bytes <= limit:
            return replace(self, checkpoint_every=1, save_stages=True)
        checkpoints = self.steps * state_bytes > STATES_LIMIT * limit
        return replace(self, checkpoint_every=_checkpoint_every(self.steps, checkpoints), save_stages=False)


def make_plan(scheme: FixedStep, times: tuple[float, ...], size: float, checkpoints: bool = False) -> Plan:
    """Equal steps between outputs, none larger than `size`, so that every output is the end of a step."""
    spans = [after - before for before, after in pairwise((0.0, *times))]
    counts = tuple(count_steps(span, size) for span in spans)
    sizes = tuple(span / count for span, count in zip(spans, counts, strict=True))
    return Plan(scheme.tableau, counts, sizes, _checkpoint_every(sum(counts), checkpoints))


def count_steps(span: float, size: float) -> int:
    """The smallest number of equal steps of at most `size` that cover a span."""
    if span <= 0:
        return 0
    # A span that is a multiple of the step up to rounding takes exactly that many steps.
    return max(1, math.ceil(span / size * (1 - 1e-12) - 1e-9))


def check_times(times: Sequence[float]) -> tuple[float, ...]:
    """Returns the output times as floats if they are positive, finite and increasing."""
    try:
        ends = tuple(float(t) for t in times)
    except (TypeError, ValueError):
        raise InputTypeError("times", "be a sequence of numbers", repr(times), "For a single one, pass [t].") from None
    if not ends:
        raise InputError("times", "contain at least one time", "none")
    for before, after in pairwise((0.0, *ends)):
        if not before < after < math.inf:
            raise InputError("times", "be positive, finite and increasing", f"{after:g} after {before:g}")
    return ends


def _checkpoint_every(steps: int, checkpoints: bool) -> int:
    """1, or about √steps, with which at most 2√steps states are in memory."""
    return max(1, math.isqrt(steps)) if checkpoints else 1


def evolution_memory(
    graph: Graph, columns: int, scheme: FixedStep, outputs: int, gradient_steps: int, dtype: torch.dtype
) -> Memory:
    """The peak memory of `evolve`; with `gradient_steps`, that of the backward pass through that many steps."""
    tableau, stages = scheme.tableau, len(scheme.tableau.weights)
    state = state_bytes(graph, columns, dtype)
    # The start by node and by row, the states of a step, and the outputs by row and by node.
    parts = {"graph": graph_bytes(graph), "states": (stages + 2 + 2 * outputs) * state}
    if gradient_steps:
        # In the backward pass every stage has a cotangent, and the cotangent of the state takes as much again.
        saved = saved_states(Plan(tableau, (gradient_steps,), (1.0,)), state, graph.device)
        parts["saved for gradients"] = (saved + stages + 2) * state
    return Memory(parts, graph.device)


def saved_states(plan: Plan, state: int, device: torch.device) -> int:
    """The maximum number of states of `state` bytes that the plan saves for the backward pass."""
    stages, plan = len(plan.tableau.weights), plan.within_memory(state, device)
    if plan.save_stages:
        return plan.evaluations
    every = plan.checkpoint_every
    return math.ceil(plan.steps / every) + (every if every > 1 else 0) + stages


def state_bytes(graph: Graph, columns: int, dtype: torch.dtype) -> int:
    """The bytes of a state, including its idle columns."""
    return graph.num_nodes * (columns + idle_columns(graph.device, columns)) * dtype.itemsize


def graph_bytes(graph: Graph) -> int:
    """The bytes of the rows of the graph."""
    weights = graph.num_edges * graph.dtype.itemsize if graph.is_weighted else 0
    return 8 * (graph.num_nodes + 1) + 4 * graph.num_edges + weights
