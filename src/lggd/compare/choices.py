"""Settings that a search has chosen, in one file per method that people can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lggd.compare.configs import Setting, check_keys, read_settings, read_table, read_toml, toml_key, toml_line
from lggd.data.datasets import DATASETS
from lggd.files import replacing

HEADER = (
    "# Written by `lggd sweep --choose`: for each dataset, the settings with the highest mean validation accuracy (%)."
)
# What a file records of a choice besides its settings.
RECORDED = ("trials", "splits", "validation", "reason")


@dataclass(frozen=True)
class Choice:
    """The best of the `trials` that count for a method on a dataset: its settings and mean validation accuracy (%).

    `settings` and `validation` are None where every trial failed; `reason` is then that of the first.
    """

    slug: str
    dataset: str
    trials: int | None = None
    splits: int | None = None
    settings: Mapping[str, Setting] | None = None
    validation: float | None = None
    pruned: int = 0
    failed: int = 0
    reason: str = ""


def read_chosen(path: str | Path) -> dict[str, Choice]:
    """The choices in a method's file by dataset; none where there is no file.

    Files without `[DATASET.settings]`, as earlier versions wrote them, hold the settings below `[DATASET]` itself.
    """
    path = Path(path)
    found = read_toml(path) if path.exists() else {}
    check_keys(path, "", found, DATASETS)
    return {dataset: _read_choice(path, dataset, read_table(path, found, dataset)) for dataset in found}


def _read_choice(path: Path, dataset: str, table: dict[str, Any]) -> Choice:
    if not {"trials", "settings"} & table.keys():
        return Choice(path.stem, dataset, settings=read_settings(path, dataset, table))
    check_keys(path, dataset, table, (*RECORDED, "settings"))
    recorded = {name: table[name] for name in RECORDED if name in table}
    if "settings" in table:
        recorded["settings"] = read_settings(path, f"{dataset}.settings", read_table(path, table, "settings"))
    return Choice(path.stem, dataset, **recorded)


def write_chosen(path: str | Path, choices: Sequence[Choice]) -> None:
    """Puts the choices of one method into its file, which is replaced whole or not at all.

    Datasets that are in the file and not among the choices keep what they have. The order is that of `DATASETS`.
    """
    path = Path(path)
    merged = read_chosen(path) | {choice.dataset: choice for choice in choices}
    sections = [_section(merged[dataset]) for dataset in sorted(merged, key=DATASETS.index)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join([HEADER, *sections]) + "\n", encoding="utf-8")
        read_toml(temporary)  # a file that cannot be read must never replace one that can


def _section(choice: Choice) -> str:
    name = toml_key(choice.dataset)
    validation = None if choice.validation is None else round(choice.validation, 2)
    recorded = {"trials": choice.trials, "splits": choice.splits, "validation": validation, "reason": choice.reason}
    lines = [f"[{name}]", *(toml_line(key, value) for key, value in recorded.items() if value not in (None, ""))]
    if choice.settings is not None:
        lines += [f"[{name}.settings]", *(toml_line(*pair) for pair in sorted(choice.settings.items()))]
    return "\n".join(lines)
