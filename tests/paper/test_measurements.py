"""Which lines of results count, and which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lggd.errors import InputError
from lggd.paper.measurements import Measurement, read_measurements
from result_lines import line, measured, written


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
    assert found.ablation["LGGD+ as chosen", "cora"] is found.table1["14", "cora"]
