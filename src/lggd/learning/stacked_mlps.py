"""MLPs of equal shape with stacked parameters, each initialized and trained as if alone.

GPUs, and CPUs for small networks, evaluate them together. Otherwise a CPU evaluates one after the other, so that the
values of one network stay in its cache, in memory that is reused.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lggd.learning.node_features import NodeFeatures, stored
from lggd.training.problems import (
    LEVELS,
    StackedParameter,
    draw_keep_mask,
    draw_random_bytes,
    dropout_,
    keep_level,
    num_words,
    parameter_generators,
)

# Number of parameters and values per network from which a CPU evaluates networks one by one: together they would not
# fit into the cache.
SEQUENTIAL_FROM = 2**17
# Products with fewer columns than this take longer than with exactly this many.
MIN_COLUMNS = 16


class StackedMLPs:
    """Q MLPs with weights `[Q, in, out]` and biases `[Q, 1, out]`.

    `dropout` is the rate of all networks or of each; `input_dropout` that of the node features, for all.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        dropout: float | Sequence[float],
        activation: Callable[[Tensor], Tensor],
        generators: Sequence[torch.Generator],
        input_dropout: float = 0.0,
    ) -> None:
        self.activation, self.generators = activation, list(generators)
        self.input_level = keep_level(input_dropout)
        rates = [dropout] * len(self.generators) if isinstance(dropout, (int, float)) else dropout
        self.levels = [keep_level(rate) for rate in rates]
        initial = parameter_generators(generators)
        self.weights = [self._initialize(initial, a, a, b) for a, b in pairwise(sizes)]
        self.biases = [self._initialize(initial, a, 1, b) for a, b in pairwise(sizes)]
        self._workspace = Workspace()
        self._saved_first_layer: tuple[tuple[NodeFeatures, int, int], Tensor] | None = None
        # Created on the device: nothing may be copied there while a CUDA graph is captured.
        self._levels = torch.tensor(self.levels, dtype=torch.int16, device=self.weights[0].device)
        self._factor = (LEVELS / self._levels)[:, None, None]

    def _initialize(self, generators: Sequence[torch.Generator], fan_in: int, rows: int, columns: int) -> Tensor:
        """Uniform in ±1/√fan_in, as in `torch.nn.Linear`."""
        bound = fan_in**-0.5
        parts = [torch.empty(rows, columns).uniform_(-bound, bound, generator=generator) for generator in generators]
        return torch.stack(parts).to(self.generators[0].device).requires_grad_()

    def parameters(self) -> list[StackedParameter]:
        weights = [StackedParameter(f"weight.{k}", value) for k, value in enumerate(self.weights)]
        return weights + [StackedParameter(f"bias.{k}", value) for k, value in enumerate(self.biases)]

    def __call__(self, x: NodeFeatures, training: bool, training_follows: bool = False) -> Tensor:
        """The outputs `[N, Q, K]`, with dropout if `training`.

        `training_follows` promises that a training step with the same parameters comes next, which may reuse work.
        """
        size = sum((weight.shape[1] + x.shape[0]) * weight.shape[2] for weight in self.weights)
        if self.input_level < LEVELS:
            size += stored(x).values.numel()
        if self.weights[0].device.type == "cpu" and size >= SEQUENTIAL_FROM:
            outputs = self._sequential(x, training, training_follows)
        else:
            outputs = self._batched(x, training)
        return outputs.transpose(0, 1)

    def _batched(self, x: NodeFeatures, training: bool) -> Tensor:
        """The outputs `[Q, N, K]` in few operations: for GPUs and for small networks."""
        dropping = training and min(self.levels) < LEVELS
        pairs = zip(self.generators, self.levels, strict=True)
        drawing = [generator if level < LEVELS else None for generator, level in pairs]
        h = self._first_product(x, training) + self.biases[0]
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = self.activation(h)
            if dropping:
                h = h * draw_keep_mask(drawing, h.shape[1:], self._levels)
                # The kept entries are scaled up through the weights, of which there are fewer.
                weight = weight * self._factor
            h = torch.baddbmm(bias, h, weight)
        return h

    def _first_product(self, x: NodeFeatures, training: bool) -> Tensor:
        if not training or self.input_level == LEVELS:
            return x.matmul(self.weights[0])
        features = stored(x)
        keep = draw_keep_mask(self.generators, features.values.shape, self.input_level)
        return features.matmul_each(features.values * keep, self.weights[0] * (LEVELS / self.input_level))

    def _sequential(self, x: NodeFeatures, training: bool, training_follows: bool) -> Tensor:
        """The outputs `[Q, N, K]`, one network at a time, in memory that is reused in the next epoch."""
        dropping_input = training and self.input_level < LEVELS
        inputs = self._dropped_inputs(x) if dropping_input else lambda q: x
        # Without input dropout, the training step after a validation reuses its first layer.
        state = (x, self.weights[0]._version, self.biases[0]._version)
        saved, self._saved_first_layer = self._saved_first_layer, None
        if not dropping_input and saved is not None and saved[0][0] is x and saved[0][1:] == state[1:]:
            first = saved[1]
        else:
            weight, bias = self.weights[0].detach(), self.biases[0].detach()
            first = self._workspace.empty((len(weight), x.shape[0], weight.shape[2]), weight.dtype)
            for q, out in enumerate(first):
                inputs(q).multiply(weight[q], bias[q, 0], out, self._workspace)
        if training_follows and self.input_level == LEVELS:
            self._saved_first_layer = state, first
        levels = self.levels if training else [LEVELS] * len(self.levels)
        evaluation = _Evaluation(inputs, self.activation, levels, self.generators, self._workspace)
        saving = torch.is_grad_enabled()
        outputs: Tensor = _Forward.apply(evaluation, saving, first, *self.weights, *self.biases)  # type: ignore[no-untyped-call]
        if not training and not training_follows:
            self._workspace.release()
        return outputs

    def _dropped_inputs(self, x: NodeFeatures) -> Callable[[int], NodeFeatures]:
        """The input of network q with dropout, computed at each call: its random bytes take a quarter of its memory."""
        features, workspace, level = stored(x), self._workspace, self.input_level
        random_bytes = workspace.empty((len(self.generators), num_words(features.values.numel())), torch.int64)
        for row, generator in zip(random_bytes, self.generators, strict=True):
            draw_random_bytes(row, generator)

        def dropped(q: int) -> NodeFeatures:
            values = workspace.empty(features.values.shape, features.values.dtype).copy_(features.values)
            dropout_(values, level, random_bytes[q])
            return features.with_values(values)

        return dropped


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """What one evaluation depends on: network q has `inputs(q)` and keeps `levels[q]` of LEVELS entries in dropout."""

    inputs: Callable[[int], NodeFeatures]
    activation: Callable[[Tensor], Tensor]
    levels: Sequence[int]
    generators: Sequence[torch.Generator]
    workspace: Workspace

    def activate(self, z: Tensor, q: int, random_bytes: Tensor, out: Tensor) -> None:
        """out ← the input of the next layer from the output `z [N, M]` of this one."""
        if self.activation is torch.relu:
            torch.clamp(z, min=0, out=out)
        else:
            out.copy_(self.activation(z))
        if self.levels[q] < LEVELS:
            dropout_(out, self.levels[q], random_bytes)

    def vjp(self, grad: Tensor, z: Tensor, q: int, random_bytes: Tensor) -> Tensor:
        """The gradient for z from that for the output of `activate`, which is overwritten."""
        if self.levels[q] < LEVELS:
            dropout_(grad, self.levels[q], random_bytes)
        if self.activation is torch.relu:
            grad_input: Tensor = torch.ops.aten.threshold_backward.grad_input(grad, z, 0, grad_input=grad)
            return grad_input
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            return torch.autograd.grad(self.activation(z), z, grad)[0]


