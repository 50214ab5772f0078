"""Comparisons of our measurements with the published ones and with each other, and the variants of the ablation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lggd.compare.statistics import PairedTest, holm_corrected, mean_of, paired_differences, paired_test
from lggd.paper.measurements import BASE_VARIANT, Measurement, Measurements
from lggd.paper.published import DATASETS, PUBLISHED, ROWS, Published

TESTED_ROWS = ("09", "10", "14")  # compared with every other row


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
    found = []
    for row, dataset in ((row, dataset) for row in ROWS for dataset in DATASETS):
        ours, paper = measured.table1.get((row, dataset)), PUBLISHED.get((row, dataset))
        if ours is not None and paper is not None and abs(ours.mean - paper.mean) > paper.sd:
            note = notes.get(f"{row}.{dataset}", notes.get(row))
            found.append(Deviation(row, dataset, ours.mean, paper, note))
    return found


def paired_tests(measured: Measurements, row: str) -> dict[tuple[str, str], PairedTest]:
    """Compares a row with every other measured row; returns tests by the other row and dataset.

    p is corrected over the rows of a dataset.
    """
    found: dict[tuple[str, str], PairedTest] = {}
    for dataset in DATASETS:
        ours = measured.table1.get((row, dataset))
        others = [other for other in measured.rows if other != row and (other, dataset) in measured.table1]
        if ours is not None:
            tests = [paired_test(ours.test, measured.table1[other, dataset].test) for other in others]
            found |= {(other, dataset): test for other, test in zip(others, holm_corrected(tests), strict=True)}
    return found


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
    """Returns the base, then the variants by descending mean validation difference.

    Variants measured on fewer datasets come after the others, since their means are not comparable; those without a
    difference come last.
    """
    variants = []
    for name in dict.fromkeys(name for name, _ in measured.ablation):
        lines = {dataset: measured.ablation.get((name, dataset)) for dataset in DATASETS}
        scores = {
            dataset: _score(found, measured.ablation.get((BASE_VARIANT, dataset)))
            for dataset, found in lines.items()
            if found is not None
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
