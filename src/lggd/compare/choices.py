"""The settings chosen by a search, in one TOML file per method."""

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
# Keys of a choice in a file, besides its settings.
RECORDED = ("trials", "splits", "validation", "reason")


@dataclass(frozen=True)
class Choice:
    """The best of the `trials` of a method on a dataset: its settings and mean validation accuracy (%).

    `settings` and `validation` are None if every trial failed; `reason` is then the error of the first.
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
    """Reads the choices of a method by dataset; returns an empty dict if the file does not exist.

    Files of earlier versions have no `[DATASET.settings]`; their settings are directly below `[DATASET]`.
    """
    path = Path(path)
    content = read_toml(path) if path.exists() else {}
    check_keys(path, "", content, DATASETS)
    return {dataset: _read_choice(path, dataset, read_table(path, content, dataset)) for dataset in content}


def _read_choice(path: Path, dataset: str, table: dict[str, Any]) -> Choice:
    if not {"trials", "settings"} & table.keys():
        return Choice(path.stem, dataset, settings=read_settings(path, dataset, table))
    check_keys(path, dataset, table, (*RECORDED, "settings"))
    recorded = {name: table[name] for name in RECORDED if name in table}
    if "settings" in table:
        recorded["settings"] = read_settings(path, f"{dataset}.settings", read_table(path, table, "settings"))
    return Choice(path.stem, dataset, **recorded)


def write_chosen(path: str | Path, choices: Sequence[Choice]) -> None:
    """Updates the file of a method with these choices; the file is replaced atomically.

    Other datasets in the file remain unchanged. The order is that of `DATASETS`.
    """
    path = Path(path)
    merged = read_chosen(path) | {choice.dataset: choice for choice in choices}
    sections = [_section(merged[dataset]) for dataset in sorted(merged, key=DATASETS.index)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join([HEADER, *sections]) + "\n", encoding="utf-8")
        read_toml(temporary)  # raises before an unreadable file replaces the old one


def _section(choice: Choice) -> str:
    name = toml_key(choice.dataset)
    validation = None if choice.validation is None else round(choice.validation, 2)
    recorded = {"trials": choice.trials, "splits": choice.splits, "validation": validation, "reason": choice.reason}
    lines = [f"[{name}]", *(toml_line(key, value) for key, value in recorded.items() if value not in (None, ""))]
    if choice.settings is not None:
        lines += [f"[{name}.settings]", *(toml_line(*pair) for pair in sorted(choice.settings.items()))]
    return "\n".join(lines)
