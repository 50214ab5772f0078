"""MLPs of equal shape with stacked parameters, each initialized and trained as if alone.

GPUs, and CPUs for small networks, evaluate them together. Otherwise a CPU evaluates one after the other, so that the
values of one network stay in its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from lggd.learning.node_features import NodeFeatures, stored
from lggd.training.problems import (
    LEVELS,
    StackedParameter,
    draw_keep_mask,
    dropout,
    keep_level,
    parameter_generators,
)

# Number of parameters and values per network from which a CPU evaluates networks one by one: together they would not
# fit into the cache.
SEQUENTIAL_FROM = 2**17


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
        self._saved_first_layers: tuple[tuple[NodeFeatures, int, int], list[Tensor]] | None = None
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
            return self._one_by_one(x, training, training_follows)
        return self._batched(x, training).transpose(0, 1)

    def _one_by_one(self, x: NodeFeatures, training: bool, training_follows: bool) -> Tensor:
        """The outputs `[N, Q, K]`, one network after the other: for large networks on a CPU."""
        # By `unbind`, whose gradient is stacked once; that of an index would fill zeros for each network.
        pairs = zip(self.weights[1:], self.biases[1:], strict=True)
        layers = [list(zip(weight.unbind(), bias.unbind(), strict=True)) for weight, bias in pairs]
        outputs = []
        for q, h in enumerate(self._first_layers(x, training, training_follows)):
            for layer in layers:
                h = self.activation(h)
                if training and self.levels[q] < LEVELS:
                    h = dropout(h, [self.generators[q]], self.levels[q])[0]
                h = torch.addmm(layer[q][1], h, layer[q][0])
            outputs.append(h)
        return torch.stack(outputs, 1)

    def _first_layers(self, x: NodeFeatures, training: bool, training_follows: bool) -> list[Tensor]:
        """The first layers `[N, M]`. Without input dropout, the training step after a validation reuses its own."""
        dropping, (weight, bias) = training and self.input_level < LEVELS, (self.weights[0], self.biases[0])
        state = (x, weight._version, bias._version)
        saved, self._saved_first_layers = self._saved_first_layers, None
        if saved is not None and saved[0] == state and not dropping:
            return saved[1]
        first = []
        with torch.set_grad_enabled(torch.is_grad_enabled() or training_follows):
            for generator, own_weight, own_bias in zip(self.generators, weight.unbind(), bias.unbind(), strict=True):
                features = self._dropped_features(x, generator) if dropping else x
                first.append(features.matmul(own_weight) + own_bias)
        if training_follows and self.input_level == LEVELS:
            self._saved_first_layers = state, first
        return first

    def _dropped_features(self, x: NodeFeatures, generator: torch.Generator) -> NodeFeatures:
        features = stored(x)
        return features.with_values(dropout(features.values, [generator], self.input_level)[0])

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
