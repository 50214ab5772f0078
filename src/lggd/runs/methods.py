"""What a run trains: models by the names of the command line, and the settings of a run."""

from __future__ import annotations

import copy
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
from lggd.models.memory_estimate import estimate_memory
from lggd.models.plus import Ensemble, LGGDPlus, SelfTraining
from lggd.models.readout import BackboneReadout
from lggd.runs.run_input import RunInput
from lggd.system.memory import Memory
from lggd.validation import check_choice

BACKBONES: dict[str, Backbone | None] = {**backbones.BACKBONES, "none": None}
DEFAULT_REFERENCE = "gcn"
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


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run, by name. `backbone` and `epochs` default to those of the method.

    `reference` is the network trained on node features alone, for comparison: by default the backbone or a GCN.
    """

    method: str = "lggd"
    backbone: str | None = None
    preset: str = "default"
    seed: int = 0
    epochs: int | None = None
    device: str = "cpu"
    reference: str | None = None

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        for name in ("backbone", "reference"):
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), BACKBONES)

    def check_input(self, run_input: RunInput) -> None:
        """Checks that the method can be fitted to this graph."""
        if METHODS[self.method].needs_features and not run_input.has_features:
            rule, remedy = "be one that needs no node features", "Add features, or use lggd, the default."
            raise InputError("method", rule, self.method, remedy)

    def model(self, large: bool = False) -> NodeClassifier:
        """An unfitted model; for a `large` graph, the default methods are kernel ridge with few kernels."""
        if large and self.method in ("lggd", "kernel-ridge") and self.backbone in (None, "none"):
            return KernelRidge.large(seed=self.seed)
        return build_model(self.method, self.backbone, self.preset, self.epochs, self.seed)

    @property
    def backbone_name(self) -> str | None:
        """The backbone of the method, or None if it has no backbone."""
        name = self.backbone or METHODS[self.method].backbone
        return None if name == "none" else name

    @property
    def reference_method(self) -> str | None:
        """The network to compare with; None if the model itself is one."""
        name = self.reference or self.backbone_name or DEFAULT_REFERENCE
        return None if name == "none" or self.method in BACKBONES else name

    def titles(self) -> dict[str, str]:
        """Returns the display names of the parts of the run: {"reference": "GCN", "model": "LGGD with GCN"}."""
        backbone, reference = self.backbone_name, self.reference_method
        title = METHODS[self.method].title + (f" with {METHODS[backbone].title}" if backbone else "")
        return {"model": title} if reference is None else {"reference": METHODS[reference].title, "model": title}

    def memory(self, run_input: RunInput) -> Memory | None:
        """Estimates the memory needed to learn distances on the device of the run; None without distances."""
        if not METHODS[self.method].is_trained:
            return None
        features, models = getattr(self.model(), "features", None), 1
        while isinstance(features, (SelfTraining, Ensemble)):
            models, features = models * getattr(features, "members", 1), features.model
        if not isinstance(features, NodeClassifier):
            return None
        data = copy.copy(run_input.data).to(self.device)  # PyG moves a Data in place
        return estimate_memory(data, features, models=models)  # type: ignore[arg-type]
