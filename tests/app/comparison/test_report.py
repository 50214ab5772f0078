"""The page of a comparison: its text, and how it looks in a real browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lggd._system.files import write_text
from lggd.app.comparison.comparison import Comparison
from lggd.app.comparison.report import render_comparison
from lggd.app.comparison.summary import MethodSummary, PairedTest
from lggd.app.report.frame import class_colour
from lggd.errors import MissingPackageError
from support import browser
from support.page_reader import PageReader

HOSTILE = '<script>alert("x")</script>&'
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def method(name: str, mean: float, seconds: float, **more: Any) -> MethodSummary:
    values: dict[str, Any] = {
        "title": name.upper(), "accuracy": {0: mean - 1, 1: mean, 2: mean + 1}, "macro_f1": mean - 2,
        "bins": [(100, 50.0, 45), (100, 90.0, 80)], "cpu_seconds": 2 * seconds,
        "curve": {10: mean - 8, 20: mean - 4, 40: mean},
    }  # fmt: skip
    return MethodSummary(name, seconds=seconds, **values | more)


SLOW = method("slow", 88.0, 4.0)
FAST = method("fast", 86.0, 0.01, test=PairedTest(3, -2.0, 0, 3, 0, 0.01, 0.0321))
TEXTS = {
    "dataset": "letters", "protocol": "3 splits, 5 labels per class for training",
    "created": "2025-01-31T12:00:00+00:00", "version": "1.2", "machine": "a CPU",
}  # fmt: skip


def page_of(*methods: MethodSummary, notes: tuple[str, ...] = ("Features were scaled.",), **changes: Any) -> str:
    """The page of these methods; `changes` are of the comparison, or of its texts."""
    reasons = {"failed": {"broken": "ValueError: no"}, "skipped": {"gcn": "needs node features"}}
    texts = {name: changes.pop(name, text) for name, text in TEXTS.items()}
    comparison = Comparison([], splits=3, labels=5, **reasons | changes)
    vars(comparison)["methods"] = list(methods)
    return render_comparison(comparison, {"nodes": "2,000", "edges": "6,000"}, texts, notes)


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.launch() as launched:
        yield launched


def test_the_page_says_everything() -> None:
    page = page_of(SLOW, FAST)
    texts = (
        "letters", "Use slow: the highest accuracy", "88.00", "± 1.00", "−2.00", "clearly worse", "0.0321",
        "ValueError: no", "needs node features", "Features were scaled.", "31 January 2025", "recommended",
    )  # fmt: skip
    for text in texts:
        assert text in page, text
    assert page == page_of(SLOW, FAST)
    assert [tag for tag, _ in PageReader(page).tags].count("script") == 1


def test_sections_without_content_are_left_out() -> None:
    bare = [replace(each, curve={}, bins=None, accuracy={0: 80.0}) for each in (SLOW, FAST)]
    page = page_of(*bare, failed={}, skipped={}, notes=())
    for key in ("curves", "calibration", "missing", "notes"):
        assert f'<section id="{key}"' not in page
    empty = page_of()
    assert '<section id="methods"' not in empty
    assert "No method" in empty


def test_names_of_the_caller_are_escaped() -> None:
    nasty = [replace(each, name=HOSTILE, title=HOSTILE) for each in (SLOW, FAST)]
    page = page_of(*nasty, notes=(HOSTILE,), dataset=HOSTILE, machine=HOSTILE, failed={HOSTILE: HOSTILE})
    assert "<script>alert" not in page
    assert [tag for tag, _ in PageReader(page).tags].count("script") == 1


def test_figures_need_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'lggd\[figures\]'"):
        Comparison([], splits=3, labels=5).plot()


def test_further_methods_have_colours_of_their_own() -> None:
    assert len({class_colour(k) for k in range(40)}) == 40


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "dark")])
def test_the_page_in_a_browser(chromium: Any, tmp_path: Path, width: int, scheme: str) -> None:
    write_text(tmp_path / "comparison.html", page_of(SLOW, FAST))
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    with chromium.page(tmp_path / "comparison.html", **options) as page:
        assert page.evaluate(OVERFLOW) == 0
        assert page.locator("#times .dot").count() == 2
        assert page.locator(".strip .split").count() == 6
        fast, slow = (
            page.locator("#times .dot").nth(1).bounding_box(),
            page.locator("#times .dot").nth(0).bounding_box(),
        )
        assert fast["x"] < slow["x"], "faster is to the left"
        assert fast["y"] > slow["y"], "less accurate is lower"
        swatches = page.locator(".methods .class i").evaluate_all("all => all.map(e => e.clientWidth * e.clientHeight)")
        assert min(swatches) > 0, "the legend of colours has a size"
        headings = page.locator("nav a").all_inner_texts()
        assert headings[:3] == ["Recommendation", "Methods", "Accuracy"]
        colours = page.evaluate("[...document.querySelectorAll('#times .dot')].map(e => getComputedStyle(e).stroke)")
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
