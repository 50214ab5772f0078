"""The steps of an evolution, planned before it runs: output times, padded columns, what is saved, and memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.graph.csr import CSR
from lggd.graph.layout import Layout
from lggd.kernels import Field, idle_columns
from lggd.solvers.scheme import FixedStep, Tableau
from lggd.system.memory import Memory


@dataclass(frozen=True)
class PaddedState:
    """G groups of K columns each, `[N, G, K]`, as the C columns of a state `[N, C]`, with the field that drives it.

    Where the columns of a group share parameters, every group has idle columns of its own; otherwise idle columns
    follow the last column. Idle columns belong to the boundary where there is one.
    """

    state: Tensor
    field: Field
    groups: int
    columns: int
    width: int  # columns of a group, with its idle ones

    @classmethod
    def build(
        cls, csr: CSR, p: float, start: Tensor, rho: Tensor, root_weight: Tensor | None, boundary_mask: Tensor | None,
        symmetric: bool,
    ) -> PaddedState:  # fmt: skip
        """All by row: `start` and `boundary_mask` `[N, G, K]`; `rho` and `root_weight` with 1, G or G·K columns."""
        _, groups, columns = start.shape
        parameters = (rho,) if root_weight is None else (rho, root_weight)
        by_group = any(x.shape[1] not in (1, groups * columns) for x in parameters)
        own = idle_columns(start.device, columns) if by_group else 0
        last = 0 if by_group else idle_columns(start.device, groups * columns)

        def flat(values: Tensor, filling: float) -> Tensor:
            return _padded(_padded(values, own, filling).reshape(len(values), -1), last, filling).contiguous()

        def parameter(values: Tensor) -> Tensor:
            return (values if values.shape[1] == 1 else _padded(values, last, 1.0)).contiguous()

        root_weight = None if root_weight is None else parameter(root_weight)
        boundary_mask = None if boundary_mask is None else flat(boundary_mask, True)
        field = Field(csr, p, parameter(rho), root_weight, boundary_mask, symmetric)
        return cls(flat(start, 0.0), field, groups, columns, columns + own)

    def unpad(self, states: Tensor) -> Tensor:
        """States `[…, N, C]` without idle columns, `[…, N, G, K]`."""
        used = states[..., : self.groups * self.width]
        return used.view(*states.shape[:-1], self.groups, self.width)[..., : self.columns]


def _padded(values: Tensor, count: int, filling: float) -> Tensor:
    return pad(values, (0, count), value=filling) if count else values  # padding by nothing would copy


# An evolution reads the edges some hundred times: more than enough for reordering to pay off.
PASSES = 100
# Up to this many bytes on a CPU, or this fraction of a GPU's memory, the start of every stage is saved, so that the
# backward pass need not recompute them. Beyond it only the state before each step is saved, and beyond this many times
# the limit only some of those.
STAGE_BYTES = 2**28
STAGE_FRACTION = 1 / 16
STATES_LIMIT = 4


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


REMEDY = "Use fewer columns at a time, float32, or checkpoints=True where gradients are needed."


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
