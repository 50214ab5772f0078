"""MLPs on a CPU, one network after the other: the values of one network stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lggd.learning.node_features import NodeFeatures, StoredFeatures
from lggd.learning.workspace import Workspace
from lggd.training.randomness import LEVELS, draw_random_bytes, dropout_, num_words

# Products with fewer columns than this take longer than with exactly this many.
MIN_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class SharedInput:
    """Node features that all networks share."""

    features: NodeFeatures

    def __call__(self, q: int) -> NodeFeatures:
        """The input of network q."""
        return self.features


@dataclass(frozen=True, eq=False)
class DroppedInput:
    """Node features with input dropout: network q keeps entries whose byte in `random_bytes[q]` is below `level`."""

    features: StoredFeatures
    level: int
    random_bytes: Tensor
    workspace: Workspace

    def __call__(self, q: int) -> NodeFeatures:
        """The input of network q, computed at each call: the bytes take a quarter of its memory."""
        values = self.workspace.empty(self.features.values.shape, self.features.values.dtype)
        values.copy_(self.features.values)
        dropout_(values, self.level, self.random_bytes[q])
        return self.features.with_values(values)


NetworkInput = SharedInput | DroppedInput


def first_layer(inputs: NetworkInput, weight: Tensor, bias: Tensor, workspace: Workspace) -> Tensor:
    """X · weight + bias of every network, `[Q, N, M]`, from `[Q, F, M]` and `[Q, 1, M]`. Not differentiable."""
    output = workspace.empty((len(weight), inputs.features.shape[0], weight.shape[2]), weight.dtype)
    for q, (out, own_weight, own_bias) in enumerate(zip(output, weight.detach(), bias.detach(), strict=True)):
        inputs(q).multiply(own_weight, own_bias[0], out, workspace)
    return output


@dataclass(frozen=True, eq=False)
class SequentialMLPs:
    """Q networks whose hidden layers are followed by the activation and, with `levels`, by dropout.

    Network q keeps `levels[q]` of LEVELS entries, by random bytes of its generator.
    """

    inputs: NetworkInput
    activation: Callable[[Tensor], Tensor]
    levels: Sequence[int] | None
    generators: Sequence[torch.Generator]
    workspace: Workspace

    def __call__(self, first: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
        """The outputs `[Q, N, K]`, differentiable in weights `[Q, in, out]` and biases `[Q, 1, out]`.

        `first` is the result of `first_layer` for them.
        """
        saving = torch.is_grad_enabled()
        output: Tensor = _Forward.apply(self, saving, first, *weights, *biases)  # type: ignore[no-untyped-call]
        return output

    def draw(self, q: int, random_bytes: Tensor) -> None:
        """Draws the random bytes of a dropout of network q."""
        if self._level(q) < LEVELS:
            draw_random_bytes(random_bytes, self.generators[q])

    def activate(self, z: Tensor, q: int, random_bytes: Tensor, out: Tensor) -> None:
        """out ← the input of the next layer from the output `z [N, M]` of this one."""
        if self.activation is torch.relu:
            torch.clamp(z, min=0, out=out)
        else:
            out.copy_(self.activation(z))
        if self._level(q) < LEVELS:
            dropout_(out, self._level(q), random_bytes)

    def vjp(self, grad: Tensor, z: Tensor, q: int, random_bytes: Tensor) -> Tensor:
        """The gradient for z from that for the output of `activate`, which is overwritten."""
        if self._level(q) < LEVELS:
            dropout_(grad, self._level(q), random_bytes)
        if self.activation is torch.relu:
            grad_input: Tensor = torch.ops.aten.threshold_backward.grad_input(grad, z, 0, grad_input=grad)
            return grad_input
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            return torch.autograd.grad(self.activation(z), z, grad)[0]

    def _level(self, q: int) -> int:
        return LEVELS if self.levels is None else self.levels[q]


class _Forward(torch.autograd.Function):
    """Saves the hidden layers before activation and the random bytes; the rest is cheap to recompute."""

    @staticmethod
    def forward(ctx: Any, mlps: SequentialMLPs, saving: bool, first: Tensor, *parameters: Tensor) -> Tensor:
        workspace, depth = mlps.workspace, len(parameters) // 2
        weights, biases = parameters[:depth], parameters[depth:]
        problems, nodes, _ = first.shape
        widths = [weight.shape[2] for weight in weights]
        saved = problems if saving else 1
        hidden = [first, *(workspace.empty((saved, nodes, width), first.dtype) for width in widths[1:-1])]
        random_bytes = [workspace.empty((saved, num_words(nodes * width)), torch.int64) for width in widths[:-1]]
        buffers = [workspace.empty((nodes, width), first.dtype) for width in widths[:-1]]
        outputs = workspace.empty((problems, nodes, widths[-1]), first.dtype)
        for q in range(problems):
            z = first[q]
            for k, h in enumerate(buffers):
                own_bytes = random_bytes[k][q % saved]
                mlps.draw(q, own_bytes)
                mlps.activate(z, q, own_bytes, out=h)
                z = outputs[q] if k + 2 == depth else hidden[k + 1][q % saved]
                _multiply(h, weights[k + 1][q], z, workspace)
                z.add_(biases[k + 1][q])
            if not buffers:
                outputs[q] = z
        if saving:
            ctx.mlps, ctx.depth = mlps, depth
            ctx.save_for_backward(*weights, *hidden, *random_bytes)
        return outputs

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        mlps, depth, workspace = ctx.mlps, ctx.depth, ctx.mlps.workspace
        weights, rest = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        hidden, random_bytes = rest[: max(1, depth - 1)], rest[max(1, depth - 1) :]
        grad_weights = [workspace.empty(weight.shape, weight.dtype) for weight in weights]
        grad_biases = [weight.new_empty(len(weight), 1, weight.shape[2]) for weight in weights]
        buffers = [workspace.empty(z.shape[1:], z.dtype) for z in hidden[: depth - 1]]
        for q, grad in enumerate(grads[0]):
            g = grad.contiguous()
            for k in range(depth - 2, -1, -1):
                z, h = hidden[k][q], buffers[k]
                mlps.activate(z, q, random_bytes[k][q], out=h)
                _multiply(h.t(), g, grad_weights[k + 1][q], workspace)
                torch.sum(g, 0, out=grad_biases[k + 1][q, 0])
                g = mlps.vjp(torch.mm(g, weights[k + 1][q].t(), out=h), z, q, random_bytes[k][q])
            mlps.inputs(q).vjp(g, grad_weights[0][q], workspace)
            torch.sum(g, 0, out=grad_biases[0][q, 0])
        return None, None, None, *grad_weights, *grad_biases


def _multiply(a: Tensor, b: Tensor, out: Tensor, workspace: Workspace) -> None:
    """out ← a · b, padded with columns where there are few."""
    columns = b.shape[1]
    if columns >= MIN_COLUMNS:
        torch.mm(a, b, out=out)
        return
    wide, product = (workspace.empty((len(matrix), MIN_COLUMNS), b.dtype) for matrix in (b, a))
    # The padding is not used, but products with subnormal numbers in it would be slow.
    wide[:, columns:] = 0
    wide[:, :columns] = b
    out.copy_(torch.mm(a, wide, out=product)[:, :columns])
