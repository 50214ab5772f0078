"""The paper's results: lggd reproduce measures them, lggd report compares them, and lggd figure draws two of them."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Column, Table
from typer import Argument, Exit, Typer

from lggd.app.cli import options
from lggd.app.cli.options import file, folder, option
from lggd.app.cli.terminal import FAILED, Terminal, json_exponent, summary, table
from lggd.errors import InputError
from lggd.text import counted

if TYPE_CHECKING:
    from lggd.app.comparison.jobs import JobListener
    from lggd.paper.geodesic import Pixel
    from lggd.progress import Callback

SPLITS, QUICK_SPLITS = 10, 3
FLAGS = {"name": "--datasets", "root": "--data"}


Experiment = Literal["table1", "backbones", "dynamic", "robustness", "geodesic", "ablation", "all"]


@options.command(FLAGS)
def reproduce_command(
    terminal: Terminal,
    experiment: Experiment = Argument(..., help="Table or figure to measure.", show_default=False),
    rows: options.Rows = None,
    datasets: options.Datasets = None,
    splits: int | None = option(None, "Number of random splits to average over.", min=1, show_default=str(SPLITS)),
    device: options.Device = "auto",
    seed: options.Seed = 0,
    results: Path = folder(Path("results"), "Folder to append results to."),
    configs: options.Configs = None,
    data: options.DataFolder = None,
    again: bool = option(False, "Repeat existing measurements.", "--again"),
    quick: bool = option(False, "Only Cora, three splits and a few rows.", "--quick"),
) -> None:
    """Measure a table or a figure of the paper, including its baselines.

    Every measurement is one line of JSON in DIR/EXPERIMENT.jsonl, with all
    settings, split hashes, versions and the machine. Existing measurements are
    not repeated: after an interruption, run the same command again. Several
    processes that run the same command share the work.

    Example: an overview within minutes:

        lggd reproduce table1 --quick

    Example: one row of the table on two datasets:

        lggd reproduce table1 --rows 09 --datasets cora,photo
    """
    with terminal.working("Loading lggd"):
        from lggd.app.comparison.jobs import JobOptions, run_jobs
        from lggd.app.comparison.results import Results
        from lggd.paper.experiments import Selection, plan
    count = splits or (QUICK_SPLITS if quick else SPLITS)
    job_options = JobOptions(Results(results), count, options.chosen_device(device), seed, data)
    options.use_fast_products(job_options.device)
    jobs = plan(experiment, Selection(options.named(rows), options.named(datasets), configs, quick))
    with _progress_bars(terminal) as listener:
        result = run_jobs(jobs, job_options, again=again, listener=listener)
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


@contextmanager
def _progress_bars(terminal: Terminal) -> Iterator[JobListener]:
    """Shows a progress bar for the jobs, and below it one for the epochs of the current job."""
    with terminal.bars() as bars:
        jobs, epochs = bars.add_task("Reading data", total=None), bars.add_task("", total=None)

        def start(number: int, total: int, title: str) -> Callback:
            bars.update(jobs, description=title, completed=number, total=total)
            bars.reset(epochs, description="", total=None)
            return lambda now: bars.update(epochs, description=f"  {now.stage}", completed=now.done, total=now.total)

        yield start


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


@options.command()
def report_command(
    terminal: Terminal,
    results: Path = folder(Path("results"), "Folder with the measurements."),
    out: Path | None = file(None, "Markdown file to write.", show_default="DIR/REPORT.md"),
    configs: options.Configs = None,
) -> None:
    """Write a report of all results, compared with the paper and with each other.

    Reads DIR/*.jsonl and writes a Markdown file with tables and paired tests,
    and its figures to figures/ next to it. For results that differ from the
    paper's, the report shows the explanation in DIR/notes.toml under the key
    "row.dataset" or "row".

    Example:

        lggd report --results results
    """
    with terminal.working("Loading lggd"):
        from lggd._system.files import check_writable
        from lggd.paper.report import write_report
    page = results / "REPORT.md" if out is None else check_writable(out)
    with terminal.working(f"Writing {page}"):
        numbers = write_report(results, page, configs) | {"out": str(page)}
    measured, missing = len(numbers["table1"]), len(numbers["missing"])
    below = sum(each["difference"] < 0 for each in numbers["deviations"])
    result = f"Table 1: {measured} cells measured, {missing} missing, {below} below the paper by more than one sd"
    terminal.print_result(numbers, [result, f"Wrote {page} and {len(numbers['figures'])} figures"])


# -- figures ------------------------------------------------------------------------------------------------------

figure_app = Typer(help="Draw figures of the paper.", no_args_is_help=True)

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

        lggd figure robustness

    Example: a smaller graph, also with p = 2:

        lggd figure robustness --points 2000 --epsilon 0.15 --with-p2
    """
    start = time.perf_counter()
    with terminal.working("Loading lggd"):
        from lggd.paper.figures import check_format, draw_robustness, save
        from lggd.paper.robustness import robustness
    check_format(out)
    with terminal.counting("Measuring distances") as progress:
        exponents, counts = (1, 2, math.inf) if with_p2 else (1, math.inf), edges or (10, 100, 1000)
        graph = {"points": points, "epsilon": epsilon, "extra_edges": counts, "exponents": exponents}
        result = robustness(**graph, seeds=seeds, seed=seed, progress=progress)  # type: ignore[arg-type]
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

        lggd figure geodesic

    Example: a geodesic through your own image:

        lggd figure geodesic --image maze.png --source 10,12 --out path.png
    """
    start = time.perf_counter()
    with terminal.working("Loading lggd"):
        from lggd.paper.figures import check_format, draw_geodesic, save
        from lggd.paper.geodesic import DRAGON, geodesic, read_image
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
