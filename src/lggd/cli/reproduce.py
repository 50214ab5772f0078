"""lggd reproduce: measures the tables and figures of the paper."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Column, Table
from typer import Argument, Exit

from lggd.cli import options
from lggd.cli.options import folder, option
from lggd.cli.terminal import FAILED, Terminal, flags, table
from lggd.report.html import counted

if TYPE_CHECKING:
    from lggd.comparison.jobs import Job, JobListener
    from lggd.training import progress as training

SPLITS, QUICK_SPLITS = 10, 3
FLAGS = flags("rows", "datasets", name="--datasets", root="--data")


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
        from lggd.comparison.jobs import JobOptions, run_jobs
        from lggd.comparison.results import Results
        from lggd.paper.experiments import Selection, plan
    count = splits or (QUICK_SPLITS if quick else SPLITS)
    job_options = JobOptions(Results(results), count, options.chosen_device(device), seed, data)
    options.use_fast_products(job_options.device)
    jobs = plan(experiment, Selection(options.named(rows), options.named(datasets), configs, quick))
    with _progress_bars(terminal) as listener:
        result = run_jobs(jobs, job_options, again=again, listener=listener)
    facts = {
        "results": str(results), "measured": len(result.lines) - result.reused, "reused": result.reused,
        "failed": [{"job": title, "error": terminal.message(error)} for title, error in result.failures],
        "lines": result.lines,
    }  # fmt: skip
    terminal.answer(facts, _tables(facts))
    for title, error in result.failures:
        if terminal.debug:
            terminal.err.print("".join(traceback.format_exception(error)), markup=False, highlight=False)
        terminal.say(f"{title} failed: {terminal.message(error)}", "red")
    if result.failures:
        raise Exit(FAILED)


@contextmanager
def _progress_bars(terminal: Terminal) -> Iterator[JobListener]:
    """Shows a progress bar for the jobs, and below it one for the epochs of the current job."""
    with terminal.bars() as bars:
        jobs, epochs = bars.add_task("Reading data", total=None), bars.add_task("", total=None)

        def start(job: Job, number: int, total: int) -> training.Callback:
            bars.update(jobs, description=job.title, completed=number, total=total)
            bars.reset(epochs, description="", total=None)
            return lambda now: bars.update(epochs, description=f"  {now.stage}", completed=now.epoch, total=now.epochs)

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
