"""The methods of the rows, and models built from their settings.

Settings have the paths of `get_params` and `set_params`, such as "features__times".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lggd import (
    GAT,
    GCN,
    GGD,
    GPR,
    ChebNet,
    Ensemble,
    EvolvedKernelRidge,
    JKNet,
    KernelRidge,
    LGGDClassifier,
    LGGDPlus,
    SelfTraining,
)
from lggd.backbones import APPNP, SGC, Backbone, Perceptron
from lggd.baselines import GDC, DropEdge, LabelPropagation
from lggd.errors import InputError
from lggd.estimator.settings import from_plain
from lggd.filters import PPR, Heat
from lggd.training.problems import Optimization
from lggd.validation import check_name
from reproduction.baselines import GOAL, CorrectAndSmooth, GAugM, GAugO, GraphMix, MixUp, ScikitNetwork

BACKBONES = {"gcn": GCN(), "gat": GAT(), "chebnet": ChebNet(), "jknet": JKNet()}
# The one setting that is of the data and not of a model: how rows of x are normalized.
CONTENTS, NORMALIZATIONS = "contents", ("raw", "sum", "length")
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A method of rows: `build` returns a model with default settings, and `backbone` is the path of its backbone."""

    build: Callable[[], Any]
    backbone: str | None = None


def _trained_on_features(backbone: Backbone, optimization: Optimization) -> Method:
    return Method(lambda: LGGDClassifier(None, backbone, optimization))


METHODS = {
    "gcn": Method(lambda: LGGDClassifier(None, GCN()), "backbone"),
    "mixup": Method(MixUp, "backbone"),
    "dropedge": Method(DropEdge, "backbone"),
    "gaug-m": Method(GAugM, "backbone"),
    "gaug-o": Method(GAugO, "backbone"),
    "gdc-heat": Method(lambda: GDC(Heat()), "backbone"),
    "gdc-ppr": Method(lambda: GDC(PPR()), "backbone"),
    "ggd": Method(lambda: LGGDClassifier(GGD(), GCN()), "backbone"),
    "lggd": Method(LGGDClassifier, "backbone"),
    "gpr-gnn": _trained_on_features(GPR(), Optimization(weight_decay=5e-4)),
    "goal": Method(GOAL),
    "graphmix": Method(GraphMix),
    "lggd-plus-trained": Method(LGGDPlus.trained, "readout__readouts__0__backbone"),
    "mlp": _trained_on_features(Perceptron(), Optimization(weight_decay=5e-4)),
    "sgc": _trained_on_features(SGC(), Optimization(lr=0.2, weight_decay=1.3e-5)),
    "appnp": _trained_on_features(APPNP(), Optimization(weight_decay=5e-3)),
    "label-propagation": Method(LabelPropagation),
    "correct-and-smooth": Method(CorrectAndSmooth),
    "scikit-network": Method(ScikitNetwork),
    "gcn-plus": Method(
        lambda: SelfTraining(Ensemble(LGGDClassifier(None, GCN()), members=3), fraction=0.3), "model__model__backbone"
    ),
    "kernel-ridge": Method(KernelRidge),
    "evolved-ridge": Method(lambda: LGGDClassifier(EvolvedKernelRidge(), None)),
    "lggd-plus": Method(LGGDPlus),
}


def build(name: str, settings: Settings, backbone: str = "gcn", seed: int = 0) -> Any:
    """Returns an unfitted model of a method, with its defaults for all settings not in `settings`.

    Raises if a setting is invalid for any data, before long computations start.

    >>> build("gcn", {"backbone__dropout": 0.8}).backbone
    GCN(hidden=32, dropout=0.8)
    >>> build("gdc-ppr", {"kernel": {"kind": "Heat", "t": 3.0}, "contents": "sum"}).kernel
    Heat(t=3.0)
    """
    method = METHODS[check_name("method", name, METHODS)]
    check_name("backbone", backbone, BACKBONES)
    if method.backbone is None and backbone != "gcn":
        raise InputError("backbone", f"be gcn for {name}, which defines its own network", backbone, "Omit it.")
    model = method.build()
    seeds = {path: seed for path in model.get_params() if path.rpartition("__")[2] in ("seed", "random_state")}
    model.set_params(**seeds, **({} if method.backbone is None else {method.backbone: BACKBONES[backbone]}))
    check_name(CONTENTS, settings.get(CONTENTS, NORMALIZATIONS[0]), NORMALIZATIONS)
    values, known = {path: value for path, value in settings.items() if path != CONTENTS}, model.get_params()
    for path, value in values.items():
        if isinstance(known.get(path), bool) and not isinstance(value, bool):
            raise InputError(path, "be true or false", repr(value))
    parts = {path: value["part"] for path, value in values.items() if isinstance(value, dict) and "part" in value}
    try:
        model.set_params(**{path: read_value(value) for path, value in values.items() if path not in parts})
    except InputError as error:
        raise error.replace(argument="settings" if error.argument == "params" else error.argument) from error
    params = model.get_params()
    model.set_params(**{path: params[check_name(path, part, params)] for path, part in parts.items()})
    model.check_settings()
    return model


def read_value(value: Any) -> Any:
    """The setting that a file describes: {kind = "Heat", t = 3.0} is `Heat(t=3.0)`, {kind = "none"} is None.

    {part = "readout__readouts__0"} is another part of the same model, once all other settings are made.
    """
    return from_plain(_plain(value), "kind", {})


def _plain(value: Any) -> Any:
    """As `from_plain` reads it, for which None is itself."""
    if isinstance(value, dict):
        return None if value.get("kind") == "none" else {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def supports_backbone(name: str, backbone: str) -> bool:
    try:
        build(name, {}, backbone)
    except InputError:  # all other settings are defaults, which are valid
        return False
    return True


@contextmanager
def errors_about(subject: str) -> Iterator[None]:
    """Prefixes errors of input with what they concern."""
    try:
        yield
    except InputError as error:
        raise error.replace(context=f"{subject}: {error.context}" if error.context else subject) from error
