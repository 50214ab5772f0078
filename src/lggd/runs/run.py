"""One run on one graph: a backbone without LGGD and with it, on the same nodes, and what more labels would bring."""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import torch
from torch import Tensor

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.errors import InputError
from lggd.features import GGD, LGGD
from lggd.memory import Memory
from lggd.models.classifier import LGGDClassifier
from lggd.models.memory_estimate import estimate_memory
from lggd.report.content import Addition
from lggd.runs.subject import FEWEST_HELD_OUT, Subject
from lggd.runs.training import UnfinishedTraining
from lggd.training.optimization import Optimization
from lggd.training.progress import History, Progress

BACKBONES: dict[str, GCN | GAT | ChebNet | JKNet | None] = {
    "gcn": GCN(),
    "gat": GAT(),
    "chebnet": ChebNet(),
    "jknet": JKNet(),
    "none": None,
}
# With fewer held-out nodes than this, what new labels bring would be lost in the noise.
ENOUGH_TO_REVEAL = 100
# What the stages of a fit are called beside those of the backbone alone.
CURVES = {"distances": "distances", "backbone": "backbone with LGGD"}
REVEALED, REVEALED_SHARE = 3, 10  # three times a tenth of them

# Called after every epoch with the part of the run, "raw" or "lggd".
RunCallback = Callable[[str, Progress], None]


