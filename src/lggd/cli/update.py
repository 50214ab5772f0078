"""lggd update: add nodes, edges and labels to a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from typer import Option

from lggd.cli.model import (
    BESIDE,
    CORRECT,
    FLAGS,
    NEW,
    ModelFolder,
    files_written,
    label_tables,
    open_model,
    write_model,
)
from lggd.cli.options import command, file
from lggd.cli.terminal import Terminal, summary, table
from lggd.errors import InputError

NODES = "Table of new nodes: an id, and the features of training. .csv, .tsv or .parquet."
EDGES = "Table of new edges: source, target and, if there are weights, weight. .csv, .tsv, .parquet or .npz."
LABELS = "Table of ids and labels, of known or new nodes."
SHOWN = 10


@command(FLAGS)
def update_command(
    terminal: Terminal,
    model: ModelFolder,
    nodes: Path | None = file(None, NODES),
    edges: Path | None = file(None, EDGES),
    labels: Path | None = file(None, LABELS),
    correct: bool = Option(False, "--correct", help=CORRECT),
    out: Path | None = file(None, NEW, show_default=BESIDE),
) -> None:
    """Add nodes, edges and labels to a saved model and predict again, without training.

    Any of the tables may be omitted. Nodes and classes have the names of the
    run that trained the model, and nodes its columns of features. Edges may
    join known and new nodes, and are listed once or in both directions;
    edges and labels that are known change nothing. The model is saved with
    all of them, or, if there is an error, not changed at all.

    Only some models take nodes and edges; the others name the remedy.

    Example: a new person with two friends, one of them labelled now:

        lggd update out/people --nodes new.csv --edges friends.csv --labels labels.csv

    Example of new.csv, with the features height and age:

        id,height,age
        zoe,1.71,34

    Example of friends.csv and of labels.csv:

        source,target        id,label
        zoe,adam             adam,red
        zoe,eve
    """
    if nodes is None and edges is None and labels is None:
        raise InputError("--nodes", "be a table, or use --edges or --labels", "none of them", "Nothing would change.")
    with open_model(terminal, model, out) as saved:
        from lggd.runs.update import update

        with terminal.working(f"Updating {model}"):
            found, probabilities = update(saved, nodes, edges, labels, correct=correct)
            written = write_model(saved, probabilities, out, changed=not found.is_empty)
        predicted = [saved.classes[k] for k in probabilities.argmax(1).tolist()]
        first = len(saved.ids) - found.new_nodes
        facts = {
            "dataset": saved.dataset, "nodes": len(saved.ids), "edges": int(saved.model.data_.edge_index.shape[1]) // 2,
            "labelled": saved.num_labelled, **asdict(found),
            "predictions": dict(zip(saved.ids[first:], predicted[first:], strict=True)), **written,
        }  # fmt: skip
    terminal.answer(facts, _updated(facts))


def _updated(facts: dict[str, Any]) -> Iterator[Table | str]:
    corrected = f", {facts['corrected']:,} corrected" if facts["corrected"] else ""
    yield summary(
        nodes=f"{facts['new_nodes']:,} new; {facts['nodes']:,} in total",
        edges=f"{facts['new_edges']:,} new{_known(facts['known_edges'])}; {facts['edges']:,} in total",
        labels=f"{facts['new_labels']:,} new{corrected}{_known(facts['known_labels'])}; {facts['labelled']:,} in total",
        changed=f"{facts['changed']:,} of {facts['nodes'] - facts['new_nodes']:,} predictions",
        milliseconds=f"{facts['milliseconds']:.3g} to add and predict",
    )
    if facts["predictions"]:
        rows = list(facts["predictions"].items())[:SHOWN]
        more = len(facts["predictions"]) - len(rows)
        yield table("node", "predicted", rows=rows, title="New nodes" + (f", the first {SHOWN}" if more > 0 else ""))
    yield from label_tables(facts)
    yield from files_written(facts)


def _known(count: int) -> str:
    return f", {count:,} known" if count else ""
