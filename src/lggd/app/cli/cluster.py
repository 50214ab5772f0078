"""Graphs on disk on a Ray cluster: `lggd run FOLDER --cluster` and `lggd predict FOLDER --cluster`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from lggd.app.cli.terminal import Terminal
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.app.runs.run_input import RunInput
    from lggd.app.runs.saved_model import NodePredictions

ADDRESS = "Ray cluster to compute on: HOST:PORT of its head, or auto on one of its nodes."
STORED = f"{ADDRESS} For graphs on disk, which are solved in closed form."
TRIALS = f"{ADDRESS} Results are those of one machine."
StoredOn = Annotated[str | None, Option("--cluster", metavar="ADDRESS", help=STORED, show_default=False)]
TrialsOn = Annotated[str | None, Option("--cluster", metavar="ADDRESS", help=TRIALS, show_default=False)]
METHOD, PREDICTIONS = "kernel-ridge", "predictions.parquet"
# The options of lggd run that a cluster uses. All others are refused, so that none is ignored.
USED = ("dataset", "test_share", "split", "seed", "out", "no_report", "cluster", "as_json", "debug")
NOT_ALL_LABELS = "The predictions do not use the held-out labels; those of lggd predict with --cluster use all."


def check_run(context: Context, folder: str | None) -> None:
    """Raises if lggd run was given something other than a graph on disk, or an option that a cluster does not use."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in USED and source is not None and source.name != "DEFAULT":
            rule = "be omitted with --cluster, which solves kernel ridge with its default settings"
            raise InputError(parameter.opts[0], rule, remedy="Omit one of the two.")
    _check_stored(folder)


def _check_stored(folder: str | None) -> None:
    from lggd.graph.stored_graph import MANIFEST, is_stored_graph

    if folder is None or not is_stored_graph(folder):
        rule = f"be used with the folder of a graph on disk, which contains {MANIFEST}"
        remedy = "Build one with `lggd graph build`, or omit --cluster."
        raise InputError("--cluster", rule, "none" if folder is None else folder, remedy)


def run_on_cluster(terminal: Terminal, run_input: RunInput, address: str, out: Path, seed: int) -> dict[str, Any]:
    """Classifies the nodes of a graph on disk and measures accuracy on the held-out ones; returns facts of a run."""
    from lggd._system.files import replacing_folder
    from lggd.app.runs.methods import RunSettings
    from lggd.app.runs.run import NO_REFERENCE, SUMMARY, UNKNOWN_ACCURACY, input_facts
    from lggd.estimator.storage import write_json

    predictions, solution = _solve(terminal, run_input, address, seed)
    right = (predictions.probabilities.argmax(1) == run_input.data.y)[run_input.held_out]
    accuracy = 100 * float(right.double().mean()) if len(right) else None
    settings = RunSettings(METHOD, seed=seed, reference="none")
    facts = {
        **input_facts(run_input, settings, predictions.labels), **solution,
        "accuracy": {"reference": None, "model": accuracy},
        "training_seconds": {"reference": None, "model": solution["seconds"]}, "p_value": None, "additions": [],
        "notes": [*solution["notes"], NO_REFERENCE, UNKNOWN_ACCURACY if accuracy is None else NOT_ALL_LABELS],
        "out": str(out), "files": [PREDICTIONS, SUMMARY],
    }  # fmt: skip
    with terminal.working(f"Writing {out}"), replacing_folder(out, SUMMARY) as folder:
        predictions.write(folder / PREDICTIONS)
        write_json(folder / SUMMARY, facts)
    return facts


def predict_on_cluster(terminal: Terminal, folder: Path, address: str) -> tuple[NodePredictions, dict[str, Any]]:
    """Predicts the class of every node of a graph on disk from all of its labels; returns facts about that, too."""
    _check_stored(str(folder))
    from lggd.app.runs.run_input import RunInput

    with terminal.working(f"Reading {folder}"):
        run_input = RunInput.from_graph(folder, test_share=0.0, verify=False)  # every node compares checksums
    return _solve(terminal, run_input, address)


def _solve(
    terminal: Terminal, run_input: RunInput, address: str, seed: int = 0
) -> tuple[NodePredictions, dict[str, Any]]:
    """Predictions from the labels that are not held out, and facts about the solution."""
    import torch

    from lggd.app.runs.saved_model import NodePredictions
    from lggd.closed_form import KernelRidge
    from lggd.cluster import connect, solve

    data = run_input.data
    labels = torch.where(data.train_mask, data.y, -1)
    settings = KernelRidge(agreement=None, topology_kernels=(), seed=seed)  # the others need all edges in one place
    start = time.perf_counter()
    with terminal.working(f"Solving on the cluster {address}"), connect(address):
        model = solve(data.graph, labels, settings)
    losses = model.metadata_["cluster"]["losses"]
    lost = f"Workers or nodes were lost {losses} times; their work was done again."
    facts = {
        "method": METHOD, "cluster": address, "edges": run_input.num_edges, "seconds": time.perf_counter() - start,
        "ridge": model.ridge_, "inverse_temperature": model.inverse_temperature_, "loss": model.loss_,
        "kernels": len(model.kernels_), "losses": losses, "notes": [*run_input.notes, *([lost] if losses else [])],
    }  # fmt: skip
    probabilities = model.predict_proba()
    return NodePredictions(
        run_input.name, run_input.ids, run_input.classes[: model.num_classes_], labels, probabilities
    ), facts
