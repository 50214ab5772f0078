"""What methods are made with: the training that all are given alike, and names that stand for objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.data.names import suggestion
from lggd.training import Optimization

AnyBackbone = GCN | GAT | ChebNet | JKNet
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Training:
    """What every method is given: its backbone, how Adam trains it, and its seed."""

    backbone: AnyBackbone
    optimization: Optimization
    seed: int

    @property
    def common(self) -> dict[str, Any]:
        """What every baseline is told in the same way."""
        return {"optimization": self.optimization, "seed": self.seed}


def named(argument: str, name: str, among: Mapping[str, Choice]) -> Choice:
    """What a name stands for; an error where it stands for nothing."""
    check_named(argument, name, among)
    return among[name]


def check_named(argument: str, name: object, known: Mapping[str, Any] | tuple[str, ...]) -> None:
    """Refuses a name that is not known."""
    if name not in known:
        close = suggestion(str(name), list(known))
        raise ValueError(f"`{argument}` must be one of {', '.join(known)}, got {name!r}. {close}".rstrip())
