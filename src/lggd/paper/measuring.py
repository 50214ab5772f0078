"""Under which circumstances lines were measured: machines, versions, time, trials; and what lines of figures say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lggd.compare.row import CHOSEN
from lggd.paper.comparison import Findings, Line


def told(lines: Iterable[Line], key: str) -> str:
    """Every different value under a key, in words.

    >>> told([{"device": "cuda"}, {"device": "cpu"}, {"device": "cuda"}, {}], "device")
    'cpu, cuda'
    """
    found = {_words(line[key]) for line in lines if line.get(key) is not None}
    return ", ".join(sorted(found)) or "not known"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_words(inner)}" for name, inner in sorted(value.items()))
    return ", ".join(map(_words, value)) if isinstance(value, list) else str(value)


def versions_of(lines: Iterable[Line]) -> str:
    """Of each package, all versions that were at work.

    >>> versions_of([{"versions": {"torch": "2.9", "lggd": "0.1"}}, {"versions": {"torch": "2.10"}}])
    'lggd 0.1, torch 2.10 and 2.9'
    """
    seen: dict[str, set[str]] = {}
    for line in lines:
        versions = line.get("versions") or {}
        for package, version in versions.items() if isinstance(versions, Mapping) else [("", versions)]:
            seen.setdefault(str(package), set()).add(str(version))
    return ", ".join(f"{name} {' and '.join(sorted(seen[name]))}".strip() for name in sorted(seen)) or "not known"


def seconds_of(findings: Findings) -> dict[str, tuple[int, float]]:
    """By experiment: how many lines count, and how long they took together."""
    lines: dict[str, list[Line]] = {}
    for experiment, found in findings.measurements:
        lines.setdefault(experiment, []).append(found.line)
    lines |= {"robustness": findings.robustness, "geodesic": findings.geodesic}
    return {name: (len(group), _total(group)) for name, group in lines.items() if group}


def _total(lines: Iterable[Line]) -> float:
    """`seconds` is one number, or one a split."""
    spent = (line.get("seconds") or 0.0 for line in lines)
    return float(sum(sum(each) if isinstance(each, list) else each for each in spent))


def trials_of(findings: Findings, configs: Path | None) -> dict[tuple[str, str], int]:
    """By row and dataset, how many settings were tried before these were chosen.

    Told by the line, or by the comment that `lggd sweep` writes above what it has chosen; others are missing.
    """
    found = {}
    for key, measured in findings.table.items():
        trials = measured.line.get("trials")
        if trials is None and configs is not None:
            trials = _trials_in(configs / CHOSEN / f"{measured.line.get('slug')}.toml", measured.dataset)
        if trials is not None:
            found[key] = int(trials)
    return found


def _trials_in(path: Path, dataset: str) -> int | None:
    if not path.is_file():
        return None
    for section in path.read_text(encoding="utf-8").split("\n\n"):
        comment = re.search(r"^# (\d+) trials", section, re.MULTILINE)
        if comment and re.search(rf"^\[{re.escape(dataset)}\]$", section, re.MULTILINE):
            return int(comment[1])
    return None


def changes(lines: Sequence[Line]) -> dict[tuple[float, int], float]:
    """The mean relative change by exponent and number of wrong edges, as `lggd figure robustness --json` tells it.

    >>> changes([{"change": [{"p": "inf", "extra_edges": 10, "mean": 0.5, "each": [0.5]}]}])
    {(inf, 10): 0.5}
    """
    found = {}
    for line in lines:
        for each in line.get("change") or []:
            found[float(each["p"]), int(each["extra_edges"])] = float(each["mean"])
    return found
