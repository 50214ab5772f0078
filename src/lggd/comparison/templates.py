"""Templates: builds models by name from a base object per method and short names of its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from lggd import baselines
from lggd.backbones import BACKBONES, GCN
from lggd.closed_form import KernelRidge
from lggd.comparison import settings as paths
from lggd.comparison.settings import FieldPath, Modification, ObjectChoice, Rule, Setting, Settings
from lggd.diffusion import PPR, DiffusionGraph, Heat
from lggd.equation import DegreePotential
from lggd.errors import InputError
from lggd.estimator import NodeClassifier
from lggd.features import GGD, LGGD, SolvedLGGD
from lggd.features.distance_features import MaxScale, SoftmaxScale, Standardize, Unscaled
from lggd.learning.flow import LearnedEdgeWeights, LearnedPotential, LearnedTimeScale
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.models.classifier import LGGDClassifier
from lggd.models.plus import Ensemble, LGGDPlus, SelfTraining
from lggd.training.optimization import Optimization
from lggd.validation import check_name, suggestion

# The setting that the runner applies to the data, the normalization of x. Committed results have this name.
NORMALIZATION, NORMALIZATIONS = "contents", ("raw", "sum", "length")
TIMES = 5  # distances are evaluated at this many multiples of the setting `time`


@dataclass(frozen=True)
class Template:
    """A base object with all defaults, rules for short names, and the path of the backbone; None: its own network."""

    base: Any
    rules: Mapping[str, Rule]
    backbone: str | None = "backbone"

    def base_on(self, backbone: str) -> Any:
        return self.base if self.backbone is None else paths.replace_at(self.base, self.backbone, BACKBONES[backbone])


def build(template: str, settings: Settings, backbone: str, seed: int) -> NodeClassifier:
    """Returns an unfitted model of a template in `TEMPLATES`, with defaults for all settings not in `settings`.

    Settings are short names, or paths such as "features.initial.activation". Raises if a setting is invalid for any
    data, before long computations start.

    >>> build("Backbone", {"dropout": 0.8}, backbone="gcn", seed=3).backbone
    GCN(hidden=32, dropout=0.8)
    """
    complete, kind = complete_settings(template, settings, backbone), TEMPLATES[template]
    del complete[NORMALIZATION]
    model = kind.base_on(backbone)
    for path in ("seed", "features.seed"):
        model = paths.replace_at(model, path, seed) if paths.has(model, path) else model
    model = paths.apply_settings(model, kind.rules, complete)
    with paths.renamed_arguments(kind.rules):
        model.check_settings()
    return model  # type: ignore[no-any-return]


def complete_settings(template: str, settings: Settings, backbone: str) -> dict[str, Setting]:
    """Returns all settings with short names, including defaults, and all settings in `settings` that are paths."""
    kind = TEMPLATES[check_name("method", template, TEMPLATES)]
    check_name("backbone", backbone, BACKBONES)
    if kind.backbone is None and backbone != "gcn":
        raise InputError("backbone", f"be gcn for {template}, which defines its own network", backbone, "Omit it.")
    base = kind.base_on(backbone)
    defaults = {name: paths.default_of(rule, base, kind.rules) for name, rule in kind.rules.items()}
    defaults[NORMALIZATION] = NORMALIZATIONS[0]
    for name, value in settings.items():
        default = defaults.get(name, paths.get_at(base, name) if paths.has(base, name) else None)
        if not isinstance(default, Setting):
            close = suggestion(name, list(defaults), "Remove it.")
            raise InputError("settings", f"be settings of {template}: {', '.join(defaults)}", repr(name), close)
        paths.check_kind(name, value, default)
    complete = {**defaults, **settings}
    check_name(NORMALIZATION, complete[NORMALIZATION], NORMALIZATIONS)
    return complete


def supports_backbone(template: str, backbone: str) -> bool:
    try:
        build(template, {}, backbone, seed=0)
    except InputError:  # all other settings are defaults, which are valid
        return False
    return True


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


def _training(owner: str = "") -> dict[str, Rule]:
    names = {"lr": "lr", "weight_decay": "weight_decay", "max_epochs": "epochs", "patience": "patience"}
    rules: dict[str, Rule] = {name: _field(f"{owner}optimization.{field}") for name, field in names.items()}
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
_MLP = baselines.MLPClassifier(optimization=Optimization())
_CORRECTED: dict[str, Rule] = {
    **_training("model."),
    "model": ObjectChoice("model", {"mlp": _MLP, "gcn": LGGDClassifier(None, GCN())}),
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


def _baseline(base: Any, **rules: Rule) -> Template:
    """A template whose settings are the numeric fields of the base object, and those of its training."""
    own = {field.name: _field(field.name) for field in fields(base) if isinstance(getattr(base, field.name), Setting)}
    del own["seed"]
    backbone = "backbone" if paths.has(base, "backbone") else None
    training = {name: rule for name, rule in _training().items() if paths.has(base, rule.paths[0])}  # type: ignore[union-attr]
    return Template(base, {**training, **own, **rules}, backbone)


# -- the templates ----------------------------------------------------------------------------------------------------

_TRAINING = Optimization()  # the same for every method, unless its settings change it
_GGD = GGD(cross_fit=0, scale=MaxScale(), reachable=False)
_LGGD = LGGD(
    potential=DegreePotential(-0.5),
    initial=MLP(),
    scale=MaxScale(),
    reachable=False,
    optimization=Optimization(weight_decay=0.005, epochs=150, patience=None),
)

# The methods that files may use. To add a method, define a base object, and short names for long paths.
TEMPLATES: dict[str, Template] = {
    "Backbone": Template(LGGDClassifier(None, GCN()), _training()),
    "GGD": Template(LGGDClassifier(_GGD, GCN()), {**_CLASSIFIER, **_distances("features")}),
    "LGGD": Template(
        LGGDClassifier(_LGGD, GCN()),
        {**_CLASSIFIER, **_learned("features"), "mlp_input_dropout": _field("features.initial.input_dropout")},
    ),
    "KernelRidge": Template(KernelRidge(), {"members": _field("members")}, None),
    "SolvedLGGD": Template(SolvedLGGD(), {"members": _field("initial.members")}, None),
    "SolvedLGGD+": Template(LGGDPlus(), {"members": _field("features.initial.members")}, None),
    "LGGD+": Template(LGGDPlus.trained(), _PLUS, f"{_NETWORKS}.backbone"),
    "MixUp": _baseline(baselines.MixUp()),
    "DropEdge": _baseline(baselines.DropEdge()),
    "GAugM": _baseline(baselines.GAugM()),
    "GAugO": _baseline(baselines.GAugO()),
    "GDC": _baseline(
        baselines.GDC(),
        kernel=ObjectChoice("kernel", {"ppr": PPR(), "heat": Heat()}),
        alpha=_field("kernel.alpha", conditional=True),
        t=_field("kernel.t", conditional=True),
    ),
    "GPRGNN": _baseline(baselines.GPRGNN(optimization=_TRAINING)),
    "GOAL": _baseline(
        baselines.GOAL(optimization=_TRAINING),
        pretrain_epochs=_field("pretraining.epochs"),
        complement_hidden=_field("complement.hidden"),
        complement_layers=_field("complement.layers"),
        complement_epochs=_field("complement.epochs"),
    ),
    "MLP": _baseline(_MLP),
    "SGC": _baseline(baselines.SGC(optimization=_TRAINING)),
    "APPNP": _baseline(baselines.APPNP(optimization=_TRAINING)),
    "LabelPropagation": _baseline(baselines.LabelPropagation()),
    "CorrectAndSmooth": _baseline(baselines.CorrectAndSmooth(_MLP), **_CORRECTED),
    "ScikitNetwork": _baseline(
        baselines.ScikitNetwork(),
        algorithm=ObjectChoice("algorithm", _ALGORITHMS),
        **{name: _field(f"algorithm.{name}", conditional=True) for name in _ALGORITHM_FIELDS},
    ),
    "Backbone+": Template(
        SelfTraining(Ensemble(LGGDClassifier(None, GCN()), members=3), fraction=0.3),
        {
            **_training("model.model."),
            "members": _field("model.members"),
            "self_training": _field("fraction"),
            "rounds": _field("rounds"),
        },
        "model.model.backbone",
    ),
    "GraphMix": _baseline(
        baselines.GraphMix(optimization=_TRAINING), ramp_begin=_field("ramp.0"), ramp_end=_field("ramp.1")
    ),
}
