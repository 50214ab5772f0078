"""What methods are made with: the training that all are given alike, names that stand for objects, checked settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.compare.chosen import toml_line
from lggd.compare.row import Setting
from lggd.training.optimization import Optimization
from lggd.validation import suggestion

AnyBackbone = GCN | GAT | ChebNet | JKNet
Choice = TypeVar("Choice")

# What a setting must be whose usual value is of this type.
KINDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}
# The settings that may be infinite. Lines of results call it "inf", for JSON knows no infinity.
EXPONENTS = ("p",)


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


def check_kind(method: str, name: str, value: Setting, usual: Setting) -> None:
    """Refuses a setting of another kind than its usual value: five times "1" would be "11111", and "no" is true."""
    infinite = name in EXPONENTS and value in (math.inf, "inf")
    if not infinite and not _is_of_kind(value, type(usual)):
        wanted = KINDS[type(usual)] + " or inf" * (name in EXPONENTS)
        remedy = f"Write for example {toml_line(name, usual)}."
        raise ValueError(f"`settings` of {method} must give {wanted} for {name}, got {value!r}. {remedy}")


def _is_of_kind(value: Setting, kind: type) -> bool:
    """A whole number may stand for any number. What is true or false is no number, though Python counts with it."""
    if kind is float:
        return _is_of_kind(value, int) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


@contextmanager
def called(**settings: str) -> Iterator[None]:
    """Complaints from inside call an argument as the setting is called that it was made of."""
    try:
        yield
    except (TypeError, ValueError) as wrong:
        message = str(wrong)
        for argument, setting in settings.items():
            message = message.replace(f"`{argument}`", f"`{setting}`")
        raise type(wrong)(message) from wrong
