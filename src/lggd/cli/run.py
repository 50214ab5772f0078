"""lggd run: classify the nodes of a graph, without LGGD and with it, and keep all that came out."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lggd.cli import graph_source as source
from lggd.cli.stages import Device, DeviceName, Preset, PresetName, chosen_device, stages_shown
from lggd.cli.terminal import AsJson, Debug, Terminal, summary

if TYPE_CHECKING:
    from lggd.memory import Memory
    from lggd.runs.run import Outcome, RunSettings
    from lggd.runs.subject import Subject
    from lggd.runs.training import UnfinishedTraining

DEFAULT_PARENT = Path("out")
# A run that takes less memory than this is over before one would wonder.
WORTH_TELLING = 2**28
FLAGS = source.FLAGS | {"without `resume`": "without --resume", "`resume`": "`--resume`", "`epochs`": "`--epochs`"}


class BackboneName(StrEnum):
    GCN = "gcn"
    GAT = "gat"
    CHEBNET = "chebnet"
    JKNET = "jknet"
    NONE = "none"


def run_command(
    dataset: source.DatasetName = None,
    edges: source.Edges = None,
    nodes: source.Nodes = None,
    label: source.LabelColumn = None,
    id_column: source.IdColumn = None,
    split_column: source.SplitColumn = None,
    ignore: source.Ignore = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            help="The share of labels to measure accuracy with, without a split column.",
            show_default=str(source.TEST_SHARE),
            rich_help_panel=source.TABLES,
        ),
    ] = None,
    backbone: Annotated[
        BackboneName, typer.Option(help="The network to compare; none takes the nearest class by distance.")
    ] = BackboneName.GCN,
    preset: Preset = PresetName.DEFAULT,
    split: source.Split = None,
    labels_per_class: source.LabelsPerClass = None,
    seed: Annotated[int, typer.Option(min=0, help="What training depends on by chance.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Train the backbone for at most so many epochs.", show_default="5000")
    ] = None,
    device: Device = DeviceName.AUTO,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder for what comes out.", show_default="out/DATASET"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Leave out report.html.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Classify the nodes of a graph: train a backbone without LGGD and with it, and compare.

    DIR then holds predictions.csv, features.parquet, report.html (open it in
    a browser), model/ (for lggd predict and lggd add-labels), settings.json
    and run.json. An earlier run there is replaced only when all is done.

    Example, which needs no files:

        lggd run digits

    Example, with tables of your own, where nodes.csv has the columns id and
    kind, and all others are features:

        lggd run --edges edges.csv --nodes nodes.csv --label kind

    Example, after an interruption:

        lggd run digits --resume
    """
    with Terminal(as_json=as_json, debug=debug, flags=FLAGS) as terminal:
        meant = source.GraphSource(
            dataset, edges, nodes, label, id_column, split_column, ignore, split, labels_per_class, test_share
        )
        with terminal.working("Loading lggd"):
            from lggd.runs.folder import check_run_folder, run_facts, write_run
            from lggd.runs.run import RunSettings, described
            from lggd.runs.training import UnfinishedTraining
        settings = RunSettings(backbone.value, preset.value, seed, epochs, chosen_device(device))
        if out is not None:
            check_run_folder(out)
        with terminal.working(f"Reading {meant.called}"):
            subject = meant.read()
        terminal.node_names = subject.ids
        if out is None:
            out = DEFAULT_PARENT / subject.name
            DEFAULT_PARENT.mkdir(exist_ok=True)
            check_run_folder(out)
        _tell_memory(terminal, settings.memory(subject))
        unfinished = UnfinishedTraining(out, described(subject, settings))
        outcome = _train(terminal, subject, settings, unfinished, resume)
        facts = run_facts(outcome, out, report=not no_report)
        with terminal.working(f"Writing {out}"):
            write_run(out, outcome, facts, command=shlex.join(["lggd", *sys.argv[1:]]), report=not no_report)
            unfinished.remove()
        terminal.answer(facts, _shown(facts))


def _tell_memory(terminal: Terminal, needed: Memory) -> None:
    from lggd.features.training_memory import REMEDY
    from lggd.memory import size_in_words

    if needed.total < WORTH_TELLING and needed.fits is not False:
        return
    free = "" if needed.free is None else f"; {size_in_words(needed.free)} are free on {needed.device}"
    terminal.say(f"Learning distances takes {needed}{free}.", "dim")
    if needed.fits is False:
        terminal.say(f"That may be too much. {REMEDY}", "yellow")


def _train(
    terminal: Terminal, subject: Subject, settings: RunSettings, unfinished: UnfinishedTraining, resume: bool
) -> Outcome:
    from lggd.runs.run import run

    try:
        with stages_shown(terminal) as progress:
            return run(subject, settings, progress=progress, training=unfinished, resume=resume)
    except KeyboardInterrupt:
        if unfinished.is_saved:
            terminal.say(f"Training so far is kept in {unfinished.folder}. Add --resume to go on with it.", "yellow")
        raise


def _shown(facts: dict[str, Any]) -> list[Table | Text]:
    about = summary(
        {
            "graph": f"{facts['dataset']}: {facts['nodes']:,} nodes, {facts['edges']:,} edges, "
            f"{len(facts['classes'])} classes",
            "labels": f"{facts['labelled']:,} given, {facts['heldout']:,} held out to measure with",
            "backbone": facts["backbone"],
            "seconds": f"{facts['seconds']:.3g}",
        }
    )
    parts: list[Table | Text] = [about, _comparison(facts)]
    if facts["additions"]:
        parts.append(_additions(facts["additions"]))
    parts += [Text(note) for note in facts["notes"]]
    parts.append(Text(f"Wrote {facts['out']}: {', '.join(facts['files'])}"))
    return parts


def _comparison(facts: dict[str, Any]) -> Table:
    method = facts["features"].upper()
    table = Table("", "right", "seconds to train")
    for words, part in ((f"without {method}", "raw"), (f"with {method}", "lggd")):
        right, seconds = facts["accuracy"][part], facts["training_seconds"][part]
        if seconds is not None:
            table.add_row(words, "unknown" if right is None else f"{right:.1f} %", f"{seconds:.3g}")
    raw, lggd = facts["accuracy"]["raw"], facts["accuracy"]["lggd"]
    if raw is not None and lggd is not None:
        table.add_row("difference", f"{lggd - raw:+.1f} points", "")
    return table


def _additions(additions: list[dict[str, Any]]) -> Table:
    table = Table("labels", "right", "milliseconds", title="New labels, nothing trained again", title_justify="left")
    for row in additions:
        table.add_row(f"{row['labels']:,}", f"{row['accuracy']:.1f} %", f"{row['milliseconds']:.3g}")
    return table
