"""One run on one graph: trains a model and a network for reference, measures both, and writes all of it to a folder."""

from __future__ import annotations

import copy
import datetime
import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd._system.files import replacing_folder, write_text
from lggd.app.report.graph_layout import layout_graph
from lggd.app.report.page import render
from lggd.app.report.run_report import LabelAddition, McNemarTest, RunReport
from lggd.app.runs.methods import RunSettings, build_model, installed_versions
from lggd.app.runs.run_input import MIN_HELD_OUT, RunInput, data_fingerprint
from lggd.app.tables.output_files import write_features, write_predictions
from lggd.closed_form import KernelRidge
from lggd.datasets.by_name import split_fingerprint
from lggd.errors import InputError
from lggd.estimator import storage
from lggd.estimator.member import Member
from lggd.estimator.settings import to_plain
from lggd.features.distance_features import DistanceFeatures
from lggd.inputs import NodeData
from lggd.models import Ensemble, SelfTraining
from lggd.progress import Callback, Progress
from lggd.training.engine import History

# The names of files in the folder of a run, and of the model in it.
SUMMARY, SETTINGS, REPORT = "run.json", "settings.json", "report.html"
PREDICTIONS, FEATURES, MODEL = "predictions.csv", "features.csv", "model"
MIN_TO_REVEAL = 100  # with fewer held-out nodes, the gain of new labels would be smaller than the noise
REVEALED, REVEALED_SHARE = 3, 10  # three batches of a tenth of the held-out labels

UNKNOWN_ACCURACY = "Accuracy is unknown, because fewer than two labels were held out."
ONLY_GRAPH = "The nodes have no features: only the graph is used, and there is no network to compare with."
NO_REFERENCE = "The graph is on disk: no network is trained for comparison, because it would need all edges in memory."
FEW_KERNELS = (
    "The graph is large: it was fitted by KernelRidge.large(), which chooses among few kernels, without distances."
)
NO_ADDITIONS = "The method cannot add labels without training: the saved model does not use the held-out labels."
LABELS_RESTORED = (
    "After accuracy was measured, the held-out labels were added without training: the model, its predictions and its "
    "features use all labels."
)
REPORT_WITHOUT_THEM = "The report shows the predictions without the held-out labels."


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
    model: Member
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
    reference_predicted: Tensor | None = None

    @cached_property
    def comparison(self) -> McNemarTest | None:
        """McNemar's exact test of the model and the reference on held-out nodes; None without both."""
        if self.reference_predicted is None or None in self.accuracy.values():
            return None
        tested = self.input.held_out.cpu()
        y = self.input.data.y.cpu()[tested]
        predictions = (self.measured_probabilities.argmax(1), self.reference_predicted)
        return McNemarTest.of(*((each[tested] == y).numpy() for each in predictions))


def run(run_input: RunInput, settings: RunSettings = RunSettings(), *, callback: Callback | None = None) -> RunResult:
    """Trains and evaluates a model and a reference; stages of progress begin with the title of the one in training."""
    started = time.perf_counter()
    settings.check_input(run_input)
    notes, truth = list(run_input.notes), run_input.data.y
    held_out = run_input.held_out.nonzero().squeeze(1)
    data = copy.copy(run_input.data).to(settings.device)  # PyG moves a Data in place
    accuracy: dict[str, float | None] = {"reference": None, "model": None}
    seconds, curves = dict(accuracy), dict[str, History]()

    def fit(model: Member, part: str) -> Tensor:
        title, start = settings.titles()[part], time.perf_counter()

        def report(progress: Progress) -> None:
            if callback is not None:
                callback(replace(progress, stage=f"{title}: {progress.stage}"))

        model.fit(data, callback=report)
        seconds[part] = time.perf_counter() - start
        probabilities = model.predict_proba().cpu()
        if len(held_out) >= MIN_HELD_OUT:
            accuracy[part] = _accuracy(probabilities.argmax(1), truth, held_out)
        curves.update({f"{title}: {stage}": values for stage, values in model.history_.items() if values})
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
        notes.append(UNKNOWN_ACCURACY)
    additions = _additions(model, truth, held_out, settings.seed) if model.accepts_labels else ()
    distances = _distances(model)

    if run_input.restores_labels and len(held_out):
        if model.accepts_labels:
            model.add_labels(held_out, truth[held_out])
        notes.append(LABELS_RESTORED if model.accepts_labels else NO_ADDITIONS)
    model.metadata_ = _metadata(model, run_input)
    probabilities, features = model.predict_proba().cpu(), getattr(model, "features_", None)
    table = None if features is None else features.features(model.data_).cpu()
    seconds["all"] = time.perf_counter() - started
    return RunResult(
        input=run_input, settings=settings, model=model, accuracy=accuracy, seconds=seconds, additions=additions,
        notes=tuple(notes), probabilities=probabilities, labels=model.labels_.cpu(), measured_probabilities=measured,
        measured_labels=measured_labels, distances=distances, features=table, curves=curves,
        reference_predicted=reference_predicted,
    )  # fmt: skip


