"""Saved models: lggd predict, and lggd add-labels, remove-labels and update, which change one without training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option

from lggd.app.cli.options import command, file
from lggd.app.cli.run import StoredOn, predict_on_cluster
from lggd.app.cli.terminal import Terminal, summary, table
from lggd.errors import InputError
from lggd.text import counted, number

if TYPE_CHECKING:
    from torch import Tensor

    from lggd.app.runs.saved_model import ModelChange, SavedModel

UNCERTAIN = SHOWN = 10
PREDICTIONS = "predictions.csv"

NEW = "Write the new predictions to this file, too: .csv, .tsv or .parquet."
NEXT_TO_MODEL = f"{PREDICTIONS} next to the model"
CORRECT = "Replace known labels that differ."
LABELS = "Table of ids and labels (.csv, .tsv or .parquet), or NODE=CLASS."
Labels = Annotated[list[str], Argument(metavar="LABELS...", help=LABELS, show_default=False)]
NODES = "Labelled nodes, by name."
Nodes = Annotated[list[str], Argument(metavar="NODES...", help=NODES, show_default=False)]
NEW_NODES = "Table of new nodes: an id, and the features of training. .csv, .tsv or .parquet."
NEW_EDGES = "Table of new edges: source, target and, if there are weights, weight. .csv, .tsv, .parquet or .npz."
LABEL_TABLE = "Table of ids and labels, of known or new nodes."
MODEL = "Folder written by lggd run, or a saved model."
ModelFolder = Annotated[Path, Argument(metavar="MODEL", help=MODEL, show_default=False)]


@command({"address": "--cluster"})
def predict_command(
    terminal: Terminal,
    model: ModelFolder,
    out: Path | None = file(None, "Write all predictions to this file: .csv, .tsv or .parquet."),
    cluster: StoredOn = None,
) -> None:
    """Predict the class of every node with a saved model.

    Prints the number of nodes of each class, and the least certain nodes,
    whose labels would help most.

    Example, after lggd run digits:

        lggd predict out/digits

    Example: write all predictions to a file:

        lggd predict out/digits --out predictions.csv

    Example: a graph on disk, from its labels, on a Ray cluster:

        lggd predict graphs/web --cluster auto --out predictions.parquet
    """
    with terminal.working("Loading lggd"):
        from lggd.app.runs.saved_model import SavedModel
        from lggd.app.tables.output_files import check_table_writable
    if out is not None:
        check_table_writable(out)
    solved: dict[str, Any] = {}
    if cluster is not None:
        predictions, solved = predict_on_cluster(terminal, model, cluster)
    else:
        with terminal.working(f"Predicting with {model}"):
            predictions = SavedModel(model).predict()
    if out is not None:
        with terminal.working(f"Writing {out}"):
            predictions.write(out)
    predicted = None
    if out is None and terminal.as_json:
        best = predictions.probabilities.argmax(1).tolist()
        predicted = {name: predictions.classes[k] for name, k in zip(predictions.ids, best, strict=True)}
    facts = {
        "dataset": predictions.dataset, "nodes": len(predictions.ids), "classes": list(predictions.classes),
        "labelled": predictions.num_labelled, "counts": predictions.counts(),
        "least_certain": predictions.least_certain(UNCERTAIN), "out": None if out is None else str(out),
        "predictions": predicted,
    }  # fmt: skip
    terminal.print_result(facts | solved, _predictions(facts | solved))


@command()
def add_labels_command(
    terminal: Terminal,
    model: ModelFolder,
    labels: Labels,
    correct: bool = Option(False, "--correct", help=CORRECT),
    out: Path | None = file(None, NEW, show_default=NEXT_TO_MODEL),
) -> None:
    """Add labels to a saved model and predict again, without training.

    LABELS is a table with the columns id and label, whose header line is
    optional, or NODE=CLASS, any number of them. The model is saved with its
    new labels; adding them twice changes nothing. Labels that differ from
    the prediction are shown: one of the two is wrong.

    A label that differs from a known one is an error, or with --correct
    replaces it; lggd remove-labels removes labels.

    Example, after lggd run digits:

        lggd add-labels out/digits labels.csv

    Example of labels.csv, with labels for the nodes 17 and 42:

        id,label
        17,3
        42,8

    Example: the same without a file, where known labels may be wrong:

        lggd add-labels out/digits 17=3 42=8 --correct
    """
    adding = f"Adding {', '.join(labels)}"
    _change(terminal, model, out, adding, lambda saved: saved.add_labels(*labels, correct=correct))


@command()
def remove_labels_command(
    terminal: Terminal,
    model: ModelFolder,
    nodes: Nodes,
    out: Path | None = file(None, NEW, show_default=NEXT_TO_MODEL),
) -> None:
    """Remove labels from a saved model and predict again, without training.

    The nodes are unlabelled afterwards. Every class keeps at least one label.

    Example: the labels of nodes 17 and 42 may be wrong:

        lggd remove-labels out/digits 17 42

    Example: correct them instead:

        lggd add-labels out/digits 17=3 42=8 --correct
    """
    removing = f"Removing {counted(len(nodes), 'label')}"
    _change(terminal, model, out, removing, lambda saved: saved.remove_labels(nodes))


@command()
def update_command(
    terminal: Terminal,
    model: ModelFolder,
    nodes: Path | None = file(None, NEW_NODES),
    edges: Path | None = file(None, NEW_EDGES),
    labels: Path | None = file(None, LABEL_TABLE),
    correct: bool = Option(False, "--correct", help=CORRECT),
    out: Path | None = file(None, NEW, show_default=NEXT_TO_MODEL),
) -> None:
    """Add nodes, edges and labels to a saved model and predict again, without training.

    Any of the tables may be omitted. Nodes and classes have the names of the
    run that trained the model, and nodes its columns of features. Edges may
    join known and new nodes, and are listed once or in both directions;
    edges and labels that are known change nothing. The model is saved with
    all of them, or, if there is an error, not changed at all.

    Only some models support this; for others the error names the remedy.

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

    def change(saved: SavedModel) -> tuple[ModelChange, Tensor]:
        from lggd.app.runs.saved_model import update

        return update(saved, nodes, edges, labels, correct=correct)

    _change(terminal, model, out, f"Updating {model}", change)


