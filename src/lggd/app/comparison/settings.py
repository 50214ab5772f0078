"""Settings of models by short names: their paths in nested dataclasses, their types, and their text in files.

A setting is a path such as "features.initial.hidden"; its default and its type are those of the field in the model of
a method. `FieldPath`, `ObjectChoice` and `Modification` define short names for paths.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from lggd.errors import InputError, InputTypeError
from lggd.estimator.settings import get_at, has_at, replace_at
from lggd.validation import check_name

Setting = bool | int | float | str
Settings = Mapping[str, Setting]

KINDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}
# These settings may be infinite. Result lines write "inf", as JSON has no infinity.
EXPONENTS = ("p",)


@dataclass(frozen=True)
class FieldPath:
    """The field at a path, or several fields with the same value, which `decode` makes of that in a file.

    If an `ObjectChoice` has replaced the owner by an object without the field, the value must be 0; a `conditional`
    value is ignored instead.
    """

    paths: tuple[str, ...]
    decode: Callable[[Any], Any] = lambda value: value
    encode: Callable[[Any], Any] = lambda value: value
    conditional: bool = False

    def read(self, model: Any) -> Setting:
        return self.encode(get_at(model, self.paths[0]))  # type: ignore[no-any-return]

    def apply(self, model: Any, name: str, value: Setting) -> Any:
        for path in self.paths:
            owner, _, field = path.rpartition(".")
            if has_at(model, path):
                model = replace_at(model, path, self.decode(value))
            elif value and not self.conditional:
                kind = type(get_at(model, owner)).__name__
                raise InputError(name, f"be 0 here: {kind} has no {field}", repr(value), "Choose another object.")
        return model


@dataclass(frozen=True)
class ObjectChoice:
    """A choice among several objects by name, applied before fields are set."""

    path: str
    options: Mapping[str, Any]

    def read(self, model: Any) -> Setting:
        value = get_at(model, self.path)
        equal = [name for name, option in self.options.items() if option == value]
        return (equal or [name for name, option in self.options.items() if type(option) is type(value)])[0]

    def apply(self, model: Any, name: str, value: Setting) -> Any:
        return replace_at(model, self.path, self.options[check_name(name, value, self.options)])


@dataclass(frozen=True)
class Modification:
    """A choice among functions by name, by default the first, applied to the object at a path after fields are set."""

    path: str
    options: Mapping[str, Callable[[Any], Any]]

    def read(self, model: Any) -> Setting:
        return next(iter(self.options))

    def apply(self, model: Any, name: str, value: Setting) -> Any:
        modify = self.options[check_name(name, value, self.options)]
        return replace_at(model, self.path, modify(get_at(model, self.path)))


Rule = FieldPath | ObjectChoice | Modification


def default_of(rule: Rule, base: Any, rules: Mapping[str, Rule]) -> Setting:
    """Returns the value in the base object, or in one with another `ObjectChoice` if the base has no such field."""
    for model in _alternatives(base, rules):
        with suppress(LookupError):
            return rule.read(model)
    raise LookupError(f"no field {rule}")


def apply_settings(base: Any, rules: Mapping[str, Rule], settings: Settings) -> Any:
    """Returns a copy of the model with these settings: first object choices, then fields, then modifications."""
    model, order = base, (ObjectChoice, FieldPath, Modification)
    known = [(rules.get(name) or FieldPath((name,)), name, value) for name, value in settings.items()]
    for rule, name, value in sorted(known, key=lambda each: order.index(type(each[0]))):
        with renamed_arguments({name: rule}):
            model = rule.apply(model, name, value)
            if isinstance(rule, FieldPath) and rule.conditional:  # invalid values raise even if ignored
                for other in _alternatives(base, rules):
                    rule.apply(other, name, value)
    return model


def _alternatives(base: Any, rules: Mapping[str, Rule]) -> Iterator[Any]:
    """The base object, and copies with every option of every `ObjectChoice`."""
    yield base
    for choice in (rule for rule in rules.values() if isinstance(rule, ObjectChoice)):
        yield from (replace_at(base, choice.path, option) for option in choice.options.values())


@contextmanager
def renamed_arguments(rules: Mapping[str, Rule]) -> Iterator[None]:
    """Context in which errors name the setting instead of its field."""
    paths = ((path, name) for name, rule in rules.items() for path in getattr(rule, "paths", ()))
    names = {re.sub(r"\.(\d+)$", r"[\1]", path).rpartition(".")[2]: name for path, name in paths}
    try:
        yield
    except InputError as error:
        raise error.replace(argument=names.get(error.argument, error.argument)) from error


def check_kind(name: str, value: Setting, default: Setting) -> None:
    """Raises if the type of a value is not that of the default: 5 * "1" would be "11111", and "no" is truthy."""
    kind = next(each for each in KINDS if isinstance(default, each))  # of a StrEnum, str
    infinite = name in EXPONENTS and value in (math.inf, "inf")
    finite = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    same = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
    if not (infinite or (finite if kind is float else same)):
        rule = f"be {KINDS[kind]}" + " or inf" * (name in EXPONENTS)
        raise InputError(name, rule, repr(value), f"Write for example {toml_line(name, default)}.")


def toml_line(name: str, value: Setting) -> str:
    """Returns a setting as a line of TOML that parses to the same value of the same type.

    >>> toml_line("mlp_hidden", "512-128"), toml_line("lr", 1e-06), toml_line("reachable", True)
    ('mlp_hidden = "512-128"', 'lr = 1e-06', 'reachable = true')
    """
    if not isinstance(value, Setting):
        raise InputTypeError("value", "be a number, a text, True or False", repr(value))
    return f"{toml_key(name)} = {value if isinstance(value, float) else _literal(value)}"


def toml_key(name: str) -> str:
    """Returns a TOML key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _literal(value: Setting) -> str:
    """JSON has the escapes of TOML, except for DEL, and for characters beyond 16 bits, which need no escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def json_setting(value: Setting) -> Setting:
    """Returns a setting for JSON, which has no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
