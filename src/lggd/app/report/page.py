"""A run as one self-contained HTML page: its sections in order. A section without content is an empty string."""

from __future__ import annotations

import math
from collections.abc import Mapping
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd.app.report.charts import BEST_MARK, Line, Strip, curve_cards, line_chart, strips
from lggd.app.report.frame import class_name, columns, notes_section, page_file, render_page, row, section, table
from lggd.app.report.map_data import MAX_TABLE, DrawnGraph, embed
from lggd.app.report.run_report import UNCERTAIN_MARGIN, UNKNOWN, LabelAddition, McNemarTest, RunReport, wilson_interval
from lggd.html import escape_name, escape_text
from lggd.text import counted, duration, number, percent, signed

# Confusion matrices of more classes omit percentages; those beyond the second limit omit classes.
MAX_CLASSES_WITH_PERCENT, MAX_CLASSES_IN_TABLE = 12, 40
MAX_SMALL_MAPS = 24


def render(report: RunReport) -> str:
    """Returns the page; the same report gives the same text."""
    drawn = DrawnGraph.of(report)
    sections = [
        result_section(report), notes_section(report.notes), _maps(report, drawn), classes_section(report),
        _training(report), _confusion(report), _uncertain(report), _additions(report), _downloads(report, drawn),
        _settings(report),
    ]  # fmt: skip
    counts = {
        "nodes": report.num_nodes, "edges": report.num_edges, "classes": report.num_classes,
        "labelled nodes": (report.labels != UNKNOWN).sum(), "test nodes": report.num_tested,
    }  # fmt: skip
    facts = {name: f"{count:,}" for name, count in counts.items()} | {"duration": duration(report.seconds)}
    texts = {name: getattr(report, name) for name in ("title", "created", "version", "machine")}
    texts |= {"eyebrow": "Node classification", "heading": report.title}
    byline = f"<span><b>{escape_text(report.dataset)}</b></span><span>{escape_text(report.titles['model'])}</span>"
    return render_page("page.js", sections, facts, texts, byline, embed(report, drawn))


def _class(report: RunReport, k: int) -> str:
    return class_name(None if k == UNKNOWN else report.classes[k], k)


def result_section(report: RunReport) -> str:
    """Accuracies with their intervals, and the difference of both models."""
    if not report.num_tested or set(report.accuracy.values()) == {None}:
        unknown = '<p class="card quiet">Accuracy is unknown: no held-out node has a known class.</p>'
        return section("result", "Result", unknown)
    rows = {part: _strip(report, part) for part in ("model", "reference") if report.accuracy[part] is not None}
    figures = "".join(
        f'<div class="accuracy {part}"><p class="value">{percent(one.value)}</p><p class="what">accuracy of '
        f'{escape_name(one.name)}, <span class="interval">{one.interval[0]:.1f} to {one.interval[1]:.1f}</span></p>'
        "</div>"
        for part, one in rows.items()
    )
    content = f'<div class="card verdict">{figures}{_difference(report)}{strips(rows.values())}</div>'
    lead = f"Accuracy on {counted(report.num_tested, 'test node')}. Bars are 95 % confidence intervals (Wilson)."
    return section("result", "Result", content, lead)


def _strip(report: RunReport, part: str) -> Strip:
    value, interval, name = (
        report.accuracy[part] or 0.0,
        report.interval(part) or (0.0, 100.0),
        report.titles.get(part, part),
    )
    words = f"{name}: {percent(value)}, between {interval[0]:.1f} and {interval[1]:.1f}"
    return Strip(name, value, interval, f"var(--series-{2 if part == 'model' else 1})", words)


def _difference(report: RunReport) -> str:
    gain, test = report.gain, report.comparison
    if gain is None:
        return '<div class="difference"><p>Only one accuracy was measured: there is no comparison.</p></div>'
    kind, verdict = "unclear", "The predictions of both were not compared node by node: see the intervals."
    if test is not None:
        kind = "unclear" if not test.is_clear else "better" if gain > 0 else "worse"
        verdict = _verdict(report, test, kind)
    points = f'<p class="value">{signed(gain)}<small> points</small></p>'
    return f'<div class="difference {kind}">{points}<p>{verdict}</p></div>'


def _verdict(report: RunReport, test: McNemarTest, kind: str) -> str:
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


def _maps(report: RunReport, drawn: DrawnGraph) -> str:
    """The large map, and a small one for each class if there are distances; scripts draw them."""
    nodes, total = counted(len(drawn.nodes), "node"), report.num_nodes
    description = f"All {nodes}."
    if len(drawn.nodes) < total:
        description = f"A sample of {nodes} of {total:,}: labelled and uncertain ones, and others at random."
    if drawn.omits_edges:
        description += f" {drawn.edges.shape[1]:,} of {counted(drawn.num_edges, 'edge')} between them can be shown."
    content = Template(page_file("map.html")).substitute(description=description)
    if not len(report.times):
        return section("maps", "Map", content)
    lead = (
        "A node's distance to a class is the generalized geodesic distance along the edges to the nodes labelled with "
        "that class. These distances are the input features of the classifier."
    )
    return section("maps", "Distance maps", content + _small_maps(report), lead)


