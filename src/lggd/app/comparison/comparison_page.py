"""A comparison as one self-contained HTML page: what it shows, its sections and its charts.

A section without content is an empty string. Every method has one colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lggd._system.files import size_in_words
from lggd.app.comparison.summary import MethodSummary
from lggd.app.report.charts import Axis, Line, draw_chart, line_chart
from lggd.app.report.frame import class_colour, columns, notes_section, render_page, section, table
from lggd.html import escape_name, escape_text
from lggd.text import number, percent, signed

if TYPE_CHECKING:
    from lggd.app.comparison.comparison import Comparison

STYLES = ("colours.css", "page.css", "comparison.css")
Points = Sequence[tuple[float, float]]


def render_comparison(
    comparison: Comparison, facts: Mapping[str, str], texts: Mapping[str, str], notes: Sequence[str] = ()
) -> str:
    """Returns the page; the same comparison gives the same text.

    `facts` are counts by name; `texts` are dataset, protocol, version, machine, and created, a time in ISO format.
    """
    of_methods = (_methods, _accuracy, _times, _curves, _calibration) if comparison.methods else ()
    sections = [part(comparison) for part in (_recommendation, *of_methods, _missing)]
    heading, byline = texts["dataset"], f"<span>{escape_text(texts['protocol'])}</span>"
    head = {"title": f"Methods compared on {heading}", "eyebrow": "Comparison of methods", "heading": heading}
    return render_page("comparison.js", STYLES, [*sections, notes_section(notes)], facts, {**texts, **head}, byline)


def _recommendation(comparison: Comparison) -> str:
    text = f'<p class="card recommendation">{escape_text(comparison.recommendation)}</p>'
    return section("recommendation", "Recommendation", text)


def _methods(comparison: Comparison) -> str:
    names = columns(
        "method", "accuracy (%)", "difference", "corrected p", "macro F1 (%)", "calibration error", "seconds", "memory"
    )
    rows = (_row(method, k, method.name == comparison.recommended) for k, method in enumerate(comparison.methods))
    lead = (
        "Means over all splits, ± standard deviation. Differences are from the first method, split by split, with the "
        "p-value of Wilcoxon's signed-rank test after Holm's correction; seconds and memory are those of one fit and "
        "its predictions (medians)."
    )
    shown = table("methods", names, rows, "Methods by accuracy")
    return section("methods", "Methods", f'<div class="card">{shown}</div>', lead)


def _row(method: MethodSummary, k: int, is_recommended: bool) -> str:
    sd = "" if method.sd is None else f'<small class="quiet"> ± {method.sd:.2f}</small>'
    values = method.row()
    difference = "" if values["difference"] is None else signed(values["difference"], 2)
    cells = (
        f"{method.mean:.2f}{sd}",
        f'{difference} <small class="quiet">{escape_text(method.verdict)}</small>',
        "" if values["corrected_p"] is None else number(values["corrected_p"]),
        f"{method.macro_f1:.2f}",
        "–" if method.calibration_error is None else f"{method.calibration_error:.1f}",
        number(method.seconds),
        "–" if method.memory is None else size_in_words(method.memory),
    )
    mark = ' <span class="badge">recommended</span>' if is_recommended else ""
    name = f'<th scope="row">{_swatch(k)} <span title="{escape_name(method.title)}">{escape_name(method.name)}</span>'
    return f"<tr>{name}{mark}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _accuracy(comparison: Comparison) -> str:
    """One row per method with a dot per split, and a bar from mean − sd to mean + sd, on one scale."""
    values = [value for method in comparison.methods for value in method.accuracy.values()]
    axis = Axis.around(min(values), max(values))
    rows = "".join(_accuracy_row(method, k, axis) for k, method in enumerate(comparison.methods))
    ticks = "".join(
        f'<span style="left:{axis.percent(tick):.4g}%">{label}</span>'
        for tick, label in zip(axis.ticks, axis.labels(), strict=True)
    )
    scale = f'<div class="strip scale" aria-hidden="true"><b></b><div>{ticks}</div></div>'
    lead = "Every dot is a split. The bar is one standard deviation around the mean."
    return section("accuracy", "Accuracy", f'<div class="card"><div class="strips">{rows}{scale}</div></div>', lead)


def _accuracy_row(method: MethodSummary, k: int, axis: Axis) -> str:
    sd = method.sd or 0.0
    low, high = (min(max(axis.percent(method.mean + side * sd), 0), 100) for side in (-1, 1))
    dots = "".join(
        f'<i class="split" style="left:{axis.percent(value):.4g}%"></i>' for value in method.accuracy.values()
    )
    label = f"{escape_name(method.name)}: {percent(method.mean)}, standard deviation {number(sd)}"
    return (
        f'<div class="strip" style="--colour:{class_colour(k)}"><b>{escape_name(method.name)}</b>'
        f'<div role="img" aria-label="{label}" title="{label}">'
        f'<i class="range" style="left:{low:.4g}%;width:{high - low:.4g}%"></i>{dots}'
        f'<i class="mean" style="left:{axis.percent(method.mean):.4g}%"></i></div></div>'
    )


def _times(comparison: Comparison) -> str:
    methods = comparison.methods
    content = _time_chart(methods, comparison.recommended) + _legend(comparison, range(len(methods)))
    return section("times", "Time and accuracy", f'<div class="card">{content}</div>', "Up and to the left is better.")


def _time_chart(methods: Sequence[MethodSummary], marked: str | None) -> str:
    """Seconds per fit against mean accuracy, with the name of the marked method and of the most accurate one."""
    seconds = np.array([max(method.seconds, 1e-6) for method in methods])
    means = np.array([method.mean for method in methods])
    horizontal, vertical = Axis.for_values(seconds), Axis.for_values(means)
    points = []
    for k, (method, x, y) in enumerate(zip(methods, seconds.tolist(), means.tolist(), strict=True)):
        left, bottom = horizontal.percent(x), vertical.percent(y)
        title = f"{escape_name(method.name)}: {percent(y)}, {number(x)} s"
        side = "left" if left > 60 else "right"
        name = f'<b class="{side}">{escape_name(method.name)}</b>' if k == 0 or method.name == marked else ""
        place = f"left:{left:.4g}%;bottom:{bottom:.4g}%;--colour:{class_colour(k)}"
        points.append(f'<span class="point" title="{title}" style="{place}">{name}</span>')
    summary = "; ".join(f"{method.name}: {method.mean:.1f} %, {number(method.seconds)} s" for method in methods)
    labels = "seconds per fit", "accuracy (%)"
    return draw_chart((horizontal, vertical), labels, summary, points="".join(points))


def _curves(comparison: Comparison) -> str:
    lead = "Mean accuracy with fewer training labels, on the first splits."
    points = {k: list(method.curve.items()) for k, method in enumerate(comparison.methods) if len(method.curve) > 1}
    return _lines(comparison, "curves", "Learning curve", lead, points, "training labels")


def _calibration(comparison: Comparison) -> str:
    lead = "Accuracy of predictions by their probability. Below the dotted line, a method is too sure of itself."
    points = {k: method.reliability for k, method in enumerate(comparison.methods) if method.reliability}
    diagonal = Line("calibrated", np.array([0.0, 100.0]), np.array([0.0, 100.0]), "var(--quiet)", dashed=True)
    return _lines(comparison, "calibration", "Calibration", lead, points, "probability (%)", diagonal)


def _lines(
    comparison: Comparison, key: str, title: str, lead: str, points: Mapping[int, Points], x_label: str, *more: Line
) -> str:
    """A section with one line of (x, accuracy) for each of these methods."""
    if not points:
        return ""
    xy = {k: np.array(pairs, np.float64).T for k, pairs in points.items()}
    lines = [Line(comparison.methods[k].name, x, y, class_colour(k)) for k, (x, y) in xy.items()]
    ends = "; ".join(f"{line.name} from {line.y[0]:.1f} to {line.y[-1]:.1f} %" for line in lines)
    chart = line_chart([*lines, *more], x_label, "accuracy (%)", f"{title}: {ends}.", dots=True)
    return section(key, title, f'<div class="card">{chart}{_legend(comparison, points)}</div>', lead)


def _legend(comparison: Comparison, shown: Iterable[int]) -> str:
    items = "".join(f"<li>{_swatch(k)}{escape_name(comparison.methods[k].name)}</li>" for k in shown)
    return f'<ul class="legend">{items}</ul>'


def _swatch(k: int) -> str:
    return f'<i class="swatch" style="--colour:{class_colour(k)}"></i>'


def _missing(comparison: Comparison) -> str:
    """Methods without numbers, and why."""
    groups = (("failed", comparison.failed), ("skipped", comparison.skipped))
    rows = [
        f'<tr><th scope="row">{escape_name(name)}</th><td>{kind}</td><td>{escape_text(reason)}</td></tr>'
        for kind, reasons in groups
        for name, reason in reasons.items()
    ]
    if not rows:
        return ""
    shown = table("missing", columns("method", "", "reason"), rows, "Methods without numbers")
    return section("missing", "Not measured", f'<div class="card">{shown}</div>')
