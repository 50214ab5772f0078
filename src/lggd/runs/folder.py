"""The folder that a run leaves behind: predictions, features, the model, its settings and a report, all or none."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd.data.output_files import write_features, write_predictions
from lggd.data.splits import fingerprint
from lggd.estimator import storage
from lggd.estimator.fit_task import read_graph
from lggd.files import check_folder_writable, replacing_folder
from lggd.report import page
from lggd.report.content import RunReport
from lggd.report.placement import place
from lggd.runs.run import Outcome, installed_versions

MARKER = "run.json"
PREDICTIONS, FEATURES, MODEL, SETTINGS, REPORT = (
    "predictions.csv", "features.parquet", "model", "settings.json", "report.html",
)  # fmt: skip


def check_run_folder(out: str | Path) -> Path:
    """The path, if a run may be written there. Asked before training."""
    return check_folder_writable(out, MARKER)


def write_run(out: str | Path, outcome: Outcome, facts: Mapping[str, Any], *, command: str, report: bool) -> None:
    """Puts everything into the folder `out`, whole or not at all; it replaces an earlier run there."""
    subject, model = outcome.subject, outcome.model
    settings = settings_record(outcome, command)
    with replacing_folder(out, MARKER) as folder:
        write_predictions(
            folder / PREDICTIONS, subject.ids, subject.classes, outcome.probabilities, labels=outcome.given
        )
        write_features(folder / FEATURES, subject.ids, outcome.feature_names, outcome.features)
        model.save(folder / MODEL)
        storage.write_json(folder / SETTINGS, settings)
        if report:
            page.write(run_report(outcome, settings), folder / REPORT)
        storage.write_json(folder / MARKER, facts)


def run_facts(outcome: Outcome, out: str | Path, *, report: bool) -> dict[str, Any]:
    """A run in short, as `run.json` keeps it."""
    subject, settings = outcome.subject, outcome.settings
    validation = getattr(subject.data, "val_mask", None)
    return {
        "dataset": subject.name,
        "backbone": settings.backbone,
        "features": type(outcome.model.features_).__name__.lower(),
        "preset": settings.preset,
        "seed": settings.seed,
        "device": settings.device,
        "nodes": len(subject.ids),
        "edges": subject.num_edges,
        "classes": subject.classes,
        "labelled": int((outcome.measured_given >= 0).sum()),
        "validation": 0 if validation is None else int(validation.sum()),
        "heldout": int(subject.held_out.sum()),
        "accuracy": dict(outcome.accuracy),
        "seconds": outcome.seconds["all"],
        "training_seconds": {name: outcome.seconds[name] for name in outcome.accuracy},
        "additions": [
            {"labels": a.labels, "accuracy": a.accuracy, "milliseconds": a.milliseconds} for a in outcome.additions
        ],
        "notes": list(outcome.notes),
        "resumed": outcome.resumed,
        "out": str(out),
        "files": [PREDICTIONS, FEATURES, f"{MODEL}/", SETTINGS, MARKER, *[REPORT] * report],
    }


def settings_record(outcome: Outcome, command: str) -> dict[str, Any]:
    """Every setting as it was in the end, presets and defaults spelt out, and what else the numbers depend on."""
    model, settings = outcome.model, outcome.settings
    backbone = storage.to_plain(model.backbone, "backbone")
    optimization = storage.to_plain(model.optimization, "optimization")
    raw = None if outcome.accuracy["raw"] is None and outcome.seconds["raw"] is None else backbone
    return {
        "command": command,
        "data": dict(outcome.subject.origin),
        "split_fingerprint": fingerprint(outcome.subject.data),
        "data_fingerprint": outcome.subject.fingerprint(),
        "seed": settings.seed,
        "device": settings.device,
        "preset": settings.preset,
        "lggd": {
            "features": storage.to_plain(model.features_, "features"),
            "backbone": backbone,
            "optimization": optimization,
        },
        "raw": None if raw is None else {"backbone": raw, "optimization": optimization},
        "versions": installed_versions(),
    }


def run_report(outcome: Outcome, settings: Mapping[str, Any]) -> RunReport:
    """What the page shows: predictions as they were when the accuracy was measured."""
    subject, model = outcome.subject, outcome.model
    probabilities = outcome.measured_probabilities
    return RunReport(
        title=f"LGGD on {subject.name}",
        dataset=subject.name,
        backbone=outcome.settings.backbone,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=installed_versions()["lggd"],
        machine=f"{platform.system()} {platform.machine()}, {outcome.settings.device}",
        seconds=outcome.seconds["all"] or 0.0,
        settings=settings,
        num_nodes=len(subject.ids),
        num_edges=subject.num_edges,
        classes=subject.classes,
        ids=subject.ids,
        accuracy=outcome.accuracy,
        heldout=int(subject.held_out.sum()),
        labelled=int((outcome.measured_given >= 0).sum()),
        curves=outcome.curves,
        times=model.features_.settings.times,  # type: ignore[union-attr]
        distances=outcome.distances.numpy(),
        positions=_positions(subject.data),
        edges=subject.data.edge_index.numpy(),
        truth=subject.data.y.numpy(),
        given=outcome.measured_given.numpy(),
        predicted=probabilities.argmax(1).numpy(),
        probabilities=probabilities.numpy(),
        tested=subject.held_out.numpy(),
        additions=outcome.additions,
        notes=outcome.notes,
    )


def _positions(data: Any) -> NDArray[np.float32]:
    """Where the data say that nodes lie, if that is in the plane; else where their edges put them."""
    given = getattr(data, "pos", None)
    if given is not None and given.shape[1] == 2:
        return np.asarray(given.cpu().numpy(), np.float32)
    return place(read_graph(data))