def _small_maps(report: RunReport) -> str:
    time, shown = number(report.times[-1]), min(report.num_classes, MAX_SMALL_MAPS)
    labels = np.bincount(report.labels[report.labels != UNKNOWN], minlength=report.num_classes)
    small_maps = (
        f'<button type="button" class="small-map" data-class="{k}"><canvas role="img" aria-label="Distances to class'
        f' {escape_name(report.classes[k])} at time {time}"></canvas>{_class(report, k)}'
        f"<small>{counted(int(labels[k]), 'label')}</small></button>"
        for k in range(shown)
    )
    rings = " Rings mark labelled nodes." if labels.any() else ""
    omitted = "" if shown == report.num_classes else f" The first {shown} of {report.num_classes:,} classes."
    rows = math.ceil(shown / 6)  # of equal length, at most six maps
    return (
        f'<h3>Distance to each class at time {time}</h3><p class="quiet">Stronger colours are closer.{rings}{omitted} '
        f'Select a map to enlarge it.</p><div class="small-maps" style="--columns:{math.ceil(shown / rows)}">'
        f"{''.join(small_maps)}</div>"
    )


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
        row(
            class_name(report.classes[k], k),
            *(f"{count[k]:,}" for count in counts.values()),
            *(_class_accuracy(int(correct[k]), int(counts["test nodes"][k])) if report.num_tested else ()),
        )
        for k in range(report.num_classes)
    )
    content = f'<div class="card">{table("classes", columns(*names), rows, "Class counts")}</div>'
    return section("classes", "Classes", content, "Number of nodes of each class.")


def _class_accuracy(correct: int, total: int) -> tuple[str, str]:
    if not total:
        return "–", "–"
    low, high = wilson_interval(correct, total)
    return f"{100 * correct / total:.1f}", f'<span class="interval">{low:.1f} to {high:.1f}</span>'


def _training(report: RunReport) -> str:
    cards = curve_cards(report.curves)
    lead = "Dots mark the best validation epoch." if BEST_MARK in cards else ""
    return section("training", "Training", f'<div class="cards">{cards}</div>', lead) if cards else ""


def _confusion(report: RunReport) -> str:
    if not report.num_tested:
        return ""
    counts = report.confusion()
    errors = counts - np.diag(np.diag(counts))
    # All classes, or those with the most errors, in the order of classes.
    shown = sorted(np.argsort(-(errors.sum(0) + errors.sum(1)), kind="stable")[:MAX_CLASSES_IN_TABLE].tolist())
    names = (f"<span>{escape_name(report.classes[k])}</span>" for k in shown)
    header = '<th scope="col" class="corner">true ↓<br>predicted →</th>' + columns(*names)
    header += '<th scope="col" class="recall"><span>accuracy (%)</span></th>'
    rows = (_confusion_row(report, k, counts[k], shown) for k in shown)
    size = "" if report.num_classes <= MAX_CLASSES_WITH_PERCENT else " compact"
    matrix = table(f"confusion{size}", header, rows, "Confusion matrix")
    lead = f"All {counted(report.num_tested, 'test node')} are correct."
    if errors.any():
        true, predicted = divmod(int(errors.argmax()), report.num_classes)
        lead = (
            f"{errors.sum():,} of {counted(report.num_tested, 'test node')} are misclassified. Most frequent error: "
            f"{escape_name(report.classes[true])} classified as {escape_name(report.classes[predicted])}, "
            f"{counted(int(errors.max()), 'time')}."
        )
    if len(shown) < len(counts):
        lead += f" The table shows the {len(shown)} classes with the most errors."
    return section("confusion", "Confusion matrix", f'<div class="card">{matrix}</div>', lead)


def _confusion_row(report: RunReport, k: int, counts: NDArray[np.int64], shown: list[int]) -> str:
    total, cells = int(counts.sum()), ""
    for j in shown:
        count, fraction = int(counts[j]), counts[j] / max(total, 1)
        if not count:
            cells += '<td class="none">·</td>'
            continue
        kind = ("hit" if j == k else "miss") + (" dense" if fraction > 0.45 else "")
        title = f"{escape_name(report.classes[k])} classified as {escape_name(report.classes[j])}"
        share = "&lt;1 %" if fraction < 0.005 else percent(100 * fraction, 0)
        # The square root makes rare errors visible.
        cells += (
            f'<td class="{kind}" style="--heat:{10 + 80 * math.sqrt(fraction):.0f}%"'
            f' title="{title}: {count:,} of {total:,}">{count:,}<small>{share}</small></td>'
        )
    accuracy = f"{100 * counts[k] / total:.1f}" if total else "–"
    return f'<tr><th scope="row">{_class(report, k)}</th>{cells}<td class="recall">{accuracy}</td></tr>'


