"""Parameters of many problems: stacked into one tensor each, or of one module per problem. Their Adam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from lggd.training.optimization import Optimization
from lggd.training.randomness import RandomState


@dataclass(frozen=True)
class StackedParameter:
    """A tensor that training changes: a parameter `[Q, …]` of all problems, or a buffer.

    `owner` is the index of the problem that the whole tensor belongs to; None where the first dimension is Q.
    """

    name: str
    value: Tensor
    owner: int | None = None

    def expand(self, mask: Tensor) -> Tensor:
        """A mask of problems `[Q]` in a shape that broadcasts against the value."""
        return mask.view(-1, *[1] * (self.value.dim() - 1)) if self.owner is None else mask[self.owner]


class GroupedAdam(torch.optim.Adam):
    """Adam with a learning rate and a weight decay per problem.

    It steps on views: neighbouring problems with equal settings are one slice of each stacked parameter.
    """

    def __init__(
        self, parameters: Sequence[StackedParameter], optimizations: Sequence[Optimization], fused: bool = True
    ) -> None:
        trained = [parameter for parameter in parameters if parameter.value.requires_grad]
        self._values = [parameter.value for parameter in trained]
        self._slices: list[tuple[Tensor, Tensor, slice]] = []
        settings = [(optimization.lr, optimization.weight_decay) for optimization in optimizations]
        starts = [q for q, setting in enumerate(settings) if q == 0 or setting != settings[q - 1]]
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for parameter in trained:
            if parameter.owner is not None:
                groups.setdefault(settings[parameter.owner], []).append(parameter.value)
                continue
            for start, end in pairwise([*starts, len(settings)]):
                view = parameter.value.detach()[start:end]
                self._slices.append((view, parameter.value, slice(start, end)))
                groups.setdefault(settings[start], []).append(view)
        param_groups = [{"params": values, "lr": lr, "weight_decay": decay} for (lr, decay), values in groups.items()]
        super().__init__(param_groups, fused=fused, capturable=fused and any(value.is_cuda for value in self._values))

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none=True)
        for value in self._values:
            value.grad = None

    def step(self, closure: Any = None) -> Any:
        for view, value, problems in self._slices:
            view.grad = None if value.grad is None else value.grad[problems]
        return super().step(closure)


def load_values(parameters: Iterable[StackedParameter], values: Mapping[str, Tensor]) -> None:
    """Overwrites parameters in place by the values with their names."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.value.copy_(values[parameter.name])


class SeededModules:
    """Modules that cannot be stacked, such as a user's: one per problem, each with its own random numbers."""

    # Unknown: a user's module may draw from any generator and copy numbers to the host.
    generators: Sequence[torch.Generator] | None = None

    def __init__(self, modules: Sequence[nn.Module], seeds: Sequence[int], device: torch.device) -> None:
        self.modules = list(modules)
        self._random = [RandomState(seed, device) for seed in seeds]

    def call(self, problem: int, *inputs: Tensor | None, training: bool) -> Tensor:
        """The output of the module of one problem."""
        with self._random[problem].in_use():
            return self.modules[problem].train(training)(*inputs)  # type: ignore[no-any-return]

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
