"""Intervals and tests of accuracies, compared with their formulas."""

import math
from itertools import product

import numpy as np
import pytest

from lggd.errors import InputError
from lggd.report.accuracy import McNemarTest, wilson_interval


@pytest.mark.parametrize(("correct", "total"), [(0, 1), (1, 1), (5, 6), (0, 6), (6, 6), (870, 1747)])
def test_wilson_interval_has_its_formula(correct, total):
    """The ends solve (p̂ − p)² = z² p(1 − p)/n."""
    z = 1.959963984540054
    for end in wilson_interval(correct, total):
        p = end / 100
        assert (correct / total - p) ** 2 == pytest.approx(z**2 * p * (1 - p) / total, abs=1e-12)
    low, high = wilson_interval(correct, total)
    assert -1e-9 <= low <= 100 * correct / total + 1e-9
    assert 100 * correct / total - 1e-9 <= high <= 100 + 1e-9


@pytest.mark.parametrize(("correct", "total"), [(0, 0), (-1, 3), (4, 3)])
def test_impossible_counts_are_rejected(correct, total):
    with pytest.raises(InputError):
        wilson_interval(correct, total)


@pytest.mark.parametrize(("first", "second"), list(product(range(7), range(7))))
def test_mcnemar_is_the_exact_binomial_test(first, second):
    """Under the null hypothesis each discordant node favours either model with probability 1/2."""
    a = np.array([True] * first + [False] * second + [True, False] * 4)
    b = np.array([False] * first + [True] * second + [True, False] * 4)
    found, n = McNemarTest.of(a, b), first + second
    tail = sum(math.comb(n, k) for k in range(min(first, second) + 1)) / 2**n
    assert (found.only_first, found.only_second) == (first, second)
    assert found.p == pytest.approx(min(1.0, 2 * tail))
    assert found.is_clear == (found.p < 0.05)
