"""Where strings become objects: the methods of the table by name, and their settings as files give them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.baselines import Baseline
from lggd.compare import baseline_methods as baseline
from lggd.compare import distance_methods as distance
from lggd.compare.making import AnyBackbone, Training, called, check_kind, check_named
from lggd.compare.row import Setting
from lggd.errors import InputError
from lggd.models.classifier import LGGDClassifier
from lggd.models.plus import LGGDPlus
from lggd.training.optimization import Optimization
from lggd.validation import suggestion

Model = LGGDClassifier | LGGDPlus | Baseline

BACKBONES: dict[str, AnyBackbone] = {"gcn": GCN(), "gat": GAT(), "chebnet": ChebNet(), "jknet": JKNet()}
# Rows of x as they are, divided by their sum, or by their length. The runner does it, for every method alike.
CONTENTS = ("raw", "sum", "length")


def build(method: str, settings: Mapping[str, Setting], backbone: str, seed: int) -> Model:
    """An unfitted model of a method of `METHODS`, with these settings; what is not among them is as usual.

    Settings that its fit would refuse, whatever the data, are refused here: before anything long starts.

    Every method knows `contents` (which the runner applies), `lr`, `weight_decay`, `max_epochs` and `patience`; and
    `hidden` and `dropout`, of the backbone ("gcn", "gat", "chebnet" or "jknet") or of a network of its own.

    >>> build("Backbone", {"dropout": 0.8}, backbone="gcn", seed=3).backbone
    GCN(hidden=32, dropout=0.8)
    """
    settings = completed(method, settings, backbone)
    training = Training(_backbone(method, backbone, settings), _optimization(settings), seed)
    own = {name: settings[name] for name in _own_defaults(method)}
    model = METHODS[method](training, **own)
    with called(times="time"):
        model._check()
    return model


def completed(method: str, settings: Mapping[str, Setting], backbone: str) -> dict[str, Setting]:
    """All settings of the method on that backbone, the usual values where none are given: what a result depends on."""
    check_named("method", method, METHODS)
    check_named("backbone", backbone, BACKBONES)
    usual = {**_common_defaults(method, backbone), **_own_defaults(method)}
    for key in settings:
        if key not in usual:
            close = suggestion(key, list(usual), "Remove it.")
            raise ValueError(f"`settings` of {method} must be among {', '.join(usual)}, got {key!r}. {close}")
        check_kind(method, key, settings[key], usual[key])
    found = {**usual, **settings}
    check_named("contents", found["contents"], CONTENTS)
    return found


def works_on(method: str, backbone: str) -> bool:
    """Whether the method can be trained on that backbone, whatever its other settings are.

    >>> works_on("DropEdge", "jknet"), works_on("DropEdge", "gat")
    (True, False)
    """
    try:
        build(method, {}, backbone, seed=0)
    except (TypeError, ValueError):  # with usual settings, there is nothing else that could be wrong
        return False
    return True


# The methods that a row may name. Another one is a function like these: its keywords are its settings.
METHODS: dict[str, Callable[..., Model]] = {
    "Backbone": distance.alone,
    "GGD": distance.ggd,
    "LGGD": distance.lggd,
    "LGGD+": distance.lggd_plus,
    "MixUp": baseline.mix_up,
    "DropEdge": baseline.drop_edge,
    "GAugM": baseline.gaug_m,
    "GAugO": baseline.gaug_o,
    "GDC": baseline.gdc,
    "GPRGNN": baseline.gpr_gnn,
    "GOAL": baseline.goal,
    "GraphMix": baseline.graph_mix,
}
# These bring a network of their own, and have no use for a backbone.
OWN_NETWORK = ("GPRGNN", "GOAL", "GraphMix")


def _backbone(method: str, name: str, settings: Mapping[str, Any]) -> AnyBackbone:
    if method not in OWN_NETWORK:
        return replace(BACKBONES[name], hidden=settings["hidden"], dropout=settings["dropout"])
    if name != "gcn":
        raise InputError("backbone", f"be gcn for {method}, which is a network of its own", name, "Leave it.")
    return BACKBONES[name]


def _optimization(settings: Mapping[str, Any]) -> Optimization:
    with called(epochs="max_epochs"):
        return Optimization(settings["lr"], settings["weight_decay"], settings["max_epochs"], settings["patience"])


def _common_defaults(method: str, backbone: str) -> dict[str, Any]:
    usual, choice = Optimization(), BACKBONES[backbone]
    common = {
        "contents": CONTENTS[0],
        "lr": usual.lr,
        "weight_decay": usual.weight_decay,
        "max_epochs": usual.epochs,
        "patience": usual.patience,
    }
    if method in OWN_NETWORK:
        return common
    return {**common, "hidden": choice.hidden, "dropout": choice.dropout}


def _own_defaults(method: str) -> dict[str, Any]:
    """What the method itself may be told, and what it does when it is not."""
    parameters = inspect.signature(METHODS[method]).parameters.values()
    return {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
