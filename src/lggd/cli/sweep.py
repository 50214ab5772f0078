"""lggd sweep: search for the settings of the table's rows, all with the same effort, blind to test labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lggd.cli.options import Datasets, Device, DeviceName, Rows, chosen_device, named, use_fast_products
from lggd.cli.terminal import AsJson, Debug, Terminal, flags
from lggd.errors import InputError

if TYPE_CHECKING:
    from lggd.compare.chosen import Choice
    from lggd.compare.row import Row

FLAGS = flags("rows", "datasets", "trials", "splits", "at_once", "seed", "results", "configs", root="--data")


class RangesName(StrEnum):
    OURS = "ours"
    PAPER = "paper"


def sweep_command(
    rows: Rows = None,
    datasets: Datasets = None,
    trials: Annotated[
        int, typer.Option(min=0, help="So many settings for every row on every dataset; 0 tries no more.")
    ] = 20,
    splits: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Judge settings by so many splits, the first ones.",
            show_default="as in the trials so far, else 3",
        ),
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1, help="Learn so many splits side by side, and stop poor settings between.", show_default="all"
        ),
    ] = None,
    ranges: Annotated[RangesName, typer.Option(help="Search where we do, or where the paper did.")] = RangesName.OURS,
    device: Device = DeviceName.AUTO,
    seed: Annotated[int, typer.Option(min=0, help="What settings and training depend on by chance.")] = 0,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Trials are kept in DIR/sweeps.")] = Path("results"),
    configs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder with rows/ and chosen/.", show_default="that of the package"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder of datasets.", show_default="LGGD_DATA, or a download"),
    ] = None,
    choose: Annotated[
        bool, typer.Option("--choose", help="Write the best settings to chosen/ in the folder of rows.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Search for settings: for every row and dataset the same number of trials, judged by validation accuracy alone.

    The labels of test nodes are removed before anything is learned. Trials are kept as they end: start the command
    again to go on, or start it several times, on several machines with one disk, to share the work.

    Example, which needs no files but those of a source tree:

        lggd sweep --rows 01 --datasets digits --trials 5

    Example, to write what the first ten trials of every row have found best:

        lggd sweep --trials 10 --choose
    """
    with Terminal(as_json=as_json, debug=debug, flags=FLAGS) as terminal:
        with terminal.working("Loading lggd"):
            _check_optuna()
            from lggd.compare.row import load_rows, rows_named
            from lggd.compare.sweep import Sweep, sweep
            from lggd.data.datasets import PAPER
        paper = ranges is RangesName.PAPER
        settings = Sweep(
            trials, splits, at_once, chosen_device(device), seed=seed, results=results, root=data, paper_ranges=paper
        )
        use_fast_products(settings.device)
        wanted = _checked(datasets) or list(PAPER)
        known = load_rows(configs)
        meant = _with_search(terminal, rows_named(known, named(rows)) if rows else known)
        with terminal.counting("Trying settings") as count:
            choices = sweep(settings, meant, wanted, count)
        _check_fair(terminal, choices, choose)
        files = _write(meant, choices) if choose else []
        terminal.answer(
            {
                "trials": trials,
                "choices": [_facts(choice) for choice in choices],
                "files": [str(file) for file in files],
            },
            _shown(meant, choices, files),
        )


def _check_optuna() -> None:
    try:
        import optuna
    except ModuleNotFoundError as missing:
        if missing.name != "optuna":
            raise
        raise ValueError(
            "`lggd sweep` needs Optuna, which is not installed. Run: pip install 'lggd[sweep]'"
        ) from missing
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _checked(datasets: Sequence[str] | None) -> list[str]:
    from lggd.data.datasets import DATASETS
    from lggd.validation import suggestion

    found = list(dict.fromkeys(name.lower() for name in named(datasets)))
    for name in found:
        if name not in DATASETS:
            close = suggestion(name, DATASETS)
            raise ValueError(f"`datasets` must be among {', '.join(DATASETS)}, got {name!r}. {close}".rstrip())
    return found


def _with_search(terminal: Terminal, rows: Iterable[Row]) -> list[Row]:
    found = []
    for row in rows:
        if row.search:
            found.append(row)
        else:
            terminal.say(f"Left out {row.name}: its file says nothing under [search].", "yellow")
    return found


def _write(rows: Sequence[Row], choices: Sequence[Choice]) -> list[Path]:
    from lggd.compare.chosen import write_chosen

    files = []
    for row in rows:
        found = [choice for choice in choices if choice.slug == row.slug and choice.trials]
        if found:
            write_chosen(row.chosen_file, found)
            files.append(row.chosen_file)
    return files


def _check_fair(terminal: Terminal, choices: Sequence[Choice], choose: bool) -> None:
    """Numbers of trials that differ are told; settings are not chosen by them."""
    counts = sorted({choice.trials for choice in choices})
    if len(counts) < 2:
        return
    if choose:
        few, many = counts[0], counts[-1]
        raise InputError(
            "--choose",
            "find as many trials for every row and dataset",
            f"{few} to {many}",
            (
                "`--trials N` counts the first N and does those that are missing; or name `--rows` and "
                "`--datasets` that have as many."
            ),
        )
    told = ", ".join(f"{choice.slug} on {choice.dataset} {choice.trials}" for choice in choices)
    terminal.say(f"The numbers of trials are not equal, so this comparison is not fair: {told}.", "yellow")


def _shown(rows: Sequence[Row], choices: Sequence[Choice], files: Sequence[Path]) -> list[Table | Text]:
    names = {row.slug: f"{row.number} {row.name}" for row in rows}
    table = Table("row", "dataset", "trials", "validation", "chosen")
    for choice in choices:
        best = "–" if choice.validation is None else f"{choice.validation:.2f} %"
        table.add_row(names[choice.slug], choice.dataset, _counts(choice), best, Text(_values(choice)))
    return [table, *(Text(f"Wrote {file}") for file in files)]


def _counts(choice: Choice) -> str:
    apart = [f"{count} {word}" for count, word in ((choice.pruned, "pruned"), (choice.failed, "failed")) if count]
    return f"{choice.trials}" + (f" ({', '.join(apart)})" if apart else "")


def _values(choice: Choice) -> str:
    if choice.settings is None:
        return f"none: {choice.reason}" if choice.reason else "none"
    return ", ".join(f"{name} {_short(value)}" for name, value in sorted(choice.settings.items()))


def _facts(choice: Choice) -> dict[str, Any]:
    settings = {name: _json_value(value) for name, value in (choice.settings or {}).items()}
    return asdict(choice) | {"settings": None if choice.settings is None else settings}


def _json_value(value: Any) -> Any:
    """JSON knows no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
