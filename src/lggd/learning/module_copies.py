"""A user's module as the network behind φ₀: one copy per problem."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lggd.errors import InputError
from lggd.training.seeded_modules import SeededModules


@dataclass(frozen=True, eq=False)
class ModuleInputs:
    """Node features and edges as a user's module takes them."""

    x: Tensor
    edge_index: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)


class ModuleCopies(SeededModules):
    """Q copies of a module, each trained from the module's current parameters."""

    def __init__(
        self, module: nn.Module, inputs: ModuleInputs, num_classes: int, generators: Sequence[torch.Generator]
    ) -> None:
        device = inputs.x.device
        modules = [copy.deepcopy(module).to(device) for _ in generators]
        super().__init__(modules, [generator.initial_seed() for generator in generators], device)
        self._takes_edges = _takes_edges(module.forward)
        # A first call checks the output and initialises lazy layers.
        with torch.no_grad():
            output = self(inputs, training=False)
        if output.shape[2] != num_classes:
            raise InputError(
                "initial", f"return one value for each of the {num_classes} classes", f"{output.shape[2]} per node"
            )

    def part(self, problems: slice) -> ModuleCopies:
        """The modules of some problems, copied, with their random numbers."""
        part = copy.copy(self)
        part.modules, part._random = copy.deepcopy(self.modules[problems]), copy.deepcopy(self._random[problems])
        return part

    def __call__(self, x: ModuleInputs, training: bool, training_follows: bool = False) -> Tensor:
        """The outputs `[N, Q, K]`; see `Networks`."""
        inputs = (x.x, x.edge_index) if self._takes_edges else (x.x,)
        outputs = [self.call(q, *inputs, training=training) for q in range(len(self.modules))]
        if outputs[0].dim() != 2 or outputs[0].shape[0] != x.shape[0]:
            raise InputError("initial", "return one row per node, [N, K]", f"shape {list(outputs[0].shape)}")
        return torch.stack(outputs, 1)


def _takes_edges(forward: Callable[..., Any]) -> bool:
    """Whether it requires two positional arguments, or accepts a second one named `edge_index`."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in inspect.signature(forward).parameters.values() if p.kind in kinds]
    required = [p for p in parameters if p.default is inspect.Parameter.empty]
    return len(required) == 2 or (len(parameters) >= 2 and parameters[1].name == "edge_index")
