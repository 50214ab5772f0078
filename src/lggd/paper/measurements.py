"""The measured accuracies of a results folder, one measurement per cell of a table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from lggd.compare.results import Results
from lggd.errors import InputError
from lggd.paper.published import DATASETS, ROWS

Line = dict[str, Any]
Accuracies = dict[Hashable, float]
BACKBONES = {"gcn": "GCN", "gat": "GAT", "chebnet": "ChebNet", "jknet": "JKNet"}
BASE_VARIANT = "LGGD+ as chosen"  # the other variants of the ablation are compared with this one
RETRAINED = "retrained"  # marks rows of the dynamic experiment that are trained again for every addition
ADDITIONS = range(4)  # numbers of label additions in the dynamic experiment
# The keys of a cell in each experiment. The other experiments are figures.
KEYS = {
    "table1": ("row", "dataset"),
    "backbones": ("row", "dataset", "backbone"),
    "dynamic": ("row", "dataset", "additions"),
    "ablation": ("variant", "dataset"),
}
FIGURE_EXPERIMENTS = ("robustness", "geodesic")


@dataclass(frozen=True)
class Measurement:
    """One line of results, with its accuracies in percent by the hash of the split.

    >>> found = Measurement.read({"row": "01", "dataset": "cora", "test": [70, 74], "splits": ["a", "b"]})
    >>> found.mean, round(found.sd, 2)
    (72.0, 2.83)
    """

    line: Line
    validation: Accuracies
    test: Accuracies

    @classmethod
    def read(cls, line: Line) -> Measurement:
        return cls(line, _accuracies(line, "val"), _accuracies(line, "test"))

    @property
    def mean(self) -> float:
        return fmean(self.test.values())

    @property
    def sd(self) -> float | None:
        """Sample standard deviation; None for one split."""
        return stdev(self.test.values()) if len(self.test) > 1 else None

    @property
    def validation_mean(self) -> float | None:
        return fmean(self.validation.values()) if self.validation else None


@dataclass(frozen=True)
class Measurements:
    """The measurements of each experiment by the `KEYS` of their cell, and the lines of figures."""

    table1: dict[tuple[str, str], Measurement]
    backbones: dict[tuple[str, str, str], Measurement]
    dynamic: dict[tuple[str, str, int], Measurement]
    ablation: dict[tuple[str, str], Measurement]
    robustness: list[Line]
    geodesic: list[Line]
    incomplete_lines: int = 0

    @property
    def rows(self) -> dict[str, str]:
        """Names of the table's rows by number: those of the paper and of this package, then user-defined ones."""
        return ROWS | {row: found.line["name"] for (row, _), found in self.table1.items() if row not in ROWS}

    @property
    def lines(self) -> dict[str, list[Line]]:
        """The lines of all measurements, by experiment."""
        accuracies = {name: [found.line for found in getattr(self, name).values()] for name in KEYS}
        return accuracies | {name: getattr(self, name) for name in FIGURE_EXPERIMENTS}

    def with_backbone(self, row: str, dataset: str, backbone: str) -> Measurement | None:
        """Returns the measurement with a backbone; those of GCN may be from Table 1."""
        found = self.backbones.get((row, dataset, backbone))
        return self.table1.get((row, dataset)) if found is None and backbone == "gcn" else found


def read_measurements(folder: str | Path) -> Measurements:
    """Reads the `.jsonl` files of a results folder."""
    read = {experiment: Results(folder).lines(experiment) for experiment in (*KEYS, *FIGURE_EXPERIMENTS)}
    cells: dict[str, Any] = {experiment: _select(read[experiment][0], key) for experiment, key in KEYS.items()}
    figures: dict[str, Any] = {experiment: read[experiment][0] for experiment in FIGURE_EXPERIMENTS}
    # If the ablation has no line for its base, the table's row is used, whose settings the variants change.
    for found in list(cells["ablation"].values()):
        row, dataset = found.line["row"], found.line["dataset"]
        if (row, dataset) in cells["table1"]:
            cells["ablation"].setdefault((BASE_VARIANT, dataset), cells["table1"][row, dataset])
    return Measurements(**cells, **figures, incomplete_lines=sum(skipped for _, skipped in read.values()))


def _select(lines: Iterable[Line], names: tuple[str, ...]) -> dict[tuple[Any, ...], Measurement]:
    """Returns the last measurement with the most splits for each key, sorted by key; only datasets of the paper."""
    best: dict[tuple[Any, ...], Measurement] = {}
    for found in map(Measurement.read, lines):
        if found.line["dataset"] in DATASETS and found.test:
            key = tuple(found.line[name] for name in names)
            if key not in best or len(found.test) >= len(best[key].test):
                best[key] = found
    return dict(sorted(best.items()))


def _accuracies(line: Line, key: str) -> Accuracies:
    values, splits = line.get(key) or [], line.get("splits", [])
    numbers = isinstance(values, list) and all(isinstance(value, (int, float)) for value in values)
    where = f"a line of {line.get('experiment')}, row {line.get('row')}, {line.get('dataset')}"
    remedy = "Remove this line and measure it again."
    if not numbers or not all(0 <= value <= 100 for value in values):
        raise InputError(key, "be a list of percentages", f"{values!r} in {where}", remedy)
    if values and len(splits) != len(values):
        rule = f"have one entry for each of the {len(values)} accuracies"
        raise InputError("splits", rule, f"{len(splits)} in {where}", remedy)
    return dict(zip(splits, map(float, values), strict=bool(values)))
