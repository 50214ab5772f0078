"""Rows of the table of experiments, defined by files: a method with settings, its search space, the settings chosen."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lggd.datasets.by_name import DATASETS
from lggd.errors import InputError, InputFileError, InputTypeError
from lggd.validation import suggestion
from reproduction.methods import Settings

ROWS, CHOSEN = "rows", "chosen"
CONFIGS = Path(__file__).parent / "configs"
KEYS = ("number", "name", "method", "settings", "search", "paper_search", "quick")
HEADER = (
    "# Written by `python -m reproduction sweep --choose`: for each dataset, the settings with the highest mean "
    "validation\n# accuracy (%)."
)
RECORDED = ("trials", "splits", "validation", "reason")  # keys of a choice in a file, besides its settings


@dataclass(frozen=True)
class Choice:
    """The best of the `trials` of a row on a dataset: its settings and mean validation accuracy (%).

    `settings` and `validation` are None if every trial failed; `reason` is then the error of the first.
    """

    slug: str
    dataset: str
    trials: int | None = None
    splits: int | None = None
    settings: Settings | None = None
    validation: float | None = None
    pruned: int = 0
    failed: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """A method with settings, and its number and name in tables.

    `method` is a name of `reproduction.methods`, `slug` the file name without extension, `folder` the folder of
    configurations. `search` is the search space by setting as in the file, `paper_search` that of the method's own
    paper if it differs; `chosen` are the best settings by dataset. `quick` are settings for `--quick`.
    """

    number: str
    name: str
    method: str
    slug: str
    settings: Settings = field(default_factory=dict)
    search: Settings = field(default_factory=dict)
    paper_search: Settings = field(default_factory=dict)
    chosen: Mapping[str, Choice] = field(default_factory=dict)
    quick: Settings = field(default_factory=dict)
    folder: Path = CONFIGS

    def settings_for(self, dataset: str, quick: bool = False) -> dict[str, Any]:
        """Returns the row's settings, overridden by those chosen for the dataset, and by the quick ones."""
        chosen = self.chosen[dataset].settings if dataset in self.chosen else None
        return {**self.settings, **(chosen or {}), **(self.quick if quick else {})}

    @property
    def file(self) -> Path:
        return self.folder / ROWS / f"{self.slug}.toml"

    @property
    def chosen_file(self) -> Path:
        return self.folder / CHOSEN / f"{self.slug}.toml"

    def files_for(self, dataset: str) -> list[Path]:
        """Returns the files that `settings_for` depends on; none if the row was not read from a file."""
        files = [self.file, self.chosen_file] if dataset in self.chosen else [self.file]
        return [path for path in files if path.is_file()]


def load_rows(folder: str | Path | None = None) -> list[Row]:
    """Reads all rows of a folder, sorted by number."""
    rows = [read_row(path) for path in sorted((configs_folder(folder) / ROWS).glob("*.toml"))]
    seen: dict[str, str] = {}
    for row in rows:
        for text in (row.number, row.name.lower()):
            if text in seen:
                rule, but = "have a unique number and name", f"{seen[text]}.toml has {text!r}, too"
                raise InputError(str(row.file), rule, but=but, remedy="Change one of them.")
            seen[text] = row.slug
    return sorted(rows, key=lambda row: (row.number, row.slug))


def read_row(path: Path) -> Row:
    """Reads the row defined by a file in `rows/`, with its chosen settings."""
    content = read_toml(path)
    check_keys(path, "", content, KEYS)
    number, name, method = (read_text(path, content, key) for key in ("number", "name", "method"))
    settings, search, paper_search, quick = (read_table(path, content, key) for key in KEYS[3:])
    folder = path.parent.parent
    chosen = read_chosen(folder / CHOSEN / path.name)
    return Row(number, name, method, path.stem, settings, search, paper_search, chosen, quick, folder)


