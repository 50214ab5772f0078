"""lggd reproduce: measures the tables and figures of the paper."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from lggd.cli import options
from lggd.cli.terminal import FAILED, AsJson, Debug, Terminal, flags
from lggd.report.formatting import counted

if TYPE_CHECKING:
    from lggd.paper.jobs import Job, JobListener
    from lggd.training import progress as training

SPLITS, QUICK_SPLITS = 10, 3
FLAGS = flags("rows", "datasets", name="--datasets", root="--data")


class Experiment(StrEnum):
    TABLE1 = "table1"
    BACKBONES = "backbones"
    DYNAMIC = "dynamic"
    ROBUSTNESS = "robustness"
    GEODESIC = "geodesic"
    ABLATION = "ablation"
    ALL = "all"


def reproduce_command(
    experiment: Annotated[Experiment, typer.Argument(help="Table or figure to measure.", show_default=False)],
    rows: options.Rows = None,
    datasets: options.Datasets = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Number of random splits to average over.", show_default=str(SPLITS))
    ] = None,
    device: options.Device = options.DeviceName.AUTO,
    seed: options.Seed = 0,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Folder to append results to.")] = Path("results"),
    configs: options.Configs = None,
    data: options.DataFolder = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat existing measurements.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Only Cora, three splits and a few rows.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
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
    with Terminal(as_json=as_json, debug=debug, flags=FLAGS) as terminal:
        with terminal.working("Loading lggd"):
            from lggd.compare.results import Results
            from lggd.paper.experiments import Selection, plan
            from lggd.paper.jobs import JobOptions, reproduce
        count = splits or (QUICK_SPLITS if quick else SPLITS)
        job_options = JobOptions(Results(results), count, options.chosen_device(device), seed, data)
        options.use_fast_products(job_options.device)
        jobs = plan(experiment.value, Selection(options.named(rows), options.named(datasets), configs, quick))
        with _progress_bars(terminal) as listener:
            result = reproduce(jobs, job_options, again=again, listener=listener)
        facts = {
            "results": str(results),
            "measured": len(result.lines) - result.reused,
            "reused": result.reused,
            "failed": [{"job": title, "error": terminal.message(error)} for title, error in result.failures],
            "lines": result.lines,
        }
        terminal.answer(facts, _tables(facts))
        for title, error in result.failures:
            if terminal.debug:
                terminal.err.print("".join(traceback.format_exception(error)), markup=False, highlight=False)
            terminal.say(f"{title} failed: {terminal.message(error)}", "red")
        if result.failures:
            raise typer.Exit(FAILED)


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


def _tables(facts: Mapping[str, Any]) -> list[Table | Text]:
    parts: list[Table | Text] = []
    for experiment, group in groupby(facts["lines"], itemgetter("experiment")):
        lines = list(group)
        parts += _accuracies(experiment, lines) if "test" in lines[0] else [_figure_numbers(line) for line in lines]
    failed = f", {len(facts['failed'])} failed" if facts["failed"] else ""
    return [*parts, Text(f"{facts['measured']} measured, {facts['reused']} found in {facts['results']}{failed}.")]


def _accuracies(experiment: str, lines: Sequence[Mapping[str, Any]]) -> list[Table | Text]:
    """Test accuracies as mean ± standard deviation, one row per method and one column per dataset."""
    splits = sorted({len(line["test"]) for line in lines})
    title = f"{experiment}: accuracy (%), {' or '.join(counted(count, 'split') for count in splits)}"
    datasets = list(dict.fromkeys(line["dataset"] for line in lines))
    table = Table("row", *(Column(dataset, justify="right", no_wrap=True) for dataset in datasets))
    cells: dict[str, dict[str, str]] = {}
    for line in lines:
        cells.setdefault(_row_name(line), {})[line["dataset"]] = f"{line['mean']:.2f} ± {line['sd']:.2f}"
    for name, cell in cells.items():
        table.add_row(Text(name), *(cell.get(dataset, "") for dataset in datasets))
    return [Text(title), table]


def _row_name(line: Mapping[str, Any]) -> str:
    parts = [f"{line['row'].split()[0]} {line['name']}"]
    if line["backbone"] != "gcn":
        parts.append(line["backbone"])
    if "variant" in line:
        parts.append(line["variant"])
    if "additions" in line:
        parts.append(counted(line["additions"], "addition"))
    return ", ".join(parts)


def _figure_numbers(line: Mapping[str, Any]) -> Text:
    if "change" not in line:
        return Text(f"{line['experiment']}: distance {line['distance']:.6g}. Figure: {line['figure']}.")
    changes = (f"p = {each['p']}, n = {each['extra_edges']}: {100 * each['mean']:.2g} %" for each in line["change"])
    return Text(f"{line['experiment']}: relative change {'; '.join(changes)}. Figure: {line['figure']}.")
