"""A comparison in numbers: one row per method, paired tests against the best, and which method to use."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
from scipy import stats

from lggd.app.comparison.fit_job import ERROR, calibration_error, merge_bins
from lggd.app.comparison.results import Line
from lggd.text import counted, duration, number, signed

SIGNIFICANCE_LEVEL = 0.05
DECIMALS = 9  # decimals of differences: smaller differences of accuracies are rounding errors, and would hide ties
ENUMERATED = 13  # the largest sample size n for which all 2^n sign patterns are enumerated
# A method at most this many points below the best is as good in practice, unless it is clearly worse.
TOLERANCE = 0.5
COLUMNS = (
    "method", "title", "accuracy", "sd", "macro_f1", "calibration_error", "seconds", "cpu_seconds",
    "difference", "p", "corrected_p", "verdict",
)  # fmt: skip
MIN_IN_BIN = 0.005  # a fraction of all nodes: the accuracy of fewer would be noise
BEST, WORSE, UNCLEAR = "best", "clearly worse", "no clear difference"


@dataclass(frozen=True)
class PairedTest:
    """One method compared with another on their common splits; positive differences are in favour of the first.

    `difference` is the mean, None without common splits. `p` is the p-value of the two-sided Wilcoxon signed-rank test,
    None for fewer than two splits; `corrected_p` is Holm's correction over a family of tests.
    """

    pairs: int
    difference: float | None
    wins: int
    losses: int
    ties: int
    p: float | None
    corrected_p: float | None = None

    @property
    def is_significant(self) -> bool:
        return self.corrected_p is not None and self.corrected_p < SIGNIFICANCE_LEVEL


def paired_test(ours: Mapping[Hashable, float], theirs: Mapping[Hashable, float]) -> PairedTest:
    differences = paired_differences(ours, theirs)
    wins, losses = sum(value > 0 for value in differences), sum(value < 0 for value in differences)
    ties = len(differences) - wins - losses
    return PairedTest(len(differences), mean_of(differences), wins, losses, ties, wilcoxon_p(differences))


def paired_differences(ours: Mapping[Hashable, float], theirs: Mapping[Hashable, float]) -> list[float]:
    """Returns our accuracy minus theirs on every common split."""
    return [round(value - theirs[split], DECIMALS) for split, value in ours.items() if split in theirs]


def mean_of(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the values that are not None, or None if there are none."""
    known = [value for value in values if value is not None]
    return round(fmean(known), DECIMALS) if known else None


def wilcoxon_p(differences: Sequence[float]) -> float | None:
    """Returns the two-sided p-value of the Wilcoxon signed-rank test; ranks of zeros are split between both signs.

    Exact for up to 13 differences, including ties and zeros, which SciPy's exact tables do not cover; its permutation
    test takes up to a second.
    """
    if len(differences) < 2:
        return None
    if not any(differences):
        return 1.0
    if len(differences) > ENUMERATED:
        return float(stats.wilcoxon(differences, zero_method="zsplit", correction=True).pvalue)
    values = np.asarray(differences, float)
    ranks = stats.rankdata(np.abs(values))
    nonzero = np.flatnonzero(values)  # zeros add the same to both signs, whatever the pattern
    signs = (np.arange(2 ** len(nonzero))[:, None] >> np.arange(len(nonzero))) & 1
    sums, observed = signs @ ranks[nonzero], ranks[values > 0].sum()
    return min(1.0, 2 * min(float((sums <= observed).mean()), float((sums >= observed).mean())))


def holm(p_values: Sequence[float]) -> list[float]:
    """Applies Holm's step-down correction: the i-th smallest of m is multiplied by m − i + 1; monotone, at most 1."""
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def holm_corrected(tests: Sequence[PairedTest]) -> list[PairedTest]:
    corrected = iter(holm([test.p for test in tests if test.p is not None]))
    return [test if test.p is None else replace(test, corrected_p=next(corrected)) for test in tests]


@dataclass(frozen=True)
class MethodSummary:
    """A method over all splits. `accuracy` (%) is by split; `seconds` is the median of fit and predictions.

    `test` compares it with the method of the highest mean accuracy; None for that method itself. `curve` is the mean
    accuracy by number of training labels, on the splits that all numbers were measured on.
    """

    name: str
    title: str
    accuracy: Mapping[Hashable, float]
    macro_f1: float
    bins: Sequence[Sequence[float]] | None
    seconds: float
    cpu_seconds: float
    curve: Mapping[int, float]
    test: PairedTest | None = None
    error: float | None = None  # the standard error of the differences from the best

    @property
    def mean(self) -> float:
        return fmean(self.accuracy.values())

    @property
    def sd(self) -> float | None:
        return stdev(self.accuracy.values()) if len(self.accuracy) > 1 else None

    @property
    def calibration_error(self) -> float | None:
        return None if self.bins is None else calibration_error(self.bins)

    @property
    def reliability(self) -> list[tuple[float, float]]:
        """Mean probability of the predicted class and accuracy (%), of the bins with more than a few of the nodes."""
        bins = self.bins or []
        minimum = MIN_IN_BIN * math.fsum(count for count, *_ in bins)
        kept = [each for each in bins if each[0] > minimum]
        return [(100 * certainty / count, 100 * correct / count) for count, certainty, correct in kept]

    @property
    def verdict(self) -> str:
        return BEST if self.test is None else WORSE if self.test.is_significant else UNCLEAR

    @property
    def is_close(self) -> bool:
        """Whether it is as good as the best for practical purposes: by one standard error, or half a point."""
        if self.test is None:
            return True
        if self.test.is_significant or self.test.difference is None:
            return False
        return -self.test.difference <= max(TOLERANCE, self.error or 0.0)

    def row(self) -> dict[str, Any]:
        """Returns the row of the table; None where there is no value."""
        test = PairedTest(0, None, 0, 0, 0, None) if self.test is None else self.test
        values = (
            self.name, self.title, self.mean, self.sd, self.macro_f1, self.calibration_error, self.seconds,
            self.cpu_seconds, test.difference, test.p, test.corrected_p, self.verdict,
        )  # fmt: skip
        return dict(zip(COLUMNS, values, strict=True))


