"""Settings that a search has chosen, in a file a row that people can read and rows are overlaid with."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lggd.compare.row import Setting, read_toml
from lggd.data.datasets import DATASETS
from lggd.errors import InputError, InputTypeError
from lggd.files import replacing

HEADER = "# Written by `lggd sweep --choose`: by dataset, the settings with the largest mean validation accuracy."
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Choice:
    """The best of the `trials` that count for a row and a dataset: its settings and mean validation accuracy, per cent.

    `settings` and `validation` are None where every trial failed; `reason` is then that of the first.
    """

    slug: str
    dataset: str
    trials: int
    splits: int
    settings: Mapping[str, Setting] | None = None
    validation: float | None = None
    pruned: int = 0
    failed: int = 0
    reason: str = ""

    @property
    def told(self) -> str:
        """How it came about, in a line."""
        counts = f"{self.trials} trials of {self.splits} tuning splits"
        if self.validation is None:
            return f"{counts}, all failed: {self.reason or 'none was complete'}"
        return f"{counts}, validation accuracy {self.validation:.2f} %"


def write_chosen(path: str | Path, choices: Sequence[Choice]) -> None:
    """Puts the choices of one row into its file, which is replaced whole or not at all.

    Datasets that are in the file and not among the choices keep what they have. The order is that of `DATASETS`.
    """
    path = Path(path)
    sections = _sections_of(path)
    for choice in choices:
        lines = [f"# {' '.join(choice.told.split())}"]
        if choice.settings is not None:
            lines += [f"[{toml_key(choice.dataset)}]", *(toml_line(*pair) for pair in sorted(choice.settings.items()))]
        sections[choice.dataset] = "\n".join(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        ordered = [sections[name] for name in sorted(sections, key=_place)]
        temporary.write_text("\n\n".join([HEADER, *ordered]) + "\n", encoding="utf-8")
        read_toml(temporary)  # what cannot be read must never replace what can


def toml_line(name: str, value: Setting) -> str:
    """A setting as a line of TOML.

    >>> toml_line("mlp_hidden", "512-128"), toml_line("lr", 1e-06), toml_line("reachable", True)
    ('mlp_hidden = "512-128"', 'lr = 1e-06', 'reachable = true')
    """
    return f"{toml_key(name)} = {toml_value(value)}"


def toml_key(name: str) -> str:
    """A name as TOML writes it: bare where that is allowed, quoted otherwise."""
    return name if BARE_KEY.fullmatch(name) else _quoted(name)


def toml_value(value: Setting) -> str:
    """A value as TOML writes it, so that reading gives the same value of the same type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _quoted(value)
    raise InputTypeError("value", "be a number, a text, True or False", repr(value))


def _quoted(text: str) -> str:
    """JSON's escapes are TOML's too, but for DEL, and for signs beyond 16 bits, which may stand as they are."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _sections_of(path: Path) -> dict[str, str]:
    """The text of each table in the file with the comment above it, by name."""
    if not path.exists():
        return {}
    found = {}
    names = list(read_toml(path))
    for section in path.read_text(encoding="utf-8").strip().split("\n\n"):
        heading = next((line for line in section.splitlines() if line.startswith("[")), None)
        if heading is not None and heading[1:-1].strip().strip('"') in names:
            found[heading[1:-1].strip().strip('"')] = section
    if sorted(found) != sorted(names):
        raise InputError(
            path, "be as lggd sweep wrote it", but="has been edited", remedy="Move it away, and choose anew."
        )
    return found


def _place(dataset: str) -> tuple[int, str]:
    return (DATASETS.index(dataset) if dataset in DATASETS else len(DATASETS), dataset)
