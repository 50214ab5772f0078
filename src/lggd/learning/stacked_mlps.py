"""MLPs of equal shape with stacked parameters: evaluated together, each initialised and trained as if alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from lggd.learning.node_features import NodeFeatures, stored
from lggd.learning.sequential_mlps import DroppedInput, NetworkInput, SequentialMLPs, SharedInput, first_layer
from lggd.learning.workspace import Workspace
from lggd.training.randomness import (
    LEVELS,
    SeededGenerators,
    draw_keep_mask,
    draw_random_bytes,
    keep_level,
    num_words,
    parameter_generators,
)
from lggd.training.stacked_parameters import StackedParameter

# Number of parameters and values per network from which a CPU evaluates networks one by one: together they would not
# fit into the cache.
SEQUENTIAL_FROM = 2**17


class StackedMLPs(SeededGenerators):
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
        self.weights = [self._initialise(initial, a, a, b) for a, b in pairwise(sizes)]
        self.biases = [self._initialise(initial, a, 1, b) for a, b in pairwise(sizes)]
        self._prepare()

    def _initialise(self, generators: Sequence[torch.Generator], fan_in: int, rows: int, columns: int) -> Tensor:
        """Uniform in ±1/√fan_in, as in `torch.nn.Linear`."""
        bound = fan_in**-0.5
        parts = [torch.empty(rows, columns).uniform_(-bound, bound, generator=generator) for generator in generators]
        return torch.stack(parts).to(self.generators[0].device).requires_grad_()

    def _prepare(self) -> None:
        """Sets the attributes that are not learned."""
        self._workspace = Workspace()
        self._saved_first_layer: tuple[NodeFeatures, tuple[int, int], Tensor] | None = None
        # Created on the device: nothing may be copied there while a CUDA graph is captured.
        self._levels = torch.tensor(self.levels, dtype=torch.int16, device=self.weights[0].device)
        self._factor = (LEVELS / self._levels)[:, None, None]

    def part(self, problems: slice) -> StackedMLPs:
        """The networks of some problems, with copies of their parameters and generators."""
        part = copy.copy(self)
        part.levels = self.levels[problems]
        part.generators = [torch.Generator(original.device) for original in self.generators[problems]]
        for generator, original in zip(part.generators, self.generators[problems], strict=True):
            generator.set_state(original.get_state())
        part.weights, part.biases = (
            [value.detach()[problems].clone().requires_grad_() for value in values]
            for values in (self.weights, self.biases)
        )
        part._prepare()
        return part

    def parameters(self) -> list[StackedParameter]:
        weights = [StackedParameter(f"weight.{k}", value) for k, value in enumerate(self.weights)]
        return weights + [StackedParameter(f"bias.{k}", value) for k, value in enumerate(self.biases)]

    def __call__(self, x: NodeFeatures, training: bool, training_follows: bool = False) -> Tensor:
        """The outputs `[N, Q, K]`; see `Networks`."""
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
        inputs: NetworkInput
        if training and self.input_level < LEVELS:
            inputs = self._drop_input(x)
            first = first_layer(inputs, self.weights[0], self.biases[0], self._workspace)
        else:
            inputs = SharedInput(x)
            first = self._first_layer(inputs, training_follows and self.input_level == LEVELS)
        levels = self.levels if training and min(self.levels) < LEVELS else None
        mlps = SequentialMLPs(inputs, self.activation, levels, self.generators, self._workspace)
        outputs = mlps(first, self.weights, self.biases)
        if not training and not training_follows:
            self._workspace.release()
        return outputs

    def _drop_input(self, x: NodeFeatures) -> DroppedInput:
        features = stored(x)
        shape = (len(self.generators), num_words(features.values.numel()))
        random_bytes = self._workspace.empty(shape, torch.int64)
        for row, generator in zip(random_bytes, self.generators, strict=True):
            draw_random_bytes(row, generator)
        return DroppedInput(features, self.input_level, random_bytes, self._workspace)

    def _first_layer(self, inputs: SharedInput, save: bool) -> Tensor:
        """The first layer before activation. Without input dropout, the training step after a validation reuses it."""
        versions = (self.weights[0]._version, self.biases[0]._version)
        saved, self._saved_first_layer = self._saved_first_layer, None
        if saved is not None and saved[0] is inputs.features and saved[1] == versions:
            first = saved[2]
        else:
            first = first_layer(inputs, self.weights[0], self.biases[0], self._workspace)
        if save:
            self._saved_first_layer = (inputs.features, versions, first)
        return first
