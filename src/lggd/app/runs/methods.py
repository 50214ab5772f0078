"""The models of runs by the names of the command line, and the settings of a run."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lggd import backbones
from lggd.app.runs.run_input import RunInput
from lggd.backbones import APPNP, GAT, GCN, GPR, SGC, Backbone, ChebNet, JKNet, Perceptron
from lggd.baselines import GDC, DropEdge, LabelPropagation
from lggd.closed_form import KernelRidge
from lggd.errors import InputError
from lggd.estimator.member import Member
from lggd.features import GGD, LGGD, EvolvedKernelRidge
from lggd.filters import PPR, Heat
from lggd.models.classifier import LGGDClassifier
from lggd.models.plus import Ensemble, LGGDPlus, SelfTraining
from lggd.training.problems import Optimization
from lggd.validation import check_name

BACKBONES: dict[str, Backbone | None] = {**backbones.BACKBONES, "none": None}
DEFAULT_REFERENCE = "gcn"
SEEDS = ("seed", "random_state")  # settings that every fit has its own value of
PRESETS: dict[str, Callable[[], LGGD]] = {"default": LGGD, "paper": LGGD.paper, "release": LGGD.release}


@dataclass(frozen=True)
class Method:
    """A method: `build` returns a model with default settings, and `title` is its display name.

    `backbone` is its default of `BACKBONES`, None if it cannot be chosen; `needs_features` whether it needs node
    features, `is_trained` whether it is trained without a backbone, too; `networks` are the paths of the parts
    that have the settings `backbone` and `optimization`, up to these.
    """

    name: str
    title: str
    build: Callable[[], Any]
    backbone: str | None = None
    needs_features: bool = True
    is_trained: bool = True
    networks: tuple[str, ...] = ("",)

    def model(self, seed: int) -> Any:
        """Returns a new model with this seed, and with it in all of its parts."""
        model = self.build()
        settings = model.get_params() if hasattr(model, "get_params") else {}
        seeds = {name: seed for name in settings if name.rpartition("__")[2] in SEEDS}
        return model.set_params(**seeds) if seeds else model

    def reason_to_skip(self, has_features: bool) -> str | None:
        if self.needs_features and not has_features:
            return "needs node features, and there are none"
        return None


def _without_training(name: str, title: str, build: Callable[[], Any]) -> Method:
    return Method(name, title, build, needs_features=False, is_trained=False)


def _on_features(name: str, title: str, backbone: Backbone, optimization: Optimization = Optimization()) -> Method:
    return Method(name, title, lambda: LGGDClassifier(None, backbone, optimization))


def _evolved_ridge() -> LGGDClassifier:
    return LGGDClassifier(EvolvedKernelRidge(), None)


def _gcn_plus() -> SelfTraining:
    return SelfTraining(Ensemble(LGGDClassifier(None, GCN()), members=3), fraction=0.3)


# All methods of `lggd run`; those of other packages, for comparisons, are in lggd.app.comparison.candidates.
METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        _without_training("kernel-ridge", "Kernel ridge", KernelRidge),
        Method(
            "evolved-ridge", "Kernel ridge, evolved", _evolved_ridge, "none", needs_features=False, is_trained=False
        ),
        Method("lggd-plus", "LGGD+", LGGDPlus, networks=tuple(f"readout__readouts__{k}__" for k in range(1, 5))),
        Method("ggd", "GGD", lambda: LGGDClassifier(GGD(), GCN()), "gcn", needs_features=False),
        Method("lggd", "LGGD", LGGDClassifier, "gcn"),
        Method("lggd-plus-trained", "Trained LGGD+", LGGDPlus.trained, "gcn", networks=("readout__readouts__0__",)),
        _on_features("gcn", "GCN", GCN()),
        _on_features("gat", "GAT", GAT()),
        _on_features("chebnet", "ChebNet", ChebNet()),
        _on_features("jknet", "JKNet", JKNet()),
        Method("dropedge", "DropEdge", DropEdge, "gcn"),
        Method("gdc-ppr", "GDC (PPR)", lambda: GDC(PPR()), "gcn"),
        Method("gdc-heat", "GDC (heat)", lambda: GDC(Heat()), "gcn"),
        _on_features("gpr-gnn", "GPR-GNN", GPR(), Optimization(weight_decay=5e-4)),
        _on_features("mlp", "MLP", Perceptron(), Optimization(weight_decay=5e-4)),
        _on_features("sgc", "SGC", SGC(), Optimization(lr=0.2, weight_decay=1.3e-5)),
        _on_features("appnp", "APPNP", APPNP(), Optimization(weight_decay=5e-3)),
        _without_training("label-propagation", "Label propagation", LabelPropagation),
        Method("gcn-plus", "GCN+", _gcn_plus, networks=("model__model__",)),
    )
}


def build_model(
    name: str, backbone: str | None = None, preset: str = "default", epochs: int | None = None, seed: int = 0
) -> Member:
    """Returns an unfitted model of `METHODS` with a backbone of `BACKBONES` and a preset of `PRESETS`.

    >>> build_model("lggd", "gat", epochs=5).backbone
    GAT(hidden=32, heads=8, dropout=0.5)
    """
    method = METHODS[name]
    model = method.model(seed)
    if preset != "default":
        if name != "lggd":
            raise InputError("preset", "be omitted for methods other than lggd", preset)
        model.set_params(features=PRESETS[preset](), features__seed=seed)
    if backbone is not None:
        if method.backbone is None:
            raise InputError("backbone", f"be omitted for {name}", backbone, "Methods such as lggd and ggd take one.")
        model.set_params(**{f"{network}backbone": BACKBONES[backbone] for network in method.networks})
    if epochs is not None:
        if not method.is_trained and (backbone or method.backbone) in (None, "none"):
            raise InputError("epochs", f"be omitted for {name}, which is not trained", epochs)
        model.set_params(**{f"{network}optimization__epochs": epochs for network in method.networks})
    model.check_settings()
    return model  # type: ignore[no-any-return]  # `Method.build` may be a classifier of scikit-learn


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run, by name. `backbone` and `epochs` default to those of the method.

    `reference` is the network trained on node features alone, for comparison: by default the backbone or a GCN.
    """

    method: str = "kernel-ridge"
    backbone: str | None = None
    preset: str = "default"
    seed: int = 0
    epochs: int | None = None
    device: str = "cpu"
    reference: str | None = None

    def __post_init__(self) -> None:
        check_name("method", self.method, METHODS)
        for name in ("backbone", "reference"):
            if getattr(self, name) is not None:
                check_name(name, getattr(self, name), BACKBONES)

    def check_input(self, run_input: RunInput) -> None:
        """Checks the settings, and that the method can be fitted to this graph, before anything is trained."""
        if METHODS[self.method].needs_features and not run_input.has_features:
            rule, remedy = "be one that needs no node features", "Add features, or use kernel-ridge, the default."
            raise InputError("method", rule, self.method, remedy)
        self.model()

    def model(self, large: bool = False) -> Member:
        """An unfitted model; for a `large` graph, both kernel ridges have few kernels and no evolution."""
        model = build_model(self.method, self.backbone, self.preset, self.epochs, self.seed)
        is_solved = self.method in ("kernel-ridge", "evolved-ridge") and self.backbone in (None, "none")
        return KernelRidge.large(seed=self.seed) if large and is_solved else model

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


def installed_versions() -> dict[str, str]:
    """Returns the versions of the packages that numbers may depend on."""
    versions = {"python": platform.python_version()}
    for name in ("lggd", "torch", "torch-geometric", "numpy", "numba"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # a source tree that was never installed
            versions[name] = "unknown"
    return versions
