"""A comparison as one self-contained HTML page: what it shows, its sections and its charts.

A section without content is an empty string. Every method has one colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lggd._system.files import size_in_words
from lggd.app.comparison.summary import MethodSummary
from lggd.app.report.charts import Axis, Line, Strip, legend, line_chart, strips
from lggd.app.report.frame import class_colour, class_name, columns, notes_section, render_page, row, section, table
from lggd.html import escape_name, escape_text
from lggd.text import number, percent, signed

if TYPE_CHECKING:
    from lggd.app.comparison.comparison import Comparison

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
    return render_page("charts.js", [*sections, notes_section(notes)], facts, {**texts, **head}, byline)


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
    return row(f'<span title="{escape_name(method.title)}">{class_name(method.name, k)}</span>{mark}', *cells)


def _accuracy(comparison: Comparison) -> str:
    rows = strips(_strip(method, class_colour(k)) for k, method in enumerate(comparison.methods))
    lead = "Every dot is a split. The bar is one standard deviation around the mean."
    return section("accuracy", "Accuracy", f'<div class="card">{rows}</div>', lead)


def _strip(method: MethodSummary, colour: str) -> Strip:
    mean, sd = method.mean, method.sd or 0.0
    words = f"{method.name}: {percent(mean)}, standard deviation {number(sd)}"
    return Strip(method.name, mean, (mean - sd, mean + sd), colour, words, list(method.accuracy.values()))


def _times(comparison: Comparison) -> str:
    """Seconds per fit against mean accuracy."""
    seconds = np.array([max(method.seconds, 1e-6) for method in comparison.methods])
    points = {k: [(seconds[k], method.mean)] for k, method in enumerate(comparison.methods)}
    lead, axis = "Up and to the left is better.", Axis.for_values(seconds)
    return _lines(comparison, "times", "Time and accuracy", lead, points, "seconds per fit", horizontal=axis)


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
    comparison: Comparison, key: str, title: str, lead: str, points: Mapping[int, Points], x_label: str, *more: Line,
    horizontal: Axis | None = None,
) -> str:  # fmt: skip
    """A section with one line of (x, accuracy) for each of these methods."""
    if not points:
        return ""
    xy = {k: np.array(pairs, np.float64).T for k, pairs in points.items()}
    lines = [Line(comparison.methods[k].name, x, y, class_colour(k)) for k, (x, y) in xy.items()]
    ends = "; ".join(
        f"{line.name} {line.y[0]:.1f} % at {number(line.x[0])}"
        + (f" to {line.y[-1]:.1f} % at {number(line.x[-1])}" if len(line.y) > 1 else "")
        for line in lines
    )
    chart = line_chart(
        [*lines, *more], x_label, "accuracy (%)", f"{title} by {x_label}: {ends}.", dots=True, horizontal=horizontal
    )
    return section(key, title, f'<div class="card">{chart}{legend(lines)}</div>', lead)


def _missing(comparison: Comparison) -> str:
    """Methods without numbers, and why."""
    groups = (("failed", comparison.failed), ("skipped", comparison.skipped))
    rows = [
        row(escape_name(name), kind, escape_text(reason))
        for kind, reasons in groups
        for name, reason in reasons.items()
    ]
    if not rows:
        return ""
    shown = table("missing", columns("method", "", "reason"), rows, "Methods without numbers")
    return section("missing", "Not measured", f'<div class="card">{shown}</div>')
