"""lggd sweep: searches for the settings of methods, with equally many trials for all and without test labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table

from lggd.cli import options
from lggd.cli.cluster import TrialsOn
from lggd.cli.options import folder, option
from lggd.cli.terminal import Terminal, flags, table
from lggd.errors import InputError
from lggd.validation import check_name

if TYPE_CHECKING:
    from lggd.comparison.methods import Choice, Method

FLAGS = flags(
    "rows",
    "datasets",
    "trials",
    "splits",
    "batch_size",
    "seed",
    "results",
    "configs",
    root="--data",
    address="--cluster",
)


SPLITS = "Number of splits per trial."
BATCH = "Splits to train side by side; poor trials are pruned in between."


@options.command(FLAGS)
def sweep_command(
    terminal: Terminal,
    rows: options.Rows = None,
    datasets: options.Datasets = None,
    trials: int = option(20, "Trials per row and dataset; 0 evaluates earlier trials.", min=0),
    splits: int | None = option(None, SPLITS, min=1, show_default="that of earlier trials, or 3"),
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
        _check_optuna()
        from lggd.comparison.methods import load_methods, select_methods
        from lggd.comparison.search import SearchConfig, search_settings
        from lggd.data.datasets import DATASETS, PAPER
    paper, chosen = ranges == "paper", options.chosen_device(device)
    config = SearchConfig(trials, splits, batch_size, chosen, seed=seed, results=results, root=data, paper_ranges=paper)
    options.use_fast_products(config.device)
    names = [check_name("datasets", name.lower(), DATASETS) for name in options.named(datasets)] or list(PAPER)
    known = load_methods(configs)
    methods = []
    for method in select_methods(known, options.named(rows)) if rows else known:
        if method.search:
            methods.append(method)
        else:
            terminal.say(f"Skipped {method.name}: its file has no [search].", "yellow")
    with terminal.counting("Running trials") as count:
        choices = search_settings(config, methods, list(dict.fromkeys(names)), count, cluster)
    _check_equal_effort(terminal, choices, choose)
    files = _write(methods, choices) if choose else []
    found = {"trials": trials, "choices": list(map(_as_json, choices)), "files": list(map(str, files))}
    terminal.answer(found, [_table(methods, choices), *(f"Wrote {file}" for file in files)])


def _check_optuna() -> None:
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        remedy = "Run: pip install 'lggd[sweep]'"
        raise InputError("lggd sweep", "import Optuna", but="it is not installed", remedy=remedy) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def _write(methods: Sequence[Method], choices: Sequence[Choice]) -> list[Path]:
    from lggd.comparison.methods import write_chosen

    found = {m.chosen_file: [choice for choice in choices if choice.slug == m.slug and choice.trials] for m in methods}
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


def _table(methods: Sequence[Method], choices: Sequence[Choice]) -> Table:
    names = {method.slug: f"{method.number} {method.name}" for method in methods}
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
    from lggd.comparison.runner import json_setting

    settings = None if choice.settings is None else {name: json_setting(v) for name, v in choice.settings.items()}
    return asdict(choice) | {"settings": settings}
