"""Settings by name, including nested ones, as scikit-learn's searches set them."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from lggd.errors import InputError
from lggd.validation import listed, suggestion


def get_params(choice: Any, deep: bool = True) -> dict[str, Any]:
    """The fields of a dataclass by name, and with `deep` those of nested dataclasses as "outer__inner"."""
    params: dict[str, Any] = {}
    for field in fields(choice):
        value = params[field.name] = getattr(choice, field.name)
        if deep and is_dataclass(value) and not isinstance(value, type):
            params |= {f"{field.name}__{name}": inner for name, inner in get_params(value).items()}
    return params


def changed_params(choice: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """The new values of the fields that `changes` name; a nested dataclass is replaced by a changed copy."""
    known = [field.name for field in fields(choice)]
    changed: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        name, _, inner = key.partition("__")
        if name not in known:
            owner = type(choice).__name__
            raise InputError("params", f"name settings of {owner} ({listed(known)})", repr(key), suggestion(key, known))
        if inner:
            nested.setdefault(name, {})[inner] = value
        else:
            changed[name] = value
    for name, inner_changes in nested.items():
        value = changed.get(name, getattr(choice, name))
        if not is_dataclass(value) or isinstance(value, type):
            inner = next(iter(inner_changes))
            raise InputError("params", f"name a setting that {name} has", f"{name}__{inner} for {value!r}")
        changed[name] = replace(value, **changed_params(value, inner_changes))
    return changed


def shown(value: Any) -> str:
    """The expression that creates a setting; dataclasses show only the fields that differ from their defaults."""
    if isinstance(value, Enum):
        return repr(value.value)
    if type(value) is tuple:
        return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    changed = []
    for field in fields(value):
        text = shown(getattr(value, field.name))
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if text != shown(default):
            changed.append(f"{field.name}={text}")
    return f"{type(value).__name__}({', '.join(changed)})"