def _accuracy(predicted: Tensor, truth: Tensor, nodes: Tensor) -> float:
    return 100 * int((predicted[nodes] == truth[nodes]).sum()) / len(nodes)


def _additions(model: Member, truth: Tensor, nodes: Tensor, seed: int) -> tuple[LabelAddition, ...]:
    """Adds labels of held-out nodes in batches, measures accuracy on those never added, and restores the labels."""
    if len(nodes) < MIN_TO_REVEAL:
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


def distance_features(features: Any) -> list[DistanceFeatures]:
    """Returns the fitted distance features inside ensembles and self-training."""
    if isinstance(features, SelfTraining):
        return distance_features(features.model_)
    if isinstance(features, Ensemble):
        return [inner for member in features.members_ for inner in distance_features(member)]
    return [features] if isinstance(features, DistanceFeatures) else []


def _distances(model: Member) -> Tensor | None:
    """The distances `[T, N, K]` behind the predictions, means over the members of an ensemble; None without any."""
    inner = distance_features(getattr(model, "features_", None))
    if not inner:
        return None
    return torch.stack([member.distances(model.data_) for member in inner]).mean(0).permute(1, 0, 2).cpu()


def feature_names(features: DistanceFeatures, classes: list[str]) -> list[str]:
    """Returns feature names with the names of classes: "class red, t=1" instead of "class 2, t=1"."""
    per_class = [f"class {name}, t={t:g}" for t in features.times for name in classes]
    return per_class + features.feature_names_[len(per_class) :]


def _metadata(model: Member, run_input: RunInput) -> dict[str, Any]:
    """The names that are saved with a model."""
    metadata: dict[str, Any] = {"dataset": run_input.name, "classes": run_input.classes}
    if not run_input.is_stored:  # names of nodes on disk stay there
        metadata["ids"] = list(run_input.ids)
    if run_input.columns is not None:
        metadata["columns"] = asdict(run_input.columns)
    if inner := distance_features(getattr(model, "features_", None)):
        metadata["feature_names"] = feature_names(inner[0], run_input.classes)
    return metadata


# -- the folder of a run ----------------------------------------------------------------------------------------------


def predictions_name(model: Member) -> str:
    """The file of the predictions: a table of text, or of a graph on disk one that is faster to write and to read."""
    return PREDICTIONS if model.data_.graph is None else f"{Path(PREDICTIONS).stem}.parquet"


def write_tables(
    folder: Path, model: Member, ids: Sequence[str], classes: Sequence[str], probabilities: Tensor,
    features: Tensor | None,
) -> list[str]:  # fmt: skip
    """Writes the tables of predictions and, if there are any, features; returns the names of the files."""
    files = [predictions_name(model)]
    write_predictions(folder / files[0], ids, classes, probabilities, model.labels_.cpu())
    if features is not None:
        write_features(folder / FEATURES, ids, model.metadata_["feature_names"], features)
        files.append(FEATURES)
    return files


