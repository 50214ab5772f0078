"""The methods of a comparison, defined by files: a template, its settings, and the search space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lggd.compare.choices import Choice, read_chosen
from lggd.compare.configs import (
    CHOSEN,
    METHODS,
    SOURCE_TREE,
    Setting,
    check_keys,
    configs_folder,
    read_settings,
    read_table,
    read_text,
    read_toml,
)
from lggd.compare.search_space import SearchSpace, read_search_space
from lggd.errors import InputError
from lggd.validation import suggestion

KEYS = ("number", "name", "method", "settings", "search", "paper_search", "quick")


@dataclass(frozen=True)
class Method:
    """A template of `lggd.compare.templates` with settings, and its number and name in tables.

    `slug` is its file name without extension, `folder` the folder of configurations. `search` is the search space of
    `lggd sweep` by setting, `paper_search` that of the method's own paper if it differs; `chosen` are the best settings
    by dataset. `quick` are settings for `lggd reproduce --quick`.
    """

    number: str
    name: str
    template: str
    slug: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    search: Mapping[str, SearchSpace] = field(default_factory=dict)
    paper_search: Mapping[str, SearchSpace] = field(default_factory=dict)
    chosen: Mapping[str, Choice] = field(default_factory=dict)
    quick: Mapping[str, Setting] = field(default_factory=dict)
    folder: Path = SOURCE_TREE

    def settings_for(self, dataset: str, quick: bool = False) -> dict[str, Setting]:
        """Returns the method's settings, overridden by those chosen for the dataset, and by the quick ones."""
        chosen = self.chosen[dataset].settings if dataset in self.chosen else None
        return {**self.settings, **(chosen or {}), **(self.quick if quick else {})}

    @property
    def file(self) -> Path:
        """The file that defines the method."""
        return self.folder / METHODS / f"{self.slug}.toml"

    @property
    def chosen_file(self) -> Path:
        """The file of its chosen settings, with one table per dataset."""
        return self.folder / CHOSEN / f"{self.slug}.toml"

    def files_for(self, dataset: str) -> list[Path]:
        """Returns the files that `settings_for` depends on; none if the method was not read from a file."""
        files = [self.file, self.chosen_file] if dataset in self.chosen else [self.file]
        return [path for path in files if path.is_file()]


def load_methods(folder: str | Path | None = None) -> list[Method]:
    """Reads all methods of a folder, sorted by number."""
    methods = [read_method(path) for path in sorted((configs_folder(folder) / METHODS).glob("*.toml"))]
    seen: dict[str, str] = {}
    for method in methods:
        for text in (method.number, method.name.lower()):
            if text in seen:
                rule, but = "have a unique number and name", f"{seen[text]}.toml has {text!r}, too"
                raise InputError(str(method.file), rule, but=but, remedy="Change one of them.")
            seen[text] = method.slug
    return sorted(methods, key=lambda method: (method.number, method.slug))


def read_method(path: Path) -> Method:
    """Reads the method defined by a file in `rows/`, with its chosen settings."""
    content = read_toml(path)
    check_keys(path, "", content, KEYS)
    number, name, template = (read_text(path, content, key) for key in ("number", "name", "method"))
    settings, quick = (read_settings(path, key, read_table(path, content, key)) for key in ("settings", "quick"))
    search, paper_search = (
        {setting: read_search_space(path, setting, value) for setting, value in read_table(path, content, key).items()}
        for key in ("search", "paper_search")
    )
    folder = path.parent.parent
    chosen = read_chosen(folder / CHOSEN / path.name)
    return Method(number, name, template, path.stem, settings, search, paper_search, chosen, quick, folder)


def select_methods(methods: Sequence[Method], names: Sequence[str]) -> list[Method]:
    """Returns the methods with these numbers (07 or 7), slugs or names, in the order of the table."""
    selected = set()
    for name in names:
        found = [method for method in methods if name.lower() in _names(method)]
        if not found:
            numbers = ", ".join(method.number for method in methods)
            known = [text for method in methods for text in (method.slug, method.name)]
            close = suggestion(name, known, "Use a number, file name or title.")
            raise InputError("rows", f"be among {numbers}", repr(name), close)
        selected |= {method.slug for method in found}
    return [method for method in methods if method.slug in selected]


def _names(method: Method) -> tuple[str, ...]:
    number = method.number.lower()
    return number, number.lstrip("0"), method.slug.lower(), method.name.lower()
