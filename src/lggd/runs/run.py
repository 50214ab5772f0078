"""One run on one graph: trains a model and its backbone alone for reference, and measures the gain of more labels."""

from __future__ import annotations

import copy
import json
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.closed_form import KernelRidge
from lggd.errors import InputError
from lggd.estimator.estimator import NodeClassifier
from lggd.features.distance_features import DistanceFeatures
from lggd.models import Ensemble, SelfTraining
from lggd.models.memory_estimate import estimate_memory
from lggd.report.run_report import LabelAddition
from lggd.runs.methods import BACKBONES, METHODS, build_model
from lggd.runs.run_input import FEWEST_HELD_OUT, RunInput
from lggd.system.files import check_folder_writable, replacing, write_errors
from lggd.system.memory import Memory
from lggd.training.engine import Checkpoint, History, Progress
from lggd.validation import check_choice

FEWEST_TO_REVEAL = 100  # with fewer held-out nodes, the gain of new labels would be smaller than the noise
REVEALED, REVEALED_SHARE = 3, 10  # three batches of a tenth of the held-out labels
DEFAULT_REFERENCE = "gcn"
# The marker of a folder of checkpoints, the parts of a run, and the seconds between two checkpoints of one.
UNFINISHED, PARTS, EVERY = "training.json", ("reference", "model"), 2.0

ONLY_GRAPH = "The nodes have no features: only the graph is used, and there is no network to compare with."
NO_REFERENCE = "The graph is on disk: no network is trained for comparison, because it would need all edges in memory."
FEW_KERNELS = (
    "The graph is large: it was fitted by KernelRidge.large(), which chooses among few kernels, without distances."
)
NO_ADDITIONS = "The method cannot add labels without training: the saved model does not use the held-out labels."
LABELS_RESTORED = (
    "After accuracy was measured, the held-out labels were added without training: predictions.csv, features.parquet "
    "and the model use all labels; the report shows predictions without them."
)
# Called after every epoch with the part of the run, "reference" or "model".
RunCallback = Callable[[str, Progress], None]


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


@dataclass(frozen=True, eq=False)
class RunResult:
    """The result of a run, on the CPU, for N nodes, K classes and T times.

    `probabilities [N, K]` and `labels [N]` belong to the final model. `measured_probabilities`, `measured_labels` and
    `distances [T, N, K]` are from the time when accuracy was measured, before held-out labels were added to the model.
    `features [N, F]` and `distances` are None if the method has none. `curves` have one value per epoch, by stage.
    `reference_predicted [N]` are the classes that the reference predicts, None without one.
    Accuracies are percentages, None if unknown. Keys are "reference" and "model"; `seconds` also has "all".
    """

    input: RunInput
    settings: RunSettings
    model: NodeClassifier
    accuracy: Mapping[str, float | None]
    seconds: Mapping[str, float | None]
    additions: tuple[LabelAddition, ...]
    notes: tuple[str, ...]
    probabilities: Tensor
    labels: Tensor
    measured_probabilities: Tensor
    measured_labels: Tensor
    distances: Tensor | None
    features: Tensor | None
    curves: Mapping[str, History]
    resumed: bool
    reference_predicted: Tensor | None = None