def _uncertain(report: RunReport) -> str:
    nodes = report.least_certain()
    if not nodes:
        return ""
    header = columns("node") + '<th scope="col" colspan="2">first</th><th scope="col" colspan="2">second</th>'
    header += columns("margin (points)", "true class")
    rows = (_uncertain_row(report, node) for node in nodes)
    content = table("uncertain", header, rows, "Least certain nodes")
    lead = (
        f"Unlabelled nodes with less than {100 * UNCERTAIN_MARGIN:.0f} points between their two most probable classes. "
        "Labels for these nodes are likely to help most."
    )
    return section("uncertain", "Least certain nodes", f'<div class="card">{content}</div>', lead)


def _uncertain_row(report: RunReport, node: int) -> str:
    (first, second), (p_first, p_second) = (values[node] for values in report.top_two)
    true = int(report.y[node])
    mark = "" if true == UNKNOWN else ' <b class="ok">✓</b>' if true == first else ' <b class="wrong">✗</b>'
    return (
        f'<tr><td><button type="button" class="show" data-node="{node}" title="Show on the map">'
        f"{escape_name(report.name_of(node))}</button></td>"
        f"<td>{_class(report, first)}</td><td>{percent(100 * p_first)}</td>"
        f"<td>{_class(report, second)}</td><td>{percent(100 * p_second)}</td>"
        f"<td>{100 * (p_first - p_second):.1f}</td><td>{_class(report, true)}{mark}</td></tr>"
    )


def _additions(report: RunReport) -> str:
    if not report.additions:
        return ""
    steps = sorted(report.additions, key=lambda step: step.labels)
    labels, accuracy = (np.array([getattr(step, k) for step in steps], np.float64) for k in ("labels", "accuracy"))
    line = Line("accuracy", labels, accuracy, "var(--series-2)")
    summary = "; ".join(f"{step.labels:,} labels {percent(step.accuracy)}" for step in steps)
    summary = f"Accuracy by number of labels: {summary}."
    chart = line_chart([line], "labels", "accuracy (%)", summary, dots=True)
    changes = ("", *(signed(step.accuracy - steps[0].accuracy) for step in steps[1:]))
    rows = (
        row(f"{step.labels:,}", f"{step.accuracy:.1f}", change, number(step.milliseconds))
        for step, change in zip(steps, changes, strict=True)
    )
    content = table("additions", columns("labels", "accuracy (%)", "change", "ms"), rows)
    lead = f"New labels change the predictions without training.{_explain_additions(report, steps[0])}"
    return section("additions", "Adding labels", f'<div class="card beside">{chart}{content}</div>', lead)


def _explain_additions(report: RunReport, first: LabelAddition) -> str:
    """Why the accuracy without new labels may differ from the result at the top of the page."""
    if first.tested is None or first.tested == report.num_tested:
        return ""
    rest = counted(report.num_tested - first.tested, "test node")
    words = (
        f" Accuracy is measured on the {counted(first.tested, 'test node')} whose labels are never added; the labels "
        f"of the other {rest} are added step by step."
    )
    result = report.accuracy["model"]
    if result is None:
        return words
    return (
        f"{words} This is why {percent(first.accuracy)} with {counted(first.labels, 'label')} is not the same number "
        f"as {percent(result)} on all {counted(report.num_tested, 'test node')}, with the same labels, above."
    )


def _downloads(report: RunReport, drawn: DrawnGraph) -> str:
    """Files that the page makes itself, offline."""
    if len(drawn.nodes) < report.num_nodes > MAX_TABLE:
        return ""
    labelled = int((report.labels != UNKNOWN).sum())
    offered = {"predictions": counted(report.num_nodes, "row"), "labels": counted(labelled, "row")}
    buttons = "".join(
        f'<button type="button" class="download" data-file="{name}">{name}.csv <small>{rows}</small></button>'
        for name, rows in offered.items()
        if name != "labels" or labelled
    )
    lead = "Predictions and labels as this page shows them, for spreadsheets and other programs."
    return section("downloads", "Downloads", f'<div class="card downloads">{buttons}</div>', lead)


def _settings(report: RunReport) -> str:
    pairs = flatten_settings(report.settings)
    if not pairs:
        return ""
    rows = (row(escape_text(key), escape_text(value)) for key, value in pairs)
    summary = f"<summary>{counted(len(pairs), 'setting')} of this run</summary>"
    return section("settings", "Settings", f'<details class="card">{summary}{table("settings", "", rows)}</details>')


def flatten_settings(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Returns nested settings as pairs of a dotted name and a value as text."""
    pairs: list[tuple[str, str]] = []
    for key, value in settings.items():
        is_nested = isinstance(value, Mapping) and value
        name = f"{prefix}{key}"
        pairs += flatten_settings(value, f"{name}.") if is_nested else [(name, _format_setting(value))]
    return pairs


def _format_setting(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else number(value)
    if value is None or isinstance(value, (Mapping, list, tuple, set, frozenset)):
        return ", ".join(map(_format_setting, value or ())) or "none"
    return str(value)
