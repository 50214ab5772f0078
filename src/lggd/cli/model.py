"""lggd predict and lggd add-labels: predict with a saved model, and add labels to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option

from lggd.cli.options import command, file
from lggd.cli.terminal import Terminal, summary, table
from lggd.report.formatting import counted

if TYPE_CHECKING:
    from lggd.runs.saved_model import SavedModel

LEAST_CERTAIN = 10
PREDICTIONS = "predictions.csv"
FLAGS = {"model": "MODEL"}

NEW = "Write the new predictions to this file: .csv, .tsv or .parquet."
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
        from lggd.data.table import check_table_writable
        from lggd.runs.saved_model import SavedModel
    if out is not None:
        check_table_writable(out)
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
    correct: bool = Option(False, "--correct", help="Replace known labels that differ."),
    out: Path | None = file(None, NEW, show_default=f"{PREDICTIONS} next to the model"),
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

    Example: labels that were wrong, too:

        lggd add-labels out/digits labels.csv --correct
    """
    saved, written = open_model(terminal, model, out)
    with terminal.working(f"Adding {labels}"):
        added, probabilities = saved.add_labels(labels, correct)
        if added.new or added.corrected:
            saved.save()
        # Written last, because lggd predict can write it again at any time.
        saved.write(written, probabilities)
    facts = {
        "dataset": saved.dataset, "nodes": len(saved.ids), **asdict(added), "labelled": saved.num_labelled,
        "additions": len(saved.model.additions_), "model": str(saved.folder), "out": str(written),
    }  # fmt: skip
    terminal.answer(facts, _added(facts))


def open_model(terminal: Terminal, model: Path, out: Path | None) -> tuple[SavedModel, Path]:
    """Loads a model that will be changed, and returns where its predictions will be written: beside it by default."""
    with terminal.working("Loading lggd"):
        from lggd.data.table import check_table_writable
        from lggd.runs.saved_model import SavedModel
    if out is not None:
        check_table_writable(out)
    with terminal.working(f"Reading {model}"):
        saved = SavedModel(model)
    within = saved.folder if saved.folder.name not in ("", "..") else saved.folder.resolve()
    return saved, check_table_writable(within.parent / PREDICTIONS if out is None else out)


def _predictions(facts: dict[str, Any]) -> Iterator[Table | str]:
    size = f"{facts['nodes']:,} nodes, {len(facts['classes'])} classes"
    yield summary(graph=f"{facts['dataset']}: {size}", labels=f"{facts['labelled']:,}")
    yield table("class", "nodes", rows=((name, f"{count:,}") for name, count in facts["counts"].items()))
    if facts["out"] is not None:
        yield f"Wrote {facts['out']}"
        return
    rows = []
    for row in facts["least_certain"]:
        pairs = zip(row["classes"], row["probabilities"], strict=True)
        rows.append([row["node"], *(f"{name} {100 * p:.1f} %" for name, p in pairs)])
    if rows:
        yield table("node", "predicted", "second", rows=rows, title="Least certain")
    yield "Write all predictions with --out FILE."


def _added(facts: dict[str, Any]) -> Iterator[Table | str]:
    used = facts["new"] + facts["corrected"]
    known = "" if used == facts["labels"] else f" of {facts['labels']:,}; the others were known"
    corrected = f", {facts['corrected']:,} corrected" if facts["corrected"] else ""
    yield summary(
        labels=f"{facts['new']:,} new{corrected}{known}; {facts['labelled']:,} in total",
        changed=f"{facts['changed']:,} of {facts['nodes']:,} predictions",
        milliseconds=f"{facts['milliseconds']:.3g} to add and predict",
        history=f"{counted(facts['additions'], 'addition')} so far",
    )
    yield f"Wrote {facts['out']}" + (f" and {facts['model']}" if used else "")
