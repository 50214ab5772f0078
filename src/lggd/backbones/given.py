"""A module of the user's own as a backbone: copied, called as it wants to be called, its answer checked."""

from __future__ import annotations

import copy
import inspect
from enum import Enum

from torch import Tensor, nn

from lggd.errors import InputError


class _Weights(Enum):
    """How a module wants the edge weights."""

    BY_NAME = "a parameter called edge_weight"
    THIRD = "a third parameter that is named after weights, or must be given"
    NOT_AT_ALL = "neither"


class GivenModule(nn.Module):
    """A copy of `module`, called as every backbone is.

    Edge weights reach it as `edge_weight` where its forward has a parameter of that name, and else as the third
    argument where that is named after weights or has no default. Elsewhere they are ignored: PyG's SAGEConv, for one,
    has a third parameter that means something else.
    """

    def __init__(self, module: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.module = copy.deepcopy(module)
        self.num_classes = num_classes
        self._weights = _wanted_weights(module)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if self._weights is _Weights.BY_NAME:
            logits = self.module(x, edge_index, edge_weight=edge_weight)
        elif self._weights is _Weights.THIRD:
            logits = self.module(x, edge_index, edge_weight)
        else:
            logits = self.module(x, edge_index)
        return self._checked(logits, len(x))

    def _checked(self, logits: object, num_nodes: int) -> Tensor:
        shape = [num_nodes, self.num_classes]
        if isinstance(logits, Tensor) and list(logits.shape) == shape:
            return logits
        given = list(logits.shape) if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise InputError(
            "backbone",
            f"give logits {shape}, a row a node and a column a class",
            but=f"{type(self.module).__name__} gave {given}",
            remedy=f"Set the width of its last layer to {self.num_classes}.",
        )


def _wanted_weights(module: nn.Module) -> _Weights:
    parameters = inspect.signature(module.forward).parameters
    if "edge_weight" in parameters:
        return _Weights.BY_NAME
    positional = [one for one in parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 2 and ("weight" in positional[2].name or positional[2].default is inspect.Parameter.empty):
        return _Weights.THIRD
    return _Weights.NOT_AT_ALL
