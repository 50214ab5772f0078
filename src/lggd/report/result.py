"""The result of a run in words: accuracies with their intervals, the comparison with the reference, and the classes."""

from __future__ import annotations

import numpy as np

from lggd.report.accuracy import wilson_interval
from lggd.report.formatting import counted, escape_name, percent, signed
from lggd.report.html import class_name, columns, section, table
from lggd.report.run_report import UNKNOWN, RunReport

INTERVALS = "Grey ranges are 95 % confidence intervals (Wilson)."


def result_section(report: RunReport) -> str:
    if not report.num_tested or set(report.accuracy.values()) == {None}:
        unknown = '<p class="card quiet">Accuracy is unknown: no held-out node has a known class.</p>'
        return section("result", "Result", unknown)
    parts = [part for part in ("model", "reference") if report.accuracy[part] is not None]
    figures = "".join(_accuracy(report, part) for part in parts)
    lead = f"Accuracy on {counted(report.num_tested, 'test node')}. {INTERVALS}"
    return section("result", "Result", f'<div class="card verdict">{figures}{_comparison(report)}</div>', lead)


def _accuracy(report: RunReport, part: str) -> str:
    value, interval, title = report.accuracy[part], report.interval(part), report.titles.get(part, part)
    if value is None or interval is None:
        return ""
    low, high = interval
    bar = (
        f'<span class="bar" aria-hidden="true"><i style="width:{value:.2f}%"></i>'
        f'<b style="left:{low:.2f}%;width:{high - low:.2f}%"></b></span>'
    )
    words = f'accuracy of {escape_name(title)}, <span class="interval">{low:.1f} to {high:.1f}</span>'
    return f'<div class="accuracy {part}"><p class="value">{percent(value)}</p><p class="what">{words}</p>{bar}</div>'


def _comparison(report: RunReport) -> str:
    gain, test = report.gain, report.comparison()
    if gain is None:
        return '<div class="difference"><p>Only one accuracy was measured: there is no comparison.</p></div>'
    kind, verdict = "unclear", "The predictions of both were not compared node by node: see the intervals."
    if test is not None:
        kind = "unclear" if not test.is_clear else "better" if gain > 0 else "worse"
        verdict = _verdict(report, kind)
    points = f'<p class="value">{signed(gain)}<small> points</small></p>'
    return f'<div class="difference {kind}">{points}<p>{verdict}</p></div>'


def _verdict(report: RunReport, kind: str) -> str:
    test = report.comparison()
    if test is None:
        return ""
    model, reference = (escape_name(report.titles.get(part, part)) for part in ("model", "reference"))
    summary = f"{model} is {kind} than {reference} on these nodes."
    if kind == "unclear":
        summary = f"No clear difference between {model} and {reference}."
    if not test.only_first and not test.only_second:
        return f"<b>{summary}</b> Both classify the same nodes correctly."
    p = "p &lt; 0.001" if test.p < 0.001 else f"p = {test.p:.2g}"
    counts = f"Only {model} is correct on {counted(test.only_first, 'node')}, only {reference} on {test.only_second:,}"
    chance = "" if kind != "unclear" else "; chance alone explains such a difference"
    return f"<b>{summary}</b> {counts}{chance} (McNemar's exact test, {p})."


def classes_section(report: RunReport) -> str:
    """How many nodes each class has, and how well it is recognized."""
    y, predicted, tested = report.y, report.predicted, report.test_mask
    known = {
        "labels": report.labels, "predicted": predicted, "true class": y, "test nodes": np.where(tested, y, UNKNOWN)
    }  # fmt: skip
    counts = {
        name: np.bincount(classes[classes != UNKNOWN], minlength=report.num_classes)
        for name, classes in known.items()
        if (classes != UNKNOWN).any()
    }
    correct = np.bincount(y[tested & (y == predicted)], minlength=report.num_classes)
    names = ["class", *counts, *(["accuracy (%)", "95 % interval"] if report.num_tested else [])]
    rows = (
        f'<tr><th scope="row">{class_name(report.classes[k], k)}</th>'
        + "".join(f"<td>{count[k]:,}</td>" for count in counts.values())
        + (_class_accuracy(int(correct[k]), int(counts["test nodes"][k])) if report.num_tested else "")
        + "</tr>"
        for k in range(report.num_classes)
    )
    content = f'<div class="card">{table("classes", columns(*names), rows, "Class counts")}</div>'
    return section("classes", "Classes", content, "Number of nodes of each class.")


def _class_accuracy(correct: int, total: int) -> str:
    if not total:
        return "<td>–</td><td>–</td>"
    low, high = wilson_interval(correct, total)
    return f'<td>{100 * correct / total:.1f}</td><td class="interval">{low:.1f} to {high:.1f}</td>'
