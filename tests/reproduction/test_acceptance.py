"""reproduction.acceptance: which goals are met, and that its committed page is up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reproduction import acceptance
from reproduction.measurements import Measurements, read_measurements
from support.result_lines import Line, all_lines, changed, measured

RESULTS = Path(__file__).parents[2] / "results"


def check(found: Measurements, start: str) -> Any:
    (one,) = [each for each in acceptance.acceptance_checks(found) if each.goal.startswith(start)]
    return one


def test_checks_of_good_results(tmp_path: Path) -> None:
    failed = [each for each in acceptance.acceptance_checks(measured(tmp_path, all_lines())) if not each.passed]
    assert [each.goal[:10] for each in failed] == ["Row 01 GCN"]
    assert failed[0].reason == "CiteSeer 62.00 < 63.92"


def test_without_measurements_no_check_passes(tmp_path: Path) -> None:
    found = measured(tmp_path, {"geodesic": [{"distance": 1.0}]})
    assert not any(each.passed for each in acceptance.acceptance_checks(found))


@pytest.mark.parametrize(
    ("experiment", "change", "start", "reason"),
    [
        ("table1", changed("07", "photo", 86.87), "Row 07", "Photo 86.87 < 86.88"),
        ("table1", changed("08", "cora", 72.0), "Row 08", "Cora 72.00, the paper 69.95"),
        ("table1", changed("09", "photo", 91.01), "Row 09 LGGD at", "Photo 91.01 < 91.02"),
        ("table1", changed("10", "cora", 79.0), "Row 10", "Cora 79.00 < 79.18"),
        ("table1", changed("14", "photo", 90.9), "Trained LGGD+ never worse", "Photo 90.90 < 91.00"),
        ("table1", changed("14", "photo", 87.0), "Trained LGGD+ at least 82.5", "82.40"),
        ("dynamic", changed("09", "pubmed", 72.0, additions=3), "Row 09 on PubMed", "70.00 → 71.00 → 72.00 → 72.00"),
    ],
)
def test_each_check_fails_with_its_number(
    tmp_path: Path, experiment: str, change: Callable[[Line], Line], start: str, reason: str
) -> None:
    lines = all_lines()
    assert check(measured(tmp_path, lines), start).passed
    lines[experiment] = [change(each) for each in lines[experiment]]
    found = measured(tmp_path, lines)
    failed = check(found, start)
    assert not failed.passed
    assert failed.reason == reason
    assert f"| **failed** | {failed.goal} | {reason} |" in acceptance.markdown(found)


def test_four_of_five_datasets_suffice_and_three_do_not(tmp_path: Path) -> None:
    lines = all_lines()
    for dataset, passed in (("cora", True), ("photo", False)):
        lines["table1"] = [changed("13", dataset, 99.0)(each) for each in lines["table1"]]
        lines["backbones"] = [changed("01", dataset, 99.0, backbone="gat")(each) for each in lines["backbones"]]
        found = measured(tmp_path, lines)
        assert check(found, "Trained LGGD+ better").passed == passed
        assert check(found, "GAT").passed == passed
        assert check(found, "JKNet").passed


def test_a_missing_row_is_not_beaten(tmp_path: Path) -> None:
    lines = all_lines()
    lines["table1"] = [each for each in lines["table1"] if each["row"] != "05" or each["dataset"] == "photo"]
    found = measured(tmp_path, lines)
    for start in ("Trained LGGD+ better", "Row 05", "All 14 rows"):
        assert not check(found, start).passed


def test_committed_page_is_up_to_date() -> None:
    page = (RESULTS / "ACCEPTANCE.md").read_text(encoding="utf-8")
    assert acceptance.markdown(read_measurements(RESULTS)) == page
