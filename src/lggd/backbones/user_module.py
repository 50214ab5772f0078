"""A user's module as a backbone."""

from __future__ import annotations

import copy
import inspect

from torch import Tensor, nn

from lggd.errors import InputError


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
        parameters = inspect.signature(module.forward).parameters
        third = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][2:3]
        self._by_name = "edge_weight" in parameters
        self._by_position = any("weight" in p.name or p.default is p.empty for p in third)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        if self._by_name:
            logits = self.module(x, edge_index, edge_weight=edge_weight)
        else:
            logits = self.module(x, edge_index, edge_weight) if self._by_position else self.module(x, edge_index)
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
