"""The models that a run can train, by the names of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lggd import backbones
from lggd.backbones import GAT, GCN, Backbone, ChebNet, JKNet
from lggd.baselines import (
    APPNP,
    GDC,
    GOAL,
    GPRGNN,
    PPR,
    SGC,
    CorrectAndSmooth,
    DropEdge,
    GAugM,
    GAugO,
    GraphMix,
    Heat,
    LabelPropagation,
    MixUp,
    MLPClassifier,
    ScikitNetwork,
)
from lggd.closed_form import KernelRidge
from lggd.errors import InputError
from lggd.estimator.estimator import NodeClassifier
from lggd.features import GGD, LGGD
from lggd.models.classifier import LGGDClassifier
from lggd.models.plus import Ensemble, LGGDPlus, SelfTraining
from lggd.models.readout import BackboneReadout

BACKBONES: dict[str, Backbone | None] = {**backbones.BACKBONES, "none": None}
PRESETS: dict[str, Callable[[], LGGD]] = {"default": LGGD, "paper": LGGD.paper, "release": LGGD.release}


@dataclass(frozen=True)
class ModelFactory:
    """Builds a model with default settings. `title` is its display name.

    `backbone` is its default of `BACKBONES`, None if it cannot be chosen; `needs_features` whether it needs node
    features, `is_trained` whether it is trained without a backbone, too; `networks` returns the parts of the model that
    have the settings `backbone` and `optimization`.
    """

    title: str
    build: Callable[[], NodeClassifier]
    backbone: str | None = "gcn"
    needs_features: bool = True
    is_trained: bool = True
    networks: Callable[[Any], Sequence[Any]] = lambda model: (model,)


def _without_training(title: str, build: Callable[[], NodeClassifier]) -> ModelFactory:
    return ModelFactory(title, build, backbone=None, needs_features=False, is_trained=False)


def _networks(model: LGGDPlus) -> list[BackboneReadout]:
    return [part for part in model.readout.readouts if isinstance(part, BackboneReadout)]  # type: ignore[attr-defined]


def _gcn_plus() -> SelfTraining:
    return SelfTraining(Ensemble(LGGDClassifier(None, GCN()), members=3), fraction=0.3)


METHODS: Mapping[str, ModelFactory] = {
    "lggd": ModelFactory("LGGD", LGGDClassifier, backbone="none", needs_features=False, is_trained=False),
    "lggd-plus": ModelFactory("LGGD+", LGGDPlus, backbone=None, networks=_networks),
    "kernel-ridge": _without_training("Kernel ridge", KernelRidge),
    "ggd": ModelFactory("GGD", lambda: LGGDClassifier(GGD(), GCN()), needs_features=False),
    "lggd-trained": ModelFactory("Trained LGGD", LGGDClassifier.trained),
    "lggd-plus-trained": ModelFactory("Trained LGGD+", LGGDPlus.trained, networks=_networks),
    "gcn": ModelFactory("GCN", lambda: LGGDClassifier(None, GCN()), backbone=None),
    "gat": ModelFactory("GAT", lambda: LGGDClassifier(None, GAT()), backbone=None),
    "chebnet": ModelFactory("ChebNet", lambda: LGGDClassifier(None, ChebNet()), backbone=None),
    "jknet": ModelFactory("JKNet", lambda: LGGDClassifier(None, JKNet()), backbone=None),
    "mixup": ModelFactory("MixUp", MixUp),
    "dropedge": ModelFactory("DropEdge", DropEdge),
    "gaug-m": ModelFactory("GAug-M", GAugM),
    "gaug-o": ModelFactory("GAug-O", GAugO),
    "gdc-ppr": ModelFactory("GDC (PPR)", lambda: GDC(PPR())),
    "gdc-heat": ModelFactory("GDC (heat)", lambda: GDC(Heat())),
    "gpr-gnn": ModelFactory("GPR-GNN", GPRGNN, backbone=None),
    "goal": ModelFactory("GOAL", GOAL, backbone=None),
    "graphmix": ModelFactory("GraphMix", GraphMix, backbone=None),
    "mlp": ModelFactory("MLP", MLPClassifier, backbone=None),
    "sgc": ModelFactory("SGC", SGC, backbone=None),
    "appnp": ModelFactory("APPNP", APPNP, backbone=None),
    "label-propagation": _without_training("Label propagation", LabelPropagation),
    "correct-and-smooth": ModelFactory(
        "Correct and smooth", CorrectAndSmooth, backbone=None, networks=lambda model: (model.model,)
    ),
    "scikit-network": _without_training("scikit-network", ScikitNetwork),
    "gcn-plus": ModelFactory("GCN+", _gcn_plus, backbone=None, networks=lambda model: (model.model.model,)),
}


def build_model(
    method: str, backbone: str | None = None, preset: str = "default", epochs: int | None = None, seed: int = 0
) -> NodeClassifier:
    """Returns an unfitted model of `METHODS` with a backbone of `BACKBONES` and a preset of `PRESETS`.

    >>> build_model("lggd-trained", "gat", epochs=5).backbone
    GAT(hidden=32, heads=8, dropout=0.5)
    """
    factory = METHODS[method]
    model = factory.build()
    if preset != "default":
        if method != "lggd-trained":
            raise InputError("preset", "be omitted for methods other than lggd-trained", preset)
        model.set_params(features=PRESETS[preset]())
    if backbone is not None:
        if factory.backbone is None:
            raise InputError("backbone", f"be omitted for {method}", backbone, "It defines the network itself.")
        for network in factory.networks(model):
            network.backbone = BACKBONES[backbone]
    if epochs is not None:
        if not factory.is_trained and (backbone or factory.backbone) in (None, "none"):
            raise InputError("epochs", f"be omitted for {method}, which is not trained", epochs)
        for network in factory.networks(model):
            network.optimization = replace(network.optimization, epochs=epochs)
    model.set_params(**{name: seed for name in model.get_params() if name.rpartition("__")[2] == "seed"})
    model.check_settings()
    return model
