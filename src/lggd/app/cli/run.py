"""lggd run and lggd features: fit a model to a graph; save its results, or its distances as a table of features."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.table import Table
from typer import Context, Option

from lggd._system.files import write_errors
from lggd.app.cli import options
from lggd.app.cli.options import file, folder, option
from lggd.app.cli.terminal import Terminal, summary, table
from lggd.errors import InputError
from lggd.text import counted, number

if TYPE_CHECKING:
    from lggd.app.runs.run_input import RunInput
    from lggd.app.runs.saved_model import NodePredictions

DEFAULT_PARENT = Path("out")
# The models of lggd.app.runs.methods. Repeated here because that module imports torch; a test compares them.
METHODS = (
    "kernel-ridge", "evolved-ridge", "lggd-plus", "ggd", "lggd", "lggd-plus-trained", "gcn", "gat", "chebnet", "jknet",
    "dropedge", "gdc-ppr", "gdc-heat", "gpr-gnn", "mlp", "sgc", "appnp", "label-propagation", "gcn-plus",
)  # fmt: skip


BackboneName = Literal["gcn", "gat", "chebnet", "jknet", "none"]
MODELS = (
    f"Model: {', '.join(METHODS)}. The first two are solved in closed form. The first six and "
    "label-propagation can add labels later without training."
)
BACKBONES = "Network trained on the distances; none predicts the nearest class by distance."
REFERENCES = "Network trained on the node features alone, for comparison; none trains none."
FEATURES = "evolved-ridge solves for distances, lggd trains networks on node features, ggd uses the graph alone."
SHARE = "Fraction of the labels to hold out for accuracy, if there is no split column."
FLAGS = options.GRAPH_FLAGS | {"address": "--cluster"}
ADDRESS = "Ray cluster to compute on: HOST:PORT of its head, or auto on one of its nodes."
STORED = f"{ADDRESS} For graphs on disk, which are solved in closed form."
TRIALS = f"{ADDRESS} Results are those of one machine."
StoredOn = Annotated[str | None, Option("--cluster", metavar="ADDRESS", help=STORED, show_default=False)]
TrialsOn = Annotated[str | None, Option("--cluster", metavar="ADDRESS", help=TRIALS, show_default=False)]
SOLVED, PREDICTIONS = "kernel-ridge", "predictions.parquet"
# The options of lggd run that a cluster uses. All others are refused, so that none is ignored.
USED = ("dataset", "test_share", "split", "seed", "out", "no_report", "cluster", "as_json", "debug")
NOT_ALL_LABELS = "The predictions do not use the held-out labels; those of lggd predict with --cluster use all."


@options.command(FLAGS)
def run_command(
    terminal: Terminal,
    context: Context,
    graph: options.GraphOptions,
    test_share: float | None = option(
        None, SHARE, show_default=str(options.TEST_SHARE), rich_help_panel=options.TABLES
    ),
    method: str = option(METHODS[0], MODELS, metavar="NAME", autocompletion=lambda: list(METHODS)),
    backbone: BackboneName | None = option(None, BACKBONES, show_default="none for evolved-ridge, otherwise gcn"),
    reference: BackboneName | None = option(None, REFERENCES, show_default="the backbone, or gcn"),
    preset: options.Preset = "default",
    seed: options.Seed = 0,
    epochs: int | None = option(None, "Maximum number of training epochs of the backbone.", min=1, show_default="5000"),
    device: options.Device = "auto",
    out: Path | None = folder(None, "Folder for the results.", show_default="out/DATASET"),
    no_report: bool = option(False, "Do not write report.html.", "--no-report"),
    cluster: StoredOn = None,
) -> None:
    """Classify the nodes of a graph, and compare the accuracy with that of a network.

    Writes to DIR: predictions.csv, report.html (open it in a browser),
    model/ (for lggd predict and lggd add-labels), settings.json, run.json
    and, of methods with distances, features.csv. An earlier run in DIR is
    replaced when this one finishes.

    Example, which needs no files:

        lggd run digits

    Example with your own tables, where nodes.csv has the columns id and
    kind, and all other columns are features:

        lggd run --edges edges.csv --nodes nodes.csv --label kind

    Columns, separators and values that are read in a special way are reported;
    ambiguous input is an error naming the option. Roads with a column of
    kilometers, nodes with missing values:

        lggd run --edges roads.csv --length km --nodes towns.csv --label region --missing mean

    Example with a graph in one file:

        lggd run --file graph.pt

    Example with a graph on disk that may be larger than memory, which
    lggd graph build made:

        lggd run big

    Example with another model:

        lggd run digits --method gdc-ppr --out out/gdc

    Example: a graph on disk, on a Ray cluster:

        lggd run graphs/web --cluster auto
    """
    if cluster is not None:
        check_run(context, graph.dataset)
    graph.check(test_share)
    with terminal.working("Loading lggd"):
        from lggd._system.files import check_folder_writable
        from lggd.app.runs.methods import RunSettings
        from lggd.app.runs.run import SUMMARY, run, write_run
    settings = RunSettings(method, backbone, preset, seed, epochs, options.chosen_device(device), reference)
    if out is not None:
        check_folder_writable(out, SUMMARY)
    with terminal.working(f"Reading {graph}"):
        # On a cluster, every node compares the checksums of its files.
        run_input = graph.read(test_share, on_disk=True, verify=cluster is None)
    terminal.node_names = run_input.ids
    settings.check_input(run_input)
    if out is None:
        out = DEFAULT_PARENT / run_input.name
        with write_errors(DEFAULT_PARENT):
            DEFAULT_PARENT.mkdir(exist_ok=True)
        check_folder_writable(out, SUMMARY)
    if cluster is not None:
        facts = run_on_cluster(terminal, run_input, cluster, out, seed)
        terminal.print_result(facts, _tables(facts))
        return
    with terminal.progress() as callback:
        result = run(run_input, settings, callback=callback)
    with terminal.working(f"Writing {out}"):
        facts = write_run(out, result, command=shlex.join(["lggd", *sys.argv[1:]]), report=not no_report)
    terminal.print_result(facts, _tables(facts))


def _tables(facts: dict[str, Any]) -> Iterator[Table | str]:
    from lggd.app.report.run_report import SIGNIFICANCE_LEVEL

    sizes = (facts["nodes"], "node"), (facts["edges"], "edge"), (len(facts["classes"]), "class")
    size = ", ".join(counted(count, noun) for count, noun in sizes)
    yield summary(
        graph=f"{facts['dataset']}: {size}",
        labels=f"{facts['labelled']:,} for training, {facts['heldout']:,} held out to measure accuracy",
        seconds=number(facts["seconds"]),
    )
    accuracy, rows = facts["accuracy"], []
    for part, title in facts["titles"].items():
        seconds = facts["training_seconds"][part]
        if seconds is not None:
            rows.append((title, "unknown" if accuracy[part] is None else f"{accuracy[part]:.1f} %", number(seconds)))
    if accuracy["reference"] is not None and accuracy["model"] is not None:
        rows.append(("difference", f"{accuracy['model'] - accuracy['reference']:+.1f} points", ""))
    yield table("", "accuracy", "seconds to fit", rows=rows)
    if facts["p_value"] is not None:
        clear = "clear" if facts["p_value"] < SIGNIFICANCE_LEVEL else "not clear: chance alone explains it"
        yield f"The difference is {clear} (McNemar's exact test on the held-out nodes, p = {facts['p_value']:.2g})."
    if facts["additions"]:
        steps = ((f"{s['labels']:,}", f"{s['accuracy']:.1f} %", number(s["milliseconds"])) for s in facts["additions"])
        yield table("labels", "accuracy", "milliseconds", rows=steps, title="More labels, without training")
        yield f"Measured on the {facts['additions'][0]['tested']:,} held-out nodes whose labels are never added."
    yield from facts["notes"]
    yield f"Wrote {facts['out']}: {', '.join(facts['files'])}"


@options.command(options.GRAPH_FLAGS)
def features_command(
    terminal: Terminal,
    graph: options.GraphOptions,
    method: Literal["evolved-ridge", "lggd", "ggd"] = option("evolved-ridge", FEATURES),
    preset: options.Preset = "default",
    seed: options.Seed = 0,
    device: options.Device = "auto",
    out: Path = file(Path("features.csv"), "Output file: .csv, .tsv or .parquet."),
) -> None:
    """Write the distances from every node to the labelled nodes of each class, as features for your own models.

    The file has the column node, one column per class and time, such as
    "class red, t=1", and a column reachable: whether any label is reachable.
    All labels are used except those of test nodes.

    Example, which needs no files:

        lggd features digits --out digits.parquet

    Example with your own tables:

        lggd features --edges edges.csv --nodes nodes.csv --label kind --out features.csv
    """
    start = time.perf_counter()
    graph.check()
    with terminal.working("Loading lggd"):
        from lggd.app.runs.methods import build_model
        from lggd.app.runs.run import feature_names
        from lggd.app.tables.output_files import check_table_writable, write_features
    check_table_writable(out)
    chosen = options.chosen_device(device)
    with terminal.working(f"Reading {graph}"):
        run_input = graph.read(test_share=0, on_disk=True)
    terminal.node_names = run_input.ids
    if method == "lggd" and not run_input.has_features:
        raise InputError("--method", "be evolved-ridge or ggd for nodes without features", method)
    features: Any = build_model(method, preset=preset, seed=seed).get_params()["features"]
    data = run_input.data.to(chosen)
    with terminal.progress() as callback:
        features.fit(data, callback=callback)
    names = feature_names(features, run_input.classes)
    write_features(out, run_input.ids, names, features.features(data).cpu())
    facts: dict[str, Any] = {
        "dataset": run_input.name, "method": method, "seed": seed, "nodes": len(run_input.ids),
        "preset": preset if method == "lggd" else None, "classes": run_input.classes,
        "labelled": int((features.labels_ >= 0).sum()), "features": names, "notes": list(run_input.notes),
        "seconds": time.perf_counter() - start, "out": str(out),
    }  # fmt: skip
    about = summary(
        graph=f"{run_input.name}: {len(run_input.ids):,} nodes, {len(run_input.classes)} classes",
        labels=f"{facts['labelled']:,}",
        features=f"{len(names):,}, such as {names[0]!r}",
        seconds=number(facts["seconds"]),
    )
    terminal.print_result(facts, [about, *run_input.notes, f"Wrote {out}"])


# -- graphs on disk on a Ray cluster ----------------------------------------------------------------------------------


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
    settings = RunSettings(SOLVED, seed=seed, reference="none")
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
        "method": SOLVED, "cluster": address, "edges": run_input.num_edges, "seconds": time.perf_counter() - start,
        "ridge": model.ridge_, "inverse_temperature": model.inverse_temperature_, "loss": model.loss_,
        "kernels": len(model.kernels_), "losses": losses, "notes": [*run_input.notes, *([lost] if losses else [])],
    }  # fmt: skip
    probabilities = model.predict_proba()
    return NodePredictions(
        run_input.name, run_input.ids, run_input.classes[: model.num_classes_], labels, probabilities
    ), facts
