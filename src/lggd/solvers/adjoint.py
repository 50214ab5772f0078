"""The evolution over a list of steps, and its exact gradient: the discrete adjoint of the scheme.

Reverse of one step, with κ_s the cotangent of slope s and μ_s that of the start of stage s:
κ_s = h (b_s λ + Σ_{r>s} a_rs μ_r), μ_s = F'(y_s)ᵀ κ_s, and λ ← λ + Σ_s μ_s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from lggd.kernels import Field, backend_for
from lggd.solvers.scheme import Tableau

# Up to this many bytes on a CPU, or this share of a GPU's memory, the start of every stage is kept, which saves the way
# back from running them again. Beyond it only the states before each step are, and beyond this many times it only some.
WORTH_KEEPING = 2**28
SHARE_WORTH_KEEPING = 1 / 16
STATES_BEYOND = 4


@dataclass(frozen=True)
class Plan:
    """Which steps to take: `counts[k]` steps of `sizes[k]` lead to output k, and what to keep for the way back.

    That is the state before every `every`-th step, and with `stages` where every stage of every step began.
    """

    tableau: Tableau
    counts: tuple[int, ...]
    sizes: tuple[float, ...]
    every: int = 1
    stages: bool = False

    @property
    def steps(self) -> int:
        return sum(self.counts)

    def within_memory(self, state_bytes: int, device: torch.device) -> Plan:
        """The same steps, keeping as much as is worth its memory: stages, or states, or about √steps of them."""
        worth = _worth_keeping(device)
        if self.steps * len(self.tableau.weights) * state_bytes <= worth:
            return replace(self, every=1, stages=True)
        return replace(self, every=spacing(self.steps, self.steps * state_bytes > STATES_BEYOND * worth), stages=False)


def _worth_keeping(device: torch.device) -> int:
    if device.type != "cuda":
        return WORTH_KEEPING
    return int(SHARE_WORTH_KEEPING * torch.cuda.get_device_properties(device).total_memory)


class Stepper:
    """Takes steps in place, in as many states as the scheme has stages, the one that moves among them (two for Euler).

    Stage 0 leaves the start of stage 1 and its own slope. Stage 1 makes of them the starts of all later stages and the
    end of the step, as far as these are known, and the later stages add their slopes. `room` holds the starts of the
    stages 1, 2, …; the last of them is where that first slope lies for a while.
    """

    def __init__(self, field: Field, tableau: Tableau, like: Tensor) -> None:
        self.field, self.tableau, self._like = field, tableau, like
        self.backend = backend_for(like.device)

    @cached_property
    def room(self) -> Tensor:
        """Allocated by the first step that leaves nothing behind: those that keep their starts have memory for them."""
        return self._new_room(self._like)

    def _new_room(self, like: Tensor) -> Tensor:
        stages = len(self.tableau.weights)
        return like.new_empty((stages if stages < 3 else stages - 1, *like.shape))

    def step(self, state: Tensor, size: float) -> None:
        """Moves `state [N, C]` on by one step of `size`, in place."""
        self._walk(state, list(self.room), size, len(self.tableau.weights))

    def kept_step(self, state: Tensor, size: float) -> list[Tensor]:
        """`step`, and where each of its stages evaluated F."""
        room = self._new_room(state)
        before = state.clone()
        self._walk(state, list(room), size, len(self.tableau.weights))
        return [before, *room][: len(self.tableau.weights)]

    def stage_starts(self, state: Tensor, size: float) -> list[Tensor]:
        """Where each stage of a step from `state` evaluates F."""
        stages = len(self.tableau.weights)
        room = self._new_room(state)
        if stages > 1:
            self._walk(state.clone(), list(room), size, stages - 1)
        return [state, *room][:stages]

    def _walk(self, state: Tensor, room: list[Tensor], size: float, until: int) -> None:
        """The stages below `until`; all of them move `state` on, in place."""
        a, b = self.tableau.stages, [size * weight for weight in self.tableau.weights]
        stages = len(b)
        if stages == 1:
            self.backend.stage(self.field, state, [state], room, [[1.0, b[0]]])
            state.copy_(room[0])
            return
        starts, slope = [state, *room], room[-1]
        self.backend.stage(self.field, state, [state], [starts[1], slope], [[1.0, size * a[1][0]], [0.0, 1.0]])
        if until > 1:
            factors = [[1.0, size * a[r][0], size * a[r][1]] for r in range(2, stages)] + [[1.0, b[0], b[1]]]
            self.backend.stage(self.field, starts[1], [state, slope], [*starts[2:stages], state], factors)
        for s in range(2, until):
            open_sums = [*starts[s + 1 : stages], state]
            added = [*(size * a[r][s] for r in range(s + 1, stages)), b[s]]
            factors = [[float(r == t) for r in range(len(open_sums))] + [added[t]] for t in range(len(open_sums))]
            self.backend.stage(self.field, starts[s], open_sums, open_sums, factors)


def run(
    field: Field,
    plan: Plan,
    start: Tensor,
    keep: list[Tensor] | None = None,
    keep_stages: list[list[Tensor]] | None = None,
) -> Tensor:
    """States `[T, N, C]` at the outputs of the plan.

    `keep` collects the state before every `plan.every`-th step, `keep_stages` where every stage began.
    """
    state = start.clone(memory_format=torch.contiguous_format)
    stepper = Stepper(field, plan.tableau, state)
    outputs = start.new_empty((len(plan.counts), *start.shape))
    taken = 0
    for k, (count, size) in enumerate(zip(plan.counts, plan.sizes, strict=True)):
        for _ in range(count):
            if keep is not None and taken % plan.every == 0:
                keep.append(state.clone())
            if keep_stages is not None:
                keep_stages.append(stepper.kept_step(state, size))
            else:
                stepper.step(state, size)
            taken += 1
        outputs[k] = state
    return outputs


class Evolve(torch.autograd.Function):
    """(start, ρ, √w) → outputs `[T, N, C]`, differentiable in all three."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, rho: Tensor, root: Tensor | None, field: Field, plan: Plan) -> Tensor:
        field = replace(field, rho=rho.detach().contiguous(), root_weight=None if root is None else root.detach())
        ctx.field, ctx.plan, ctx.kept, ctx.kept_stages = field, plan, [], []
        if plan.stages:
            return run(field, plan, start.detach(), keep_stages=ctx.kept_stages)
        return run(field, plan, start.detach(), ctx.kept)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        field, plan = ctx.field, ctx.plan
        _, wants_rho, wants_root, *_ = ctx.needs_input_grad
        sizes = [size for count, size in zip(plan.counts, plan.sizes, strict=True) for _ in range(count)]
        output_after = {sum(plan.counts[: k + 1]): k for k in range(len(plan.counts))}
        # Gradients may arrive transposed or expanded; the kernels want plain rows.
        cotangent = grads[0].new_zeros(grads[0].shape[1:])
        sweep = _Reverse(field, plan.tableau, cotangent, wants_rho, wants_root)
        segment: list[Tensor] = []
        for n in range(plan.steps - 1, -1, -1):
            if n + 1 in output_after:
                sweep.cotangent += grads[0][output_after[n + 1]]
            if ctx.kept_stages:
                sweep.step(ctx.kept_stages[n], sizes[n])
                continue
            if not segment:
                first = n - n % plan.every
                segment = sweep.replay(ctx.kept[first // plan.every], sizes[first : n + 1])
            sweep.step(sweep.stepper.stage_starts(segment.pop(), sizes[n]), sizes[n])
        return sweep.cotangent, sweep.grad_rho, sweep.grad_root, None, None


class _Reverse:
    """The adjoint state on its way back through the steps."""

    def __init__(self, field: Field, tableau: Tableau, cotangent: Tensor, wants_rho: bool, wants_root: bool) -> None:
        self.field, self.tableau, self.cotangent = field, tableau, cotangent
        self.stepper = Stepper(field, tableau, cotangent)
        self.backend = self.stepper.backend
        self.grad_rho = torch.zeros_like(field.rho) if wants_rho else None
        root = field.root_weight
        self.grad_root = torch.zeros_like(root) if wants_root and root is not None else None

    def replay(self, state: Tensor, sizes: list[float]) -> list[Tensor]:
        """The states before each of the steps, from the one kept before the first."""
        states = [state]
        for size in sizes[:-1]:
            following = states[-1].clone()
            self.stepper.step(following, size)
            states.append(following)
        return states

    def step(self, starts: list[Tensor], size: float) -> None:
        """Back through a step whose stages began at `starts`."""
        stages, weights = self.tableau.stages, self.tableau.weights
        pulled: dict[int, Tensor] = {}
        for s in range(len(weights) - 1, -1, -1):
            after = [r for r in range(s + 1, len(weights)) if stages[r][s]]
            terms = [self.cotangent, *(pulled[r] for r in after)]
            factors = [size * weights[s], *(size * stages[r][s] for r in after)]
            wants = (self.grad_rho is not None, self.grad_root is not None)
            pulled[s], grad_rho, grad_root = self.backend.vjp(self.field, starts[s], terms, factors, *wants)
            if self.grad_rho is not None and grad_rho is not None:
                self.grad_rho += grad_rho
            if self.grad_root is not None and grad_root is not None:
                self.grad_root += grad_root
        for mu in pulled.values():
            self.cotangent += mu


def spacing(steps: int, checkpoints: bool) -> int:
    """How many steps lie between kept states: 1, or about √steps, which keeps 2√steps states in memory at most."""
    return max(1, math.isqrt(steps)) if checkpoints else 1
