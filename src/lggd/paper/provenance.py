"""Where measurements come from: machines, versions, time spent, and how many settings were tried before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lggd.compare.choices import read_chosen
from lggd.compare.configs import CHOSEN
from lggd.paper.measurements import Line, Measurements


def distinct_values(lines: Iterable[Line], key: str) -> str:
    """All values under a key.

    >>> distinct_values([{"device": "cuda"}, {"device": "cpu"}, {"device": "cuda"}, {}], "device")
    'cpu, cuda'
    """
    return ", ".join(sorted({_text(line[key]) for line in lines if line.get(key) is not None})) or "unknown"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {inner}" for name, inner in sorted(value.items()))
    return str(value)


def distinct_versions(lines: Iterable[Line]) -> str:
    """All versions of each package.

    >>> distinct_versions([{"versions": {"torch": "2.9", "lggd": "0.1"}}, {"versions": {"torch": "2.10"}}])
    'lggd 0.1, torch 2.10 and 2.9'
    """
    seen: dict[str, set[str]] = {}
    for line in lines:
        for package, version in line.get("versions", {}).items():
            seen.setdefault(package, set()).add(version)
    return ", ".join(f"{name} {' and '.join(sorted(seen[name]))}" for name in sorted(seen)) or "unknown"


def seconds_by_experiment(measured: Measurements) -> dict[str, tuple[int, float]]:
    """The number of lines that count, and the seconds they took, by experiment."""
    return {
        experiment: (len(lines), sum(line.get("seconds", 0.0) for line in lines))
        for experiment, lines in measured.lines.items()
        if lines
    }


def search_trials(measured: Measurements, configs: Path | None) -> dict[tuple[str, str], int]:
    """How many settings were tried before the settings of a row and dataset were chosen, where that is known."""
    found = {}
    for (row, dataset), measurement in measured.table1.items():
        path = None if configs is None else configs / CHOSEN / f"{measurement.line.get('slug')}.toml"
        choice = None if path is None else read_chosen(path).get(dataset)
        trials = None if choice is None else choice.trials
        if trials is not None:
            found[row, dataset] = trials
    return found
