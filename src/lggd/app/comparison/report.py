"""A comparison for people: a table for spreadsheets, a self-contained HTML page, and a figure.

A section of the page without content is an empty string. Every method has one colour.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lggd._system.files import write_text
from lggd.app.comparison.label_splits import describe_labels
from lggd.app.comparison.results import machine
from lggd.app.comparison.summary import COLUMNS, MethodSummary
from lggd.app.report.charts import Line, Strip, legend, line_chart, strips
from lggd.app.report.frame import class_colour, class_name, columns, notes_section, render_page, row, section, table
from lggd.app.runs.methods import installed_versions
from lggd.app.runs.run import now
from lggd.errors import optional_package
from lggd.html import escape_name, escape_text
from lggd.text import counted, duration, number, percent, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lggd.app.comparison.comparison import Comparison

TABLE, PAGE = "comparison.csv", "comparison.html"
ACCURACY = "accuracy (%)"
Points = Sequence[tuple[float, float]]


def write_report(comparison: Comparison, folder: str | Path, name: str, notes: Sequence[str] = ()) -> list[str]:
    """Writes the table and the page of a comparison on the graph `name`; returns their names."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(comparison.rows)
    write_text(folder / TABLE, text.getvalue())
    lines = comparison.lines
    counts = {key: f"{value:,}" for key, value in comparison.facts.items()}
    facts = counts | {"duration": duration(sum(line["seconds"] for line in lines))}
    device = lines[0]["device"] if lines else "cpu"
    texts = {
        "dataset": name, "protocol": describe_protocol(comparison), "version": installed_versions()["lggd"],
        "machine": ", ".join(str(value) for value in machine(device).values()),
        "created": max((line["when"] for line in lines), default=None) or now(),
    }  # fmt: skip
    write_text(folder / PAGE, render_comparison(comparison, facts, texts, notes))
    return [TABLE, PAGE]


def describe_protocol(comparison: Comparison) -> str:
    """Returns in words what all methods had in common."""
    trials = max((line["trials"] for line in comparison.lines), default=0)
    settings = f"settings by {counted(trials, 'validation trial')} per split" if trials else "default settings"
    return f"{counted(comparison.splits, 'split')}, {describe_labels(comparison.labels)} for training, {settings}"


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
        "method", "accuracy (%)", "difference", "corrected p", "macro F1 (%)", "calibration error", "seconds"
    )
    rows = (_row(method, k, method.name == comparison.recommended) for k, method in enumerate(comparison.methods))
    lead = (
        "Means over all splits, ± standard deviation. Differences are from the first method, split by split, with the "
        "p-value of Wilcoxon's signed-rank test after Holm's correction; seconds are those of one fit and "
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
    )
    mark = ' <span class="badge">recommended</span>' if is_recommended else ""
    return row(f'<span title="{escape_name(method.title)}">{class_name(method.name, k)}</span>{mark}', *cells)


def _accuracy(comparison: Comparison) -> str:
    rows = []
    for k, method in enumerate(comparison.methods):
        mean, sd, dots = method.mean, method.sd or 0.0, list(method.accuracy.values())
        words = f"{method.name}: {percent(mean)}, standard deviation {number(sd)}"
        rows.append(Strip(method.name, mean, (mean - sd, mean + sd), class_colour(k), words, dots))
    lead = "Every dot is a split. The bar is one standard deviation around the mean."
    return section("accuracy", "Accuracy", f'<div class="card">{strips(rows)}</div>', lead)


def _times(comparison: Comparison) -> str:
    """Seconds per fit against mean accuracy."""
    points = {k: [(max(method.seconds, 1e-6), method.mean)] for k, method in enumerate(comparison.methods)}
    lead = "Up and to the left is better."
    return _lines(comparison, "times", "Time and accuracy", lead, points, "seconds per fit")


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
    ends = "; ".join(
        f"{line.name} {line.y[0]:.1f} % at {number(line.x[0])}"
        + (f" to {line.y[-1]:.1f} % at {number(line.x[-1])}" if len(line.y) > 1 else "")
        for line in lines
    )
    chart = line_chart([*lines, *more], x_label, ACCURACY, f"{title} by {x_label}: {ends}.", dots=True)
    return section(key, title, f'<div class="card">{chart}{legend(lines)}</div>', lead)


def _missing(comparison: Comparison) -> str:
    """Methods without numbers, and why."""
    groups = (("failed", comparison.failed), ("skipped", comparison.skipped))
    rows = [row(escape_name(name), kind, escape_text(why)) for kind, whys in groups for name, why in whys.items()]
    if not rows:
        return ""
    shown = table("missing", columns("method", "", "reason"), rows, "Methods without numbers")
    return section("missing", "Not measured", f'<div class="card">{shown}</div>')


def draw_comparison(comparison: Comparison) -> Figure:
    """Returns a figure of four panels; every method has one colour in all of them."""
    with optional_package("figure", "lggd[figures]"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    accuracies, curves, calibration, times = figure.subplots(2, 2).ravel()
    calibration.plot([0, 100], [0, 100], color="grey", linewidth=0.8, linestyle=":")
    for k, method in enumerate(comparison.methods):
        colour, values = f"C{k % 10}", list(method.accuracy.values())
        accuracies.plot(values, [k] * len(values), "o", color=colour, alpha=0.35, markersize=4)
        accuracies.errorbar(method.mean, k, xerr=method.sd or 0.0, fmt="D", color=colour, capsize=4)
        if len(method.curve) > 1:
            curves.plot(list(method.curve), list(method.curve.values()), "o-", color=colour, markersize=4)
        calibration.plot(*np.reshape(method.reliability, (-1, 2)).T, "o-", color=colour, markersize=3)
        times.semilogx(method.seconds, method.mean, "D", color=colour, label=method.name)
    accuracies.set_yticks(range(len(comparison.methods)), [method.name for method in comparison.methods])
    accuracies.invert_yaxis()
    accuracies.set(title="Accuracy on each split, mean ± sd", xlabel=ACCURACY)
    curves.xaxis.get_major_locator().set_params(integer=True)
    curves.set(title="Learning curve", xlabel="training labels", ylabel=ACCURACY)
    calibration.set(title="Calibration", xlabel="probability of the predicted class (%)", ylabel=ACCURACY)
    times.set(title="Time and accuracy", xlabel="seconds per fit", ylabel=ACCURACY)
    if comparison.methods:
        figure.legend(loc="outside lower center", ncols=min(5, len(comparison.methods)), fontsize="small")
    return figure