def now() -> str:
    """The time in ISO 8601, as it is recorded."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def read_object(path: Path, rule: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError("it is not an object")
    except (ValueError, TypeError) as error:
        raise InputError(path, rule, but=f"it is damaged: {error}") from error
    return content


def write_run(
    out: str | Path,
    result: RunResult,
    *,
    command: str = "lggd run",
    report: bool = True,
) -> dict[str, Any]:
    """Writes all files to the folder `out`, replacing an earlier run; returns the summary written to `run.json`.

    Waits for commands that change the model of the earlier run.
    """
    run_input, settings = result.input, settings_record(result, command)
    facts = run_facts(result, out, report=report)
    with replacing_folder(out, SUMMARY) as folder:
        names = run_input.ids, run_input.classes
        write_tables(folder, result.model, *names, result.probabilities, result.features)
        result.model.save(folder / MODEL)
        storage.write_json(folder / SETTINGS, settings)
        if REPORT in facts["files"]:
            write_text(folder / REPORT, render(run_report(result, settings)))
        storage.write_json(folder / SUMMARY, facts)
    return facts


def input_facts(run_input: RunInput, settings: RunSettings, labels: Tensor) -> dict[str, Any]:
    """The input and settings of a run; `labels [N]` are those that it was fitted to, -1 elsewhere."""
    validation = getattr(run_input.data, "val_mask", None)
    return {
        "dataset": run_input.name, "method": settings.method, "backbone": settings.backbone_name,
        "preset": settings.preset, "seed": settings.seed, "device": settings.device,
        "nodes": len(run_input.ids), "edges": run_input.num_edges, "classes": run_input.classes,
        "labelled": int((labels >= 0).sum()), "validation": 0 if validation is None else int(validation.sum()),
        "heldout": int(run_input.held_out.sum()), "titles": settings.titles(),
    }  # fmt: skip


def run_facts(result: RunResult, out: str | Path, *, report: bool) -> dict[str, Any]:
    report = report and not result.input.is_stored  # a page shows a graph that a browser can hold
    files = [
        predictions_name(result.model),
        *[FEATURES] * (result.features is not None),
        f"{MODEL}/",
        SETTINGS,
        SUMMARY,
    ]
    return input_facts(result.input, result.settings, result.measured_labels) | {
        "accuracy": dict(result.accuracy), "seconds": result.seconds["all"],
        "training_seconds": {part: result.seconds[part] for part in result.accuracy},
        "p_value": None if result.comparison is None else result.comparison.p,
        "additions": [asdict(addition) for addition in result.additions],
        "notes": run_notes(result, report=report), "out": str(out),
        "files": files + [REPORT] * report,
    }  # fmt: skip


def run_notes(result: RunResult, *, report: bool) -> list[str]:
    """The notes of a run, with or without a report."""
    shown_before = report and not torch.equal(result.labels, result.measured_labels)
    return [*result.notes, *[REPORT_WITHOUT_THEM] * shown_before]


def settings_record(result: RunResult, command: str) -> dict[str, Any]:
    """Returns every setting, including defaults, and everything else that the numbers depend on."""
    settings = result.settings
    return {
        "command": command, "data": result.input.origin, "split_fingerprint": split_fingerprint(result.input.data),
        "data_fingerprint": data_fingerprint(result.input.data), "seed": settings.seed, "device": settings.device,
        "method": settings.method, "preset": settings.preset, "model": to_plain(result.model, "model"),
        "reference": None if result.seconds["reference"] is None else settings.reference_method,
        "versions": installed_versions(),
    }  # fmt: skip


def run_report(result: RunResult, settings: Mapping[str, Any]) -> RunReport:
    """Returns the content of the page, with the predictions for which accuracy was measured."""
    run_input, titles, probabilities = result.input, result.settings.titles(), result.measured_probabilities
    data, inner = run_input.data, distance_features(getattr(result.model, "features_", None))
    pos = getattr(data, "pos", None)
    return RunReport(
        title=f"{titles['model']} on {run_input.name}", dataset=run_input.name, titles=titles, created=now(),
        version=installed_versions()["lggd"],
        machine=f"{platform.system()} {platform.machine()}, {result.settings.device}",
        seconds=result.seconds["all"] or 0.0, settings=settings, num_edges=run_input.num_edges,
        classes=run_input.classes, ids=run_input.ids, accuracy=result.accuracy, curves=result.curves,
        times=inner[0].times if inner else (), distances=result.distances,
        positions=pos if pos is not None and pos.shape[1] == 2 else layout_graph(NodeData.read(data).undirected_graph),
        edges=data.edge_index, y=data.y, labels=result.measured_labels, predicted=probabilities.argmax(1),
        probabilities=probabilities, test_mask=run_input.held_out, additions=result.additions,
        notes=run_notes(result, report=True),
        comparison=result.comparison,
    )  # fmt: skip
