"""Short names of the settings of every method, and models built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from lggd import baselines
from lggd.app.comparison.settings import (
    FieldPath,
    Modification,
    ObjectChoice,
    Rule,
    Setting,
    Settings,
    apply_settings,
    check_kind,
    default_of,
    renamed_arguments,
)
from lggd.app.runs.methods import METHODS, Method
from lggd.backbones import BACKBONES, GCN
from lggd.diffusion import PPR, DiffusionGraph, Heat
from lggd.errors import InputError
from lggd.estimator import Member
from lggd.estimator.settings import get_at, has_at, replace_at
from lggd.features.distance_features import MaxScale, SoftmaxScale, Standardize, Unscaled
from lggd.learning.flow import LearnedEdgeWeights, LearnedPotential, LearnedTimeScale
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.models.classifier import LGGDClassifier
from lggd.validation import check_name, suggestion

# The setting that the runner applies to the data, the normalization of x. Committed results have this name.
NORMALIZATION, NORMALIZATIONS = "contents", ("raw", "sum", "length")
TIMES = 5  # distances are evaluated at this many multiples of the setting `time`
# Methods that are a network on node features; in experiments with other backbones it is replaced.
NETWORKS = ("gcn", "gcn-plus")


def build(name: str, settings: Settings, backbone: str, seed: int) -> Member:
    """Returns an unfitted model of a method, with its defaults for all settings not in `settings`.

    Settings are short names, or paths such as "features.initial.activation". Raises if a setting is invalid for any
    data, before long computations start.

    >>> build("gcn", {"dropout": 0.8}, backbone="gcn", seed=3).backbone
    GCN(hidden=32, dropout=0.8)
    """
    complete, method = complete_settings(name, settings, backbone), METHODS[name]
    del complete[NORMALIZATION]
    rules = short_names(method)
    model = apply_settings(_base(method, backbone, seed), rules, complete)
    with renamed_arguments(rules):
        model.check_settings()
    return model  # type: ignore[no-any-return]


def complete_settings(name: str, settings: Settings, backbone: str) -> dict[str, Setting]:
    """Returns all settings with short names, including defaults, and all settings in `settings` that are paths."""
    method = METHODS[check_name("method", name, METHODS)]
    check_name("backbone", backbone, BACKBONES)
    if _backbone_path(method) is None and backbone != "gcn":
        raise InputError("backbone", f"be gcn for {name}, which defines its own network", backbone, "Omit it.")
    base, rules = _base(method, backbone), short_names(method)
    defaults = {short: default_of(rule, base, rules) for short, rule in rules.items()}
    defaults[NORMALIZATION] = NORMALIZATIONS[0]
    for key, value in settings.items():
        default = defaults.get(key, get_at(base, key) if has_at(base, key) else None)
        if not isinstance(default, Setting):
            close = suggestion(key, list(defaults), "Remove it.")
            raise InputError("settings", f"be settings of {name}: {', '.join(defaults)}", repr(key), close)
        check_kind(key, value, default)
    complete = {**defaults, **settings}
    check_name(NORMALIZATION, complete[NORMALIZATION], NORMALIZATIONS)
    return complete


def supports_backbone(name: str, backbone: str) -> bool:
    try:
        build(name, {}, backbone, seed=0)
    except InputError:  # all other settings are defaults, which are valid
        return False
    return True


def short_names(method: Method) -> Mapping[str, Rule]:
    """Returns the rules of `SHORT_NAMES`, or by default one for every field with a number, and for its training."""
    return SHORT_NAMES[method.name] if method.name in SHORT_NAMES else _fields(method.name)


def _base(method: Method, backbone: str, seed: int = 0) -> Any:
    """The model with default settings, on this backbone if it has one."""
    model, path = method.model(seed), _backbone_path(method)
    return model if path is None else replace_at(model, path, BACKBONES[backbone])


def _backbone_path(method: Method) -> str | None:
    chosen = method.backbone in BACKBONES or method.name in NETWORKS
    return f"{method.networks[0]}backbone" if chosen else None


# -- short names ------------------------------------------------------------------------------------------------------


def _field(*paths: str, conditional: bool = False) -> FieldPath:
    return FieldPath(paths, conditional=conditional)


def _same(value: Any) -> Any:
    return value


def _optional(path: str, conditional: bool = False) -> FieldPath:
    """A number, or 0 for None."""
    return FieldPath((path,), lambda value: value or None, lambda value: value or 0.0, conditional)


def _widths(text: str) -> tuple[int, ...]:
    """Sizes of hidden layers, written as "512-128"."""
    try:
        return tuple(int(width) for width in text.split("-") if width)
    except ValueError as error:
        raise InputError("hidden", 'be sizes such as "512-128"', repr(text)) from error


def _training(owner: str = "") -> dict[str, FieldPath]:
    names = {"lr": "lr", "weight_decay": "weight_decay", "max_epochs": "epochs", "patience": "patience"}
    rules = {name: _field(f"{owner}optimization.{field}") for name, field in names.items()}
    return rules | {name: _field(f"{owner}backbone.{name}") for name in ("hidden", "dropout")}


def _distances(features: str) -> dict[str, Rule]:
    """Rules common to GGD and LGGD."""
    return {
        "time": FieldPath(
            (f"{features}.times",), lambda unit: tuple(unit * k for k in range(1, TIMES + 1)), lambda times: times[0]
        ),
        "alpha": _field(f"{features}.potential.alpha"),
        "p": FieldPath((f"{features}.p",), float),
        "cross_fit": _field(f"{features}.cross_fit"),
    }


def _learned(features: str) -> dict[str, Rule]:
    """Rules common to LGGD and LGGD+."""
    return {
        **_distances(features),
        "initial": ObjectChoice(f"{features}.initial", {"mlp": MLP(), "propagated": PropagatedMLP()}),
        "hops": _field(f"{features}.initial.hops", conditional=True),
        "mlp_hidden": FieldPath((f"{features}.initial.hidden",), _widths, lambda sizes: "-".join(map(str, sizes))),
        "mlp_dropout": _field(f"{features}.initial.dropout"),
        "mlp_lr": _field(f"{features}.optimization.lr"),
        "mlp_weight_decay": _field(f"{features}.optimization.weight_decay"),
        "epochs": _field(f"{features}.optimization.epochs"),
        "potential": Modification(
            f"{features}.potential",
            {
                "degree": _same,
                "learned": LearnedPotential,
                "time": LearnedTimeScale,
                "edges": LearnedEdgeWeights,
                "both": lambda rho: LearnedEdgeWeights(LearnedPotential(rho)),
            },
        ),
        "horizons": ObjectChoice(f"{features}.per_time", {"each": True, "shared": False}),
    }


_SCALES = {"max": MaxScale(), "standard": Standardize(), "softmax": SoftmaxScale(), "none": Unscaled()}
_CLASSIFIER: dict[str, Rule] = {
    **_training(),
    "step": _optional("features.scheme.step"),
    "scale": ObjectChoice("features.scale", _SCALES),
    "reachable": _field("features.reachable"),
    "mode": ObjectChoice("features.concat", {"replace": False, "concat": True}),
    "readout": Modification("backbone", {"backbone": _same, "nearest": lambda backbone: None}),
}
_DISTANCES, _NETWORKS = "features.model.model", "readout.readouts.0"
# The graph of the networks of LGGD+, and what is done with their predictions.
_DIFFUSION: dict[str, Rule] = {
    "diffusion": ObjectChoice(
        f"{_NETWORKS}.diffusion", {"none": None, "ppr": DiffusionGraph(PPR(0.1)), "heat": DiffusionGraph(Heat(3.0))}
    ),
    "diffusion_alpha": _field(f"{_NETWORKS}.diffusion.kernel.alpha", conditional=True),
    "diffusion_t": _field(f"{_NETWORKS}.diffusion.kernel.t", conditional=True),
    "neighbours": _field(f"{_NETWORKS}.diffusion.neighbours", conditional=True),
}
_READOUT: dict[str, Rule] = {
    "readout": Modification(
        "readout", {"both": _same, "nearest": lambda mean: mean.readouts[1], "backbone": lambda mean: mean.readouts[0]}
    ),
}
_PLUS: dict[str, Rule] = {
    **_training(f"{_NETWORKS}."),
    **_learned(_DISTANCES),
    "pagerank": _optional(f"{_DISTANCES}.initial.pagerank", conditional=True),
    "members": _field("features.model.members", f"{_NETWORKS}.members"),
    "self_training": _field("features.fraction"),
    "rounds": _field("features.rounds"),
    **_DIFFUSION,
    "inputs": Modification(
        _NETWORKS,
        {
            "both": _same,
            "features": lambda networks: replace(networks, use_x=False),
            "contents": lambda networks: replace(networks, use_features=False),
        },
    ),
    **_READOUT,
}
_CORRECTED: dict[str, Rule] = {
    **_training("model."),
    "model": ObjectChoice("model", {"mlp": baselines.MLPClassifier(), "gcn": LGGDClassifier(None, GCN())}),
    "hidden": FieldPath(("model.hidden", "model.backbone.hidden"), conditional=True),
    "dropout": FieldPath(("model.dropout", "model.backbone.dropout"), conditional=True),
    "scaling": ObjectChoice("scaling", {"auto": baselines.AutoScale(), "fixed": baselines.FixedScale()}),
    "scale": _field("scaling.scale", conditional=True),
}
_ALGORITHMS = {
    "diffusion": baselines.Diffusion(),
    "pagerank": baselines.PageRank(),
    "votes": baselines.MajorityVote(),
    "neighbours": baselines.NearestNeighbours(),
}
_ALGORITHM_FIELDS = ("iterations", "scale", "damping", "neighbours", "dimension")


def _fields(name: str, **rules: Rule) -> dict[str, Rule]:
    """Rules for the fields of a model that are settings, for those of its training, and further ones."""
    base = METHODS[name].build()
    own = {field.name: _field(field.name) for field in fields(base) if isinstance(getattr(base, field.name), Setting)}
    del own["seed"]
    training = {short: rule for short, rule in _training().items() if has_at(base, rule.paths[0])}
    return {**training, **own, **rules}


_GDC = _fields(
    "gdc-ppr",
    kernel=ObjectChoice("kernel", {"ppr": PPR(), "heat": Heat()}),
    alpha=_field("kernel.alpha", conditional=True),
    t=_field("kernel.t", conditional=True),
)
# Methods that are not here have the settings of `_fields`.
SHORT_NAMES: dict[str, Mapping[str, Rule]] = {
    "gcn": _training(),
    "gcn-plus": {
        **_training("model.model."),
        "members": _field("model.members"),
        "self_training": _field("fraction"),
        "rounds": _field("rounds"),
    },
    "ggd": {**_CLASSIFIER, **_distances("features")},
    "lggd-trained": {
        **_CLASSIFIER,
        **_learned("features"),
        "mlp_input_dropout": _field("features.initial.input_dropout"),
    },
    "lggd-plus-trained": _PLUS,
    "kernel-ridge": {"members": _field("members")},
    "lggd": {"members": _field("features.initial.members")},
    "lggd-plus": {"members": _field("features.initial.members")},
    "gdc-ppr": _GDC,
    "gdc-heat": _GDC,
    "goal": _fields(
        "goal",
        pretrain_epochs=_field("pretraining.epochs"),
        complement_hidden=_field("complement.hidden"),
        complement_layers=_field("complement.layers"),
        complement_epochs=_field("complement.epochs"),
    ),
    "graphmix": _fields("graphmix", ramp_begin=_field("ramp.0"), ramp_end=_field("ramp.1")),
    "correct-and-smooth": _fields("correct-and-smooth", **_CORRECTED),
    "scikit-network": _fields(
        "scikit-network",
        algorithm=ObjectChoice("algorithm", _ALGORITHMS),
        **{name: _field(f"algorithm.{name}", conditional=True) for name in _ALGORITHM_FIELDS},
    ),
}
