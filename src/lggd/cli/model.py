"""lggd predict and lggd add-labels: predict with a saved model, and add labels to it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from rich.text import Text
from typer import Argument

from lggd.cli.options import command, file
from lggd.cli.terminal import Terminal, summary

LEAST_CERTAIN = 10
PREDICTIONS = "predictions.csv"
FLAGS = {"model": "MODEL"}

MODEL = "Folder written by lggd run, or a saved model."
ModelFolder = Annotated[Path, Argument(metavar="MODEL", help=MODEL, show_default=False)]


@command(FLAGS)
def predict_command(
    terminal: Terminal,
    model: ModelFolder,
    out: Path | None = file(None, "Write all predictions to this file: .csv, .tsv or .parquet."),
) -> None:
    """Predict the class of every node with a saved model.

    Prints the number of nodes of each class, and the least certain nodes,
    whose labels would help most.

    Example, after lggd run digits:

        lggd predict out/digits

    Example: write all predictions to a file:

        lggd predict out/digits --out predictions.csv
    """
    with terminal.working("Loading lggd"):
        from lggd.runs.saved_model import SavedModel
    _check_table(out)
    with terminal.working(f"Predicting with {model}"):
        saved = SavedModel(model)
        probabilities = saved.probabilities()
    if out is not None:
        saved.write(out, probabilities)
    predicted = probabilities.argmax(1).tolist()
    facts: dict[str, Any] = {
        "dataset": saved.dataset, "nodes": len(saved.ids), "classes": saved.classes,
        "labelled": saved.num_labelled, "counts": saved.counts(probabilities),
        "least_certain": saved.least_certain(probabilities, LEAST_CERTAIN),
        "out": None if out is None else str(out),
    }  # fmt: skip
    # Not printed as JSON if they were written to a file.
    by_name = {name: saved.classes[k] for name, k in zip(saved.ids, predicted, strict=True)}
    terminal.answer(facts | {"predictions": by_name if out is None else None}, _predictions(facts))


@command(FLAGS)
def add_labels_command(
    terminal: Terminal,
    model: ModelFolder,
    labels: Path = Argument(..., metavar="LABELS", help="Table of ids and labels: .csv, .tsv or .parquet."),
    out: Path | None = file(
        None,
        "Write the new predictions to this file: .csv, .tsv or .parquet.",
        show_default=f"{PREDICTIONS} next to the model",
    ),
) -> None:
    """Add labels to a saved model and predict again, without training.

    LABELS has the columns id and label; the header line is optional. The
    model is saved with its new labels; adding them twice changes nothing.

    Example, after lggd run digits:

        lggd add-labels out/digits labels.csv

    Example of labels.csv, with labels for the nodes 17 and 42:

        id,label
        17,3
        42,8
    """
    with terminal.working("Loading lggd"):
        from lggd.runs.saved_model import SavedModel
    _check_table(out)
    with terminal.working(f"Reading {model}"):
        saved = SavedModel(model)
    written = _default_out(saved.folder) if out is None else out
    _check_table(written)
    with terminal.working(f"Adding {labels}"):
        added, probabilities = saved.add_labels(labels)
        if added.new:
            saved.save()
        # Written last, because lggd predict can write it again at any time.
        saved.write(written, probabilities)
    facts = {
        "dataset": saved.dataset, "nodes": len(saved.ids), **asdict(added), "labelled": saved.num_labelled,
        "additions": len(saved.model.additions_), "model": str(saved.folder), "out": str(written),
    }  # fmt: skip
    terminal.answer(facts, _added(facts))


def _default_out(folder: Path) -> Path:
    parent = folder.parent if folder.name not in ("", "..") else folder.resolve().parent
    return parent / PREDICTIONS


def _check_table(out: Path | None) -> None:
    from lggd.data.table import TABLES, check_extension
    from lggd.files import check_writable

    if out is not None:
        check_extension(out, TABLES)
        check_writable(out)


def _predictions(facts: dict[str, Any]) -> list[Table | Text]:
    about = summary(
        {
            "graph": f"{facts['dataset']}: {facts['nodes']:,} nodes, {len(facts['classes'])} classes",
            "labels": f"{facts['labelled']:,}",
        }
    )
    counts = Table("class", "nodes")
    for name, count in facts["counts"].items():
        counts.add_row(Text(name), f"{count:,}")
    parts: list[Table | Text] = [about, counts]
    if facts["out"] is not None:
        return [*parts, Text(f"Wrote {facts['out']}")]
    if facts["least_certain"]:
        uncertain = Table("node", "predicted", "second", title="Least certain", title_justify="left")
        for row in facts["least_certain"]:
            pairs = zip(row["classes"], row["probabilities"], strict=True)
            uncertain.add_row(Text(row["node"]), *(Text(f"{name} {100 * p:.1f} %") for name, p in pairs))
        parts.append(uncertain)
    return [*parts, Text("Write all predictions with --out FILE.")]


def _added(facts: dict[str, Any]) -> list[Table | Text]:
    known = "" if facts["new"] == facts["labels"] else f" of {facts['labels']:,}; the others were known"
    about = summary(
        {
            "labels": f"{facts['new']:,} new{known}; {facts['labelled']:,} in total",
            "changed": f"{facts['changed']:,} of {facts['nodes']:,} predictions",
            "milliseconds": f"{facts['milliseconds']:.3g} to add and predict",
            "history": f"{facts['additions']:,} addition{'s' * (facts['additions'] != 1)} so far",
        }
    )
    return [about, Text(f"Wrote {facts['out']}" + (f" and {facts['model']}" if facts["new"] else ""))]