def select_rows(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Returns the rows with these numbers (07 or 7), slugs or names, in the order of the table."""
    known = {row.slug: (row.slug, row.name, row.number, row.number.lstrip("0")) for row in rows}
    selected = set()
    for name in names:
        matching = {slug for slug, texts in known.items() if name.lower() in map(str.lower, texts)}
        if not matching:
            numbers = ", ".join(row.number for row in rows)
            close = [text for texts in known.values() for text in texts[:2]]
            remedy = suggestion(name, close, "Use a number, file name or title.")
            raise InputError("rows", f"be among {numbers}", repr(name), remedy)
        selected |= matching
    return [row for row in rows if row.slug in selected]


def read_chosen(path: Path) -> dict[str, Choice]:
    """Reads the choices of a row by dataset; returns an empty dict if the file does not exist."""
    content = read_toml(path) if path.exists() else {}
    check_keys(path, "", content, DATASETS)
    choices = {}
    for dataset in content:
        table = read_table(path, content, dataset)
        check_keys(path, dataset, table, (*RECORDED, "settings"))
        if "settings" in table:
            read_table(path, table, "settings")
        choices[dataset] = Choice(path.stem, dataset, **table)
    return choices


def write_chosen(path: Path, choices: Sequence[Choice]) -> None:
    """Replaces the file of a row by one with these choices and its earlier ones for other datasets."""
    merged = read_chosen(path) | {choice.dataset: choice for choice in choices}
    sections = [_section(merged[dataset]) for dataset in sorted(merged, key=DATASETS.index)]
    text = "\n\n".join([HEADER, *sections]) + "\n"
    tomllib.loads(text)  # raises before an unreadable file replaces the old one
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _section(choice: Choice) -> str:
    name = toml_key(choice.dataset)
    validation = None if choice.validation is None else round(choice.validation, 2)
    recorded = zip(RECORDED, (choice.trials, choice.splits, validation, choice.reason), strict=True)
    lines = [f"[{name}]", *(f"{key} = {toml_value(value)}" for key, value in recorded if value not in (None, ""))]
    if choice.settings is not None:
        settings = sorted(choice.settings.items())
        lines += [f"[{name}.settings]", *(f"{toml_key(key)} = {toml_value(value)}" for key, value in settings)]
    return "\n".join(lines)


# -- TOML -------------------------------------------------------------------------------------------------------------


def configs_folder(folder: str | Path | None = None) -> Path:
    """Returns a folder that contains `rows/` and `chosen/`; by default that beside this module."""
    folder = CONFIGS if folder is None else folder
    if not (Path(folder) / ROWS).is_dir():
        rule = f"be a folder that contains {ROWS}/"
        raise InputFileError(str(folder), rule, but="there is none", remedy="Check --configs.")
    return Path(folder)


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file; errors name the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), "be a TOML file", but=f"it cannot be read: {error}") from error


def check_keys(path: Path, where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises if the table `where` of a file ("" for the file itself) has unknown keys."""
    for key in table:
        if key not in known:
            rule = f"have only these keys{f' in [{where}]' if where else ''}: {', '.join(known)}"
            raise InputError(str(path), rule, repr(key), suggestion(key, list(known), "Remove it."))


def read_text(path: Path, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(str(path), f'define {key} = "…"', "none" if value is None else repr(value), "Add it.")
    return value


def read_table(path: Path, table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Returns the table below a key, or an empty one if the key is missing."""
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise InputError(str(path), f"have a table [{key}]", repr(value), f"Write its entries below [{key}].")
    return value


def toml_value(value: Any) -> str:
    """Returns a setting as TOML that parses to the same value of the same type.

    >>> toml_value([512, 128]), toml_value(1e-06), toml_value({"kind": "Heat", "t": 3.0})
    ('[512, 128]', '1e-06', '{ kind = "Heat", t = 3.0 }')
    """
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{toml_key(key)} = {toml_value(inner)}' for key, inner in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if not isinstance(value, bool | int | float | str):
        raise InputTypeError("value", "be a number, a text, true, false, a list or a table of these", repr(value))
    return str(value) if isinstance(value, float) else _literal(value)


def toml_key(name: str) -> str:
    """Returns a TOML key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _literal(name)


def _literal(value: bool | int | str) -> str:
    """JSON has the escapes of TOML, except for DEL, and for characters beyond 16 bits, which need no escape."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
