"""The settings of models: by path as scikit-learn names them, as Python expressions, in notebooks, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
PUBLIC = ("lggd", "lggd.backbones", "lggd.baselines", "lggd.diffusion", "lggd.filters", "lggd.kernels", "lggd.scales")
_registered: dict[str, type[Any]] = {}


def _parts(value: Any) -> dict[str, Any]:
    """The settings that a value has by name: the fields of a dataclass, the entries of a tuple of such by number."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple) and any(map(is_dataclass, value)):
        return {str(number): entry for number, entry in enumerate(value)}
    return {}


def get_params(choice: Any, deep: bool = True) -> dict[str, Any]:
    """The settings of a dataclass by name, and with `deep` those inside of them by path.

    >>> import lggd
    >>> params = get_params(lggd.MeanReadout())
    >>> params["readouts__0__optimization__epochs"], params["readouts__1"]
    (5000, NearestClass())
    """
    params: dict[str, Any] = {}
    for name, value in _parts(choice).items():
        params[name] = value
        if deep:
            params |= {f"{name}__{inner}": part for inner, part in get_params(value).items()}
    return params


def changed_params(choice: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The new values of the settings of `choice` that `changes` name by path; objects on the way are replaced."""
    known = _parts(choice)
    changed: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        name, _, inner = path.partition("__")
        if name not in known:
            kind = f"entries of {format_setting(choice)}" if isinstance(choice, tuple) else type(choice).__name__
            rule = f"name settings of {kind} ({listed(list(known))})"
            raise InputError("params", rule, repr(path), suggestion(name, list(known)))
        if inner:
            nested.setdefault(name, {})[inner] = value
        else:
            changed[name] = value
    for name, inner_changes in nested.items():
        value = changed.get(name, known[name])
        if not _parts(value):
            inner = next(iter(inner_changes))
            raise InputError("params", f"name a setting that {name} has", f"{name}__{inner} for {value!r}")
        changed[name] = _with_params(value, inner_changes)
    return changed


def _with_params(value: Any, changes: Mapping[str, Any]) -> Any:
    """A copy of a dataclass or a tuple with other settings, which are validated again."""
    changed = changed_params(value, changes)
    if isinstance(value, tuple):
        return tuple(changed.get(str(number), entry) for number, entry in enumerate(value))
    return replace(value, **changed)


def format_setting(value: Any) -> str:
    """The expression that creates a setting; dataclasses show only the fields that differ from their defaults."""
    if type(value) is tuple:
        return f"({', '.join(map(format_setting, value))}{',' * (len(value) == 1)})"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    changed = []
    for field in fields(value):
        text = format_setting(getattr(value, field.name))
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if text != format_setting(default):
            changed.append(f"{field.name}={text}")
    return f"{type(value).__name__}({', '.join(changed)})"


def model_card(model: Member) -> str:
    """The settings, and of a fitted model its labels and training curves, as HTML."""
    name = type(model).__name__
    settings: Facts = [(field, format_setting(value)) for field, value in get_params(model, deep=False).items()]
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
