"""Checks of arguments. Each returns the checked value, or raises an `InputError` that names the remedy."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from lggd.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Number of names that a misspelt one is compared with (comparing is slow), and number of names that an error lists.
NAMES_COMPARED, NAMES_LISTED = 10_000, 12


def check_int(name: str, value: Any, minimum: int, remedy: str = "") -> int:
    """Checks for a whole number of at least `minimum`; booleans are refused.

    >>> check_int("epochs", 5, minimum=1)
    5
    """
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < minimum:
        kind = InputError if is_whole else InputTypeError
        raise kind(name, f"be a whole number from {minimum}", repr(value), remedy)
    return int(value)


def check_real(
    name: str,
    value: Any,
    low: float = -inf,
    high: float = inf,
    *,
    closed: str = "both",
    rule: str = "",
    remedy: str = "",
) -> float:
    """Checks for a number between `low` and `high`; `closed` is "both", "left", "right" or "neither".

    >>> check_real("dropout", 0.5, 0, 1, closed="left")
    0.5
    """
    left, right = closed in ("both", "left"), closed in ("both", "right")
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    above = is_number and (low <= value if left else low < value)  # False for NaN
    if not above or not (value <= high if right else value < high):
        kind = InputError if is_number else InputTypeError
        interval = f"lie in {'[' if left else '('}{low:g}, {high:g}{']' if right else ')'}"
        raise kind(name, rule or interval, repr(value), remedy)
    return float(value)


def check_fraction(name: str, value: Any, remedy: str = "") -> float:
    """Checks for a fraction in [0, 1), such as a dropout rate."""
    return check_real(name, value, 0, 1, closed="left", remedy=remedy or f"Use {name}=0 for none.")


def check_sizes_and_dropout(settings: Any, may_be_zero: Collection[str] = ()) -> None:
    """Checks fields of a dataclass: those of type int from 1, or from 0 where named, and dropout rates in [0, 1)."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.type in (int, "int"):
            check_int(field.name, value, minimum=0 if field.name in may_be_zero else 1)
        elif field.name.endswith("dropout"):
            check_fraction(field.name, value)


def check_positive(name: str, value: Any, remedy: str = "") -> float:
    """Checks for a positive, finite number."""
    return check_real(name, value, 0, closed="neither", rule="be positive and finite", remedy=remedy)


def check_name(argument: str, name: Any, known: Collection[str]) -> str:
    """Checks for one of the known names; the error suggests the closest one."""
    if name not in known:
        names = list(map(str, known))
        raise InputError(argument, f"be one of {', '.join(names)}", repr(name), suggestion(str(name), names))
    return str(name)


def check_instance(name: str, value: Any, kinds: Any, description: str, remedy: str = "") -> Any:
    """Checks the class of an object; errors refer to it by `description`, as in "an Optimization()"."""
    if not isinstance(value, kinds):
        raise InputTypeError(name, f"be {description}", repr(value), remedy)
    return value


def check_finite(name: str, values: Tensor, remedy: str = "Fill or drop those entries first.") -> Tensor:
    """Checks for a tensor without NaN and infinity."""
    if not bool(values.isfinite().all()):
        raise InputError(name, "be finite", "NaN or infinity", remedy)
    return values


def check_entries(name: str, values: Tensor, valid: Tensor, rule: str, place: str, remedy: str = "") -> None:
    """Checks that all entries of a matrix are `valid`; the error gives the first invalid one and its position."""
    if not bool(valid.all()):
        row, column = (~valid).nonzero()[0].tolist()
        is_node = place == "node"
        value = f"{float(values[row, column]):g} at {place} {'{0}' if is_node else row}, column {column}"
        raise InputError(name, rule, value, remedy, nodes=[row] if is_node else ())


def check_same_length(name: str, values: Sequence[Any], count: int, of: str) -> None:
    """Checks for one value per item: `count` items, called `of` in errors."""
    if len(values) != count:
        raise InputError(name, f"contain one value per {of}, {count} in all", len(values))


def suggestion(name: str, known: Sequence[str], otherwise: str = "") -> str:
    """Returns "Did you mean …?" with the closest known name, ignoring case, or `otherwise` if none is close.

    The closest is one that is the same number, such as '007' and '7.0', if there is one.
    """
    number = _as_number(name)
    same = next((other for other in known if _as_number(other) == number), None) if number else None
    compared = {other.lower(): other for other in reversed(known[:NAMES_COMPARED])}
    close = get_close_matches(name.lower(), list(compared), n=1)
    closest = same or (compared[close[0]] if close else None)
    return f"Did you mean {closest!r}?" if closest else otherwise


def _as_number(name: str) -> str:
    """The digits of a whole number without leading zeros and `.0`; empty for other names."""
    digits = name.removesuffix(".0")
    return (digits.lstrip("0") or "0") if digits.isdecimal() else ""


def listed(names: Sequence[str]) -> str:
    """Returns the names separated by commas; of many, only the first dozen."""
    shown = ", ".join(names[:NAMES_LISTED])
    return shown if len(names) <= NAMES_LISTED else f"{shown} and {len(names) - NAMES_LISTED} more"


def read_seed(seed: int | torch.Generator) -> int:
    """Returns a seed as an integer: `seed` itself, or the next draw of a generator."""
    import torch  # which commands that only read arguments need not load

    if isinstance(seed, torch.Generator):
        return int(torch.randint(2**31 - 1, (1,), generator=seed, device=seed.device))
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed < 2**63:
        raise InputError("seed", "be a whole number from 0, or a torch.Generator", repr(seed))
    return int(seed)
