"""Paired comparisons: differences by split, Wilcoxon's test with ties and zeros, Holm's correction."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lggd.app.comparison.summary import holm, holm_corrected, paired_differences, paired_test, wilcoxon_p


def test_wilcoxon_known_value() -> None:
    # |d| = 1..8 with ranks 1 and 3 negative: W = 4.
    differences = [-1, 2, -3, 4, 5, 6, 7, 8]
    # Sets of ranks with a sum of at most 4: {}, 1, 2, 3, 4, 12, 13: seven of 256, on both sides.
    assert wilcoxon_p(differences) == pytest.approx(2 * 7 / 256)
    assert wilcoxon_p(differences) == stats.wilcoxon(differences, method="exact").pvalue
    assert wilcoxon_p(list(range(1, 11))) == 2 / 2**10


def test_wilcoxon_with_ties_and_zeros() -> None:
    differences = [0, 0, 1, 1, 2, 3, -1, 4, 5, 6]
    assert wilcoxon_p(differences) == pytest.approx(stats.wilcoxon(differences, zero_method="zsplit").pvalue)
    assert wilcoxon_p([1, 1, 1, -1]) == pytest.approx(2 * 5 / 16)
    many = [*range(1, 20), 19, 0]
    assert wilcoxon_p(many) == stats.wilcoxon(many, zero_method="zsplit", correction=True).pvalue
    assert wilcoxon_p([0.0] * 10) == 1.0


@pytest.mark.parametrize("count", [2, 7, 13, 14, 30])
def test_wilcoxon_without_ties_is_scipys_exact_test(count: int) -> None:
    differences = np.random.default_rng(count).normal(0.3, size=count)
    assert wilcoxon_p(differences.tolist()) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


def test_holm_by_hand() -> None:
    assert holm([]) == []
    # Sorted: 4 × 0.01, 3 × 0.02 and 2 × 0.03 (equal), 1 × 0.9.
    assert holm([0.02, 0.9, 0.01, 0.03]) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]


def test_splits_are_paired_by_hash_not_by_position() -> None:
    ours = {"a": 80.0, "b": 70.0, "c": 60.0}
    theirs = {"d": 50.0, "b": 68.0, "a": 79.0}
    assert paired_differences(ours, theirs) == [1, 2]
    assert paired_differences(theirs, ours) == [-2, -1]


def test_rounding_errors_are_ties() -> None:
    test = paired_test({"a": 0.1 + 0.2, "b": 1.0}, {"a": 0.3, "b": 0.0})
    assert (test.wins, test.losses, test.ties) == (1, 0, 1)


def test_tests_without_p_are_left_out_of_the_correction() -> None:
    one, none, many = (
        {f"{n}": float(n) for n in range(start, start + count)} for start, count in ((0, 1), (50, 3), (0, 10))
    )
    base = dict.fromkeys(map(str, range(10)), -1.0)
    corrected = holm_corrected([paired_test(other, base) for other in (one, none, many)])
    assert [test.pairs for test in corrected] == [1, 0, 10]
    assert [test.corrected_p for test in corrected] == [None, None, 2 / 2**10]
    assert [test.is_significant for test in corrected] == [False, False, True]
    assert corrected[1].difference is None
