"""The models that a run can train, by the names of the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.baselines import GDC, GOAL, GPRGNN, PPR, DropEdge, GAugM, GAugO, GraphMix, Heat, MixUp
from lggd.errors import InputError
from lggd.estimator.estimator import NodeClassifier
from lggd.features import GGD, LGGD
from lggd.models.classifier import LGGDClassifier
from lggd.models.plus import LGGDPlus

BACKBONES: dict[str, GCN | GAT | ChebNet | JKNet | None] = {
    "gcn": GCN(),
    "gat": GAT(),
    "chebnet": ChebNet(),
    "jknet": JKNet(),
    "none": None,
}
PRESETS: dict[str, Callable[[], LGGD]] = {"default": LGGD, "paper": LGGD.paper, "release": LGGD.release}


@dataclass(frozen=True)
class Method:
    """A model by name: its title, a factory with its default settings, and the setting that holds its backbone."""

    title: str
    build: Callable[[], NodeClassifier]
    backbone: str | None = "backbone"
    needs_features: bool = True


METHODS: Mapping[str, Method] = {
    "lggd": Method("LGGD", LGGDClassifier),
    "ggd": Method("GGD", lambda: LGGDClassifier(GGD()), needs_features=False),
    "lggd-plus": Method("LGGD+", LGGDPlus, None),
    "gcn": Method("GCN", lambda: LGGDClassifier(None, GCN()), None),
    "gat": Method("GAT", lambda: LGGDClassifier(None, GAT()), None),
    "chebnet": Method("ChebNet", lambda: LGGDClassifier(None, ChebNet()), None),
    "jknet": Method("JKNet", lambda: LGGDClassifier(None, JKNet()), None),
    "mixup": Method("MixUp", MixUp),
    "dropedge": Method("DropEdge", DropEdge),
    "gaug-m": Method("GAug-M", GAugM),
    "gaug-o": Method("GAug-O", GAugO),
    "gdc-ppr": Method("GDC (PPR)", lambda: GDC(PPR())),
    "gdc-heat": Method("GDC (heat)", lambda: GDC(Heat())),
    "gpr-gnn": Method("GPR-GNN", GPRGNN, None),
    "goal": Method("GOAL", GOAL, None),
    "graphmix": Method("GraphMix", GraphMix, None),
}


def build_model(
    method: str, backbone: str | None = None, preset: str = "default", epochs: int | None = None, seed: int = 0
) -> NodeClassifier:
    """Returns an unfitted model.

    >>> build_model("lggd", "gat", epochs=5).backbone
    GAT(hidden=8, heads=8, dropout=0.6)
    """
    chosen = METHODS[method]
    model = chosen.build()
    if preset != "default":
        if method != "lggd":
            raise InputError("preset", "be omitted for other methods than lggd", preset)
        model.set_params(features=PRESETS[preset]())
    if backbone is not None:
        if chosen.backbone is None:
            raise InputError("backbone", f"be omitted for {method}", backbone, "It defines the network itself.")
        model.set_params(**{chosen.backbone: BACKBONES[backbone]})
    if epochs is not None:
        model.set_params(optimization__epochs=epochs)
    params = model.get_params()
    model.set_params(**{name: seed for name in params if name == "seed" or name.endswith("__seed")})
    model.check_settings()
    return model
