"""lggd run: trains a model on a graph, measures its accuracy, and saves all results."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lggd.cli import options
from lggd.cli.terminal import AsJson, Debug, Terminal, flags, summary

if TYPE_CHECKING:
    from lggd.memory import Memory

DEFAULT_PARENT = Path("out")
# Memory estimates below this size are not printed.
LARGE_MEMORY = 2**28
# The models of lggd.runs.methods. Repeated here because that module imports torch; a test compares them.
METHODS = (
    "lggd", "ggd", "lggd-plus", "gcn", "gat", "chebnet", "jknet", "mixup", "dropedge", "gaug-m", "gaug-o", "gdc-ppr",
    "gdc-heat", "gpr-gnn", "goal", "graphmix", "mlp", "sgc", "appnp", "label-propagation", "correct-and-smooth",
    "scikit-network", "gcn-plus",
)  # fmt: skip


class BackboneName(StrEnum):
    GCN = "gcn"
    GAT = "gat"
    CHEBNET = "chebnet"
    JKNET = "jknet"
    NONE = "none"


@options.expand_options
def run_command(
    graph: options.GraphOptions,
    test_share: Annotated[
        float | None,
        typer.Option(
            help="Fraction of the labels to hold out for accuracy, if there is no split column.",
            show_default=str(options.TEST_SHARE),
            rich_help_panel=options.TABLES,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Model to train: {', '.join(METHODS)}. The first three, label-propagation, "
            "correct-and-smooth and scikit-network can add labels later without training.",
            autocompletion=lambda: list(METHODS),
        ),
    ] = METHODS[0],
    backbone: Annotated[
        BackboneName | None,
        typer.Option(help="Network of the model; none predicts the nearest class by distance.", show_default="gcn"),
    ] = None,
    preset: options.Preset = options.PresetName.DEFAULT,
    seed: options.Seed = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of training epochs of the backbone.", show_default="5000")
    ] = None,
    device: options.Device = options.DeviceName.AUTO,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the results.", show_default="out/DATASET")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Classify the nodes of a graph: train a model and its backbone alone, and compare their accuracy.

    Writes to DIR: predictions.csv, features.parquet, report.html (open it in
    a browser), model/ (for lggd predict and lggd add-labels), settings.json
    and run.json. An earlier run in DIR is replaced when this one finishes.

    Example, which needs no files:

        lggd run digits

    Example with your own tables, where nodes.csv has the columns id and
    kind, and all other columns are features:

        lggd run --edges edges.csv --nodes nodes.csv --label kind

    Example with another model:

        lggd run digits --method gdc-ppr --out out/gdc

    Example: continue after an interruption:

        lggd run digits --resume
    """
    known = options.GRAPH_FLAGS | flags("method", "backbone", "preset", "epochs", "resume")
    with Terminal(as_json=as_json, debug=debug, flags=known) as terminal:
        graph.check(test_share)
        with terminal.working("Loading lggd"):
            from lggd.runs.folder import check_run_folder, write_run
            from lggd.runs.run import RunSettings, run, settings_of_run
            from lggd.runs.training import UnfinishedTraining
        name = None if backbone is None else backbone.value
        settings = RunSettings(method, name, preset.value, seed, epochs, options.chosen_device(device))
        if out is not None:
            check_run_folder(out)
        with terminal.working(f"Reading {graph}"):
            run_input = graph.read(test_share)
        terminal.node_names = run_input.ids
        settings = settings.for_input(run_input)
        memory = settings.memory(run_input)
        if out is None:
            out = DEFAULT_PARENT / run_input.name
            DEFAULT_PARENT.mkdir(exist_ok=True)
            check_run_folder(out)
        _report_memory(terminal, memory)
        unfinished = UnfinishedTraining(out, settings_of_run(run_input, settings))
        try:
            with terminal.training(settings.titles()) as callback:
                result = run(run_input, settings, callback=callback, training=unfinished, resume=resume)
        except KeyboardInterrupt:
            if unfinished.is_saved:
                terminal.say(f"Checkpoints are in {unfinished.folder}. Add --resume to continue.", "yellow")
            raise
        with terminal.working(f"Writing {out}"):
            facts = write_run(out, result, command=shlex.join(["lggd", *sys.argv[1:]]), report=not no_report)
            unfinished.remove()
        terminal.answer(facts, _tables(facts))


def _report_memory(terminal: Terminal, needed: Memory | None) -> None:
    from lggd.features.training_memory import REMEDY
    from lggd.memory import size_in_words

    if needed is None or (needed.total < LARGE_MEMORY and needed.fits is not False):
        return
    free = "" if needed.free is None else f"; {size_in_words(needed.free)} are free on {needed.device}"
    terminal.say(f"Learning distances needs {needed}{free}.", "dim")
    if needed.fits is False:
        terminal.say(f"This may be too much. {REMEDY}", "yellow")


def _tables(facts: dict[str, Any]) -> list[Table | Text]:
    about = summary(
        {
            "graph": f"{facts['dataset']}: {facts['nodes']:,} nodes, {facts['edges']:,} edges, "
            f"{len(facts['classes'])} classes",
            "labels": f"{facts['labelled']:,} for training, {facts['heldout']:,} held out to measure accuracy",
            "seconds": f"{facts['seconds']:.3g}",
        }
    )
    parts: list[Table | Text] = [about, _comparison(facts)]
    if facts["additions"]:
        parts.append(_additions(facts["additions"]))
    parts += [Text(note) for note in facts["notes"]]
    return [*parts, Text(f"Wrote {facts['out']}: {', '.join(facts['files'])}")]


def _comparison(facts: dict[str, Any]) -> Table:
    table = Table("", "accuracy", "seconds to train")
    accuracy = facts["accuracy"]
    for part, title in facts["titles"].items():
        seconds = facts["training_seconds"][part]
        if seconds is not None:
            shown = "unknown" if accuracy[part] is None else f"{accuracy[part]:.1f} %"
            table.add_row(title, shown, f"{seconds:.3g}")
    if accuracy["reference"] is not None and accuracy["model"] is not None:
        table.add_row("difference", f"{accuracy['model'] - accuracy['reference']:+.1f} points", "")
    return table


def _additions(additions: list[dict[str, Any]]) -> Table:
    table = Table("labels", "accuracy", "milliseconds", title="More labels, without training", title_justify="left")
    for row in additions:
        table.add_row(f"{row['labels']:,}", f"{row['accuracy']:.1f} %", f"{row['milliseconds']:.3g}")
    return table