@dataclass(frozen=True)
class RunSettings:
    """What a run may be told. `epochs` bounds the training of the backbone; None leaves it as it is."""

    backbone: Literal["gcn", "gat", "chebnet", "jknet", "none"] = "gcn"
    preset: Literal["default", "paper", "release"] = "default"
    seed: int = 0
    epochs: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.backbone not in BACKBONES:
            raise InputError("backbone", f"be one of {', '.join(BACKBONES)}", repr(self.backbone))

    @property
    def optimization(self) -> Optimization:
        return Optimization() if self.epochs is None else replace(Optimization(), epochs=self.epochs)

    def without_lggd(self) -> LGGDClassifier:
        """The backbone on the node contents alone."""
        return LGGDClassifier(None, BACKBONES[self.backbone], self.optimization, self.seed)

    def with_lggd(self, has_contents: bool) -> LGGDClassifier:
        """The same backbone on distances: learned from node contents, or plain ones where there are none."""
        features = LGGD(preset=self.preset, seed=self.seed) if has_contents else GGD(seed=self.seed)
        return LGGDClassifier(features, BACKBONES[self.backbone], self.optimization, self.seed)

    def memory(self, subject: Subject) -> Memory:
        """What learning distances will take, on the device of the run."""
        data = copy.copy(subject.data).to(self.device)  # PyG moves a Data in place
        return estimate_memory(data, self.with_lggd(subject.has_contents))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came out of a run, on the CPU, for N nodes, K classes and T times.

    `model` is the one to keep. `probabilities [N, K]` and `given [N]` are its predictions and labels at the end;
    `measured_probabilities` and `measured_given` those that the accuracy was measured with, before held-out labels were
    given back to it; so are `distances [T, N, K]`. `curves` tell of every epoch of every stage. Accuracies are in per
    cent, None where unknown; `seconds` are those of the parts "raw" and "lggd", and of "all".
    """

    subject: Subject
    settings: RunSettings
    model: LGGDClassifier
    accuracy: Mapping[str, float | None]
    seconds: Mapping[str, float | None]
    additions: tuple[Addition, ...]
    notes: tuple[str, ...]
    probabilities: Tensor
    given: Tensor
    measured_probabilities: Tensor
    measured_given: Tensor
    distances: Tensor
    features: Tensor
    curves: Mapping[str, History]
    resumed: bool

    @property
    def feature_names(self) -> list[str]:
        """The features' names, with the classes' own names in them."""
        return feature_names(self.model.features_, self.subject.classes)


def described(subject: Subject, settings: RunSettings) -> dict[str, Any]:
    """All that the result of a run depends on, by name: what a resumed run must have in common with the first."""
    told = {name: getattr(settings, name) for name in RunSettings.__dataclass_fields__}
    versions = {f"version of {name}": found for name, found in installed_versions().items()}
    return {**subject.origin, **told, "fingerprint of the data": subject.fingerprint(), **versions}


def run(
    subject: Subject,
    settings: RunSettings = RunSettings(),
    *,
    progress: RunCallback | None = None,
    training: UnfinishedTraining | None = None,
    resume: bool = False,
) -> Outcome:
    """Trains and measures. With a folder for unfinished `training` it can be interrupted, and go on from there."""
    began = time.perf_counter()
    notes = list(subject.notes)
    resumed = training is not None and training.open(resume=resume)
    if resume and not resumed:
        notes.append("There was no interrupted run to resume, so this one started from the beginning.")
    data = copy.copy(subject.data).to(settings.device)  # PyG moves a Data in place

    def fit(model: LGGDClassifier, part: str) -> float:
        started = time.perf_counter()
        callback = None if progress is None else lambda told: progress(part, told)
        model.fit(data, callback=callback, checkpoint=None if training is None else training.checkpoint(part))
        return time.perf_counter() - started

    curves: dict[str, History] = {}
    accuracy: dict[str, float | None] = {"raw": None, "lggd": None}
    seconds: dict[str, float | None] = {"raw": None, "lggd": None}
    if settings.backbone != "none" and subject.has_contents:
        raw = settings.without_lggd()
        seconds["raw"] = fit(raw, "raw")
        accuracy["raw"] = _percent_right(raw.predict(), subject)
        curves["backbone without LGGD"] = raw.history_["backbone"]
    else:
        notes.append(_why_no_raw(subject))
    model = settings.with_lggd(subject.has_contents)
    seconds["lggd"] = fit(model, "lggd")
    curves |= {CURVES[stage]: history for stage, history in model.history_.items() if history}
    measured, given = model.predict_proba().cpu(), model.labels_.cpu()
    accuracy["lggd"] = _percent_right(measured.argmax(1), subject)
    if accuracy["lggd"] is None and not any("Accuracy is unknown" in note for note in notes):
        notes.append("Accuracy is unknown: fewer than two nodes with a known class were held out.")
    additions = _additions(model, subject, settings.seed)
    distances = model.features_.distances(model.data_).permute(1, 0, 2).cpu()  # type: ignore[union-attr]
    if subject.rejoins and bool(subject.held_out.any()):
        nodes = subject.held_out.nonzero().squeeze(1)
        model.add_labels(nodes, subject.data.y[nodes])
    model.metadata_ = {
        "dataset": subject.name,
        "ids": subject.ids,
        "classes": subject.classes,
        "feature_names": feature_names(model.features_, subject.classes),
    }
    final, features = model.predict_proba().cpu(), model.features_.features(model.data_).cpu()  # type: ignore[union-attr]
    seconds["all"] = time.perf_counter() - began
    return Outcome(
        subject, settings, model, accuracy, seconds, additions, tuple(notes), final, model.labels_.cpu(),
        measured, given, distances, features, curves, resumed,
    )  # fmt: skip


def feature_names(features: GGD | LGGD | None, classes: list[str]) -> list[str]:
    """`class 2, t=1` becomes `class red, t=1`."""
    if features is None:
        return []
    per_class = [f"class {name}, t={t:g}" for t in features.times for name in classes]
    return per_class + features.feature_names_[len(per_class) :]


def installed_versions() -> dict[str, str]:
    """The versions that numbers may depend on."""
    found = {"python": platform.python_version()}
    for name in ("lggd", "torch", "torch-geometric", "numpy", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that was never installed
            found[name] = "unknown"
    return found


def _why_no_raw(subject: Subject) -> str:
    if not subject.has_contents:
        return (
            "The nodes have no features to learn from, so plain distances (GGD) stand in for learned ones, "
            "and there is nothing to compare them with."
        )
    return "Without a backbone, each node gets the class that is nearest by distance; there is nothing to compare with."


def _percent_right(predicted: Tensor, subject: Subject) -> float | None:
    mask = subject.held_out
    if int(mask.sum()) < FEWEST_HELD_OUT:
        return None
    return _share_right(predicted, subject.data.y, mask.nonzero().squeeze(1))


def _share_right(predicted: Tensor, truth: Tensor, nodes: Tensor) -> float:
    right = int((predicted.cpu()[nodes] == truth[nodes]).sum())
    return 100 * right / len(nodes)


def _additions(model: LGGDClassifier, subject: Subject, seed: int) -> tuple[Addition, ...]:
    """What it brings to learn of a tenth of the held-out nodes, three times: per cent right on those never revealed.

    The same nodes are counted each time. It happens to a copy: the model itself learns of nothing.
    """
    nodes = subject.held_out.nonzero().squeeze(1)
    if len(nodes) < ENOUGH_TO_REVEAL:
        return ()
    order = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))]
    batch = len(nodes) // REVEALED_SHARE
    never = order[REVEALED * batch :]
    copied, truth = _copied(model), subject.data.y
    found = []
    for revealed in range(REVEALED + 1):
        new = order[(revealed - 1) * batch : revealed * batch] if revealed else order[:0]
        began = time.perf_counter()
        if len(new):
            copied.add_labels(new, truth[new])
        predicted = copied.predict().cpu()
        milliseconds = 1000 * (time.perf_counter() - began)
        known = int((copied.labels_ >= 0).sum())
        found.append(Addition(known, _share_right(predicted, truth, never), milliseconds))
    return tuple(found)


def _copied(model: LGGDClassifier) -> LGGDClassifier:
    """A model that takes in labels on its own, with the same numbers in it."""
    copied = copy.copy(model)
    copied.features_, copied.additions_ = copy.copy(model.features_), list(model.additions_)
    return copied
