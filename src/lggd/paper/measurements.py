"""The measured accuracies of a results folder: of several lines about one table cell, the one that counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeVar

from lggd.compare.results import Results
from lggd.errors import InputError
from lggd.paper.published import DATASETS, ROWS

Line = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)
Accuracies = dict[Hashable, float]
ACCURACIES, FIGURES = ("table1", "backbones", "dynamic", "ablation"), ("robustness", "geodesic")
BACKBONES = {"gcn": "GCN", "gat": "GAT", "chebnet": "ChebNet", "jknet": "JKNet"}
BASE_VARIANT = "LGGD+ as chosen"  # the other variants of the ablation are compared with this one
RETRAINED = "retrained"  # marks rows of the dynamic experiment that are trained again for every addition
ADDITIONS = range(4)  # how many times labels have been added in the dynamic experiment


@dataclass(frozen=True)
class Measurement:
    """One line of results. `test` and `validation` are accuracies in percent by the hash of the split.

    >>> found = Measurement.read({"row": "01", "dataset": "cora", "test": [70, 74], "splits": ["a", "b"]})
    >>> found.mean, round(found.sd, 2)
    (72.0, 2.83)
    """

    row: str
    variant: str
    name: str
    dataset: str
    backbone: str
    additions: int | None
    validation: Accuracies
    test: Accuracies
    line: Line = field(repr=False, compare=False)

    @classmethod
    def read(cls, line: Line) -> Measurement:
        row, backbone = str(line.get("row", "")), str(line.get("backbone", "gcn"))
        return cls(
            row=row,
            variant=str(line.get("variant", "")),
            name=str(line.get("name", ROWS.get(row, row))),
            dataset=str(line.get("dataset", "")),
            backbone=BACKBONES.get(backbone, backbone),
            additions=line.get("additions"),
            validation=_accuracies(line, "val"),
            test=_accuracies(line, "test"),
            line=line,
        )

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
    """The measurements that count, by experiment."""

    table1: dict[tuple[str, str], Measurement]  # by row and dataset
    backbones: dict[tuple[str, str, str], Measurement]  # by row, dataset and backbone
    dynamic: dict[tuple[str, str, int], Measurement]  # by row, dataset and number of additions
    ablation: dict[tuple[str, str], Measurement]  # by variant and dataset
    robustness: list[Line]
    geodesic: list[Line]
    incomplete_lines: int = 0

    @property
    def rows(self) -> dict[str, str]:
        """Names of the table's rows by number: those of the paper and of this package, then the user's own."""
        return ROWS | {row: found.name for (row, _), found in self.table1.items() if row not in ROWS}

    @property
    def lines(self) -> dict[str, list[Line]]:
        """The lines that count, by experiment."""
        accuracies = {name: [found.line for found in getattr(self, name).values()] for name in ACCURACIES}
        return accuracies | {name: getattr(self, name) for name in FIGURES}

    def with_backbone(self, row: str, dataset: str, backbone: str) -> Measurement | None:
        """GCN is the backbone of Table 1, and need not be measured twice."""
        found = self.backbones.get((row, dataset, backbone))
        return self.table1.get((row, dataset)) if found is None and backbone == "GCN" else found


def read_measurements(folder: str | Path) -> Measurements:
    """Reads the `.jsonl` files of a results folder."""
    results = Results(folder)
    lines, incomplete = {}, 0
    for experiment in (*ACCURACIES, *FIGURES):
        lines[experiment], skipped = results.lines(experiment)
        incomplete += skipped
    table = select(lines["table1"], lambda found: (found.row, found.dataset))
    ablation = select(lines["ablation"], lambda found: (found.variant, found.dataset))
    # Where the ablation has no line for its base, that is the table's row: the variants change its settings.
    for found in list(ablation.values()):
        if (base := table.get((found.row, found.dataset))) is not None:
            ablation.setdefault((BASE_VARIANT, found.dataset), base)
    return Measurements(
        table1=table,
        backbones=select(lines["backbones"], lambda found: (found.row, found.dataset, found.backbone)),
        dynamic=select(lines["dynamic"], lambda found: (found.row, found.dataset, found.additions or 0)),
        ablation=ablation,
        robustness=lines["robustness"],
        geodesic=lines["geodesic"],
        incomplete_lines=incomplete,
    )


def select(lines: Iterable[Line], key: Callable[[Measurement], Key]) -> dict[Key, Measurement]:
    """The last measurement with the most splits for each key, sorted by key; only datasets of the paper."""
    best: dict[Key, Measurement] = {}
    for found in map(Measurement.read, lines):
        if found.dataset in DATASETS and found.test:
            kept = best.setdefault(key(found), found)
            if len(found.test) >= len(kept.test):
                best[key(found)] = found
    return dict(sorted(best.items(), key=lambda item: str(item[0])))


def _accuracies(line: Line, key: str) -> Accuracies:
    values, splits = line.get(key) or [], line.get("splits", [])
    numbers = isinstance(values, list) and all(isinstance(value, (int, float)) for value in values)
    where = f"a line of {line.get('experiment')}, row {line.get('row')}, {line.get('dataset')}"
    remedy = "Remove that line and measure it again."
    if not numbers or not all(0 <= value <= 100 for value in values):
        raise InputError(key, "be a list of percentages", f"{values!r} in {where}", remedy)
    if values and len(splits) != len(values):
        rule = f"have one entry for each of the {len(values)} accuracies"
        raise InputError("splits", rule, f"{len(splits)} in {where}", remedy)
    return {split: float(value) for split, value in zip(splits, values, strict=bool(values))}
