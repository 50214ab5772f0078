"""lggd compare: methods under one protocol."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from typer import Exit

from lggd.app import comparison
from lggd.app.cli import options
from lggd.app.cli.options import folder, option
from lggd.app.cli.run import METHODS as RUN_METHODS
from lggd.app.cli.run import TrialsOn
from lggd.app.cli.terminal import FAILED, Terminal, table
from lggd.errors import InputError
from lggd.text import counted, number, signed

DEFAULT_PARENT = Path("out")
FLAGS = options.GRAPH_FLAGS | {"data.y": "--labels", "folder": "--out", "address": "--cluster"}
# The methods of lggd.app.comparison.candidates. Repeated here because that module imports torch; a test compares them.
OTHERS = (
    "label-spreading", "label-spreading-x", "label-propagation-x", "logistic-regression",
)  # fmt: skip
NAMES = (*RUN_METHODS, *OTHERS, *comparison.ALIASES)
METHODS = (
    f"Methods to compare, such as gcn,appnp. Can be repeated. Those of lggd run, and {', '.join(OTHERS)}; closed-form "
    "is kernel-ridge. Plug-ins have the names of their entry points."
)
DEFAULT = f"{', '.join((*comparison.DEFAULTS, *comparison.PEERS))}, plug-ins"
LABELS = "Labels to train on: a share of all, or a number per class. As many are for validation, the rest for tests."
OWN = f"{100 * comparison.TRAINING:g}% of own tables; of datasets as in the paper's table"


@options.command(FLAGS)
def compare_command(
    terminal: Terminal,
    graph: options.GraphOptions,
    methods: options.Names = option(
        None, METHODS, metavar="NAME", show_default=DEFAULT, autocompletion=lambda: list(NAMES)
    ),
    splits: int = option(comparison.SPLITS, "Number of random splits, the same for all methods.", min=1),
    labels: str | None = option(None, LABELS, metavar="2.5%|5/class", show_default=OWN),
    trials: int = option(0, "Choose settings by validation among so many trials per method and split.", min=0),
    no_curve: bool = option(False, "Do not measure how accuracy grows with the number of labels.", "--no-curve"),
    jobs: int = option(1, "Number of processes.", min=1),
    device: options.Device = "auto",
    seed: options.Seed = 0,
    out: Path | None = folder(None, "Folder for the results.", show_default="out/DATASET-comparison"),
    no_report: bool = option(False, "Do not write comparison.html.", "--no-report"),
    cluster: TrialsOn = None,
) -> None:
    """Compare methods on your own graph: the same splits and labels for all.

    Every method is fitted to every split. It sees the labels for training and
    validation; accuracy is that on all other labels. The table shows mean and
    standard deviation, whether a method is clearly worse than the best (paired
    Wilcoxon tests with Holm's correction), calibration, the time of a fit,
    and which method to use.

    Writes to DIR: comparison.html (open it in a browser), comparison.csv, and
    comparison.jsonl with one line per fit. Lines that exist are not measured
    again: after an interruption, run the same command again. A method that
    fails does not stop the others: its line says why.

    Example, which needs no files:

        lggd compare digits --splits 5

    Example with your own tables and five labels per class:

        lggd compare --edges edges.csv --nodes nodes.csv --label kind --labels 5/class

    Example: settings chosen by 20 trials, in two processes:

        lggd compare cora --methods gcn,gdc-ppr,kernel-ridge --trials 20 --jobs 2

    Example: the fits on the nodes of a Ray cluster:

        lggd compare cora --cluster auto
    """
    graph.check()
    amount = training_labels(graph, labels)
    with terminal.working("Loading lggd"):
        from lggd.app.comparison.comparison import MethodFailedWarning, compare
        from lggd.app.comparison.fit_job import EXPERIMENT
        from lggd.app.comparison.report import describe_protocol, write_report
    chosen = options.chosen_device(device)
    options.use_fast_products(chosen)
    with terminal.working(f"Reading {graph}"):
        # All labels take part in the splits; none is held out beside them.
        run_input = graph.read(None if graph.dataset is not None else 0.0)
    terminal.node_names = run_input.ids
    data = run_input.data.to(chosen)
    data.name, data.class_names = graph.dataset or run_input.name, run_input.classes
    if out is None:
        out = DEFAULT_PARENT / f"{run_input.name}-comparison"
    warnings.simplefilter("ignore", MethodFailedWarning)  # the answer names them
    with terminal.bars() as bars:
        task = bars.add_task("Preparing", total=None)
        result = compare(
            data, list(options.named(methods)) or None, splits=splits, labels=amount, trials=trials,
            curve=not no_curve, folder=out, jobs=jobs, seed=seed, cluster=cluster,
            callback=lambda now: bars.update(task, completed=now.done, total=now.total, description=now.stage),
        )  # fmt: skip
    files = [f"{EXPERIMENT}.jsonl"] + ([] if no_report else write_report(result, out, run_input.name, run_input.notes))
    facts = {
        "dataset": run_input.name, "out": str(out), "files": files, "protocol": describe_protocol(result),
        "labels": result.labels, "splits": result.splits, "trials": trials, "facts": dict(result.facts),
        "best": result.best, "recommended": result.recommended, "recommendation": result.recommendation,
        "table": result.rows, "curves": {method.name: dict(method.curve) for method in result.methods},
        "failed": dict(result.failed), "skipped": dict(result.skipped), "notes": list(run_input.notes),
        "fits": len(result.lines), "seconds": result.seconds,
    }  # fmt: skip
    terminal.print_result(facts, _tables(facts))
    if result.best is None:
        raise Exit(FAILED)


def training_labels(graph: options.GraphOptions, text: str | None) -> int | float | None:
    """Reads 2.5% or 5/class; a bare number would be ambiguous."""
    if graph.split is not None:
        raise InputError("--split", "be omitted: a comparison draws several splits", graph.split, "Use --splits.")
    if graph.split_column is not None:
        remedy = "Exclude the column with --ignore."
        raise InputError("--split-column", "be omitted: a comparison draws its own splits", graph.split_column, remedy)
    if text is None:
        return graph.labels_per_class
    if graph.labels_per_class is not None:
        raise InputError("--labels-per-class", "be omitted with --labels", graph.labels_per_class)
    compact = text.replace(" ", "")
    value: int | float = 0
    if match := re.fullmatch(r"(\d*\.?\d+)%", compact):
        value = round(float(match[1]) / 100, 9)
    elif match := re.fullmatch(r"(\d+)/class", compact):
        value = int(match[1])
    if value < 1 if isinstance(value, int) else not 0 < value < 1:
        rule = "be a share such as 2.5%, below 100 %, or a number per class such as 5/class"
        raise InputError("--labels", rule, repr(text))
    return value


def _tables(facts: Mapping[str, Any]) -> Iterator[Table | str]:
    size = ", ".join(f"{value:,} {name}" for name, value in facts["facts"].items())
    yield f"{facts['dataset']}: {size}. {facts['protocol']}."
    if facts["table"]:
        costs = [Column(name, justify="right", no_wrap=True) for name in ("accuracy (%)", "seconds")]
        columns = [Column("method", no_wrap=True), costs[0], Column("against the best", max_width=25), *costs[1:]]
        yield table(*columns, rows=map(_row, facts["table"]), box=SIMPLE_HEAD, pad_edge=False)
    for word in ("failed", "skipped"):
        yield from (f"{name} {word}: {reason}" for name, reason in facts[word].items())
    yield facts["recommendation"]
    yield f"{counted(facts['fits'], 'fit')}. Wrote {facts['out']}: {', '.join(facts['files'])}"


def _row(row: Mapping[str, Any]) -> Sequence[str]:
    sd = "" if row["sd"] is None else f" ± {row['sd']:.2f}"
    difference = "" if row["difference"] is None else f"{signed(row['difference'], 2)} "
    return (
        row["method"],
        f"{row['accuracy']:.2f}{sd}",
        f"{difference}{row['verdict']}",
        number(row["seconds"]),
    )
