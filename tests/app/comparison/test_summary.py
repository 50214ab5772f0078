"""The table and the recommendation: pairs by split, verdicts, and the fastest of those that are as good."""

from __future__ import annotations

import random

import pytest

from lggd.app.comparison.fit_job import ERROR
from lggd.app.comparison.summary import (
    BEST,
    UNCLEAR,
    WORSE,
    fewest_splits,
    fit_time,
    holm,
    recommend,
    recommended,
    summarize,
    wilcoxon_p,
)
from support.comparison_models import line, lines

TEN = [80.0 + k for k in range(10)]


def test_rows_are_sorted_and_have_mean_and_deviation() -> None:
    first, second = summarize(lines(low=[70.0, 72.0], high=[80.0, 84.0]), 2)
    assert (first.name, first.mean, first.sd) == ("high", 82.0, pytest.approx(2.8284271))
    assert (first.verdict, second.verdict) == (BEST, UNCLEAR)
    row = second.row()
    assert (row["method"], row["title"], row["difference"]) == ("low", "LOW", -11)
    assert row["calibration_error"] == pytest.approx(19)
    assert first.row()["difference"] is None


def test_tests_pair_splits_and_not_the_order_of_lines() -> None:
    """Lines come in any order; differences of 1 on every split are clear, of shuffled splits they are not."""
    measured = lines(best=TEN, worse=[value - 1 for value in TEN])
    expected = summarize(measured, 10)[1].test
    assert expected is not None
    assert (expected.difference, expected.losses, expected.p) == (-1, 10, pytest.approx(2 / 2**10))
    for seed in range(5):
        shuffled = random.Random(seed).sample(measured, len(measured))
        found = summarize(shuffled, 10)
        assert found[1].test == expected
        assert found[1].verdict == WORSE
        assert list(found[1].accuracy) == list(range(10))


def test_p_values_are_corrected_over_all_methods() -> None:
    others = {f"m{k}": [value - (k + 1) * (-1) ** (s % (k + 2)) for s, value in enumerate(TEN)] for k in range(3)}
    found = summarize(lines(best=[value + 5 for value in TEN], **others), 10)
    raw = [method.test.p for method in found[1:] if method.test]
    assert [method.test.corrected_p for method in found[1:] if method.test] == holm([p for p in raw if p is not None])
    differences = [found[1].accuracy[s] - found[0].accuracy[s] for s in range(10)]
    assert raw[0] == wilcoxon_p([round(value, 9) for value in differences])


def test_methods_that_failed_on_some_split_are_left_out() -> None:
    measured = [
        *lines(good=[80.0, 81.0]),
        line("bad", 0, 99.0),
        {"method": "bad", "split": 1, "share": 1.0, ERROR: "x"},
    ]
    assert [method.name for method in summarize(measured, 2)] == ["good"]


def test_the_fastest_of_those_that_are_as_good_is_recommended() -> None:
    noise = [value + (0.4 if k % 2 else -0.6) for k, value in enumerate(TEN)]
    far = [value - 9 for value in TEN]
    found = summarize(lines(far=far, close=noise, best=TEN), 10)
    assert [method.name for method in found] == ["best", "close", "far"]
    choice = recommended(found)
    assert choice is not None
    assert choice.name == "close"
    expected = (
        "Use close: 84.4 ± 3.2 % is 0.1 points below the best, best with 84.5 ± 3.0 %: no clear difference. "
        "It takes 2 s instead of 4 s."
    )
    assert recommend(found) == expected


def test_a_small_but_clear_loss_is_no_match() -> None:
    found = summarize(lines(fast=[value - 0.2 for value in TEN], best=TEN), 10)
    assert found[1].verdict == WORSE
    assert recommend(found) == (
        "Use best: the highest accuracy, 84.5 ± 3.0 %, and no faster method comes close (2 s per fit)."
    )


def test_a_large_loss_on_few_splits_is_no_match_either() -> None:
    found = summarize(lines(fast=[60.0, 61.0], best=[80.0, 81.0]), 2)
    assert found[1].verdict == UNCLEAR
    assert recommend(found) == (
        "Use best: the highest accuracy, 80.5 ± 0.7 %, and no faster method comes close (2 s per fit). "
        "No difference can be clear on 2 splits only: 6 are needed."
    )


def test_one_method_one_split_and_none_at_all() -> None:
    assert recommend(summarize(lines(only=[80.0]), 1)) == "Use only: the highest accuracy, 80.0 % (1 s per fit)."
    assert recommend([]) == "No method could be measured on all splits."
    assert recommended([]) is None


@pytest.mark.parametrize("comparisons", [1, 3, 8])
def test_so_many_splits_are_needed_for_a_clear_difference(comparisons: int) -> None:
    needed = fewest_splits(comparisons)
    for splits, clear in ((needed, True), (needed - 1, False)):
        p = wilcoxon_p([-1.0 - k for k in range(splits)])
        assert p is not None
        assert (holm([p] * comparisons)[0] < 0.05) == clear


def test_learning_curves_are_means_over_the_same_splits() -> None:
    measured = [
        *(line("a", split, value) for split, value in enumerate([80.0, 90.0, 10.0])),
        *(line("a", split, value, share=0.5, train=10) for split, value in enumerate([70.0, 72.0])),
        line("a", 0, 60.0, share=0.25, train=5),
    ]
    (found,) = summarize(measured, 3)
    assert found.curve == {10: 71.0, 20: 85.0}
    assert summarize(lines(a=[1.0, 2.0]), 2)[0].curve == {}


def test_reliability_leaves_out_bins_of_few_nodes() -> None:
    bins = [[0, 0.0, 0]] * 8 + [[1, 0.85, 0], [999, 950.0, 900]]
    (found,) = summarize([line("a", 0, 90.0, bins=bins)], 1)
    assert found.reliability == [pytest.approx((95.0951, 90.0901), abs=1e-3)]
    (none,) = summarize([line("a", 0, 90.0, bins=None)], 1)
    assert (none.reliability, none.calibration_error) == ([], None)


def test_times_have_three_digits() -> None:
    assert [fit_time(value) for value in (0.01234, 12.34, 200)] == ["0.0123 s", "12.3 s", "3 min 20 s"]
