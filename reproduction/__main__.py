"""The commands of `python -m reproduction`: experiments, the report of their results, figures, and searches."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.table import Column, Table
from typer import Exit, Option, Typer

from lggd.app.cli import options
from lggd.app.cli.options import file, folder, option
from lggd.app.cli.run import TrialsOn
from lggd.app.cli.terminal import FAILED, Terminal, json_exponent, summary, table
from lggd.errors import InputError, optional_package
from lggd.text import counted
from lggd.validation import check_name

if TYPE_CHECKING:
    from lggd.progress import Callback, Progress
    from reproduction.geodesic import Pixel
    from reproduction.rows import Choice, Row

SPLITS, QUICK_SPLITS = 10, 3
FLAGS = {"name": "--datasets", "root": "--data"}
SWEEP_FLAGS = {"root": "--data", "address": "--cluster"}
ROWS = "Rows by number, file name or title, such as 01,09. Can be repeated."
Rows = Annotated[options.Names, Option(help=ROWS, show_default="all")]
DATASETS = "Datasets, such as cora,photo. Can be repeated."
Datasets = Annotated[options.Names, Option(help=DATASETS, show_default="those of the paper")]
CONFIGS = "Folder that contains rows/ and chosen/."
Configs = Annotated[Path | None, Option(metavar="DIR", help=CONFIGS, show_default="reproduction/configs")]
DataFolder = Annotated[Path | None, Option(metavar="DIR", help="Folder of the datasets.", show_default=options.DATA)]
TRIAL_SPLITS = "Number of splits per trial."
BATCH = "Splits per batch: unpromising trials are pruned between batches."

app = Typer(
    name="reproduction",
    help="The tables and figures of the paper, measured.\n\nStart with: python -m reproduction table1 --quick",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


# -- experiments --------------------------------------------------------------------------------------------------

EXPERIMENTS = {
    "table1": "Measure the paper's table: test accuracy of every row on every dataset.",
    "backbones": "Measure rows with GAT, ChebNet and JKNet in place of the GCN.",
    "dynamic": "Measure rows to which labels are added in three steps.",
    "robustness": "Measure and draw how wrong edges change distances.",
    "geodesic": "Measure and draw the geodesic of the teaser.",
    "ablation": "Measure variants of trained LGGD+, each with some settings changed.",
    "all": "Measure all of these.",
}
MEASURED = """

Every measurement is one line of JSON in DIR/EXPERIMENT.jsonl, with all settings, split hashes, versions and the
machine. Existing measurements are not repeated: after an interruption, run the same command again. Several processes
that run the same command share the work.

Example: an overview within minutes:

    python -m reproduction table1 --quick

Example: one row of the table on two datasets:

    python -m reproduction table1 --rows 09 --datasets cora,photo
