"""lggd compare and lggd sweep: methods under one protocol, and the settings that suit them, without test labels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from typer import Exit

from lggd.app import comparison
from lggd.app.cli import options
from lggd.app.cli.cluster import TrialsOn
from lggd.app.cli.options import folder, option
from lggd.app.cli.run import METHODS as RUN_METHODS
from lggd.app.cli.terminal import FAILED, Terminal, table
from lggd.errors import InputError, optional_package
from lggd.text import counted, number, signed
from lggd.validation import check_name

if TYPE_CHECKING:
    from lggd.app.comparison.rows import Choice, Row

DEFAULT_PARENT = Path("out")
FLAGS = options.GRAPH_FLAGS | {"data.y": "--labels", "folder": "--out", "address": "--cluster"}
# The methods of lggd.app.comparison.candidates. Repeated here because that module imports torch; a test compares them.
OTHERS = (
    "label-spreading", "label-spreading-x", "label-propagation-x", "logistic-regression", "scikit-network-pagerank",
    "scikit-network-votes", "scikit-network-neighbours",
)  # fmt: skip
NAMES = (*RUN_METHODS, *OTHERS, *comparison.ALIASES)
METHODS = (
    f"Methods to compare, such as gcn,appnp. Can be repeated. Those of lggd run, and {', '.join(OTHERS)}; closed-form "
    "is kernel-ridge. Plug-ins have the names of their entry points."
)
DEFAULT = f"{', '.join((*comparison.DEFAULTS, *comparison.PEERS))}, plug-ins"
LABELS = "Labels to train on: a share of all, or a number per class. As many are for validation, the rest for tests."
OWN = f"{100 * comparison.TRAINING:g}% of own tables; of datasets as in the paper's table"
SWEEP_FLAGS = {"root": "--data", "address": "--cluster"}
TRIAL_SPLITS = "Number of splits per trial."
BATCH = "Splits to train side by side; poor trials are pruned in between."


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
    Wilcoxon tests with Holm's correction), calibration, time and memory of a
    fit, and which method to use.

    Writes to DIR: comparison.html (open it in a browser), comparison.csv, and
    comparison.jsonl with one line per fit. Lines that exist are not measured
    again: after an interruption, run the same command again. Several processes
    that run the same command share the work, or use --jobs. A method that fails
    does not stop the others: its line says why.

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
    amount = _training_labels(graph, labels)
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
        found = compare(
            data, list(options.named(methods)) or None, splits=splits, labels=amount, trials=trials,
            curve=not no_curve, folder=out, jobs=jobs, seed=seed, cluster=cluster,
            callback=lambda done, total, what: bars.update(task, completed=done, total=total, description=what),
        )  # fmt: skip
    files = [f"{EXPERIMENT}.jsonl"] + ([] if no_report else write_report(found, out, run_input.name, run_input.notes))
    facts = {
        "dataset": run_input.name, "out": str(out), "files": files, "protocol": describe_protocol(found),
        "labels": found.labels, "splits": found.splits, "trials": trials, "facts": dict(found.facts),
        "best": found.best, "recommended": found.recommended, "recommendation": found.recommendation,
        "table": found.rows, "curves": {method.name: dict(method.curve) for method in found.methods},
        "failed": dict(found.failed), "skipped": dict(found.skipped), "notes": list(run_input.notes),
        "fits": len(found.lines), "seconds": found.seconds,
    }  # fmt: skip
    terminal.print_result(facts, _tables(facts))
    if found.best is None:
        raise Exit(FAILED)


def _training_labels(graph: options.GraphOptions, text: str | None) -> int | float | None:
    """Reads 2.5%, 5/class or 0.025; a bare whole number would be ambiguous."""
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
    if found := re.fullmatch(r"(\d*\.?\d+)%", compact):
        value = round(float(found[1]) / 100, 9)
    elif found := re.fullmatch(r"(\d+)/class", compact):
        value = int(found[1])
    elif re.fullmatch(r"0?\.\d+", compact):
        value = round(float(compact), 9)
    if value < 1 if isinstance(value, int) else not 0 < value < 1:
        rule = "be a share such as 2.5%, below 100 %, or a number per class such as 5/class"
        raise InputError("--labels", rule, repr(text))
    return value


def _tables(facts: Mapping[str, Any]) -> Iterator[Table | str]:
    size = ", ".join(f"{value:,} {name}" for name, value in facts["facts"].items())
    yield f"{facts['dataset']}: {size}. {facts['protocol']}."
    if facts["table"]:
        costs = [Column(name, justify="right", no_wrap=True) for name in ("accuracy (%)", "seconds", "memory")]
        columns = [Column("method", no_wrap=True), costs[0], Column("against the best", max_width=25), *costs[1:]]
        yield table(*columns, rows=map(_row, facts["table"]), box=SIMPLE_HEAD, pad_edge=False)
    for word in ("failed", "skipped"):
        yield from (f"{name} {word}: {reason}" for name, reason in facts[word].items())
    yield facts["recommendation"]
    yield f"{counted(facts['fits'], 'fit')}. Wrote {facts['out']}: {', '.join(facts['files'])}"


def _row(row: Mapping[str, Any]) -> Sequence[str]:
    from lggd._system.files import size_in_words

    sd = "" if row["sd"] is None else f" ± {row['sd']:.2f}"
    difference = "" if row["difference"] is None else f"{signed(row['difference'], 2)} "
    return (
        row["method"],
        f"{row['accuracy']:.2f}{sd}",
        f"{difference}{row['verdict']}",
        number(row["seconds"]),
        "" if row["memory"] is None else size_in_words(row["memory"]),
    )


# -- settings -----------------------------------------------------------------------------------------------------


@options.command(SWEEP_FLAGS)
def sweep_command(
    terminal: Terminal,
    rows: options.Rows = None,
    datasets: options.Datasets = None,
    trials: int = option(20, "Trials per row and dataset; 0 evaluates earlier trials.", min=0),
    splits: int | None = option(None, TRIAL_SPLITS, min=1, show_default="that of earlier trials, or 3"),
    batch_size: int | None = option(None, BATCH, min=1, show_default="all"),
    ranges: Literal["ours", "paper"] = option("ours", "Search spaces: ours, or the papers' own."),
    device: options.Device = "auto",
    seed: options.Seed = 0,
    results: Path = folder(Path("results"), "Trials are stored in DIR/sweeps."),
    configs: options.Configs = None,
    data: options.DataFolder = None,
    choose: bool = option(False, "Write the best settings to chosen/ in the configs folder.", "--choose"),
    cluster: TrialsOn = None,
) -> None:
    """Search for the best settings of every row and dataset, judged by validation accuracy.

    Every row and dataset gets the same number of trials. Labels of test nodes are removed before training. Trials are
    stored as they end: run the command again to continue, or several times at once, also on several machines with a
    common disk, to share the work.

    Example, which downloads nothing:

        lggd sweep --rows 01 --datasets digits --trials 5

    Example: write the best settings of the first ten trials of every row:

        lggd sweep --trials 10 --choose
    """
    with terminal.working("Loading lggd"):
        with optional_package("lggd sweep", "lggd[sweep]"):
            import optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        from lggd.app.comparison.rows import load_rows, select_rows
        from lggd.app.comparison.search import SearchConfig, search_settings
        from lggd.datasets.by_name import DATASETS, PAPER
    paper, chosen = ranges == "paper", options.chosen_device(device)
    config = SearchConfig(trials, splits, batch_size, chosen, seed=seed, results=results, root=data, paper_ranges=paper)
    options.use_fast_products(config.device)
    names = [check_name("datasets", name.lower(), DATASETS) for name in options.named(datasets)] or list(PAPER)
    known, searched = load_rows(configs), []
    for row in select_rows(known, options.named(rows)) if rows else known:
        if row.search:
            searched.append(row)
        else:
            terminal.say(f"Skipped {row.name}: its file has no [search].", "yellow")
    with terminal.counting("Running trials") as count:
        choices = search_settings(config, searched, list(dict.fromkeys(names)), count, cluster)
    _check_equal_effort(terminal, choices, choose)
    files = _write_chosen(searched, choices) if choose else []
    found = {"trials": trials, "choices": list(map(_as_json, choices)), "files": list(map(str, files))}
    terminal.print_result(found, [_choices_table(searched, choices), *(f"Wrote {file}" for file in files)])


def _write_chosen(rows: Sequence[Row], choices: Sequence[Choice]) -> list[Path]:
    from lggd.app.comparison.rows import write_chosen

    found = {row.chosen_file: [each for each in choices if each.slug == row.slug and each.trials] for row in rows}
    found = {path: chosen for path, chosen in found.items() if chosen}
    for path, chosen in found.items():
        write_chosen(path, chosen)
    return list(found)


def _check_equal_effort(terminal: Terminal, choices: Sequence[Choice], choose: bool) -> None:
    """Warns if the numbers of trials differ; raises if settings would be chosen by them."""
    counts = sorted({choice.trials or 0 for choice in choices})
    if len(counts) < 2:
        return
    if choose:
        rule = "find the same number of trials for every row and dataset"
        remedy = "--trials N uses the first N and runs those that are missing; or select --rows and --datasets."
        raise InputError("--choose", rule, f"{counts[0]} to {counts[-1]}", remedy)
    numbers = ", ".join(f"{choice.slug} on {choice.dataset} {choice.trials}" for choice in choices)
    terminal.say(f"The comparison is not fair, because the numbers of trials differ: {numbers}.", "yellow")


def _choices_table(searched: Sequence[Row], choices: Sequence[Choice]) -> Table:
    names = {row.slug: f"{row.number} {row.name}" for row in searched}
    rows = []
    for choice in choices:
        best = "–" if choice.validation is None else f"{choice.validation:.2f}"
        states = [f"{count} {word}" for count, word in ((choice.pruned, "pruned"), (choice.failed, "failed")) if count]
        trials = f"{choice.trials}" + (f" ({', '.join(states)})" if states else "")
        rows.append((names[choice.slug], choice.dataset, trials, best, _settings(choice)))
    return table("row", "dataset", "trials", "validation accuracy (%)", "chosen", rows=rows)


def _settings(choice: Choice) -> str:
    if choice.settings is None:
        return f"none: {choice.reason}" if choice.reason else "none"
    values = ((name, f"{v:.4g}" if isinstance(v, float) else v) for name, v in sorted(choice.settings.items()))
    return ", ".join(f"{name} {value}" for name, value in values)


def _as_json(choice: Choice) -> dict[str, Any]:
    from lggd.app.comparison.settings import json_setting

    settings = None if choice.settings is None else {name: json_setting(v) for name, v in choice.settings.items()}
    return asdict(choice) | {"settings": settings}
