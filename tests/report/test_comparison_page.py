"""The page of a comparison: its text, and how it looks in a real browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lggd.html import class_colour
from lggd.report.comparison_page import ComparedMethod, ComparisonReport, render_comparison
from lggd.system.files import write_text
from page_reader import PageReader

HOSTILE = '<script>alert("x")</script>&'
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def method(name: str, mean: float, seconds: float, **more: Any) -> ComparedMethod:
    values: dict[str, Any] = {
        "title": name.upper(), "accuracies": [mean - 1, mean, mean + 1], "sd": 1.0, "macro_f1": mean - 2,
        "calibration_error": 3.25, "memory": 3 * 2**20, "difference": None, "corrected_p": None, "verdict": "best",
        "curve": [(10.0, mean - 8), (20.0, mean - 4), (40.0, mean)], "reliability": [(50.0, 45.0), (90.0, 80.0)],
    }  # fmt: skip
    return ComparedMethod(name, mean=mean, seconds=seconds, **values | more)


@pytest.fixture
def report() -> ComparisonReport:
    second = {"difference": -2.0, "corrected_p": 0.0321, "verdict": "clearly worse"}
    return ComparisonReport(
        dataset="letters", protocol="3 splits, 5 labels per class for training", recommendation="Use slow: it is best.",
        recommended="slow", methods=[method("slow", 88.0, 4.0), method("fast", 86.0, 0.01, **second)],
        facts={"nodes": "2,000", "edges": "6,000"}, created="2025-01-31T12:00:00+00:00", version="1.2", machine="a CPU",
        failed={"broken": "ValueError: no"}, skipped={"gcn": "needs node features"}, notes=["Features were scaled."],
    )  # fmt: skip


def test_the_page_says_everything(report: ComparisonReport) -> None:
    page = render_comparison(report)
    texts = (
        "letters", "Use slow: it is best.", "88.00", "± 1.00", "−2.00", "clearly worse", "0.0321", "3.0 MiB",
        "ValueError: no", "needs node features", "Features were scaled.", "31 January 2025", "recommended",
    )  # fmt: skip
    for text in texts:
        assert text in page, text
    assert page == render_comparison(report)
    assert [tag for tag, _ in PageReader(page).tags].count("script") == 1


def test_sections_without_content_are_left_out(report: ComparisonReport) -> None:
    bare = [replace(each, curve=(), reliability=(), memory=None, sd=None) for each in report.methods]
    page = render_comparison(replace(report, methods=bare, failed={}, skipped={}, notes=()))
    for key in ("curves", "calibration", "missing", "notes"):
        assert f'<section id="{key}"' not in page
    empty = render_comparison(replace(report, methods=[], recommended=None, recommendation="No method"))
    assert '<section id="methods"' not in empty
    assert "No method" in empty


def test_names_of_the_caller_are_escaped(report: ComparisonReport) -> None:
    nasty = [replace(each, name=HOSTILE, title=HOSTILE, verdict=HOSTILE) for each in report.methods]
    page = render_comparison(
        replace(report, methods=nasty, dataset=HOSTILE, recommendation=HOSTILE, recommended=HOSTILE,
                failed={HOSTILE: HOSTILE}, notes=[HOSTILE], machine=HOSTILE)
    )  # fmt: skip
    assert "<script>alert" not in page
    assert [tag for tag, _ in PageReader(page).tags].count("script") == 1


def test_further_methods_have_colours_of_their_own() -> None:
    assert len({class_colour(k) for k in range(40)}) == 40


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "dark")])
def test_the_page_in_a_browser(
    chromium: Any, report: ComparisonReport, tmp_path: Path, width: int, scheme: str
) -> None:
    write_text(tmp_path / "comparison.html", render_comparison(report))
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with chromium.page(tmp_path / "comparison.html", **options) as page:
        assert page.evaluate(OVERFLOW) == 0
        assert page.locator(".point").count() == 2
        assert page.locator(".strip .split").count() == 6
        fast, slow = page.locator(".point").nth(1).bounding_box(), page.locator(".point").nth(0).bounding_box()
        assert fast["x"] < slow["x"], "faster is to the left"
        assert fast["y"] > slow["y"], "less accurate is lower"
        headings = page.locator("nav a").all_inner_texts()
        assert headings[:3] == ["Recommendation", "Methods", "Accuracy"]
        colours = page.evaluate(
            "[...document.querySelectorAll('.point')].map(e => getComputedStyle(e).backgroundColor)"
        )
        assert len(set(colours)) == 2
        plot = page.locator("#curves .plot")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 20)
        tip = page.locator("#curves .tip")
        assert tip.is_visible()
        assert "training labels 40" in tip.inner_text()
        assert "slow" in tip.inner_text()
        assert "88" in tip.inner_text()
