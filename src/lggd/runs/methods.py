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

BACKBONES: dict[str, Backbone | None] = {**backbones.BACKBONES, "none": None}
PRESETS: dict[str, Callable[[], LGGD]] = {"default": LGGD, "paper": LGGD.paper, "release": LGGD.release}


@dataclass(frozen=True)
class ModelFactory:
    """Builds a model with default settings. `title` is its display name.

    `has_backbone` is whether its backbone can be chosen, `needs_features` whether it needs node features, `is_trained`
    whether it is trained at all; `networks` returns the parts of the model that have the settings `backbone` and
    `optimization`.
    """

    title: str
    build: Callable[[], NodeClassifier]
    has_backbone: bool = True
    needs_features: bool = True
    is_trained: bool = True
    networks: Callable[[Any], Sequence[Any]] = lambda model: (model,)


def _without_training(title: str, build: Callable[[], NodeClassifier]) -> ModelFactory:
    return ModelFactory(title, build, has_backbone=False, needs_features=False, is_trained=False)


def _gcn_plus() -> SelfTraining:
    return SelfTraining(Ensemble(LGGDClassifier(None, GCN()), members=3), fraction=0.3)


METHODS: Mapping[str, ModelFactory] = {
    "lggd": ModelFactory("LGGD", LGGDClassifier),
    "ggd": ModelFactory("GGD", lambda: LGGDClassifier(GGD()), needs_features=False),
    "lggd-plus": ModelFactory("LGGD+", LGGDPlus, networks=lambda model: model.readout.readouts[:1]),
    "lggd-solved": _without_training("LGGD solved", lambda: LGGDClassifier(LGGD.solved(), backbone=None)),
    "lggd-plus-solved": ModelFactory(
        "LGGD+ solved", LGGDPlus.solved, has_backbone=False, networks=lambda model: model.readout.readouts[1:]
    ),
    "kernel-ridge": _without_training("Kernel ridge", KernelRidge),
    "gcn": ModelFactory("GCN", lambda: LGGDClassifier(None, GCN()), has_backbone=False),
    "gat": ModelFactory("GAT", lambda: LGGDClassifier(None, GAT()), has_backbone=False),
    "chebnet": ModelFactory("ChebNet", lambda: LGGDClassifier(None, ChebNet()), has_backbone=False),
    "jknet": ModelFactory("JKNet", lambda: LGGDClassifier(None, JKNet()), has_backbone=False),
    "mixup": ModelFactory("MixUp", MixUp),
    "dropedge": ModelFactory("DropEdge", DropEdge),
    "gaug-m": ModelFactory("GAug-M", GAugM),
    "gaug-o": ModelFactory("GAug-O", GAugO),
    "gdc-ppr": ModelFactory("GDC (PPR)", lambda: GDC(PPR())),
    "gdc-heat": ModelFactory("GDC (heat)", lambda: GDC(Heat())),
    "gpr-gnn": ModelFactory("GPR-GNN", GPRGNN, has_backbone=False),
    "goal": ModelFactory("GOAL", GOAL, has_backbone=False),
    "graphmix": ModelFactory("GraphMix", GraphMix, has_backbone=False),
    "mlp": ModelFactory("MLP", MLPClassifier, has_backbone=False),
    "sgc": ModelFactory("SGC", SGC, has_backbone=False),
    "appnp": ModelFactory("APPNP", APPNP, has_backbone=False),
    "label-propagation": _without_training("Label propagation", LabelPropagation),
    "correct-and-smooth": ModelFactory(
        "Correct and smooth", CorrectAndSmooth, has_backbone=False, networks=lambda model: (model.model,)
    ),
    "scikit-network": _without_training("scikit-network", ScikitNetwork),
    "gcn-plus": ModelFactory("GCN+", _gcn_plus, has_backbone=False, networks=lambda model: (model.model.model,)),
}


def build_model(
    method: str, backbone: str | None = None, preset: str = "default", epochs: int | None = None, seed: int = 0
) -> NodeClassifier:
    """Returns an unfitted model of `METHODS` with a backbone of `BACKBONES` and a preset of `PRESETS`.

    >>> build_model("lggd", "gat", epochs=5).backbone
    GAT(hidden=32, heads=8, dropout=0.5)
    """
    factory = METHODS[method]
    model = factory.build()
    if preset != "default":
        if method != "lggd":
            raise InputError("preset", "be omitted for methods other than lggd", preset)
        model.set_params(features=PRESETS[preset]())
    if backbone is not None:
        if not factory.has_backbone:
            raise InputError("backbone", f"be omitted for {method}", backbone, "It defines the network itself.")
        for network in factory.networks(model):
            network.backbone = BACKBONES[backbone]
    if epochs is not None:
        if not factory.is_trained:
            raise InputError("epochs", f"be omitted for {method}, which is not trained", epochs)
        for network in factory.networks(model):
            network.optimization = replace(network.optimization, epochs=epochs)
    model.set_params(**{name: seed for name in model.get_params() if name.rpartition("__")[2] == "seed"})
    model.check_settings()
    return model
