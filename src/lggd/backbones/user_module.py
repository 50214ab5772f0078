"""A user's module as a backbone."""

from __future__ import annotations

import copy
import inspect
from enum import Enum

from torch import Tensor, nn

from lggd.errors import InputError


class _WeightArgument(Enum):
    """How `forward` of a module accepts edge weights."""

    KEYWORD = "a parameter named edge_weight"
    POSITIONAL = "a third parameter that is required or has weight in its name"
    NONE = "not at all"


class UserModule(nn.Module):
    """A copy of a user's module with the interface of a backbone. It checks the shape of the output.

    Edge weights are passed as `edge_weight` if `forward` has a parameter of that name; otherwise as the third argument
    if that is required or has "weight" in its name. Otherwise they are ignored: the third parameter of PyG's SAGEConv,
    for example, has another meaning.
    """

    def __init__(self, module: nn.Module, num_classes: int) -> None:
        super().__init__()
        self.module = copy.deepcopy(module)
        self.num_classes = num_classes
        self._weights = _weight_argument(module)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if self._weights is _WeightArgument.KEYWORD:
            logits = self.module(x, edge_index, edge_weight=edge_weight)
        elif self._weights is _WeightArgument.POSITIONAL:
            logits = self.module(x, edge_index, edge_weight)
        else:
            logits = self.module(x, edge_index)
        shape = [len(x), self.num_classes]
        if isinstance(logits, Tensor) and list(logits.shape) == shape:
            return logits
        found = list(logits.shape) if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise InputError(
            "backbone",
            f"return logits {shape}, one row per node and one column per class",
            but=f"{type(self.module).__name__} returned {found}",
            remedy=f"Set the width of its last layer to {self.num_classes}.",
        )


def _weight_argument(module: nn.Module) -> _WeightArgument:
    parameters = inspect.signature(module.forward).parameters
    if "edge_weight" in parameters:
        return _WeightArgument.KEYWORD
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 2 and ("weight" in positional[2].name or positional[2].default is inspect.Parameter.empty):
        return _WeightArgument.POSITIONAL
    return _WeightArgument.NONE
