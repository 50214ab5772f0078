"""Backbones of equal architecture with stacked parameters: one forward pass for all, each trained as if alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lggd.backbones.layers import Drop
from lggd.backbones.network import Network
from lggd.errors import InputError
from lggd.training.dropout import dropout, keep_level
from lggd.training.optimization import Optimization
from lggd.training.randomness import generator_states, load_generator_states
from lggd.training.stacked_parameters import GroupedAdam, StackedParameter
from lggd.training.targets import Targets


class StackedBackbones:
    """Q networks of one backbone, each with its own generator for dropout. The Trainable of most models.

    `stacked` holds the parameters `[Q, …]` by their names in the modules. A step never synchronizes with the device, so
    that it can be captured as a CUDA graph.
    """

    def __init__(
        self,
        modules: Sequence[Network],
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None,
        seeds: Sequence[int],
    ) -> None:
        _check_equal(modules)
        self.modules, self.x = list(modules), x.detach()
        first = self.modules[0]
        weight = None if edge_weight is None else edge_weight.detach()
        # Not cached by the module, so that its buffers for Q problems are freed with this object.
        self.graph: Any = first.read_graph(x if x.dim() == 2 else x[0], edge_index, weight)
        self.generators: Sequence[torch.Generator] = [torch.Generator(x.device).manual_seed(seed) for seed in seeds]
        self.keep_level = keep_level(first.choice.dropout)
        parameters = [dict(module.named_parameters()) for module in self.modules]
        self.stacked = {
            name: torch.stack([own[name].detach() for own in parameters]).requires_grad_(parameter.requires_grad)
            for name, parameter in parameters[0].items()
        }

    def parameters(self) -> list[StackedParameter]:
        return [StackedParameter(name, value) for name, value in self.stacked.items()]

    def optimizer(self, optimizations: Sequence[Optimization]) -> Optimizer:
        """One Adam for all problems: it updates every entry independently of the others."""
        return GroupedAdam(self.parameters(), optimizations)

    def training_step(self, targets: Targets, running: Sequence[bool]) -> Tensor:
        """Backpropagates the losses and returns them, `[Q]`."""
        losses = self._training_losses(targets)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def _training_losses(self, targets: Targets) -> Tensor:
        return targets.losses(self._forward(self._dropout))

    def validate(self, targets: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        """The losses and the numbers of correct predictions, `[Q]` each, without dropout."""
        logits = self.logits()
        return targets.losses(logits), targets.correct(logits)

    def logits(self) -> Tensor:
        """The logits of all nodes without dropout, `[Q, N, K]`."""
        with torch.no_grad():
            return self._forward(_identity)

    def _forward(self, drop: Drop) -> Tensor:
        return self.modules[0].logits(self.stacked, self.x, self.graph, drop)

    def _dropout(self, values: Tensor) -> Tensor:
        return dropout(values, self.generators, self.keep_level)

    def export(self) -> list[nn.Module]:
        """The modules in their current states, in evaluation mode."""
        with torch.no_grad():
            for q, module in enumerate(self.modules):
                for name, parameter in module.named_parameters():
                    parameter.copy_(self.stacked[name][q])
        return [module.eval() for module in self.modules]

    def random_state(self) -> dict[str, Tensor]:
        return generator_states(self.generators)

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        load_generator_states(self.generators, state)


def _identity(values: Tensor) -> Tensor:
    return values


def _check_equal(modules: Sequence[Network]) -> None:
    def layout(module: Network) -> tuple[Any, ...]:
        parameters = module.named_parameters()
        return module.choice, [(name, value.shape, value.dtype, value.requires_grad) for name, value in parameters]

    for q, module in enumerate(modules):
        if layout(module) != layout(modules[0]):
            raise InputError(
                "modules",
                "have the same backbone and equal sizes",
                but=f"number {q}, a {module.choice}, differs from the first, a {modules[0].choice}",
                remedy="Train them separately.",
            )
