"""The accuracies that the paper published, and those measured in a results folder: one per cell of a table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from lggd.app.comparison.results import Line, Results
from lggd.app.comparison.summary import PairedTest, holm_corrected, mean_of, paired_differences, paired_test
from lggd.errors import InputError

DATASETS = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed", "computers": "Computers", "photo": "Photo"}
ROWS = {
    "01": "GCN", "02": "MixUp", "03": "DropEdge", "04": "GAug-M", "05": "GAug-O", "06": "GDC (heat)", "07": "GDC (ppr)",
    "08": "GGD", "09": "LGGD", "10": "LGGD w. ρ(x)", "11": "GPR-GNN", "12": "GOAL", "13": "GraphMix",
    "14": "Trained LGGD+",
}  # fmt: skip
# Other authors' methods in the paper's table. The paper mentions GraphMix without measuring it.
BASELINES = ("01", "02", "03", "04", "05", "06", "07", "11", "12")
Accuracies = dict[Hashable, float]
BACKBONES = {"gcn": "GCN", "gat": "GAT", "chebnet": "ChebNet", "jknet": "JKNet"}
BASE_VARIANT = "Trained LGGD+ as chosen"  # the other variants of the ablation are compared with this one
RETRAINED = "retrained"  # marks rows of the dynamic experiment that are trained again for every addition
ADDITIONS = range(4)  # numbers of label additions in the dynamic experiment
# The keys of a cell in each experiment. The other experiments are figures.
KEYS = {
    "table1": ("row", "dataset"), "backbones": ("row", "dataset", "backbone"),
    "dynamic": ("row", "dataset", "additions"), "ablation": ("variant", "dataset"),
}  # fmt: skip
# Committed lines have the names that rows had when they were measured: by number and slug then, the name then, and the
# slug and the name today.
RENAMED = {
    ("14", "lggd-plus"): ("LGGD+", "lggd-plus-trained", "Trained LGGD+"),
    ("23", "lggd-solved"): ("LGGD solved", "evolved-ridge", "Kernel ridge, evolved"),
    ("24", "lggd-plus-solved"): ("LGGD+ solved", "lggd-plus", "LGGD+"),
}
FIGURE_EXPERIMENTS = ("robustness", "geodesic")
TESTED_ROWS = ("09", "10", "14")  # compared with every other row


@dataclass(frozen=True)
class Published:
    """A published test accuracy in percent, over ten splits."""

    mean: float
    sd: float


_TABLE_1 = """
01 74.13 2.08 66.08 2.16 79.73 0.71 81.72 1.78 87.57 1.18
02 72.72 1.78 64.14 1.75 80.02 0.52 80.76 1.40 88.67 0.80
03 72.28 1.39 65.73 1.83 81.89 0.84 81.45 1.02 88.29 1.27
04 72.14 1.37 66.38 1.29 82.18 1.36 84.82 0.78 91.05 1.21
05 71.30 1.54 67.22 1.06 OOM   OOM  83.03 0.50 90.62 0.30
06 77.52 1.74 65.38 1.36 82.16 0.93 80.18 1.31 88.12 2.21
07 78.13 2.13 66.33 1.84 80.86 0.78 82.88 1.14 89.07 2.19
08 69.95 2.51 43.21 2.44 76.49 0.87 78.89 1.61 85.69 0.92
09 80.18 1.53 67.23 1.79 83.24 1.79 85.23 2.18 92.02 2.33
10 81.56 2.29 68.63 1.70 83.36 1.88 85.49 1.09 92.39 2.11
11 79.45 1.66 67.18 1.84 84.11 0.38 82.80 2.01 91.48 1.59
12 76.07 1.56 66.57 1.26 81.83 1.28 83.43 1.04 91.65 0.69
"""
# By row and dataset. Row 05 on PubMed is missing, because the authors ran out of memory.
PUBLISHED = {
    (row, dataset): Published(float(mean), float(sd))
    for row, *numbers in map(str.split, _TABLE_1.strip().splitlines())
    for dataset, mean, sd in zip(DATASETS, numbers[::2], numbers[1::2], strict=True)
    if mean != "OOM"
}


@dataclass(frozen=True)
class Measurement:
    """One line of results, with its accuracies in percent by the hash of the split."""

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
        return ROWS | {row: cell.line["name"] for (row, _), cell in self.table1.items() if row not in ROWS}

    @property
    def lines(self) -> dict[str, list[Line]]:
        accuracies = {name: [cell.line for cell in getattr(self, name).values()] for name in KEYS}
        return accuracies | {name: getattr(self, name) for name in FIGURE_EXPERIMENTS}

    def with_backbone(self, row: str, dataset: str, backbone: str) -> Measurement | None:
        """Returns the measurement with a backbone; those of GCN may be from Table 1."""
        cell = self.backbones.get((row, dataset, backbone))
        return self.table1.get((row, dataset)) if cell is None and backbone == "gcn" else cell


def read_measurements(folder: str | Path) -> Measurements:
    read = {experiment: Results(folder).lines(experiment) for experiment in (*KEYS, *FIGURE_EXPERIMENTS)}
    cells: dict[str, Any] = {
        experiment: _select(map(with_present_names, read[experiment][0]), key) for experiment, key in KEYS.items()
    }
    figures: dict[str, Any] = {experiment: read[experiment][0] for experiment in FIGURE_EXPERIMENTS}
    # If the ablation has no line for its base, the table's row is used, whose settings the variants change.
    for cell in list(cells["ablation"].values()):
        place = cell.line["row"], cell.line["dataset"]
        if place in cells["table1"]:
            cells["ablation"].setdefault((BASE_VARIANT, place[1]), cells["table1"][place])
    return Measurements(**cells, **figures, incomplete_lines=sum(skipped for _, skipped in read.values()))


def with_present_names(line: Line) -> Line:
    """A line with the present names of its row and variant."""
    number = str(line.get("row")).split()[0]
    if (names := RENAMED.get((number, str(line.get("slug"))))) is None:
        return line
    old, slug, new = names
    texts = {key: line[key].replace(old, new, 1) for key in ("name", "variant") if key in line}
    return line | texts | {"slug": slug}


def _select(lines: Iterable[Line], names: tuple[str, ...]) -> dict[tuple[Any, ...], Measurement]:
    """Returns the last measurement with the most splits for each key, sorted by key; only datasets of the paper."""
    best: dict[tuple[Any, ...], Measurement] = {}
    for cell in map(Measurement.read, lines):
        if cell.line["dataset"] in DATASETS and cell.test:
            key = tuple(cell.line[name] for name in names)
            if key not in best or len(cell.test) >= len(best[key].test):
                best[key] = cell
    return dict(sorted(best.items()))


def _accuracies(line: Line, key: str) -> Accuracies:
    values, splits = line.get(key) or [], line.get("splits", [])
    where = f"a line of {line.get('experiment')}, row {line.get('row')}, {line.get('dataset')}"
    remedy = "Remove this line and measure it again."
    if not isinstance(values, list) or not all(isinstance(x, (int, float)) and 0 <= x <= 100 for x in values):
        raise InputError(key, "be a list of percentages", f"{values!r} in {where}", remedy)
    if values and len(splits) != len(values):
        rule = f"have one entry for each of the {len(values)} accuracies"
        raise InputError("splits", rule, f"{len(splits)} in {where}", remedy)
    return dict(zip(splits, map(float, values), strict=bool(values)))


@dataclass(frozen=True)
class Deviation:
    """A mean that differs from the published mean by more than one published standard deviation."""

    row: str
    dataset: str
    ours: float
    paper: Published
    note: str | None

    @property
    def difference(self) -> float:
        return self.ours - self.paper.mean


def deviations(measured: Measurements, notes: Mapping[str, str]) -> list[Deviation]:
    """Returns all deviations in table order. Notes for "row.dataset" take precedence over those for "row"."""
    deviating = []
    for (row, dataset), paper in PUBLISHED.items():
        ours = measured.table1.get((row, dataset))
        if ours is not None and abs(ours.mean - paper.mean) > paper.sd:
            note = notes.get(f"{row}.{dataset}", notes.get(row))
            deviating.append(Deviation(row, dataset, ours.mean, paper, note))
    return deviating


def paired_tests(measured: Measurements, row: str) -> dict[tuple[str, str], PairedTest]:
    """Compares a row with the others; returns tests by row and dataset, with p corrected over the rows of a dataset."""
    tested: dict[tuple[str, str], PairedTest] = {}
    for dataset in DATASETS:
        ours = measured.table1.get((row, dataset))
        others = [other for other in measured.rows if other != row and (other, dataset) in measured.table1]
        if ours is not None:
            tests = [paired_test(ours.test, measured.table1[other, dataset].test) for other in others]
            tested |= {(other, dataset): test for other, test in zip(others, holm_corrected(tests), strict=True)}
    return tested


@dataclass(frozen=True)
class VariantScore:
    """The accuracies of a variant on one dataset, and their differences to the base over common splits."""

    validation: float | None
    test: float
    validation_difference: float | None
    test_difference: float | None


@dataclass(frozen=True)
class Variant:
    """A variant of the ablation and its scores by dataset."""

    name: str
    scores: dict[str, VariantScore]

    @property
    def validation_difference(self) -> float | None:
        return mean_of(score.validation_difference for score in self.scores.values())

    @property
    def test_difference(self) -> float | None:
        return mean_of(score.test_difference for score in self.scores.values())


def ablation(measured: Measurements) -> list[Variant]:
    """Returns the base, then the variants by descending mean validation difference, those on fewer datasets last."""
    variants = []
    for name in dict.fromkeys(name for name, _ in measured.ablation):
        scores = {
            dataset: _score(measured.ablation[name, dataset], measured.ablation.get((BASE_VARIANT, dataset)))
            for dataset in DATASETS
            if (name, dataset) in measured.ablation
        }
        variants.append(Variant(name, scores))
    most = max((len(variant.scores) for variant in variants), default=0)

    def rank(variant: Variant) -> tuple[bool, bool, float, str]:
        difference = variant.validation_difference
        order = math.inf if difference is None else -difference
        return variant.name != BASE_VARIANT, len(variant.scores) < most, order, variant.name

    return sorted(variants, key=rank)


def _score(ours: Measurement, base: Measurement | None) -> VariantScore:
    validation, test = ({}, {}) if base is None else (base.validation, base.test)
    differences = paired_differences(ours.validation, validation), paired_differences(ours.test, test)
    return VariantScore(ours.validation_mean, ours.mean, *map(mean_of, differences))