def summarize(lines: Sequence[Line], splits: int) -> list[MethodSummary]:
    """Returns the methods that were measured on all splits, by descending mean accuracy, with their paired tests."""
    by_method: dict[str, list[Line]] = {}
    for line in lines:
        if ERROR not in line:
            by_method.setdefault(line["method"], []).append(line)
    complete = [own for own in by_method.values() if sum(line["share"] == 1 for line in own) == splits]
    methods = sorted(map(_summary, complete), key=lambda each: -each.mean)  # stable: the caller's order among equals
    best = methods[0] if methods else None
    others = [each for each in methods if each is not best]
    tests = holm_corrected([paired_test(each.accuracy, best.accuracy) for each in others]) if best else []
    return methods[:1] + [
        replace(each, test=test, error=_standard_error(each, best))
        for each, test in zip(others, tests, strict=True)
        if best
    ]


def _summary(lines: Sequence[Line]) -> MethodSummary:
    full = sorted((line for line in lines if line["share"] == 1), key=lambda line: int(line["split"]))
    bins = [line["bins"] for line in full if line["bins"] is not None]
    return MethodSummary(
        full[0]["method"], full[0]["title"], {line["split"]: line["accuracy"] for line in full},
        fmean(line["macro_f1"] for line in full), merge_bins(bins) if len(bins) == len(full) else None,
        median(line["seconds"] for line in full), median(line["cpu_seconds"] for line in full),
        _curve(lines),
    )  # fmt: skip


def _curve(lines: Sequence[Line]) -> dict[int, float]:
    """Mean accuracy by number of training labels, over the splits that were measured with fewer labels."""
    fewer = [line for line in lines if line["share"] < 1]
    splits = {line["split"] for line in fewer}
    points: dict[float, list[Line]] = {}
    for line in lines:
        if line["split"] in splits:
            points.setdefault(line["share"], []).append(line)
    complete = [own for _, own in sorted(points.items()) if len(own) == len(splits)]
    return {round(fmean(line["train"] for line in own)): fmean(line["accuracy"] for line in own) for own in complete}


def _standard_error(one: MethodSummary, best: MethodSummary) -> float | None:
    differences = paired_differences(one.accuracy, best.accuracy)
    return stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else None


def recommended(methods: Sequence[MethodSummary]) -> MethodSummary | None:
    """Returns the fastest method that is as good as the best; None without any."""
    return min((each for each in methods if each.is_close), key=lambda each: each.seconds, default=None)


def recommend(methods: Sequence[MethodSummary]) -> str:
    """Returns which method to use, and why, in sentences."""
    choice = recommended(methods)
    if choice is None:
        return "No method could be measured on all splits."
    best, few = methods[0], _too_few(len(methods[0].accuracy), len(methods) - 1)
    if choice is best:
        faster = [each for each in methods[1:] if each.seconds < best.seconds]
        reason = f"the highest accuracy, {_accuracy(best)}"
        reason += ", and no faster method comes close" if faster else ", and none is faster" if methods[1:] else ""
    else:
        difference = -(choice.test.difference or 0.0) if choice.test else 0.0
        gap = "as accurate as" if difference <= 0 else f"{signed(difference).lstrip('+')} points below"
        reason = (
            f"{_accuracy(choice)} is {gap} the best, {best.name} with {_accuracy(best)}: {UNCLEAR}. "
            f"It takes {fit_time(choice.seconds)} instead of {fit_time(best.seconds)}"
        )
        return f"Use {choice.name}: {reason}.{few}"
    return f"Use {choice.name}: {reason} ({fit_time(choice.seconds)} per fit).{few}"


def _accuracy(method: MethodSummary) -> str:
    return f"{method.mean:.1f}" + ("" if method.sd is None else f" ± {method.sd:.1f}") + " %"


def fit_time(seconds: float) -> str:
    """The time of a fit, with three digits: 0.0123 s, 12.3 s, 3 min 20 s."""
    return f"{number(seconds)} s" if seconds < 60 else duration(seconds)


def fewest_splits(comparisons: int) -> int:
    """Returns from how many splits on Holm-corrected tests of so many differences can find one at all."""
    splits = 1
    while comparisons * 2.0 ** (1 - splits) >= SIGNIFICANCE_LEVEL:
        splits += 1
    return splits


def _too_few(splits: int, comparisons: int) -> str:
    needed = fewest_splits(comparisons)
    if not comparisons or splits >= needed:
        return ""
    return f" No difference can be clear on {counted(splits, 'split')} only: {needed} are needed."