class _Forward(torch.autograd.Function):
    """Saves the hidden layers before activation and the random bytes; the rest is cheap to recompute."""

    @staticmethod
    def forward(ctx: Any, evaluation: _Evaluation, saving: bool, first: Tensor, *parameters: Tensor) -> Tensor:
        workspace, depth = evaluation.workspace, len(parameters) // 2
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
                if evaluation.levels[q] < LEVELS:
                    draw_random_bytes(own_bytes, evaluation.generators[q])
                evaluation.activate(z, q, own_bytes, out=h)
                z = outputs[q] if k + 2 == depth else hidden[k + 1][q % saved]
                _multiply(h, weights[k + 1][q], z, workspace)
                z.add_(biases[k + 1][q])
            if not buffers:
                outputs[q] = z
        if saving:
            ctx.evaluation, ctx.depth = evaluation, depth
            ctx.save_for_backward(*weights, *hidden, *random_bytes)
        return outputs

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        evaluation, depth, workspace = ctx.evaluation, ctx.depth, ctx.evaluation.workspace
        weights, rest = ctx.saved_tensors[:depth], ctx.saved_tensors[depth:]
        hidden, random_bytes = rest[: max(1, depth - 1)], rest[max(1, depth - 1) :]
        grad_weights = [workspace.empty(weight.shape, weight.dtype) for weight in weights]
        grad_biases = [weight.new_empty(len(weight), 1, weight.shape[2]) for weight in weights]
        buffers = [workspace.empty(z.shape[1:], z.dtype) for z in hidden[: depth - 1]]
        for q, grad in enumerate(grads[0]):
            g = grad.contiguous()
            for k in range(depth - 2, -1, -1):
                z, h = hidden[k][q], buffers[k]
                evaluation.activate(z, q, random_bytes[k][q], out=h)
                _multiply(h.t(), g, grad_weights[k + 1][q], workspace)
                torch.sum(g, 0, out=grad_biases[k + 1][q, 0])
                g = evaluation.vjp(torch.mm(g, weights[k + 1][q].t(), out=h), z, q, random_bytes[k][q])
            evaluation.inputs(q).vjp(g, grad_weights[0][q], workspace)
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


