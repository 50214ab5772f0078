"""A row of the paper's table, as files say it: which method, its settings, what a search may vary, what it chose."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lggd.data.datasets import DATASETS
from lggd.errors import InputError
from lggd.files import check_readable
from lggd.validation import suggestion

Setting = bool | int | float | str

ROWS, CHOSEN = "rows", "chosen"
# A wheel carries the files beside this module; a source tree has them at its root.
INSTALLED = Path(__file__).parent / "configs"
AT_THE_ROOT = Path(__file__).parents[3] / "configs"

ROW_KEYS = ("number", "name", "method", "settings", "search", "paper_search", "quick")
RANGE_KEYS = ("low", "high", "step", "log")


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included: by `step`, or all of them where that is None; evenly in log x.

    They are whole where `low`, `high` and `step` are.
    """

    low: int | float
    high: int | float
    step: int | float | None = None
    log: bool = False

    @property
    def is_whole(self) -> bool:
        return all(isinstance(value, int) for value in (self.low, self.high, self.step) if value is not None)


@dataclass(frozen=True)
class Choices:
    """One of these values."""

    values: tuple[Setting, ...]


@dataclass(frozen=True)
class Row:
    """A method with its settings, under the number and the name that the table gives it.

    `slug` is the name of its file. `search` says by setting what `lggd sweep` may vary, `paper_search` the same as the
    paper has it, where that is something else; `chosen` is what was found best, by dataset. `quick` are settings of a
    quick look, for methods that would take too long. `folder` is where files lie.
    """

    number: str
    name: str
    method: str
    slug: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    search: Mapping[str, Range | Choices] = field(default_factory=dict)
    paper_search: Mapping[str, Range | Choices] = field(default_factory=dict)
    chosen: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    quick: Mapping[str, Setting] = field(default_factory=dict)
    folder: Path = AT_THE_ROOT

    def settings_for(self, dataset: str, quick: bool = False) -> dict[str, Setting]:
        """The settings of the row, overlaid by those chosen for the dataset, and by those of a quick look."""
        return {**self.settings, **self.chosen.get(dataset, {}), **(self.quick if quick else {})}

    @property
    def file(self) -> Path:
        """Where the row stands."""
        return self.folder / ROWS / f"{self.slug}.toml"

    @property
    def chosen_file(self) -> Path:
        """Where chosen settings are kept, a table a dataset."""
        return self.folder / CHOSEN / f"{self.slug}.toml"

    def files_for(self, dataset: str) -> list[Path]:
        """The files that `settings_for` goes by; none where the row was made without."""
        files = [self.file, self.chosen_file] if dataset in self.chosen else [self.file]
        return [path for path in files if path.is_file()]


def configs_folder(folder: str | Path | None = None) -> Path:
    """The folder with `rows/` and `chosen/` in it: the one given, or the one that came with the package."""
    if folder is None:
        folder = INSTALLED if INSTALLED.is_dir() else AT_THE_ROOT
    folder = Path(folder)
    if not (folder / ROWS).is_dir():
        raise FileNotFoundError(f"`{folder}` must be a folder with {ROWS}/ in it, but there is none. Check --configs.")
    return folder


def load_rows(folder: str | Path | None = None) -> list[Row]:
    """All rows of the folder, by number."""
    configs = configs_folder(folder)
    rows = [read_row(path) for path in sorted((configs / ROWS).glob("*.toml"))]
    _check_distinct(rows)
    return sorted(rows, key=lambda row: (row.number, row.slug))


def read_row(path: Path) -> Row:
    """The row that a file in `rows/` tells of, with what was chosen for it."""
    read = read_toml(path)
    check_keys(path, "", read, ROW_KEYS)
    texts = {name: _text(path, read, name) for name in ("number", "name", "method")}
    settings, quick = (read_settings(path, name, table_of(path, read, name)) for name in ("settings", "quick"))
    search, paper_search = (
        {name: _searched(path, name, value) for name, value in table_of(path, read, table).items()}
        for table in ("search", "paper_search")
    )
    folder = path.parent.parent
    chosen = _read_chosen(folder / CHOSEN / path.name)
    return Row(
        **texts,
        slug=path.stem,
        settings=settings,
        search=search,
        paper_search=paper_search,
        chosen=chosen,
        quick=quick,
        folder=folder,
    )


