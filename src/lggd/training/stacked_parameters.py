"""Parameters of many problems in one tensor each, and an Adam that trains every problem with its own settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from lggd.training.optimization import Optimization


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
        groups: dict[tuple[float, float], list[Tensor]] = {}
        for parameter in trained:
            if parameter.owner is not None:
                groups.setdefault(settings[parameter.owner], []).append(parameter.value)
                continue
            for setting, problems in _equal_neighbours(settings):
                view = parameter.value.detach()[problems]
                self._slices.append((view, parameter.value, problems))
                groups.setdefault(setting, []).append(view)
        param_groups = [{"params": values, "lr": lr, "weight_decay": decay} for (lr, decay), values in groups.items()]
        super().__init__(param_groups, fused=fused, capturable=fused and any(value.is_cuda for value in self._values))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets all gradients to None."""
        super().zero_grad(set_to_none=True)
        for value in self._values:
            value.grad = None

    def step(self, closure: Any = None) -> Any:
        """Takes one step; parameters without a gradient do not change."""
        for view, value, problems in self._slices:
            view.grad = None if value.grad is None else value.grad[problems]
        return super().step(closure)


def _equal_neighbours(settings: Sequence[tuple[float, float]]) -> list[tuple[tuple[float, float], slice]]:
    runs, first = [], 0
    for setting, members in groupby(settings):
        count = len(list(members))
        runs.append((setting, slice(first, first + count)))
        first += count
    return runs


def load_values(parameters: Iterable[StackedParameter], values: Mapping[str, Tensor]) -> None:
    """Overwrites parameters in place by the values with their names."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.value.copy_(values[parameter.name])
