"""The folder of a run: predictions, features, the model, its settings and a report, written atomically."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lggd.data.output_files import write_features, write_predictions
from lggd.data.splits import fingerprint
from lggd.estimator import storage
from lggd.estimator.inputs import read_graph
from lggd.estimator.settings import to_plain
from lggd.report.graph_layout import layout_graph
from lggd.report.html import write_page
from lggd.report.page import render
from lggd.report.run_report import McNemarTest, RunReport
from lggd.runs.refresh import FEATURES, MODEL, REPORT, SETTINGS, SUMMARY, predictions_name
from lggd.runs.run import RunResult, distance_features, installed_versions
from lggd.system.files import check_folder_writable, locked_folder, replacing_folder

MARKER = SUMMARY


def check_run_folder(out: str | Path) -> Path:
    """Raises if a run cannot be written there; call it before training."""
    return check_folder_writable(out, MARKER)


def write_run(
    out: str | Path,
    result: RunResult,
    *,
    command: str = "lggd run",
    report: bool = True,
    on_wait: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Writes all files to the folder `out`, replacing an earlier run; returns the summary written to `run.json`.

    Waits for commands that change the model of the earlier run, and calls `on_wait` if that takes long.
    """
    run_input, settings = result.input, settings_record(result, command)
    facts = run_facts(result, out, report=report)
    earlier = Path(out) / MODEL
    lock = locked_folder(earlier, on_wait) if earlier.is_dir() else nullcontext()
    with lock, replacing_folder(out, MARKER) as folder:
        predictions = folder / predictions_name(result.model)
        write_predictions(predictions, run_input.ids, run_input.classes, result.probabilities, result.labels)
        if result.features is not None:
            names = result.model.metadata_["feature_names"]
            write_features(folder / FEATURES, run_input.ids, names, result.features)
        result.model.save(folder / MODEL)
        storage.write_json(folder / SETTINGS, settings)
        if REPORT in facts["files"]:
            write_page(render(run_report(result, settings)), folder / REPORT)
        storage.write_json(folder / MARKER, facts)
    return facts


def run_facts(result: RunResult, out: str | Path, *, report: bool) -> dict[str, Any]:
    run_input, settings = result.input, result.settings
    report = report and not run_input.is_stored  # a page shows a graph that a browser can hold
    validation = getattr(run_input.data, "val_mask", None)
    files = [predictions_name(result.model), *[FEATURES] * (result.features is not None), f"{MODEL}/", SETTINGS, MARKER]
    return {
        "dataset": run_input.name, "method": settings.method, "backbone": settings.backbone_name,
        "preset": settings.preset, "seed": settings.seed, "device": settings.device,
        "nodes": len(run_input.ids), "edges": run_input.num_edges, "classes": run_input.classes,
        "labelled": int((result.measured_labels >= 0).sum()),
        "validation": 0 if validation is None else int(validation.sum()),
        "heldout": int(run_input.held_out.sum()),
        "titles": settings.titles(), "accuracy": dict(result.accuracy), "seconds": result.seconds["all"],
        "training_seconds": {part: result.seconds[part] for part in result.accuracy}, "p_value": p_value(result),
        "additions": [asdict(addition) for addition in result.additions],
        "notes": list(result.notes), "resumed": result.resumed, "out": str(out),
        "files": files + [REPORT] * report,
    }  # fmt: skip


def p_value(result: RunResult) -> float | None:
    """That of McNemar's exact test of the model and the reference on held-out nodes; None without both accuracies."""
    if result.reference_predicted is None or None in result.accuracy.values():
        return None
    tested = result.input.held_out.cpu()
    y, model, reference = (
        each.cpu()[tested].numpy()
        for each in (result.input.data.y, result.measured_probabilities.argmax(1), result.reference_predicted)
    )
    return McNemarTest.of(model == y, reference == y).p


def settings_record(result: RunResult, command: str) -> dict[str, Any]:
    """Returns every setting, including defaults, and everything else that the numbers depend on."""
    settings = result.settings
    return {
        "command": command, "data": result.input.origin, "split_fingerprint": fingerprint(result.input.data),
        "data_fingerprint": result.input.fingerprint(), "seed": settings.seed, "device": settings.device,
        "method": settings.method, "preset": settings.preset, "model": to_plain(result.model, "model"),
        "reference": None if result.seconds["reference"] is None else settings.reference_method,
        "versions": installed_versions(),
    }  # fmt: skip


def run_report(result: RunResult, settings: Mapping[str, Any]) -> RunReport:
    """Returns the content of the page, with the predictions for which accuracy was measured."""
    tensors: Any = result  # the page converts them to arrays
    run_input, titles, probabilities = result.input, result.settings.titles(), tensors.measured_probabilities
    data, inner = run_input.data, distance_features(getattr(result.model, "features_", None))
    pos: Any = getattr(data, "pos", None)
    is_drawn = pos is not None and pos.shape[1] == 2
    positions = np.asarray(pos.cpu().numpy(), np.float32) if is_drawn else layout_graph(read_graph(data))
    return RunReport(
        title=f"{titles['model']} on {run_input.name}", dataset=run_input.name, titles=titles,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), version=installed_versions()["lggd"],
        machine=f"{platform.system()} {platform.machine()}, {result.settings.device}",
        seconds=result.seconds["all"] or 0.0, settings=settings, num_edges=run_input.num_edges,
        classes=run_input.classes, ids=run_input.ids, accuracy=result.accuracy, curves=result.curves,
        times=inner[0].times if inner else (),
        positions=positions, edges=data.edge_index, y=data.y, additions=result.additions, notes=result.notes,
        distances=tensors.distances, labels=tensors.measured_labels, predicted=probabilities.argmax(1),
        probabilities=probabilities, test_mask=tensors.input.held_out,
        reference_predicted=tensors.reference_predicted,
    )  # fmt: skip
