"""The settings of models: by name as scikit-learn sets them, by path, as Python expressions, in notebooks, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import nn

from lggd.errors import InputError, InputTypeError
from lggd.html import Facts, bars, card, curve
from lggd.validation import listed, suggestion

if TYPE_CHECKING:
    from lggd.estimator.member import Member

Kind = TypeVar("Kind", bound=type)
# Saved settings may name the public dataclasses of these modules, and the classes that are registered.
PUBLIC = ("lggd", "lggd.baselines", "lggd.diffusion")
_registered: dict[str, type[Any]] = {}


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
            rule = f"name settings of {type(choice).__name__} ({listed(known)})"
            raise InputError("params", rule, repr(key), suggestion(name, known))
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


def get_at(model: Any, path: str) -> Any:
    """The value at a path of fields and tuple indices, such as "readout.readouts.0"; `LookupError` without one."""
    for name in path.split("."):
        if isinstance(model, tuple):
            model = model[int(name)]
        elif name in getattr(model, "__dataclass_fields__", ()):
            model = getattr(model, name)
        else:
            raise LookupError(f"{type(model).__name__} has no field {name}")
    return model


def has_at(model: Any, path: str) -> bool:
    with suppress(LookupError):
        get_at(model, path)
        return True
    return False


def replace_at(model: Any, path: str, value: Any) -> Any:
    """A copy of the model with another value at a path; every dataclass along the path is validated again."""
    name, _, rest = path.partition(".")
    if rest:
        value = replace_at(get_at(model, name), rest, value)
    if isinstance(model, tuple):
        return (*model[: int(name)], value, *model[int(name) + 1 :])
    return replace(model, **{name: value})


def shown(value: Any) -> str:
    """The expression that creates a setting; dataclasses show only the fields that differ from their defaults."""
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


def model_card(model: Member) -> str:
    """The settings, and of a fitted model its labels and training curves, as HTML."""
    name = type(model).__name__
    settings: Facts = [(field, shown(value)) for field, value in get_params(model, deep=False).items()]
    if not hasattr(model, "labels_"):
        return card(f"{name}, not fitted", settings, note="Call fit(data).")
    count = torch.bincount(model.labels_[model.labels_ >= 0].cpu(), minlength=model.num_classes_).tolist()
    classes = map(str, model.metadata_.get("classes") or range(model.num_classes_))
    labelled = f"{sum(count):,} of {len(model.labels_):,} nodes"
    losses = {stage: history.get("train_loss", []) for stage, history in model.history_.items()}
    curves = [curve(loss, f"{stage}: training loss") for stage, loss in losses.items()]
    pictures = bars(zip(classes, count, strict=False), "labels by class"), *curves
    return card(f"{name}, fitted", [("labelled", labelled), *settings], *pictures)


def saveable(kind: Kind) -> Kind:
    """A class decorator: instances of this dataclass of your own may be settings of a saved model.

    Register custom classes before loading a model that uses them. Models and readouts register themselves.
    """
    _registered[kind.__name__] = kind
    return kind


def _home(name: Any) -> ModuleType | None:
    """The module that has this public name. Other names of a module would import what a file asks for."""
    return next((module for module in map(import_module, PUBLIC) if name in module.__all__), None)


def _saveable(name: Any) -> type[Any] | None:
    """The dataclass that saved settings call by this name."""
    home = None if name in _registered else _home(name)
    kind = _registered.get(name) if home is None else getattr(home, name)
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def to_plain(value: Any, name: str) -> Any:
    """Settings as JSON types; errors refer to them by `name`."""
    if isinstance(value, nn.Module):
        return {"kind": "module", "class": type(value).__qualname__}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__name__
        public = type(value).__module__.startswith("lggd.") and _home(kind) is not None
        if not public and kind not in _registered:
            remedy = "Decorate its class with lggd.estimator.saveable."
            raise InputTypeError(name, "be of a class that can be saved", repr(value), remedy)
        plain = {field.name: to_plain(getattr(value, field.name), field.name) for field in fields(value)}
        return {"kind": kind, **plain}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"kind": "number", "value": str(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(entry, name) for key, entry in value.items()}
    if isinstance(value, torch.Generator):
        return value.initial_seed()
    if isinstance(value, (tuple, list, range)):
        return [to_plain(entry, name) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if name == "times":  # an array or a tensor
        return [float(t) for t in value]
    remedy = "Use a setting of the library, such as DegreePotential(-1)."
    raise InputTypeError(name, "be a setting that can be saved", type(value).__name__, remedy)


class MissingModuleError(InputError):
    """A model that was fitted with a user's module is loaded without it."""


def from_plain(plain: Any, name: str, modules: Mapping[str, Any]) -> Any:
    """The settings that `to_plain` wrote; `modules` are the user's modules, by the name of their setting."""
    if isinstance(plain, list):
        return tuple(from_plain(entry, name, modules) for entry in plain)
    if not isinstance(plain, dict):
        return plain
    kind = plain.get("kind")
    if kind == "number":
        return float(plain["value"])
    if kind == "module":
        if name not in modules:
            clause = f"the model was fitted with {plain.get('class')}, custom code of which only parameters are saved"
            raise MissingModuleError(name, "be passed to load", but=clause, remedy=f"Use load_model(folder, {name}=…).")
        return modules[name]
    known = _saveable(kind)
    if known is None:
        rule = "name a public dataclass of lggd, or one of yours that is registered"
        raise InputError(name, rule, repr(kind), "Was it saved by a newer version?")
    settings = {field.name for field in fields(known)}
    unknown = sorted(plain.keys() - settings - {"kind"})
    if unknown:
        raise InputError(name, f"have the settings {sorted(settings)}", f"also {unknown[0]!r}")
    return known(**{key: from_plain(value, key, modules) for key, value in plain.items() if key != "kind"})