"""


def _experiment_command(experiment: str) -> None:
    """Adds the command of an experiment."""

    @app.command(experiment, help=EXPERIMENTS[experiment] + MEASURED, short_help=EXPERIMENTS[experiment])
    @options.command(FLAGS)
    def measure_command(
        terminal: Terminal,
        rows: Rows = None,
        datasets: Datasets = None,
        splits: int | None = option(None, "Number of random splits to average over.", min=1, show_default=str(SPLITS)),
        device: options.Device = "auto",
        seed: options.Seed = 0,
        results: Path = folder(Path("results"), "Folder to append results to."),
        configs: Configs = None,
        data: DataFolder = None,
        again: bool = option(False, "Repeat existing measurements.", "--again"),
        quick: bool = option(False, "Only Cora, three splits and a few rows.", "--quick"),
    ) -> None:
        with terminal.working("Loading lggd"):
            from lggd.app.comparison.results import Results
            from reproduction.experiments import Selection, plan
            from reproduction.jobs import JobOptions, run_jobs
        count = splits or (QUICK_SPLITS if quick else SPLITS)
        job_options = JobOptions(Results(results), count, options.chosen_device(device), seed, data)
        options.use_fast_products(job_options.device)
        jobs = plan(experiment, Selection(options.named(rows), options.named(datasets), configs, quick))
        with _progress_bars(terminal) as (callback, training):
            result = run_jobs(jobs, job_options, again=again, callback=callback, training=training)
        failures = [(jobs[number].title, error) for number, error in result.failures.items()]
        facts = {
            "results": str(results), "measured": len(result.lines) - result.reused, "reused": result.reused,
            "failed": [{"job": title, "error": terminal.message(error)} for title, error in failures],
            "lines": result.lines,
        }  # fmt: skip
        terminal.print_result(facts, _tables(facts))
        for title, error in failures:
            if terminal.debug:
                terminal.err.print("".join(traceback.format_exception(error)), markup=False, highlight=False)
            terminal.say(f"{title} failed: {terminal.message(error)}", "red")
        if failures:
            raise Exit(FAILED)


for _name in EXPERIMENTS:
    _experiment_command(_name)


@contextmanager
def _progress_bars(terminal: Terminal) -> Iterator[tuple[Callback, Callback]]:
    """Shows a progress bar for the jobs, and below it one for the epochs of the current job."""
    with terminal.bars() as bars:
        jobs, epochs = bars.add_task("Reading data", total=None), bars.add_task("", total=None)

        def start(now: Progress) -> None:
            bars.update(jobs, description=now.stage, completed=now.done, total=now.total)
            bars.reset(epochs, description="", total=None)

        def train(now: Progress) -> None:
            bars.update(epochs, description=f"  {now.stage}", completed=now.done, total=now.total)

        yield start, train


def _tables(facts: Mapping[str, Any]) -> Iterator[Table | str]:
    for experiment, group in groupby(facts["lines"], itemgetter("experiment")):
        lines = list(group)
        yield from _accuracies(experiment, lines) if "test" in lines[0] else map(_figure_numbers, lines)
    failed = f", {len(facts['failed'])} failed" if facts["failed"] else ""
    yield f"{facts['measured']} measured, {facts['reused']} found in {facts['results']}{failed}."


def _accuracies(experiment: str, lines: Sequence[Mapping[str, Any]]) -> Iterator[Table | str]:
    """Test accuracies as mean ± standard deviation, one row per method and one column per dataset."""
    splits = sorted({len(line["test"]) for line in lines})
    yield f"{experiment}: accuracy (%), {' or '.join(counted(count, 'split') for count in splits)}"
    datasets = list(dict.fromkeys(line["dataset"] for line in lines))
    columns = (Column(dataset, justify="right", no_wrap=True) for dataset in datasets)
    cells: dict[str, dict[str, str]] = {}
    for line in lines:
        cells.setdefault(_row_name(line), {})[line["dataset"]] = f"{line['mean']:.2f} ± {line['sd']:.2f}"
    rows = ([name, *(cell.get(dataset, "") for dataset in datasets)] for name, cell in cells.items())
    yield table("row", *columns, rows=rows)


def _row_name(line: Mapping[str, Any]) -> str:
    additions = counted(line["additions"], "addition") if "additions" in line else ""
    backbone = "" if line["backbone"] == "gcn" else line["backbone"]
    parts = (f"{line['row'].split()[0]} {line['name']}", backbone, line.get("variant"), additions)
    return ", ".join(part for part in parts if part)


def _figure_numbers(line: Mapping[str, Any]) -> str:
    if "change" not in line:
        return f"{line['experiment']}: distance {line['distance']:.6g}. Figure: {line['figure']}."
    changes = (f"p = {each['p']}, n = {each['extra_edges']}: {100 * each['mean']:.2g} %" for each in line["change"])
    return f"{line['experiment']}: relative change {'; '.join(changes)}. Figure: {line['figure']}."


# -- the report ---------------------------------------------------------------------------------------------------


@app.command("report")
@options.command()
def report_command(
    terminal: Terminal,
    results: Path = folder(Path("results"), "Folder with the measurements."),
    out: Path | None = file(None, "Markdown file to write.", show_default="DIR/REPORT.md"),
    configs: Configs = None,
) -> None:
    """Write a report of all results, compared with the paper and with each other.

    Reads DIR/*.jsonl and writes a Markdown file with tables and paired tests,
    and its figures to figures/ next to it. For results that differ from the
    paper's, the report shows the explanation in DIR/notes.toml under the key
    "row.dataset" or "row".

    Example:

        python -m reproduction report --results results
    """
    with terminal.working("Loading lggd"):
        from reproduction.report import write_report
    page = results / "REPORT.md" if out is None else out
    with terminal.working(f"Writing {page}"):
        numbers = write_report(results, page, configs) | {"out": str(page)}
    measured, missing = len(numbers["table1"]), len(numbers["missing"])
    below = sum(each["difference"] < 0 for each in numbers["deviations"])
    result = f"Table 1: {measured} cells measured, {missing} missing, {below} below the paper by more than one sd"
    terminal.print_result(numbers, [result, f"Wrote {page} and {len(numbers['figures'])} figures"])


# -- figures ------------------------------------------------------------------------------------------------------

figure_app = Typer(help="Draw figures of the paper with your own settings.", no_args_is_help=True)
app.add_typer(figure_app, name="figure")

WRONG_EDGES = "Wrong edges to add. Can be repeated."


@figure_app.command("robustness")
@options.command({"extra_edges": "--edges"})
def robustness_command(
    terminal: Terminal,
    points: int = option(20_000, "Number of random points in the unit disk.", min=2),
    epsilon: float = option(0.05, "Radius of neighbourhoods, and width of the rim."),
    edges: list[int] | None = option(None, WRONG_EDGES, min=1, show_default="10, 100, 1000"),
    with_p2: bool = option(False, "Also measure p = 2.", "--with-p2"),
    seeds: int = option(5, "Number of random draws of wrong edges to average over.", min=1),
    seed: options.Seed = 0,
    out: Path = file(Path("robustness.png"), "Output: .png, .pdf or .svg."),
) -> None:
    """Show how wrong edges change distances: p = 1 is robust, shortest paths collapse.

    Connects nearby points of a disk, adds random edges, and colours each point
    by its distance from the rim. The table shows the relative change
    |f_n - f_0| / |f_0| with n wrong edges, averaged over the draws; the figure
    shows the first draw.

    Example: the figure of the paper:

        python -m reproduction figure robustness

    Example: a smaller graph, also with p = 2:

        python -m reproduction figure robustness --points 2000 --epsilon 0.15 --with-p2
    """
    start = time.perf_counter()
    with terminal.working("Loading lggd"):
        from reproduction.figures import check_format, draw_robustness, save
        from reproduction.robustness import robustness
    check_format(out)
    with terminal.progress() as callback:
        exponents = (1, 2, math.inf) if with_p2 else (1, math.inf)
        result = robustness(
            points=points, epsilon=epsilon, extra_edges=edges or (10, 100, 1000), exponents=exponents, seeds=seeds,
            seed=seed, callback=callback,
        )  # fmt: skip
    with terminal.working(f"Drawing {out}"):
        save(draw_robustness(result), out)
    facts = {
        "points": points, "boundary": int(result.boundary.sum()), "unreachable": result.unreachable,
        "edges": result.num_edges, "epsilon": epsilon, "seeds": seeds, "seed": seed,
        "seconds": round(time.perf_counter() - start, 3),
    }  # fmt: skip
    columns = (Column(f"n = {count}", justify="right") for count in result.extra_edges)
    rows = ([f"{p:g}", *(f"{100 * mean:.2g} %" for mean in result.mean_change(p))] for p in result.distances)
    title = f"Relative change after n wrong edges, mean of {counted(seeds, 'draw')}:"
    more = {"change": result.changes(), "out": str(out)}
    terminal.print_result(facts | more, [summary(**facts), title, table("p", *columns, rows=rows), f"Wrote {out}"])


@figure_app.command("geodesic")
@options.command({"mask": "--image"})
def geodesic_command(
    terminal: Terminal,
    image: Path | None = file(None, "Image of a dark shape.", show_default="a dragon"),
    source: str | None = option(None, "Start of the geodesic.", metavar="ROW,COLUMN", show_default="a far end"),
    target: str | None = option(None, "End of the geodesic.", metavar="ROW,COLUMN", show_default="the farthest pixel"),
    p: float = option(math.inf, "Exponent of the distance, from 1 to inf (shortest paths)."),
    out: Path = file(Path("geodesic.png"), "Output: .png, .pdf or .svg."),
) -> None:
    """Draw a shape, the distances of its pixels from a source, and the geodesic to a target.

    Pixels are written as row,column, counted from 0 at the upper left.

    Example: a geodesic through a dragon:

        python -m reproduction figure geodesic

    Example: a geodesic through your own image:

        python -m reproduction figure geodesic --image maze.png --source 10,12 --out path.png
    """
    start = time.perf_counter()
    with terminal.working("Loading lggd"):
        from reproduction.figures import check_format, draw_geodesic, save
        from reproduction.geodesic import DRAGON, geodesic, read_image
    check_format(out)
    ends = {"source": _read_pixel(source, "--source"), "target": _read_pixel(target, "--target")}
    with terminal.working("Measuring distances"):
        result = geodesic(read_image(DRAGON if image is None else image), p=p, **ends)
    with terminal.working(f"Drawing {out}"):
        save(draw_geodesic(result), out)
    height, width = result.shape.shape
    facts = {
        "image": None if image is None else str(image), "height": height, "width": width,
        "pixels": int(result.shape.sum()), "source": list(result.source), "target": list(result.target),
        "p": json_exponent(p), "distance": result.length, "seconds": round(time.perf_counter() - start, 3),
    }  # fmt: skip
    shown = facts | {"distance": f"{result.length:.6g}", "path": f"{len(result.path):,} pixels"}
    facts |= {"path": result.path.tolist(), "out": str(out)}
    terminal.print_result(facts, [summary(**shown), f"Wrote {out}"])


def _read_pixel(text: str | None, flag: str) -> Pixel | None:
    if text is None:
        return None
    try:
        row, column = (int(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(flag, "be two whole numbers row,column such as 120,40", repr(text)) from error
    return row, column


# -- searches -----------------------------------------------------------------------------------------------------


@app.command("sweep")
@options.command(SWEEP_FLAGS)
def sweep_command(
    terminal: Terminal,
    rows: Rows = None,
    datasets: Datasets = None,
    trials: int = option(20, "Trials per row and dataset; 0 evaluates earlier trials.", min=0),
    splits: int | None = option(None, TRIAL_SPLITS, min=1, show_default="that of earlier trials, or 3"),
    batch_size: int | None = option(None, BATCH, min=1, show_default="all"),
    ranges: Literal["ours", "paper"] = option("ours", "Search spaces: ours, or the papers' own."),
    device: options.Device = "auto",
    seed: options.Seed = 0,
    results: Path = folder(Path("results"), "Trials are stored in DIR/sweeps."),
    configs: Configs = None,
    data: DataFolder = None,
    choose: bool = option(False, "Write the best settings to chosen/ in the configs folder.", "--choose"),
    cluster: TrialsOn = None,
) -> None:
    """Search for the best settings of every row and dataset, judged by validation accuracy.

    Every row and dataset gets the same number of trials. Labels of test nodes are removed before training. Trials are
    stored as they end: run the command again to continue, or several times at once to share the work.

    Example, which downloads nothing:

        python -m reproduction sweep --rows 01 --datasets digits --trials 5

    Example: write the best settings of the first ten trials of every row:

        python -m reproduction sweep --trials 10 --choose
    """
    with terminal.working("Loading lggd"):
        with optional_package("python -m reproduction sweep", "lggd[sweep]"):
            import optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        from lggd.datasets.by_name import DATASETS, PAPER
        from reproduction.rows import load_rows, select_rows
        from reproduction.sweep import SearchConfig, search_settings
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
    with terminal.progress() as callback:
        choices = search_settings(config, searched, list(dict.fromkeys(names)), callback, cluster)
    _check_equal_effort(terminal, choices, choose)
    files = _write_chosen(searched, choices) if choose else []
    facts = {"trials": trials, "choices": list(map(asdict, choices)), "files": list(map(str, files))}
    terminal.print_result(facts, [_choices_table(searched, choices), *(f"Wrote {file}" for file in files)])


def _write_chosen(rows: Sequence[Row], choices: Sequence[Choice]) -> list[Path]:
    from reproduction.rows import write_chosen

    choices_of = {row.chosen_file: [each for each in choices if each.slug == row.slug and each.trials] for row in rows}
    written = {path: chosen for path, chosen in choices_of.items() if chosen}
    for path, chosen in written.items():
        write_chosen(path, chosen)
    return list(written)


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


def main() -> None:
    app(prog_name="python -m reproduction")


if __name__ == "__main__":
    main()
