"""Graphs on disk on a Ray cluster: `lggd run FOLDER --cluster` and `lggd predict FOLDER --cluster`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Option

from lggd.cli.terminal import Terminal, summary, table
from lggd.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from lggd.cluster import ClusterPrediction

ADDRESS = "Ray cluster to compute on: HOST:PORT of its head, or auto on one of its nodes."
STORED = f"{ADDRESS} For graphs on disk, which are solved in closed form."
TRIALS = f"{ADDRESS} Results are those of one machine."
StoredOn = Annotated[str | None, Option("--cluster", metavar="ADDRESS", help=STORED, show_default=False)]
TrialsOn = Annotated[str | None, Option("--cluster", metavar="ADDRESS", help=TRIALS, show_default=False)]
# Files of a run; the second marks the folder.
PREDICTIONS, SUMMARY = "predictions.parquet", "run.json"
HELD_OUT_SEED = 0


def run_on_cluster(terminal: Terminal, folder: str | None, address: str, share: float, out: Path | None) -> None:
    """Classifies the nodes of a stored graph, and measures accuracy on labels that are held out."""
    from lggd.system.files import check_folder_writable, replacing_folder

    path = _check_stored(folder)
    target = check_folder_writable(Path("out") / path.name if out is None else out, SUMMARY)
    found, labels, facts = _solve(terminal, path, address, share)
    with terminal.working(f"Writing {target}"), replacing_folder(target, SUMMARY) as new:
        _write(path, new / PREDICTIONS, facts["classes"], found, labels)
        facts |= {"out": str(target), "files": [PREDICTIONS, SUMMARY]}
        (new / SUMMARY).write_text(json.dumps(facts, indent=1))
    terminal.answer(facts, _tables(facts))


def predict_on_cluster(terminal: Terminal, folder: Path, address: str, out: Path | None) -> None:
    """Predicts the class of every node of a stored graph from all of its labels."""
    from lggd.data.output_files import check_table_writable

    path = _check_stored(str(folder))
    if out is not None:
        check_table_writable(out)
    found, labels, facts = _solve(terminal, path, address, 0.0)
    if out is not None:
        with terminal.working(f"Writing {out}"):
            _write(path, out, facts["classes"], found, labels)
    facts |= {"out": None if out is None else str(out), "files": [] if out is None else [str(out)]}
    terminal.answer(facts, _tables(facts))


def _check_stored(folder: str | None) -> Path:
    from lggd.graph.stored_graph import MANIFEST, is_stored_graph

    if folder is None or not is_stored_graph(folder):
        rule = f"be used with the folder of a graph on disk, which contains {MANIFEST}"
        remedy = "Build one with `lggd graph build`, or omit --cluster."
        raise InputError("--cluster", rule, "none" if folder is None else folder, remedy)
    return Path(folder).resolve()


def _solve(
    terminal: Terminal, folder: Path, address: str, share: float
) -> tuple[ClusterPrediction, Tensor, dict[str, Any]]:
    """The predictions, the labels that they are made from, and facts about them."""
    with terminal.working("Loading lggd"):
        import torch

        from lggd.cluster import connect, solve
        from lggd.graph.graph import Graph
    graph = Graph.open(folder, verify=False)
    stored = graph.stored
    if stored is None or stored.y is None:
        raise InputError(str(folder), "have labels", "none", "Build the graph with --label.")
    known = stored.y.clone()
    nodes = (known >= 0).nonzero().squeeze(1)
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(HELD_OUT_SEED))
    held = nodes[order[: round(share * len(nodes))]]
    labels = known.clone()
    labels[held] = -1
    began = time.perf_counter()
    with terminal.working(f"Solving on the cluster {address}"), connect(address):
        found = solve(graph, labels)
    predicted = found.probabilities.argmax(1)
    count = found.probabilities.shape[1]
    classes = [str(name) for name in stored.metadata.get("classes") or range(count)][:count]
    accuracy = None if len(held) == 0 else 100 * float((predicted[held] == known[held]).double().mean())
    facts = {
        "dataset": folder.name, "method": "kernel-ridge", "cluster": address, "nodes": graph.num_nodes,
        "edges": graph.num_edges, "classes": classes, "labelled": int((labels >= 0).sum()), "heldout": len(held),
        "accuracy": accuracy, "counts": dict(zip(classes, predicted.bincount(minlength=count).tolist(), strict=True)),
        "ridge": found.ridge, "inverse_temperature": found.inverse_temperature, "loss": found.loss,
        "kernels": len(found.members), "losses": found.losses, "seconds": time.perf_counter() - began,
    }  # fmt: skip
    return found, labels, facts


def _write(folder: Path, path: Path, classes: list[str], found: ClusterPrediction, labels: Tensor) -> None:
    from lggd.data.output_files import write_predictions
    from lggd.data.stored_data import NodeNames
    from lggd.graph.stored_graph import StoredGraph

    names = NodeNames(StoredGraph.open(folder, verify=False))
    write_predictions(path, names, classes, found.probabilities, labels)


def _tables(facts: Mapping[str, Any]) -> Iterator[Table | str]:
    size = f"{facts['nodes']:,} nodes, {facts['edges']:,} edges, {len(facts['classes'])} classes"
    yield summary(
        graph=f"{facts['dataset']}: {size}",
        labels=f"{facts['labelled']:,} for training, {facts['heldout']:,} held out to measure accuracy",
        accuracy="unknown" if facts["accuracy"] is None else f"{facts['accuracy']:.1f} %",
        seconds=f"{facts['seconds']:.3g}",
    )
    yield table("class", "nodes", rows=((name, f"{count:,}") for name, count in facts["counts"].items()))
    if facts["losses"]:
        yield f"Workers or nodes were lost {facts['losses']} times; their work was done again."
    if facts["files"]:
        yield f"Wrote {facts['out']}: {', '.join(facts['files'])}"
