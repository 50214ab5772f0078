"""What a report computes; intervals and tests of accuracies compared with their formulas."""

import math
from dataclasses import fields
from itertools import product

import numpy as np
import pytest
import torch

from lggd.app.report.page import render
from lggd.app.report.run_report import McNemarTest, wilson_interval
from support.sample_reports import bare, small


def test_tensors_and_lists_are_accepted():
    report = small()
    arrays = {field.name: getattr(report, field.name) for field in fields(report)}
    as_tensors = {name: torch.from_numpy(value) for name, value in arrays.items() if isinstance(value, np.ndarray)}
    as_lists = {name: value.tolist() for name, value in arrays.items() if isinstance(value, np.ndarray)}
    assert render(small(**as_tensors)) == render(small(**as_lists)) == render(report)


def test_input_is_not_modified():
    positions = np.zeros((6, 2))
    report = small(positions=positions)
    render(report)
    assert positions.dtype == np.float64
    assert not positions.any()


def test_confusion_counts_test_nodes():
    # Tested: 1 (red, taken for red), 3 (green, taken for red), 5 (blue, taken for blue).
    assert small().confusion().tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    assert bare().confusion().tolist() == [[0]]


def test_least_certain_nodes_are_sorted_by_margin():
    report = small()
    # Margins: 3 has 0.02, 1 has 0.1, 5 has 0.6, which is certain; 0, 2 and 4 are labelled.
    assert report.least_certain() == [3, 1]
    assert report.least_certain(1) == [3]
    assert report.top_two[0][3].tolist() == [0, 1]
    assert report.margin[3] == pytest.approx(0.02, abs=1e-6)


def test_labelled_nodes_are_not_uncertain():
    assert small(probabilities=np.full((6, 3), 1 / 3)).least_certain() == [1, 3, 5]


def test_single_class_has_no_second():
    report = bare()
    assert (report.top_two[0].tolist(), report.margin.tolist()) == ([[0, -1]], [1.0])


@pytest.mark.parametrize(
    ("reference", "model", "difference"),
    [(50.0, 60.0, 10.0), (60.0, 50.0, -10.0), (None, 50.0, None), (50.0, None, None)],
)
def test_gain_needs_both_accuracies(reference, model, difference):
    assert small(accuracy={"reference": reference, "model": model}).gain == difference


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


def test_mcnemar_is_the_exact_binomial_test():
    """Under the null hypothesis each discordant node favours either model with probability 1/2."""
    for first, second in product(range(7), range(7)):
        a = np.array([True] * first + [False] * second + [True, False] * 4)
        b = np.array([False] * first + [True] * second + [True, False] * 4)
        result, n = McNemarTest.of(a, b), first + second
        tail = sum(math.comb(n, k) for k in range(min(first, second) + 1)) / 2**n
        assert (result.only_first, result.only_second) == (first, second)
        assert result.p == pytest.approx(min(1.0, 2 * tail))
        assert result.is_clear == (result.p < 0.05)
