"""The report as one self-contained HTML page. A section without content is an empty string."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import NDArray

from lggd.files import replacing
from lggd.report.charts import Line, curve_cards, line_chart
from lggd.report.formatting import (
    counted,
    duration,
    escape_name,
    escape_text,
    flatten_settings,
    number,
    percent,
    signed,
    timestamp,
)
from lggd.report.map_data import DrawnGraph, embed
from lggd.report.run_report import UNKNOWN, RunReport

# In order of dependence: a script uses only names defined by earlier ones.
SCRIPTS = ("colours.js", "data.js", "scatter.js", "legend.js", "map.js", "charts.js", "page.js")
# Number of classes with a colour in the style sheet; the hues of further classes are spread by the golden angle.
STYLED_CLASSES = 12
# Confusion matrices of more classes omit percentages; those beyond the second limit omit classes.
MAX_CLASSES_WITH_PERCENT, MAX_CLASSES_IN_TABLE = 12, 40
MAX_SMALL_MAPS = 24


def render(report: RunReport) -> str:
    """Returns the page; the same report gives the same text."""
    drawn = DrawnGraph.of(report)
    after_maps = (_training, _confusion, _uncertain, _additions, _settings, _notes)
    parts = [_result(report), _maps(report, drawn), *(section(report) for section in after_maps)]
    counts = {
        "nodes": report.num_nodes, "edges": report.num_edges, "classes": report.num_classes,
        "labelled nodes": (report.labels != UNKNOWN).sum(), "test nodes": report.num_tested,
    }  # fmt: skip
    facts = {name: f"{count:,}" for name, count in counts.items()} | {"duration": duration(report.seconds)}
    texts = {
        "title": report.title, "dataset": report.dataset, "model": report.titles["model"], "created": report.created,
        "timestamp": timestamp(report.created), "version": report.version, "machine": report.machine,
    }  # fmt: skip
    main = "\n".join(part for part in parts if part)
    headings = re.findall(r'<section id="(\w+)" .*?<h2[^>]*>(.*?)</h2>', main)
    script = "(() => {\n'use strict';\n" + "\n".join(map(page_file, SCRIPTS)) + "\n})();"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return Template(page_file("page.html")).substitute(
        # The browser may run only the script with this hash, and load nothing.
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:",
        style=page_file("page.css"),
        facts="".join(f"<div><dt>{term}</dt><dd>{value}</dd></div>" for term, value in facts.items()),
        contents="".join(f'<a href="#{key}">{title}</a>' for key, title in headings),
        main=main,
        data=embed(report, drawn),
        script=script,
        **{name: escape_text(text) for name, text in texts.items()},
    )


def write(report: RunReport, path: str | Path) -> None:
    """Writes the page to `path` atomically."""
    page = render(report)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


@cache
def page_file(name: str) -> str:
    return (files("lggd.report") / "page" / name).read_text(encoding="utf-8")


def _class(report: RunReport, k: int) -> str:
    """The name of a class with its colour, computed as in `colours.js`."""
    if k == UNKNOWN:
        return '<span class="quiet">–</span>'
    colour = f"var(--class-{k})" if k < STYLED_CLASSES else f"oklch(62% 0.13 {137.508 * k % 360:.1f})"
    return f'<span class="class"><i style="background:{colour}"></i>{escape_name(report.classes[k])}</span>'


def _section(key: str, title: str, content: str, lead: str = "") -> str:
    lead = f'<p class="lead">{lead}</p>' if lead else ""
    heading = f'<h2 id="{key}-title">{title}</h2>'
    return f'<section id="{key}" aria-labelledby="{key}-title">{heading}{lead}{content}</section>'


def _table(kind: str, columns: str, rows: Iterable[str], label: str = "") -> str:
    """A table with a label can be scrolled by keyboard."""
    region = f' tabindex="0" role="region" aria-label="{label}"' if label else ""
    head = f"<thead><tr>{columns}</tr></thead>" if columns else ""
    return f'<div class="scroll"{region}><table class="{kind}">{head}<tbody>{"".join(rows)}</tbody></table></div>'


def _columns(*names: str) -> str:
    return "".join(f'<th scope="col">{name}</th>' for name in names)


def _result(report: RunReport) -> str:
    if not report.num_tested or set(report.accuracy.values()) == {None}:
        unknown = '<p class="card quiet">Accuracy is unknown: no held-out node has a known class.</p>'
        return _section("result", "Result", unknown)
    figures = "".join(_accuracy(report, part) for part in ("model", "reference"))
    return _section("result", "Result", f'<div class="card verdict">{figures}{_comparison(report)}</div>')


def _accuracy(report: RunReport, part: str) -> str:
    value, title = report.accuracy[part], report.titles.get(part, part)
    shown = '<span class="quiet">unknown</span>' if value is None else percent(value)
    bar = "" if value is None else f'<span class="bar" aria-hidden="true"><i style="width:{value:.2f}%"></i></span>'
    label = f'<p class="what">accuracy of {escape_name(title)}</p>'
    return f'<div class="accuracy {part}"><p class="value">{shown}</p>{label}{bar}</div>'


def _comparison(report: RunReport) -> str:
    gain, tested = report.gain, report.num_tested
    if gain is None:
        return '<div class="difference"><p>Only one accuracy was measured: there is no comparison.</p></div>'
    model, reference = (escape_name(report.titles.get(part, part)) for part in ("model", "reference"))
    points = signed(gain)
    kind = "equal" if points == "0.0" else "better" if gain > 0 else "worse"
    verdict = f"{model} and {reference} are equal." if kind == "equal" else f"{model} is {kind} than {reference}."
    # Half a 95 % confidence interval of a binomial proportion.
    best = max(report.accuracy["model"] or 0, report.accuracy["reference"] or 0) / 100
    error = 100 * 1.96 * math.sqrt(max(best * (1 - best), 1e-4) / tested)
    detail = f"Measured on {counted(tested, 'test node')}, each accuracy has an uncertainty of about ±{error:.1f}"
    if abs(gain) < error:
        detail += ", more than the difference."
    else:
        nodes = counted(round(abs(gain) / 100 * tested), "node")
        detail = f"It classifies {nodes} {'more' if gain > 0 else 'fewer'} correctly. {detail}."
    return (
        f'<div class="difference {kind}"><p class="value">{points}<small> points</small></p>'
        f"<p><b>{verdict}</b> {detail}</p></div>"
    )


def _maps(report: RunReport, drawn: DrawnGraph) -> str:
    """The large map with its controls, and a small one for each class; scripts draw them."""
    last, shown = len(report.times) - 1, min(report.num_classes, MAX_SMALL_MAPS)
    time = number(report.times[last])
    nodes, total = counted(len(drawn.nodes), "node"), report.num_nodes
    description = f"All {nodes}."
    if len(drawn.nodes) < total:
        description = f"A sample of {nodes} of {total:,}: labelled and uncertain ones, and others at random."
    if drawn.omits_edges:
        description += f" {drawn.edges.shape[1]:,} of {counted(drawn.num_edges, 'edge')} between them can be shown."
    labels = np.bincount(report.labels[report.labels != UNKNOWN], minlength=report.num_classes)
    small_maps = (
        f'<button type="button" class="small-map" data-class="{k}"><canvas role="img" aria-label="Distances to class'
        f' {escape_name(report.classes[k])} at time {time}"></canvas>{_class(report, k)}'
        f"<small>{counted(int(labels[k]), 'label')}</small></button>"
        for k in range(shown)
    )
    options = "".join(f'<option value="{k}">{escape_name(name)}</option>' for k, name in enumerate(report.classes))
    content = Template(page_file("map.html")).substitute(
        classes=options, slider=" hidden" if last == 0 else "", last=last, time=time, nodes=nodes,
        edges=" disabled" if not drawn.edges.size else "" if drawn.omits_edges else " checked", description=description,
        omitted="" if shown == report.num_classes else f" The first {shown} of {report.num_classes:,} classes.",
        columns=math.ceil(shown / math.ceil(shown / 6)),  # rows of equal length, at most six
        small_maps="".join(small_maps),
    )  # fmt: skip
    lead = (
        "A node's distance to a class is the generalized geodesic distance along the edges to the nodes labelled with "
        "that class. These distances are the input features of the classifier."
    )
    return _section("maps", "Distance maps", content, lead)


def _training(report: RunReport) -> str:
    cards = curve_cards(report.curves)
    content = f'<div class="cards">{cards}</div>'
    return _section("training", "Training", content, "Dots mark the best validation epoch.") if cards else ""


def _confusion(report: RunReport) -> str:
    if not report.num_tested:
        return ""
    table = report.confusion()
    errors = table - np.diag(np.diag(table))
    # All classes, or those with the most errors, in the order of classes.
    shown = sorted(np.argsort(-(errors.sum(0) + errors.sum(1)), kind="stable")[:MAX_CLASSES_IN_TABLE].tolist())
    names = (f"<span>{escape_name(report.classes[k])}</span>" for k in shown)
    columns = '<th scope="col" class="corner">true ↓ predicted →</th>' + _columns(*names)
    columns += '<th scope="col" class="recall"><span>accuracy (%)</span></th>'
    rows = (_confusion_row(report, k, table[k], shown) for k in shown)
    size = "" if report.num_classes <= MAX_CLASSES_WITH_PERCENT else " compact"
    matrix = _table(f"confusion{size}", columns, rows, "Confusion matrix")
    lead = f"All {counted(report.num_tested, 'test node')} are correct."
    if errors.any():
        true, predicted = divmod(int(errors.argmax()), report.num_classes)
        lead = (
            f"{errors.sum():,} of {counted(report.num_tested, 'test node')} are misclassified. Most frequent error: "
            f"{escape_name(report.classes[true])} classified as {escape_name(report.classes[predicted])}, "
            f"{counted(int(errors.max()), 'time')}."
        )
    if len(shown) < len(table):
        lead += f" The table shows the {len(shown)} classes with the most errors."
    return _section("confusion", "Confusion matrix", f'<div class="card">{matrix}</div>', lead)


def _confusion_row(report: RunReport, k: int, row: NDArray[np.int64], shown: list[int]) -> str:
    total, cells = int(row.sum()), ""
    for j in shown:
        count, fraction = int(row[j]), row[j] / max(total, 1)
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
    accuracy = f"{100 * row[k] / total:.1f}" if total else "–"
    return f'<tr><th scope="row">{_class(report, k)}</th>{cells}<td class="recall">{accuracy}</td></tr>'


def _uncertain(report: RunReport) -> str:
    if report.num_classes < 2:
        return ""
    columns = _columns("node") + '<th scope="col" colspan="2">first</th><th scope="col" colspan="2">second</th>'
    columns += _columns("margin (points)", "true class")
    rows = (_uncertain_row(report, node) for node in report.least_certain())
    table = _table("uncertain", columns, rows, "Least certain nodes")
    lead = "Their two most probable classes are almost equally likely. Labels for these nodes are likely to help most."
    return _section("uncertain", "Least certain nodes", f'<div class="card">{table}</div>', lead)


def _uncertain_row(report: RunReport, node: int) -> str:
    (first, second), (p_first, p_second) = (values[node] for values in report.top_two)
    true = int(report.y[node])
    mark = "" if true == UNKNOWN else ' <b class="ok">✓</b>' if true == first else ' <b class="wrong">✗</b>'
    label = "" if report.labels[node] == UNKNOWN else ' <small class="quiet">labelled</small>'
    return (
        f'<tr><td><button type="button" class="show" data-node="{node}" title="Show on the map">'
        f"{escape_name(report.name_of(node))}</button>{label}</td>"
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
    rows = (
        f'<tr><th scope="row">{step.labels:,}</th><td>{step.accuracy:.1f}</td>'
        f"<td>{'' if step is steps[0] else signed(step.accuracy - steps[0].accuracy)}</td>"
        f"<td>{number(step.milliseconds)}</td></tr>"
        for step in steps
    )
    table = _table("additions", _columns("labels", "accuracy (%)", "change", "ms"), rows)
    lead = "New labels update the distances immediately. Nothing is retrained."
    return _section("additions", "Adding labels", f'<div class="card beside">{chart}{table}</div>', lead)


def _settings(report: RunReport) -> str:
    pairs = flatten_settings(report.settings)
    if not pairs:
        return ""
    rows = (f'<tr><th scope="row">{escape_text(key)}</th><td>{escape_text(value)}</td></tr>' for key, value in pairs)
    summary = f"<summary>{counted(len(pairs), 'setting')} of this run</summary>"
    return _section("settings", "Settings", f'<details class="card">{summary}{_table("settings", "", rows)}</details>')


def _notes(report: RunReport) -> str:
    items = "".join(f"<li>{escape_text(note)}</li>" for note in report.notes)
    return _section("notes", "Notes", f'<ul class="card notes">{items}</ul>') if items else ""
