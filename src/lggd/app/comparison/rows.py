"""Rows of the table of experiments, defined by files: a method with settings, its search space, the settings chosen."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lggd._system.files import check_readable, replacing
from lggd.app.comparison.settings import Setting, Settings, toml_key, toml_line
from lggd.datasets.by_name import DATASETS
from lggd.errors import InputError, InputFileError
from lggd.validation import suggestion

if TYPE_CHECKING:
    from optuna.trial import Trial

ROWS, CHOSEN = "rows", "chosen"
# A wheel contains the files next to this module; a source tree has them at its root.
INSTALLED, SOURCE_TREE = Path(__file__).parent / "configs", Path(__file__).parents[4] / "configs"
KEYS = ("number", "name", "method", "settings", "search", "paper_search", "quick")
HEADER = (
    "# Written by `lggd sweep --choose`: for each dataset, the settings with the highest mean validation accuracy (%)."
)
RECORDED = ("trials", "splits", "validation", "reason")  # keys of a choice in a file, besides its settings


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included, in multiples of `step` if it is set, or log-uniform with `log`."""

    low: int | float
    high: int | float
    step: int | float | None = None
    log: bool = False

    @property
    def is_integer(self) -> bool:
        return all(isinstance(value, int) for value in (self.low, self.high, self.step) if value is not None)

    @property
    def ends(self) -> tuple[Setting, ...]:
        return self.low, self.high

    @property
    def middle(self) -> Setting:
        if self.log:
            middle = math.sqrt(self.low * self.high)
            return round(middle) if self.is_integer else middle
        step = self.step or int(self.is_integer)
        span = self.high - self.low
        return self.low + step * math.floor(span / step / 2 + 1e-9) if step else (self.low + self.high) / 2

    def __contains__(self, value: Setting) -> bool:
        if isinstance(value, str) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / (self.step or 1)
        return (self.step is None and not self.is_integer) or abs(steps - round(steps)) < 1e-9

    def suggest(self, trial: Trial, name: str) -> Setting:
        if self.is_integer:
            return trial.suggest_int(name, int(self.low), int(self.high), step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)


@dataclass(frozen=True)
class Categorical:
    """One of several values."""

    values: tuple[Setting, ...]

    @property
    def ends(self) -> tuple[Setting, ...]:
        return self.values

    @property
    def middle(self) -> Setting:
        return self.values[0]

    def __contains__(self, value: Setting) -> bool:
        return any(type(known) is type(value) and known == value for known in self.values)

    def suggest(self, trial: Trial, name: str) -> Setting:
        return trial.suggest_categorical(name, self.values)  # type: ignore[return-value]


SearchSpace = Range | Categorical


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

    `method` is a name of `lggd.app.runs.methods`, `slug` the file name without extension, `folder` the folder of
    configurations. `search` is the search space of `lggd sweep` by setting, `paper_search` that of the method's own
    paper if it differs; `chosen` are the best settings by dataset. `quick` are settings for `lggd reproduce --quick`.
    """

    number: str
    name: str
    method: str
    slug: str
    settings: Settings = field(default_factory=dict)
    search: Mapping[str, SearchSpace] = field(default_factory=dict)
    paper_search: Mapping[str, SearchSpace] = field(default_factory=dict)
    chosen: Mapping[str, Choice] = field(default_factory=dict)
    quick: Settings = field(default_factory=dict)
    folder: Path = SOURCE_TREE

    def settings_for(self, dataset: str, quick: bool = False) -> dict[str, Setting]:
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
    settings, quick = (read_settings(path, content, key) for key in ("settings", "quick"))
    tables = (read_table(path, content, key) for key in ("search", "paper_search"))
    own, paper = ({key: read_search_space(path, key, value) for key, value in table.items()} for table in tables)
    folder = path.parent.parent
    chosen = read_chosen(folder / CHOSEN / path.name)
    return Row(number, name, method, path.stem, settings, own, paper, chosen, quick, folder)


def select_rows(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Returns the rows with these numbers (07 or 7), slugs or names, in the order of the table."""
    known = {row.slug: (row.slug, row.name, row.number, row.number.lstrip("0")) for row in rows}
    selected = set()
    for name in names:
        found = {slug for slug, texts in known.items() if name.lower() in map(str.lower, texts)}
        if not found:
            numbers = ", ".join(row.number for row in rows)
            close = [text for texts in known.values() for text in texts[:2]]
            remedy = suggestion(name, close, "Use a number, file name or title.")
            raise InputError("rows", f"be among {numbers}", repr(name), remedy)
        selected |= found
    return [row for row in rows if row.slug in selected]