class Workspace:
    """Allocates tensors on the CPU, and reuses their memory once no tensor, view or gradient uses it any more.

    Freed memory of large tensors returns to the system, and new pages are slow to get: on a virtual machine, 69 MB were
    filled in 66 ms when freshly allocated and in 8 ms when reused.
    """

    def __init__(self) -> None:
        self.release()

    def release(self) -> None:
        """Returns unused memory to the system, and the rest when it is no longer used."""
        self._free: dict[int, list[Tensor]] = {}
        self._in_use: dict[int, tuple[weakref.ref[Any], Tensor]] = {}
        self._returned: list[weakref.ref[Any]] = []

    def empty(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """An uninitialized tensor."""
        self._reclaim()
        size = math.prod(shape) * dtype.itemsize
        if not size:  # torch cannot view no bytes as another dtype
            return torch.empty(*shape, dtype=dtype)
        free = self._free.get(size)
        block = free.pop() if free else torch.empty(size, dtype=torch.uint8)
        # torch references this array as long as any tensor uses the memory. Its end is recorded by a C function:
        # KeyboardInterrupt would be lost in a Python callback.
        array = block.numpy()
        reference = weakref.ref(array, self._returned.append)
        self._in_use[id(reference)] = reference, block
        return torch.from_numpy(array).view(dtype).view(*shape)

    @property
    def unused(self) -> int:
        """The number of free blocks."""
        self._reclaim()
        return sum(map(len, self._free.values()))

    def _reclaim(self) -> None:
        while self._returned:
            _, block = self._in_use.pop(id(self._returned.pop(0)))
            self._free.setdefault(block.nbytes, []).append(block)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies start empty."""
        return Workspace, ()
