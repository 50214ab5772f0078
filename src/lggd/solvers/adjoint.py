"""The evolution over a list of steps, and its exact gradient: the discrete adjoint of the scheme.

Reverse of one step, with κ_s the cotangent of slope s and μ_s that of the start of stage s:
κ_s = h (b_s λ + Σ_{r>s} a_rs μ_r), μ_s = F'(y_s)ᵀ κ_s, and λ ← λ + Σ_s μ_s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
    """Takes steps in place with memory allocated once: a slope a stage and one more state, 6 states with RK4's own."""

    def __init__(self, field: Field, tableau: Tableau, like: Tensor) -> None:
        self.field, self.tableau = field, tableau
        self.backend = backend_for(like.device)
        count = len(tableau.weights)
        room = like.new_empty((count + 1, *like.shape))
        self.slopes = room[:count]
        # Two places for the starts of stages, in turns. Until the last stage is under way its slope's is one of them.
        self.starts = room[count - 1 :]

    def step(self, state: Tensor, size: float) -> None:
        """Moves `state [N, C]` on by one step of `size`, in place."""
        y = state
        last = len(self.tableau.weights) - 1
        for s in range(last + 1):
            # The start of the last stage must not lie where that stage puts its slope.
            out = state if s == last and s > 0 else self.starts[(last - s) % 2 if last else 1]
            factors = [size * c for c in self.tableau.coefficients(s)]
            self.backend.stage(self.field, y, state, self.slopes, s, factors, out)
            y = out
        if last == 0:
            state.copy_(y)

    def kept_step(self, state: Tensor, size: float) -> list[Tensor]:
        """`step`, and where each of its stages evaluated F."""
        starts = self.stage_starts(state.clone(), size)
        last = len(self.tableau.weights) - 1
        factors = [size * c for c in self.tableau.coefficients(last)]
        self.backend.stage(self.field, starts[-1], starts[0], self.slopes, last, factors, state)
        return starts

    def stage_starts(self, state: Tensor, size: float) -> list[Tensor]:
        """Where each stage of a step from `state` evaluates F."""
        starts = [state]
        for s in range(len(self.tableau.weights) - 1):
            following = torch.empty_like(state)
            factors = [size * c for c in self.tableau.coefficients(s)]
            self.backend.stage(self.field, starts[-1], state, self.slopes, s, factors, following)
            starts.append(following)
        return starts


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
            pulled[s], grad_rho, grad_root = self.backend.pull_back(self.field, starts[s], terms, factors, *wants)
            if self.grad_rho is not None and grad_rho is not None:
                self.grad_rho += grad_rho
            if self.grad_root is not None and grad_root is not None:
                self.grad_root += grad_root
        for mu in pulled.values():
            self.cotangent += mu


def spacing(steps: int, checkpoints: bool) -> int:
    """How many steps lie between kept states: 1, or about √steps, which keeps 2√steps states in memory at most."""
    return max(1, math.isqrt(steps)) if checkpoints else 1
