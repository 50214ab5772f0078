"""Modules that cannot be stacked, such as a user's: evaluated one by one, each with its own random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from lggd.training.randomness import RandomState
from lggd.training.stacked_parameters import StackedParameter


class SeededModules:
    """One module per problem, and the state of torch's global random numbers that each is called with."""

    # Unknown: a user's module may draw from any generator and copy numbers to the host.
    generators: Sequence[torch.Generator] | None = None

    def __init__(self, modules: Sequence[nn.Module], seeds: Sequence[int], device: torch.device) -> None:
        self.modules = list(modules)
        self._random = [RandomState(seed, device) for seed in seeds]

    def call(self, problem: int, *inputs: Tensor | None, training: bool) -> Tensor:
        """The output of the module of one problem."""
        module = self.modules[problem].train(training)
        with self._random[problem].in_use():
            output: Tensor = module(*inputs)
        return output

    def parameters(self) -> list[StackedParameter]:
        return [
            StackedParameter(f"module.{q}.{name}", value, q)
            for q, module in enumerate(self.modules)
            for name, value in (*module.named_parameters(), *module.named_buffers())
        ]

    def random_state(self) -> dict[str, Tensor]:
        return {f"{q}.{device}": state for q, own in enumerate(self._random) for device, state in own.states.items()}

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        for q, own in enumerate(self._random):
            own.states = {device: state[f"{q}.{device}"].cpu() for device in own.states}
