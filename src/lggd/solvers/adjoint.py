"""The evolution over the steps of a plan, and its exact gradient: the discrete adjoint of the scheme.

Reverse of one step, with κ_s the cotangent of slope s and μ_s that of the start of stage s:
κ_s = h (b_s λ + Σ_{r>s} a_rs μ_r), μ_s = F'(y_s)ᵀ κ_s, and λ ← λ + Σ_s μ_s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lggd._kernels import backend_for
from lggd.equation import Field
from lggd.solvers.scheme import Plan, Tableau

if TYPE_CHECKING:
    from jaxtyping import Float

# y, terms, targets and factors of one evaluation of F.
Evaluation = tuple[Tensor, Sequence[Tensor], Sequence[Tensor], Sequence[Sequence[float]]]


def integrate(field: Field, plan: Plan, start: Float[Tensor, "n c"]) -> Float[Tensor, "t n c"]:
    """States `[T, N, C]` at the outputs of the plan; differentiable where start, ρ or √w requires a gradient."""
    inputs = (start, field.rho, field.root_weight)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        return EvolveFunction.apply(*inputs, field, plan)  # type: ignore[no-any-return, no-untyped-call]  # not typed in torch
    return run(field.detached(), plan, start.detach())


class Stepper:
    """Takes steps in place, in as many tensors as the scheme has stages, the state included (two for Euler).

    Stage 0 writes the start of stage 1 and its own slope. Stage 1 turns these into the starts of all later stages and
    the end of the step, as far as they are known, and later stages add their slopes. `buffers` are the starts of the
    stages 1, 2, …; the last of them holds the slope of stage 0 until stage 1 has run.
    """

    def __init__(self, field: Field, tableau: Tableau, like: Tensor) -> None:
        self.field, self.tableau, self._like = field, tableau, like
        self.backend, self.stages = backend_for(like.device), len(tableau.weights)

    @cached_property
    def buffers(self) -> Tensor:
        """Allocated by the first call of `step`: other steps allocate buffers that outlive them."""
        return self._new_buffers()

    def _new_buffers(self) -> Tensor:
        count = self.stages if self.stages < 3 else self.stages - 1
        return self._like.new_empty((count, *self._like.shape))

    def step(self, state: Float[Tensor, "n c"], size: float) -> None:
        """Advances `state [N, C]` by one step of `size`, in place."""
        self._run(self.evaluations(state, size))

    def step_saving_stages(self, state: Float[Tensor, "n c"], size: float) -> list[Float[Tensor, "n c"]]:
        """`step`, and the states at which its stages evaluated F."""
        before, buffers = state.clone(), self._new_buffers()
        self._run(self.evaluations(state, size, buffers))
        return [before, *buffers][: self.stages]

    def stage_starts(self, state: Float[Tensor, "n c"], size: float) -> list[Float[Tensor, "n c"]]:
        """The states at which the stages of a step from `state` evaluate F."""
        if self.stages == 1:
            return [state]
        buffers = self._new_buffers()
        self._run(islice(self.evaluations(state.clone(), size, buffers), self.stages - 1))
        return [state, *buffers][: self.stages]

    def _run(self, evaluations: Iterable[Evaluation]) -> None:
        for evaluation in evaluations:
            self.backend.stage(self.field, *evaluation)

    def evaluations(self, state: Tensor, size: float, buffers: Tensor | None = None) -> Iterator[Evaluation]:
        """The arguments of `Backend.stage` for each stage of a step, which the caller runs before it asks for more."""
        buffers = self.buffers if buffers is None else buffers
        a, b, stages = self.tableau.stages, [size * weight for weight in self.tableau.weights], self.stages
        if stages == 1:
            yield state, [state], [buffers[0]], [[1.0, b[0]]]
            state.copy_(buffers[0])
            return
        starts = [state, *buffers]
        slope = starts[-1]
        yield state, [state], [starts[1], slope], [[1.0, size * a[1][0]], [0.0, 1.0]]
        factors = [[1.0, size * a[r][0], size * a[r][1]] for r in range(2, stages)] + [[1.0, b[0], b[1]]]
        yield starts[1], [state, slope], [*starts[2:stages], state], factors
        for s in range(2, stages):
            open_sums = [*starts[s + 1 : stages], state]
            added = [*(size * a[r][s] for r in range(s + 1, stages)), b[s]]
            factors = [[float(r == t) for r in range(len(open_sums))] + [added[t]] for t in range(len(open_sums))]
            yield starts[s], open_sums, open_sums, factors


def run(
    field: Field, plan: Plan, start: Float[Tensor, "n c"], saved: list[Any] | None = None
) -> Float[Tensor, "t n c"]:
    """States `[T, N, C]` at the outputs of the plan, without gradients.

    Appends to `saved` what the plan saves: the stages of every step, or the states before some steps.
    """
    state = start.clone(memory_format=torch.contiguous_format)
    stepper = Stepper(field, plan.tableau, state)
    outputs, taken = start.new_empty((len(plan.counts), *start.shape)), 0
    for k, (count, size) in enumerate(zip(plan.counts, plan.sizes, strict=True)):
        for _ in range(count):
            if saved is not None and plan.save_stages:
                saved.append(stepper.step_saving_stages(state, size))
            else:
                if saved is not None and taken % plan.checkpoint_every == 0:
                    saved.append(state.clone())
                stepper.step(state, size)
            taken += 1
        outputs[k] = state
    return outputs


class EvolveFunction(torch.autograd.Function):
    """(start, ρ, √w) → outputs `[T, N, C]`, differentiable in all three."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, rho: Tensor, root: Tensor | None, field: Field, plan: Plan) -> Tensor:
        ctx.field, ctx.plan, ctx.saved = field.detached(), plan, []
        return run(ctx.field, plan, start.detach(), ctx.saved)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        field, plan, stages, weights = ctx.field, ctx.plan, ctx.plan.tableau.stages, ctx.plan.tableau.weights
        _, needs_rho, needs_root, *_ = ctx.needs_input_grad
        sizes = [size for count, size in zip(plan.counts, plan.sizes, strict=True) for _ in range(count)]
        output_after = {sum(plan.counts[: k + 1]): k for k in range(len(plan.counts))}
        # Gradients may arrive transposed or expanded; the kernels need contiguous rows.
        cotangent = grads[0].new_zeros(grads[0].shape[1:])
        grad_rho = torch.zeros_like(field.rho) if needs_rho else None
        grad_root = torch.zeros_like(field.root_weight) if needs_root else None
        stepper = Stepper(field, plan.tableau, cotangent)
        segment: list[Tensor] = []
        for n in reversed(range(plan.steps)):
            if n + 1 in output_after:
                cotangent += grads[0][output_after[n + 1]]
            if not plan.save_stages and not segment:
                # The states before each step since the last one that was saved.
                first = n - n % plan.checkpoint_every
                segment = [ctx.saved[first // plan.checkpoint_every]]
                for size in sizes[first:n]:
                    segment.append(segment[-1].clone())
                    stepper.step(segment[-1], size)
            starts = ctx.saved[n] if plan.save_stages else stepper.stage_starts(segment.pop(), sizes[n])
            mu: dict[int, Tensor] = {}
            for s in reversed(range(len(weights))):
                later = [r for r in range(s + 1, len(weights)) if stages[r][s]]
                terms = [cotangent, *(mu[r] for r in later)]
                factors = [sizes[n] * weights[s], *(sizes[n] * stages[r][s] for r in later)]
                mu[s], of_rho, of_root = stepper.backend.vjp(field, starts[s], terms, factors, needs_rho, needs_root)
                if grad_rho is not None and of_rho is not None:
                    grad_rho += of_rho
                if grad_root is not None and of_root is not None:
                    grad_root += of_root
            for stage in mu.values():
                cotangent += stage
        return cotangent, grad_rho, grad_root, None, None