class UnfinishedTraining:
    """The folder `OUT.training`, with the settings of a run and a checkpoint for each of its parts.

    A run can be resumed only with equal `settings`, everything that the result depends on, serializable as JSON.
    """

    def __init__(self, out: str | Path, settings: Mapping[str, Any], every: float = EVERY) -> None:
        out = Path(out).resolve()
        self.folder = check_folder_writable(out.with_name(f"{out.name}.training"), UNFINISHED)
        self.settings, self.every = json.loads(json.dumps(settings)), every

    def open(self, *, resume: bool) -> bool:
        """Creates the folder, or reuses it if `resume`; returns whether there is training to resume."""
        if resume and self.is_saved:
            self._check_settings()
            return True
        self.remove()
        with write_errors(self.folder):
            self.folder.mkdir()
        with replacing(self.folder / UNFINISHED) as temporary:
            temporary.write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")
        return False

    def checkpoint(self, part: str) -> Checkpoint:
        return Checkpoint(self.folder / part, key=json.dumps(self.settings, sort_keys=True), every=self.every)

    def remove(self) -> None:
        """Deletes the folder; the marker is deleted last, so that an interrupted deletion can be repeated."""
        for part in PARTS:
            shutil.rmtree(self.folder / part, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_saved(self) -> bool:
        """Whether there is training to resume; a name with a leading dot is an incomplete file."""
        return any(not path.name.startswith(".") for path in self.folder.glob("*/*.safetensors"))

    def _check_settings(self) -> None:
        path = self.folder / UNFINISHED
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(before, dict):
                raise TypeError("it is not an object")
        except (ValueError, TypeError) as error:
            raise InputError(path, "contain the settings of a run", but=f"it is damaged: {error}") from error
        for name in dict.fromkeys([*self.settings, *before]):  # options of the user come first
            was, now = before.get(name), self.settings.get(name)
            if was != now:
                rule, but = "continue with the data and settings of the interrupted run", f"{name} was {was} there"
                remedy, hints = "Use the same settings, or start again without {resume}.", {"resume": "`resume`"}
                raise InputError("resume", rule, but=f"{but} and is {now} now", remedy=remedy, hints=hints)


def settings_of_run(run_input: RunInput, settings: RunSettings) -> dict[str, Any]:
    """Returns everything that the result depends on, by name; an interrupted run can be resumed if all are equal."""
    versions = {f"version of {name}": value for name, value in installed_versions().items()}
    return run_input.origin | asdict(settings) | {"fingerprint of the data": run_input.fingerprint()} | versions


def run(
    run_input: RunInput,
    settings: RunSettings = RunSettings(),
    *,
    callback: RunCallback | None = None,
    training: UnfinishedTraining | None = None,
    resume: bool = False,
) -> RunResult:
    """Trains and evaluates a model. With checkpoints in `training`, an interrupted run can be resumed."""
    started = time.perf_counter()
    settings.check_input(run_input)
    notes, titles, truth = list(run_input.notes), settings.titles(), run_input.data.y
    held_out = run_input.held_out.nonzero().squeeze(1)
    resumed = training is not None and training.open(resume=resume)
    if resume and not resumed:
        notes.append("No interrupted run was found; this run started from the beginning.")
    data = copy.copy(run_input.data).to(settings.device)  # PyG moves a Data in place
    curves: dict[str, History] = {}
    accuracy: dict[str, float | None] = {"reference": None, "model": None}
    seconds: dict[str, float | None] = dict(accuracy)

    def fit(model: NodeClassifier, part: str) -> Tensor:
        start = time.perf_counter()
        progress = None if callback is None else partial(callback, part)
        model.fit(data, callback=progress, checkpoint=None if training is None else training.checkpoint(part))
        seconds[part] = time.perf_counter() - start
        probabilities = model.predict_proba().cpu()
        if len(held_out) >= FEWEST_HELD_OUT:
            accuracy[part] = _accuracy(probabilities.argmax(1), truth, held_out)
        curves.update({f"{titles[part]}: {stage}": values for stage, values in model.history_.items() if values})
        return probabilities

    reference_predicted = None
    if not run_input.has_features:
        notes.append(ONLY_GRAPH)
    elif run_input.is_stored:
        notes.append(NO_REFERENCE)
    elif settings.reference_method is not None:
        reference = build_model(settings.reference_method, epochs=settings.epochs, seed=settings.seed)
        reference_predicted = fit(reference, "reference").argmax(1)
    model = settings.model(run_input.is_large)
    if isinstance(model, KernelRidge) and run_input.is_large:
        notes.append(FEW_KERNELS)
    measured, measured_labels = fit(model, "model"), model.labels_.cpu()
    if accuracy["model"] is None:
        notes.append("Accuracy is unknown, because fewer than two labels were held out.")
    additions = _additions(model, truth, held_out, settings.seed) if model.accepts_labels else ()
    features, distances, table = getattr(model, "features_", None), None, None
    if inner := distance_features(features):
        distances = torch.stack([member.distances(model.data_) for member in inner]).mean(0).permute(1, 0, 2).cpu()
    if run_input.restores_labels and len(held_out):
        if model.accepts_labels:
            model.add_labels(held_out, truth[held_out])
        notes.append(LABELS_RESTORED if model.accepts_labels else NO_ADDITIONS)
    model.metadata_ = {"dataset": run_input.name, "classes": run_input.classes}
    if not run_input.is_stored:  # names of nodes on disk stay there
        model.metadata_["ids"] = list(run_input.ids)
    if run_input.columns is not None:
        model.metadata_["columns"] = asdict(run_input.columns)
    final = model.predict_proba().cpu()
    if features is not None:
        model.metadata_["feature_names"] = feature_names(inner[0], run_input.classes)
        table = features.features(model.data_).cpu()
    seconds["all"] = time.perf_counter() - started
    return RunResult(
        run_input, settings, model, accuracy, seconds, additions, tuple(notes), final, model.labels_.cpu(), measured,
        measured_labels, distances, table, curves, resumed, reference_predicted,
    )  # fmt: skip


def distance_features(features: Any) -> list[DistanceFeatures]:
    """Returns the fitted distance features inside ensembles and self-training."""
    if isinstance(features, SelfTraining):
        return distance_features(features.model_)
    if isinstance(features, Ensemble):
        return [inner for member in features.members_ for inner in distance_features(member)]
    return [features] if isinstance(features, DistanceFeatures) else []


def feature_names(features: DistanceFeatures, classes: list[str]) -> list[str]:
    """Returns feature names with the names of classes: "class red, t=1" instead of "class 2, t=1"."""
    per_class = [f"class {name}, t={t:g}" for t in features.times for name in classes]
    return per_class + features.feature_names_[len(per_class) :]


def installed_versions() -> dict[str, str]:
    """Returns the versions of the packages that numbers may depend on."""
    versions = {"python": platform.python_version()}
    for name in ("lggd", "torch", "torch-geometric", "numpy", "numba"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # a source tree that was never installed
            versions[name] = "unknown"
    return versions


def _accuracy(predicted: Tensor, truth: Tensor, nodes: Tensor) -> float:
    return 100 * int((predicted[nodes] == truth[nodes]).sum()) / len(nodes)


def _additions(model: NodeClassifier, truth: Tensor, nodes: Tensor, seed: int) -> tuple[LabelAddition, ...]:
    """Adds labels of held-out nodes in batches, measures accuracy on those never added, and restores the labels."""
    if len(nodes) < FEWEST_TO_REVEAL:
        return ()
    order = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    batch = len(nodes) // REVEALED_SHARE
    tested = order[REVEALED * batch :]
    labels, log, additions = model.labels_, list(model.additions_), []
    for revealed in range(REVEALED + 1):
        new = order[max(revealed - 1, 0) * batch : revealed * batch]
        start = time.perf_counter()
        if len(new):
            model.add_labels(new, truth[new])
        predicted = model.predict().cpu()
        milliseconds = 1000 * (time.perf_counter() - start)
        accuracy = _accuracy(predicted, truth, tested)
        additions.append(LabelAddition(int((model.labels_ >= 0).sum()), accuracy, milliseconds, len(tested)))
    model._set_labels(labels)
    model.additions_ = log
    return tuple(additions)