def read_search_space(path: Path, key: str, value: Any) -> SearchSpace:
    """Reads a search space from a list of values, or from a table with low and high."""
    if isinstance(value, list) and value and all(isinstance(each, Setting) for each in value):
        return Categorical(tuple(value))
    if not isinstance(value, dict) or not {"low", "high"} <= value.keys():
        rule = f"give a list of choices or a table with low and high for {key} in [search]"
        raise InputError(str(path), rule, repr(value), f"Write {key} = {{ low = 0.1, high = 0.9, step = 0.1 }}.")
    check_keys(path, f"search.{key}", value, ("low", "high", "step", "log"))
    space = Range(**value)
    numbers = [space.low, space.high, 1 if space.step is None else space.step]
    if not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in numbers):
        raise InputError(str(path), f"give numbers for {key} in [search]", repr(value), "Write low = 1, high = 2.")
    valid = space.low < space.high and numbers[2] > 0 and isinstance(space.log, bool)
    if not valid or (space.log and (space.low <= 0 or space.step is not None)):
        rule = f"have low < high and step > 0 for {key} in [search], and with log = true low > 0 and no step"
        raise InputError(str(path), rule, repr(value))
    return space


def read_chosen(path: Path) -> dict[str, Choice]:
    """Reads the choices of a row by dataset; returns an empty dict if the file does not exist."""
    content = read_toml(path) if path.exists() else {}
    check_keys(path, "", content, DATASETS)
    choices = {}
    for dataset in content:
        table = read_table(path, content, dataset)
        check_keys(path, dataset, table, (*RECORDED, "settings"))
        if "settings" in table:
            read_settings(path, table, "settings", f"{dataset}.settings")
        choices[dataset] = Choice(path.stem, dataset, **table)
    return choices


def write_chosen(path: Path, choices: Sequence[Choice]) -> None:
    """Replaces the file of a row atomically by one with these choices and its earlier ones for other datasets."""
    merged = read_chosen(path) | {choice.dataset: choice for choice in choices}
    sections = [_section(merged[dataset]) for dataset in sorted(merged, key=DATASETS.index)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text("\n\n".join([HEADER, *sections]) + "\n", encoding="utf-8")
        read_toml(temporary)  # raises before an unreadable file replaces the old one


def _section(choice: Choice) -> str:
    name = toml_key(choice.dataset)
    validation = None if choice.validation is None else round(choice.validation, 2)
    recorded = zip(RECORDED, (choice.trials, choice.splits, validation, choice.reason), strict=True)
    lines = [f"[{name}]", *(toml_line(key, value) for key, value in recorded if value not in (None, ""))]
    if choice.settings is not None:
        lines += [f"[{name}.settings]", *(toml_line(*pair) for pair in sorted(choice.settings.items()))]
    return "\n".join(lines)


# -- TOML -------------------------------------------------------------------------------------------------------------


def configs_folder(folder: str | Path | None = None) -> Path:
    """Returns a folder that contains `rows/` and `chosen/`; by default that of the package."""
    if folder is None:
        folder = INSTALLED if INSTALLED.is_dir() else SOURCE_TREE
    if not (Path(folder) / ROWS).is_dir():
        rule = f"be a folder that contains {ROWS}/"
        raise InputFileError(str(folder), rule, but="there is none", remedy="Check --configs.")
    return Path(folder)


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file; errors name the file."""
    try:
        return tomllib.loads(check_readable(path).read_text(encoding="utf-8"))
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


def read_settings(path: Path, table: Mapping[str, Any], key: str, where: str = "") -> dict[str, Setting]:
    """Returns the table of settings below a key, which errors call `where`."""
    settings = read_table(path, table, key)
    for name, value in settings.items():
        if not isinstance(value, Setting):
            rule = f"give a number, a text, true or false for {name} in [{where or key}]"
            raise InputError(str(path), rule, repr(value), "Search spaces belong below [search].")
    return settings
