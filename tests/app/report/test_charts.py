"""Axes, gaps and long lines of charts; training curves."""

import math
import re

import numpy as np
import pytest

from lggd.app.report.charts import Axis, Line, Strip, line_chart, strips
from support.page_reader import text_of
from support.sample_reports import small


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.013, 0.0171), (-5, 3), (99.2, 99.9), (0, 1e-9), (1e6, 5e6), (3, 3), (0, 0), (-2, -2)]
)
def test_axis_covers_its_values_with_few_distinct_ticks(low, high):
    axis = Axis.around(low, high)
    assert axis.low <= low <= high <= axis.high
    assert axis.low < axis.high
    assert 2 <= len(axis.ticks) <= 8
    assert len(set(axis.labels())) == len(axis.ticks)


def test_wide_ranges_have_a_logarithmic_axis():
    assert Axis.for_values(np.array([1e-4, 1.0, 30.0])).logarithmic
    assert not Axis.for_values(np.array([-1.0, 1.0, 300.0])).logarithmic


def test_non_finite_values_leave_gaps():
    y = np.array([1.0, math.nan, 2.0, 3.0, math.inf, 4.0])
    chart = line_chart([Line("loss", np.arange(1.0, 7.0), y, "red")], x_label="epoch", y_label="loss", summary="")
    path = re.search(r'class="line".*? d="([^"]*)"', chart)[1]
    assert path.count("M") == 3
    assert "nan" not in chart
    assert "inf" not in chart


def test_long_lines_are_reduced_to_their_extremes():
    y = np.zeros(100_000)
    y[12_345], y[-1] = 7.0, 3.0
    chart = line_chart([Line("loss", np.arange(1.0, 100_001.0), y, "red")], x_label="epoch", y_label="loss", summary="")
    assert len(chart) < 20_000
    heights = [
        float(h) for h in re.findall(r"[ML][\d.]+ ([\d.]+)", re.search(r'class="line".*? d="([^"]*)"', chart)[1])
    ]
    assert min(heights) == pytest.approx(100 - 100 * 7 / 8)


def test_curves_without_finite_values():
    report = small(curves={"stage": {"train_loss": [math.nan, math.inf]}, "empty": {"train_loss": []}})
    text = text_of(report)
    assert "No finite value was recorded." in text
    assert "empty" not in text


def test_best_epoch_is_reported(digits):
    text = text_of(digits)
    assert "best validation at 3: 90.0\N{NO-BREAK SPACE}%" in text
    assert "best validation at 60\N{NO-BREAK SPACE}(t=1), 60\N{NO-BREAK SPACE}(t=2)" in text


def test_strips_share_a_scale_and_stay_within_it():
    rows = [
        Strip("<a>", 94.2, (93.0, 95.4), "red", "<a>: 94.2"),
        Strip("b", 95.7, (80.0, 99.0), "blue", "b", [95.0, 96.0]),
    ]
    html = strips(rows)
    assert "<a>" not in html
    first, second = (float(left) for left in re.findall(r'class="mean" style="left:([\d.]+)%', html))
    assert 0 <= first < second - 10
    assert second <= 100
    for left, width in re.findall(r'class="range" style="left:([\d.]+)%;width:([\d.]+)%', html):
        assert float(left) + float(width) <= 100
    assert html.count('class="split"') == 2
