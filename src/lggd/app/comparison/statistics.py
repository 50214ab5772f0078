"""Paired comparisons of two methods on the same splits: differences, Wilcoxon's signed-rank test, Holm's correction."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy import stats

SIGNIFICANCE_LEVEL = 0.05
DECIMALS = 9  # decimals of differences: smaller differences of accuracies are rounding errors, and would hide ties
ENUMERATED = 13  # the largest sample size n for which all 2^n sign patterns are enumerated


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
