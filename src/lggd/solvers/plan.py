"""Plans of an evolution: the steps to take, and the states to save for the backward pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.graph.layout import Layout
from lggd.solvers.scheme import FixedStep, Tableau

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