def rows_named(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """The rows that these numbers, slugs or names mean, in the order of the table."""
    meant = set()
    for name in names:
        found = [row for row in rows if name.lower() in (row.slug.lower(), row.name.lower(), *_numbers(row))]
        if not found:
            known = [text for row in rows for text in (row.slug, row.name)]
            numbers = ", ".join(row.number for row in rows)
            close = suggestion(name, known, "Name it by number, file or title.")
            raise InputError("rows", f"be among {numbers}", repr(name), close)
        meant |= {row.slug for row in found}
    return [row for row in rows if row.slug in meant]


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds; where it is damaged, an error that names it."""
    try:
        return tomllib.loads(check_readable(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        raise InputError(path, "be a TOML file", but=f"it cannot be read: {wrong}") from wrong


def _read_chosen(path: Path) -> dict[str, dict[str, Setting]]:
    if not path.exists():
        return {}
    read = read_toml(path)
    check_keys(path, "", read, DATASETS)
    return {dataset: read_settings(path, dataset, table_of(path, read, dataset)) for dataset in read}


def _numbers(row: Row) -> tuple[str, str]:
    """As the table writes it, and as people do: 07 and 7."""
    return row.number.lower(), row.number.lower().lstrip("0")


def check_keys(path: Path, where: str, read: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuses keys that are not known, in the table `where` of a file ("" for the file itself)."""
    for key in read:
        if key not in known:
            close = suggestion(key, known, "Remove it.")
            inside = f" in [{where}]" if where else ""
            raise InputError(path, f"hold no other keys{inside} than {', '.join(known)}", repr(key), close)


def _text(path: Path, read: Mapping[str, Any], key: str) -> str:
    value = read.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(path, f'say {key} = "…"', "none" if value is None else repr(value), "Add it.")
    return value


def table_of(path: Path, read: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The table under a key of what was read from a file; empty where there is none."""
    value = read.get(key, {})
    if not isinstance(value, dict):
        raise InputError(path, f"have a table [{key}]", repr(value), f"Write its entries below [{key}].")
    return value


def read_settings(path: Path, where: str, table: Mapping[str, Any]) -> dict[str, Setting]:
    """The table `where` of a file, if all its values are settings."""
    for key, value in table.items():
        if not isinstance(value, Setting):
            raise InputError(
                path,
                f"give a number, a text, true or false for {key} in [{where}]",
                repr(value),
                "What is to be searched belongs below [search].",
            )
    return dict(table)


def _searched(path: Path, key: str, value: Any) -> Range | Choices:
    if isinstance(value, list) and value and all(isinstance(one, Setting) for one in value):
        return Choices(tuple(value))
    if not isinstance(value, dict) or not {"low", "high"} <= value.keys():
        raise InputError(
            path,
            f"give a list of choices or a table with low and high for {key} in [search]",
            repr(value),
            f"Write {key} = {{ low = 0.1, high = 0.9, step = 0.1 }}.",
        )
    check_keys(path, f"search.{key}", value, RANGE_KEYS)
    bounds = [value[name] for name in ("low", "high", "step") if name in value]
    if not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in bounds):
        raise InputError(path, f"give numbers for {key} in [search]", repr(value), "Write low = 1, high = 2.")
    found = Range(**value)
    wrong = not found.low < found.high or (found.step is not None and not found.step > 0)
    if wrong or not isinstance(found.log, bool) or (found.log and (found.low <= 0 or found.step is not None)):
        raise InputError(
            path,
            f"have low < high and step > 0 for {key} in [search], and with log = true low > 0 and no step",
            repr(value),
            "Mend it.",
        )
    return found


def _check_distinct(rows: Sequence[Row]) -> None:
    seen: dict[str, Row] = {}
    for row in rows:
        for text in (row.number, row.name.lower()):
            if text in seen:
                raise InputError(
                    row.file,
                    "have a number and a name of its own",
                    but=f"{text!r} is that of {seen[text].slug}.toml too",
                    remedy="Change one of them.",
                )
        seen |= {row.number: row, row.name.lower(): row}
