"""Which lines of results count; comparisons with the paper, between rows, and of the ablation's variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lggd.errors import InputError
from reproduction.measurements import (
    BASE_VARIANT,
    BASELINES,
    PUBLISHED,
    Measurement,
    Published,
    ablation,
    deviations,
    paired_tests,
    read_measurements,
)
from support.result_lines import all_lines, line, measured, written


def test_last_line_with_the_most_splits_counts(tmp_path: Path) -> None:
    lines = [line("01", "cora", 70), line("01", "cora", 71), line("01", "cora", 99, count=3)]
    assert measured(tmp_path, {"table1": lines}).table1["01", "cora"].mean == pytest.approx(71)
    assert measured(tmp_path, {"table1": lines[::-1]}).table1["01", "cora"].mean == pytest.approx(70)


def test_incomplete_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    written(tmp_path, {"table1": [line("01", "cora", 70)]})
    with (tmp_path / "table1.jsonl").open("a") as file:
        file.write('{"row": "02", "dataset": "co')
    found = read_measurements(tmp_path)
    assert list(found.table1) == [("01", "cora")]
    assert found.incomplete_lines == 1


def test_lines_without_test_accuracies_do_not_count(tmp_path: Path) -> None:
    lines = [{**line("01", "cora", 70), "test": each} for each in ([], None)]
    assert measured(tmp_path, {"table1": lines}).table1 == {}


def test_other_datasets_are_left_out(tmp_path: Path) -> None:
    assert not measured(tmp_path, {"dynamic": [line("09", "digits", 70, additions=0)]}).dynamic


@pytest.mark.parametrize("wrong", [[101.0], ["70"], 70.0, [float("nan")]])
def test_invalid_accuracies_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"`test` must be a list of percentages.*table1, row 01, cora"):
        Measurement.read({"experiment": "table1", "row": "01", "dataset": "cora", "test": wrong})


def test_one_split_hash_per_accuracy() -> None:
    with pytest.raises(InputError, match=r"`splits` must have one entry for each of the 2"):
        Measurement.read({"test": [1, 2], "splits": ["a"]})


def test_base_of_the_ablation_can_be_the_row_of_the_table(tmp_path: Path) -> None:
    lines = {"table1": [line("14", "cora", 80)], "ablation": [line("14", "cora", 83, variant="more")]}
    found = measured(tmp_path, lines)
    assert found.ablation["Trained LGGD+ as chosen", "cora"] is found.table1["14", "cora"]


# -- comparisons ------------------------------------------------------------------------------------------------------


def test_deviations_exceed_one_published_standard_deviation(tmp_path: Path) -> None:
    paper = PUBLISHED["04", "photo"]
    means = {"cora": PUBLISHED["04", "cora"].mean - 1.38, "photo": paper.mean + paper.sd - 0.01, "pubmed": 90.0}
    found = measured(tmp_path, {"table1": [line("04", dataset, mean) for dataset, mean in means.items()]})
    below, above = deviations(found, {"04": "general", "04.cora": "special"})
    assert (below.dataset, below.difference < 0, below.note) == ("cora", True, "special")
    assert below.difference == pytest.approx(-1.38)
    assert (above.dataset, above.difference < 0, above.note) == ("pubmed", False, "general")


def test_one_split_has_no_test(tmp_path: Path) -> None:
    lines = [line("09", "cora", 80, count=1), line("01", "cora", 70, count=1)]
    test = paired_tests(measured(tmp_path, {"table1": lines}), "09")["01", "cora"]
    assert (test.pairs, test.difference, test.p, test.corrected_p) == (1, 10, None, None)
    assert not test.is_significant


def test_rows_without_common_splits_are_not_compared(tmp_path: Path) -> None:
    other = {**line("01", "cora", 90), "splits": [f"other{n}" for n in range(10)]}
    test = paired_tests(measured(tmp_path, {"table1": [line("09", "cora", 80), other]}), "09")["01", "cora"]
    assert (test.pairs, test.difference, test.p) == (0, None, None)


def test_paired_tests_are_corrected_within_a_dataset(tmp_path: Path) -> None:
    same = line("09", "cora", 80)
    lines = [same, {**same, "row": "02"}, line("01", "cora", 70), line("03", "cora", 90), line("01", "photo", 70)]
    tests = paired_tests(measured(tmp_path, {"table1": lines}), "09")
    better, equal, worse = (tests[row, "cora"] for row in ("01", "02", "03"))
    assert list(tests) == [(row, "cora") for row in ("01", "02", "03")]
    assert (better.wins, better.losses, better.ties) == (10, 0, 0)
    assert better.difference == pytest.approx(10)
    assert worse.difference == pytest.approx(-10)
    assert (equal.ties, equal.p, equal.corrected_p) == (10, 1.0, 1.0)
    assert better.p is not None
    assert better.corrected_p == pytest.approx(3 * better.p)
    assert better.is_significant


def test_variants_are_sorted_by_validation_including_failures(tmp_path: Path) -> None:
    base, good, failed = ablation(measured(tmp_path, all_lines()))
    assert [base.name, good.name, failed.name] == [BASE_VARIANT, "good", "failed | badly"]
    assert (base.validation_difference, base.test_difference) == (0, 0)
    assert good.validation_difference == pytest.approx(1.5)
    assert failed.test_difference == pytest.approx(-2)


def test_variants_that_lack_a_dataset_come_last(tmp_path: Path) -> None:
    means = {
        (BASE_VARIANT, "cora"): 80,
        (BASE_VARIANT, "photo"): 80,
        ("worse", "cora"): 60,
        ("worse", "photo"): 60,
        ("half", "cora"): 90,
    }
    lines = [line("14", dataset, mean, variant=variant) for (variant, dataset), mean in means.items()]
    assert [each.name for each in ablation(measured(tmp_path, {"ablation": lines}))] == [BASE_VARIANT, "worse", "half"]


def test_variant_against_the_row_of_the_table(tmp_path: Path) -> None:
    lines = {"table1": [line("14", "cora", 80)], "ablation": [line("14", "cora", 83, variant="more")]}
    base, more = ablation(measured(tmp_path, lines))
    assert base.name == BASE_VARIANT
    assert more.scores["cora"].test_difference == pytest.approx(3)


def test_variant_without_a_base_has_no_difference(tmp_path: Path) -> None:
    (alone,) = ablation(measured(tmp_path, {"ablation": [line("14", "cora", 83, variant="more")]}))
    assert (alone.validation_difference, alone.test_difference) == (None, None)


def test_the_published_numbers_are_as_printed() -> None:
    assert len(PUBLISHED) == 12 * 5 - 1
    assert ("05", "pubmed") not in PUBLISHED
    assert PUBLISHED["01", "cora"] == Published(74.13, 2.08)
    assert PUBLISHED["05", "computers"] == Published(83.03, 0.50)
    assert PUBLISHED["10", "photo"] == Published(92.39, 2.11)
    assert PUBLISHED["12", "citeseer"] == Published(66.57, 1.26)
    assert {row for row, _ in PUBLISHED} == set(BASELINES) | {"08", "09", "10"}
