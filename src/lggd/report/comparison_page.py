"""A comparison as one self-contained HTML page. A section without content is an empty string."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template

import numpy as np

from lggd.report.charts import Line, line_chart
from lggd.report.comparison_charts import accuracy_rows, colour, swatch, time_chart
from lggd.report.comparison_report import ComparedMethod, ComparisonReport
from lggd.report.formatting import escape_name, escape_text, number, signed, timestamp
from lggd.report.html import columns, section, table
from lggd.report.page_files import inline_script, page_file, script_hash
from lggd.system.files import replacing, size_in_words

SCRIPT, STYLES = "comparison.js", ("colours.css", "page.css", "comparison.css")


def render_comparison(report: ComparisonReport) -> str:
    """Returns the page; the same report gives the same text."""
    parts = (_recommendation, _methods, _accuracy, _times, _curves, _calibration, _missing, _notes)
    main = "\n".join(text for text in (part(report) for part in parts) if text)
    headings = re.findall(r'<section id="(\w+)" .*?<h2[^>]*>(.*?)</h2>', main)
    script = inline_script(SCRIPT)
    texts = {
        "dataset": report.dataset, "protocol": report.protocol, "created": report.created,
        "timestamp": timestamp(report.created), "version": report.version, "machine": report.machine,
    }  # fmt: skip
    facts = report.facts.items()
    return Template(page_file("comparison.html")).substitute(
        # The browser may run only the script with this hash, and load nothing.
        policy=f"default-src 'none'; script-src {script_hash(script)}; style-src 'unsafe-inline'; img-src data:",
        style="\n".join(map(page_file, STYLES)),
        facts="".join(f"<div><dt>{escape_text(term)}</dt><dd>{escape_text(value)}</dd></div>" for term, value in facts),
        contents="".join(f'<a href="#{key}">{title}</a>' for key, title in headings),
        main=main,
        script=script,
        **{name: escape_text(text) for name, text in texts.items()},
    )


def write_comparison(report: ComparisonReport, path: str | Path) -> None:
    """Writes the page to `path` atomically."""
    page = render_comparison(report)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


def _recommendation(report: ComparisonReport) -> str:
    text = f'<p class="card recommendation">{escape_text(report.recommendation)}</p>'
    return section("recommendation", "Recommendation", text)


def _methods(report: ComparisonReport) -> str:
    if not report.methods:
        return ""
    names = columns(
        "method", "accuracy (%)", "difference", "corrected p", "macro F1 (%)", "calibration error", "seconds", "memory"
    )
    rows = (_row(method, k, method.name == report.recommended) for k, method in enumerate(report.methods))
    lead = (
        "Means over all splits, ± standard deviation. Differences are from the first method, split by split, with the "
        "p-value of Wilcoxon's signed-rank test after Holm's correction; seconds and memory are those of one fit and "
        "its predictions (medians)."
    )
    shown = table("methods", names, rows, "Methods by accuracy")
    return section("methods", "Methods", f'<div class="card">{shown}</div>', lead)


def _row(method: ComparedMethod, k: int, is_recommended: bool) -> str:
    sd = "" if method.sd is None else f'<small class="quiet"> ± {method.sd:.2f}</small>'
    p = "" if method.corrected_p is None else number(method.corrected_p)
    difference = "" if method.difference is None else f"{signed(method.difference, 2)}"
    cells = (
        f"{method.mean:.2f}{sd}",
        f'{difference} <small class="quiet">{escape_text(method.verdict)}</small>',
        p,
        f"{method.macro_f1:.2f}",
        "–" if method.calibration_error is None else f"{method.calibration_error:.1f}",
        number(method.seconds),
        "–" if method.memory is None else size_in_words(method.memory),
    )
    mark = ' <span class="badge">recommended</span>' if is_recommended else ""
    name = f'<th scope="row">{swatch(k)} <span title="{escape_name(method.title)}">{escape_name(method.name)}</span>'
    return f"<tr>{name}{mark}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _accuracy(report: ComparisonReport) -> str:
    if not report.methods:
        return ""
    lead = "Every dot is a split. The bar is one standard deviation around the mean."
    return section("accuracy", "Accuracy", f'<div class="card">{accuracy_rows(report.methods)}</div>', lead)


def _times(report: ComparisonReport) -> str:
    if not report.methods:
        return ""
    content = f"{time_chart(report.methods, report.recommended)}{_legend(range(len(report.methods)), report)}"
    lead = "Up and to the left is better."
    return section("times", "Time and accuracy", f'<div class="card">{content}</div>', lead)


def _curves(report: ComparisonReport) -> str:
    lead = "Mean accuracy with fewer training labels, on the first splits."
    return _lines(report, "curves", "Learning curve", lead, lambda method: method.curve, "training labels")


def _calibration(report: ComparisonReport) -> str:
    lead = "Accuracy of predictions by their probability. Below the dotted line, a method is too sure of itself."
    what = "probability (%)"
    diagonal = Line("calibrated", np.array([0.0, 100.0]), np.array([0.0, 100.0]), "var(--quiet)", dashed=True)
    points: Callable[[ComparedMethod], Sequence[tuple[float, float]]] = lambda method: method.reliability  # noqa: E731
    return _lines(report, "calibration", "Calibration", lead, points, what, diagonal, fewest=1)


def _lines(
    report: ComparisonReport,
    key: str,
    title: str,
    lead: str,
    points: Callable[[ComparedMethod], Sequence[tuple[float, float]]],
    x_label: str,
    *more: Line,
    fewest: int = 2,
) -> str:
    shown = [k for k, method in enumerate(report.methods) if len(points(method)) >= fewest]
    if not shown:
        return ""
    lines = []
    for k in shown:
        x, y = np.array(points(report.methods[k]), np.float64).T
        lines.append(Line(report.methods[k].name, x, y, colour(k)))
    ends = "; ".join(f"{line.name} from {line.y[0]:.1f} to {line.y[-1]:.1f} %" for line in lines)
    chart = line_chart([*lines, *more], x_label, "accuracy (%)", f"{title}: {ends}.", dots=True)
    return section(key, title, f'<div class="card">{chart}{_legend(shown, report)}</div>', lead)


def _legend(shown: Sequence[int], report: ComparisonReport) -> str:
    items = "".join(f"<li>{swatch(k)}{escape_name(report.methods[k].name)}</li>" for k in shown)
    return f'<ul class="legend">{items}</ul>'


def _missing(report: ComparisonReport) -> str:
    """Methods without numbers, and why."""
    groups = (("failed", report.failed), ("skipped", report.skipped))
    rows = [
        f'<tr><th scope="row">{escape_name(name)}</th><td>{kind}</td><td>{escape_text(reason)}</td></tr>'
        for kind, reasons in groups
        for name, reason in reasons.items()
    ]
    if not rows:
        return ""
    shown = table("missing", columns("method", "", "reason"), rows, "Methods without numbers")
    return section("missing", "Not measured", f'<div class="card">{shown}</div>')


def _notes(report: ComparisonReport) -> str:
    items = "".join(f"<li>{escape_text(note)}</li>" for note in report.notes)
    return section("notes", "Notes", f'<ul class="card notes">{items}</ul>') if items else ""
