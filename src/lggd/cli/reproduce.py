"""lggd reproduce: the paper's tables and figures, made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from lggd.cli.options import Datasets, Device, DeviceName, Rows, chosen_device, named, use_fast_products
from lggd.cli.terminal import FAILED, AsJson, Debug, Terminal, flags

if TYPE_CHECKING:
    from lggd.paper.jobs import Job
    from lggd.paper.reproduce import Outcome
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
    experiment: Annotated[Experiment, typer.Argument(help="Which table or figure.", show_default=False)],
    rows: Rows = None,
    datasets: Datasets = None,
    splits: Annotated[
        int | None, typer.Option(min=1, help="How many random splits to average over.", show_default=str(SPLITS))
    ] = None,
    device: Device = DeviceName.AUTO,
    seed: Annotated[int, typer.Option(min=0, help="What training depends on by chance.")] = 0,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder that results are added to.")] = Path(
        "results"
    ),
    configs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder with rows/ and chosen/.", show_default="that of the package"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of the datasets.", show_default="LGGD_DATA")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure anew what has been measured before.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Cora, three splits and a few rows, within minutes.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a table or a figure of the paper anew, beside its baselines.

    Each result is a line of JSON in DIR/EXPERIMENT.jsonl, with all its settings,
    its splits, versions and machine. What is there already is not measured
    again, so an interrupted command is simply repeated. Started several times,
    it shares the work among the processes.

    Example, a look at everything within minutes:

        lggd reproduce table1 --quick

    Example, one row of the table on two datasets:

        lggd reproduce table1 --rows 09 --datasets cora,photo
    """
    with Terminal(as_json=as_json, debug=debug, flags=FLAGS) as terminal:
        with terminal.working("Loading lggd"):
            from lggd.compare.results import Results
            from lggd.paper.jobs import Setup
            from lggd.paper.reproduce import Wish, plan, reproduce
        count = splits or (QUICK_SPLITS if quick else SPLITS)
        setup = Setup(Results(results), count, chosen_device(device), seed, data)
        use_fast_products(setup.device)
        jobs = plan(experiment.value, Wish(named(rows), named(datasets), configs, quick))
        with _progress_shown(terminal) as watcher:
            outcome = reproduce(jobs, setup, again=again, watcher=watcher)
        facts = _facts(outcome, results)
        terminal.answer(facts, _shown(facts))
        for failure in outcome.failures:
            if terminal.debug:
                terminal.err.print("".join(_traceback(failure.error)), markup=False, highlight=False)
            terminal.say(f"{failure.title} failed: {_reason(failure.error)}", "red")
        if outcome.failures:
            raise typer.Exit(FAILED)


class _Bars:
    """A bar for the jobs, and below it one for the epochs of the job that is running."""

    def __init__(self, shown: Progress) -> None:
        self.shown = shown
        self.jobs = shown.add_task("Reading data", total=None)
        self.epochs: TaskID | None = None

    def begin(self, job: Job, number: int, total: int) -> training.Callback:
        if self.epochs is not None:
            self.shown.remove_task(self.epochs)
        self.shown.update(self.jobs, description=job.title, completed=number, total=total)
        epochs = self.epochs = self.shown.add_task("", total=None)

        def move(told: training.Progress) -> None:
            self.shown.update(epochs, description=f"  {told.stage}", completed=told.epoch, total=told.epochs)

        return move


@contextmanager
def _progress_shown(terminal: Terminal) -> Iterator[_Bars]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal.err, transient=True, disable=not terminal.err.is_terminal) as shown:
        yield _Bars(shown)


def _facts(outcome: Outcome, results: Path) -> dict[str, Any]:
    return {
        "results": str(results),
        "measured": len(outcome.lines) - outcome.kept,
        "kept": outcome.kept,
        "failed": [{"job": one.title, "error": _reason(one.error)} for one in outcome.failures],
        "lines": outcome.lines,
    }


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _traceback(error: Exception) -> list[str]:
    import traceback

    return traceback.format_exception(error)


# -- what is shown ----------------------------------------------------------------------------------------------------


def _shown(facts: Mapping[str, Any]) -> list[Table | Text]:
    by_experiment: dict[str, list[dict[str, Any]]] = {}
    for line in facts["lines"]:
        by_experiment.setdefault(line["experiment"], []).append(line)
    parts: list[Table | Text] = []
    for experiment, lines in by_experiment.items():
        parts += _accuracies(experiment, lines) if "test" in lines[0] else [_numbers(line) for line in lines]
    told = f"{facts['measured']} measured, {facts['kept']} found in {facts['results']}"
    return [*parts, Text(f"{told}, {len(facts['failed'])} failed." if facts["failed"] else f"{told}.")]


def _accuracies(experiment: str, lines: Sequence[Mapping[str, Any]]) -> list[Table | Text]:
    """Test accuracies, mean ± standard deviation, a row a method and a column a dataset."""
    splits = sorted({len(line["test"]) for line in lines})
    title = Text(f"{experiment}: right in per cent, over {' or '.join(map(str, splits))} split{'s' * (splits != [1])}")
    table = Table()
    datasets = list(dict.fromkeys(line["dataset"] for line in lines))
    table.add_column("row")
    for dataset in datasets:
        table.add_column(dataset, justify="right", no_wrap=True)
    cells: dict[str, dict[str, str]] = {}
    for line in lines:
        cells.setdefault(_called(line), {})[line["dataset"]] = f"{line['mean']:.2f} ± {line['sd']:.2f}"
    for name, cell in cells.items():
        table.add_row(Text(name), *(cell.get(dataset, "") for dataset in datasets))
    return [title, table]


def _called(line: Mapping[str, Any]) -> str:
    parts = [f"{line['row'].split()[0]} {line['name']}"]
    if line["backbone"] != "gcn":
        parts.append(line["backbone"])
    if "variant" in line:
        parts.append(line["variant"])
    if "additions" in line:
        parts.append(f"{line['additions']} addition{'s' * (line['additions'] != 1)}")
    return ", ".join(parts)


def _numbers(line: Mapping[str, Any]) -> Text:
    """A figure in a sentence."""
    if "change" in line:
        moved = (f"p = {one['p']}, n = {one['extra_edges']}: {100 * one['mean']:.2g} %" for one in line["change"])
        return Text(f"{line['experiment']}: moved by wrong edges {'; '.join(moved)}. Drawn in {line['figure']}.")
    return Text(f"{line['experiment']}: distance {line['distance']:.6g}. Drawn in {line['figure']}.")