def _change(
    terminal: Terminal, model: Path, out: Path | None, doing: str,
    change: Callable[[SavedModel], tuple[ModelChange, Tensor]],
) -> None:  # fmt: skip
    """Changes a saved model, writes it and its predictions, and prints what has changed."""
    with terminal.working("Loading lggd"):
        from lggd.app.runs.saved_model import SavedModel
        from lggd.app.tables.output_files import check_table_writable
    if out is not None:
        check_table_writable(out)
    with ExitStack() as opened:
        with terminal.working(f"Reading {model}"):
            saved = opened.enter_context(SavedModel.open(model))
            check_table_writable(saved.predictions)
        terminal.node_names = saved.ids
        written: dict[str, Any] = {"model": None, "out": str(out or saved.predictions), "refreshed": [], "outdated": []}
        with terminal.working(doing):
            effect, probabilities = change(saved)
            if effect.is_empty:
                saved.write(out or saved.predictions, probabilities)
            else:
                written |= {"model": str(saved.folder), **saved.save(out)}
        first = len(saved.ids) - effect.new_nodes
        predicted = [saved.classes[k] for k in probabilities[first:].argmax(1).tolist()]
        facts = {
            "dataset": saved.dataset, "nodes": len(saved.ids), "edges": saved.num_edges,
            "labelled": saved.num_labelled, "label_changes": len(saved.model.additions_), **asdict(effect),
            "predictions": dict(zip(saved.ids[first:], predicted, strict=True)), **written,
        }  # fmt: skip
    terminal.print_result(facts, _changed(facts))


def _predictions(facts: dict[str, Any]) -> Iterator[Table | str]:
    size = f"{facts['nodes']:,} nodes, {len(facts['classes'])} classes"
    yield summary(graph=f"{facts['dataset']}: {size}", labels=f"{facts['labelled']:,}")
    yield table("class", "nodes", rows=((name, f"{count:,}") for name, count in facts["counts"].items()))
    yield from facts.get("notes", ())
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


def _changed(facts: dict[str, Any]) -> Iterator[Table | str]:
    corrected = [(row["node"], row["before"], row["label"]) for row in facts["corrections"]]
    removed = [(row["node"], row["before"], _with_probability(row)) for row in facts["removals"]]
    differing = [(row["node"], row["label"], _with_probability(row)) for row in facts["conflicts"]]
    labels = {"new": facts["new_labels"], "corrected": len(corrected), "removed": len(removed)}
    yield summary(
        nodes=_count(facts["nodes"], new=facts["new_nodes"]),
        edges=_count(facts["edges"], new=facts["new_edges"], known=facts["known_edges"]),
        labels=_count(facts["labelled"], **labels, known=facts["known_labels"]),
        changed=f"{facts['changed']:,} of {facts['nodes'] - facts['new_nodes']:,} predictions",
        milliseconds=f"{number(facts['milliseconds'])} to change and predict",
        history=f"{counted(facts['label_changes'], 'change')} of labels so far",
    )
    title = "New labels that differ from the predictions: one of the two is wrong"
    yield from _first_rows("New nodes", "node", "predicted", rows=list(facts["predictions"].items()))
    yield from _first_rows("Corrected labels", "node", "was", "is", rows=corrected)
    yield from _first_rows("Removed labels", "node", "was labelled", "predicted now", rows=removed)
    yield from _first_rows(title, "node", "label", "was predicted", rows=differing)
    yield from _files_written(facts)


def _count(total: int, **parts: int) -> str:
    """A number and what has changed about it, such as "2 new, 1 known; 42 in total"."""
    changes = ", ".join(f"{count:,} {word}" for word, count in parts.items() if count)
    return f"{changes}; {total:,} in total" if changes else f"{total:,}"


def _files_written(facts: Mapping[str, Any]) -> Iterator[str]:
    others = [name for name in facts["refreshed"] if name != facts["out"]]
    model = [] if facts["model"] is None else [facts["model"]]
    yield f"Wrote {', '.join([facts['out'], *others, *model])}"
    for name in facts["outdated"]:
        yield f"{name} shows the model as it was trained. lggd run writes a new one."


def _with_probability(row: Mapping[str, Any]) -> str:
    return f"{row['predicted']} {100 * row['probability']:.1f} %"


def _first_rows(title: str, *columns: str, rows: Sequence[Sequence[str]]) -> Iterator[Table | str]:
    if rows:
        more = f" (the first {SHOWN} of {len(rows):,})" if len(rows) > SHOWN else ""
        yield f"{title}{more}:"  # not as the table's title, which would be as narrow as the table
        yield table(*columns, rows=rows[:SHOWN])
