"""The charts of a comparison: accuracies by split, and time against accuracy. Every method has one colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lggd.report.charts import Axis, Line
from lggd.report.comparison_report import ComparedMethod
from lggd.report.formatting import escape_name, escape_text, number, percent

STYLED = 12  # number of colours in the style sheet; further hues are spread by the golden angle


def colour(k: int) -> str:
    """CSS for the colour of the k-th method of the table."""
    return f"var(--class-{k})" if k < STYLED else f"oklch(62% 0.13 {137.508 * k % 360:.1f})"


def swatch(k: int) -> str:
    return f'<i class="swatch" style="--colour:{colour(k)}"></i>'


def accuracy_rows(methods: Sequence[ComparedMethod]) -> str:
    """One row per method with a dot per split, and a bar from mean − sd to mean + sd, on one scale."""
    values = [value for method in methods for value in method.accuracies]
    axis = Axis.around(min(values), max(values))
    rows = "".join(_accuracy_row(method, k, axis) for k, method in enumerate(methods))
    ticks = "".join(
        f'<span style="left:{axis.percent(tick):.4g}%">{label}</span>'
        for tick, label in zip(axis.ticks, axis.labels(), strict=True)
    )
    scale = f'<div class="strip scale" aria-hidden="true"><b></b><div>{ticks}</div></div>'
    return f'<div class="strips">{rows}{scale}</div>'


def _accuracy_row(method: ComparedMethod, k: int, axis: Axis) -> str:
    sd = method.sd or 0.0
    low, high = (min(max(axis.percent(method.mean + side * sd), 0), 100) for side in (-1, 1))
    dots = "".join(f'<i class="split" style="left:{axis.percent(value):.4g}%"></i>' for value in method.accuracies)
    label = f"{escape_name(method.name)}: {percent(method.mean)}, standard deviation {number(sd)}"
    return (
        f'<div class="strip" style="--colour:{colour(k)}"><b>{escape_name(method.name)}</b>'
        f'<div role="img" aria-label="{label}" title="{label}">'
        f'<i class="range" style="left:{low:.4g}%;width:{high - low:.4g}%"></i>{dots}'
        f'<i class="mean" style="left:{axis.percent(method.mean):.4g}%"></i></div></div>'
    )


def time_chart(methods: Sequence[ComparedMethod], marked: str | None) -> str:
    """Seconds per fit against mean accuracy, with the name of the marked method and of the most accurate one."""
    seconds = np.array([max(method.seconds, 1e-6) for method in methods])
    means = np.array([method.mean for method in methods])
    axes = [Axis.for_lines([Line("", values, values, "")]) for values in (seconds, means)]
    horizontal, vertical = axes
    if horizontal is None or vertical is None:
        return ""
    grid = "".join(f'<path class="grid" d="M0 {100 - vertical.percent(tick):.5g}H100"/>' for tick in vertical.ticks)
    ticks = "".join(
        f'<span class="tick {kind}" style="{side}:{axis.percent(tick):.4g}%">{label}</span>'
        for axis, kind, side in ((horizontal, "x", "left"), (vertical, "y", "bottom"))
        for tick, label in zip(axis.ticks, axis.labels(), strict=True)
    )
    points = []
    for k, (method, x, y) in enumerate(zip(methods, seconds.tolist(), means.tolist(), strict=True)):
        left, bottom = horizontal.percent(x), vertical.percent(y)
        title = f"{escape_name(method.name)}: {percent(y)}, {number(x)} s"
        side = "left" if left > 60 else "right"
        name = f'<b class="{side}">{escape_name(method.name)}</b>' if k == 0 or method.name == marked else ""
        place = f"left:{left:.4g}%;bottom:{bottom:.4g}%;--colour:{colour(k)}"
        points.append(f'<span class="point" title="{title}" style="{place}">{name}</span>')
    summary = "; ".join(f"{method.name}: {method.mean:.1f} %, {number(method.seconds)} s" for method in methods)
    scale = " · log scale" if horizontal.logarithmic else ""
    return (
        f'<div class="chart points" role="img" aria-label="{escape_text(summary)}">'
        '<span class="axis y" aria-hidden="true">accuracy (%)</span>'
        '<div class="plot"><svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f"{grid}</svg>{ticks}{''.join(points)}</div>"
        f'<span class="axis x" aria-hidden="true">seconds per fit{scale}</span></div>'
    )
