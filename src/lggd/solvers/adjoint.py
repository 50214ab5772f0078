"""The evolution over the steps of a plan, and its exact gradient: the discrete adjoint of the scheme.

Reverse of one step, with κ_s the cotangent of slope s and μ_s that of the start of stage s:
κ_s = h (b_s λ + Σ_{r>s} a_rs μ_r), μ_s = F'(y_s)ᵀ κ_s, and λ ← λ + Σ_s μ_s.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from lggd.kernels import Field, backend_for
from lggd.solvers.plan import Plan
from lggd.solvers.scheme import Tableau


def integrate(field: Field, plan: Plan, start: Tensor) -> Tensor:
    """States `[T, N, C]` at the outputs of the plan; differentiable where start, ρ or √w requires a gradient."""
    inputs = (start, field.rho, field.root_weight)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        outputs: Tensor = EvolveFunction.apply(*inputs, field.detached(), plan)  # type: ignore[no-untyped-call]
        return outputs
    return run(field.detached(), plan, start.detach())


class Stepper:
    """Takes steps in place, in as many tensors as the scheme has stages, the state included (two for Euler).

    Stage 0 writes the start of stage 1 and its own slope. Stage 1 turns these into the starts of all later stages and
    the end of the step, as far as they are known, and later stages add their slopes. `buffers` are the starts of the
    stages 1, 2, …; the last of them holds the slope of stage 0 until stage 1 has run.
    """

    def __init__(self, field: Field, tableau: Tableau, like: Tensor) -> None:
        self.field, self.tableau, self._like = field, tableau, like
        self.backend = backend_for(like.device)

    @cached_property
    def buffers(self) -> Tensor:
        """Allocated by the first call of `step`: other steps allocate buffers that outlive them."""
        return self._new_buffers(self._like)

    def _new_buffers(self, like: Tensor) -> Tensor:
        stages = len(self.tableau.weights)
        return like.new_empty((stages if stages < 3 else stages - 1, *like.shape))

    def step(self, state: Tensor, size: float) -> None:
        """Advances `state [N, C]` by one step of `size`, in place."""
        self._run_stages(state, list(self.buffers), size, len(self.tableau.weights))

    def step_saving_stages(self, state: Tensor, size: float) -> list[Tensor]:
        """`step`, and the states at which its stages evaluated F."""
        stages, buffers, before = len(self.tableau.weights), self._new_buffers(state), state.clone()
        self._run_stages(state, list(buffers), size, stages)
        return [before, *buffers][:stages]

    def stage_starts(self, state: Tensor, size: float) -> list[Tensor]:
        """The states at which the stages of a step from `state` evaluate F."""
        stages, buffers = len(self.tableau.weights), self._new_buffers(state)
        if stages > 1:
            self._run_stages(state.clone(), list(buffers), size, stages - 1)
        return [state, *buffers][:stages]

    def _run_stages(self, state: Tensor, buffers: list[Tensor], size: float, until: int) -> None:
        """Runs the stages below `until`; all of them together advance `state` in place."""
        a, b = self.tableau.stages, [size * weight for weight in self.tableau.weights]
        stages = len(b)
        if stages == 1:
            self.backend.stage(self.field, state, [state], buffers, [[1.0, b[0]]])
            state.copy_(buffers[0])
            return
        starts, slope = [state, *buffers], buffers[-1]
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
    states: list[Tensor] | None = None,
    stages: list[list[Tensor]] | None = None,
) -> Tensor:
    """States `[T, N, C]` at the outputs of the plan, without gradients.

    Appends the state before every `plan.checkpoint_every`-th step to `states`, the stages of every step to `stages`.
    """
    state = start.clone(memory_format=torch.contiguous_format)
    stepper = Stepper(field, plan.tableau, state)
    outputs = start.new_empty((len(plan.counts), *start.shape))
    taken = 0
    for k, (count, size) in enumerate(zip(plan.counts, plan.sizes, strict=True)):
        for _ in range(count):
            if states is not None and taken % plan.checkpoint_every == 0:
                states.append(state.clone())
            if stages is not None:
                stages.append(stepper.step_saving_stages(state, size))
            else:
                stepper.step(state, size)
            taken += 1
        outputs[k] = state
    return outputs


class EvolveFunction(torch.autograd.Function):
    """(start, ρ, √w) → outputs `[T, N, C]`, differentiable in all three."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, rho: Tensor, root: Tensor | None, field: Field, plan: Plan) -> Tensor:
        field = replace(field, rho=rho.detach().contiguous(), root_weight=None if root is None else root.detach())
        ctx.field, ctx.plan, ctx.states, ctx.stages = field, plan, [], []
        if plan.save_stages:
            return run(field, plan, start.detach(), stages=ctx.stages)
        return run(field, plan, start.detach(), ctx.states)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        field, plan = ctx.field, ctx.plan
        _, needs_rho, needs_root, *_ = ctx.needs_input_grad
        sizes = [size for count, size in zip(plan.counts, plan.sizes, strict=True) for _ in range(count)]
        output_after = {sum(plan.counts[: k + 1]): k for k in range(len(plan.counts))}
        # Gradients may arrive transposed or expanded; the kernels need contiguous rows.
        cotangent = grads[0].new_zeros(grads[0].shape[1:])
        reverse = _Reverse(field, plan.tableau, cotangent, needs_rho, needs_root)
        segment: list[Tensor] = []
        for n in range(plan.steps - 1, -1, -1):
            if n + 1 in output_after:
                reverse.cotangent += grads[0][output_after[n + 1]]
            if ctx.stages:
                reverse.step(ctx.stages[n], sizes[n])
                continue
            if not segment:
                first = n - n % plan.checkpoint_every
                segment = reverse.recompute(ctx.states[first // plan.checkpoint_every], sizes[first : n + 1])
            reverse.step(reverse.stepper.stage_starts(segment.pop(), sizes[n]), sizes[n])
        return reverse.cotangent, reverse.grad_rho, reverse.grad_root, None, None


class _Reverse:
    """The adjoint state, moving backward through the steps."""

    def __init__(self, field: Field, tableau: Tableau, cotangent: Tensor, needs_rho: bool, needs_root: bool) -> None:
        self.field, self.tableau, self.cotangent = field, tableau, cotangent
        self.stepper = Stepper(field, tableau, cotangent)
        self.grad_rho = torch.zeros_like(field.rho) if needs_rho else None
        root = field.root_weight
        self.grad_root = torch.zeros_like(root) if needs_root and root is not None else None

    def recompute(self, state: Tensor, sizes: list[float]) -> list[Tensor]:
        """The states before each of the steps, from the one before the first."""
        states = [state]
        for size in sizes[:-1]:
            following = states[-1].clone()
            self.stepper.step(following, size)
            states.append(following)
        return states

    def step(self, starts: list[Tensor], size: float) -> None:
        """Moves backward through a step whose stages evaluated F at `starts`."""
        stages, weights = self.tableau.stages, self.tableau.weights
        needs = (self.grad_rho is not None, self.grad_root is not None)
        cotangents: dict[int, Tensor] = {}
        for s in range(len(weights) - 1, -1, -1):
            later = [r for r in range(s + 1, len(weights)) if stages[r][s]]
            terms = [self.cotangent, *(cotangents[r] for r in later)]
            factors = [size * weights[s], *(size * stages[r][s] for r in later)]
            vjp = self.stepper.backend.vjp
            cotangents[s], grad_rho, grad_root = vjp(self.field, starts[s], terms, factors, *needs)
            if self.grad_rho is not None and grad_rho is not None:
                self.grad_rho += grad_rho
            if self.grad_root is not None and grad_root is not None:
                self.grad_root += grad_root
        for mu in cotangents.values():
            self.cotangent += mu
