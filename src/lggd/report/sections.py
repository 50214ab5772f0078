"""The parts of the page, in the order in which it shows them. A part with nothing to show is empty or says why."""

from __future__ import annotations

import math

import numpy as np

from lggd.report.charts import Line, line_chart
from lggd.report.content import UNKNOWN, Doubt, RunReport
from lggd.report.curves import curve_cards
from lggd.report.embedding import Drawing
from lggd.report.wording import (
    count,
    counted,
    duration,
    flattened,
    moment,
    name,
    number,
    percent,
    signed,
    text,
)  # fmt: skip

# Classes with a colour of their own in the style sheet; the hues of further ones are spread by the golden angle.
STYLED_CLASSES = 12
# Larger tables of confusion leave out the per cents: they would not be read.
MOST_CLASSES_WITH_SHARES = 12
MOST_CLASSES_IN_TABLE = 40
# Small maps are drawn for this many classes; the large one shows any.
MOST_SMALL_MAPS = 24


def class_colour(k: int) -> str:
    """The colour of a class, in CSS. `colours.js` knows the same rule."""
    return f"var(--class-{k})" if k < STYLED_CLASSES else f"oklch(62% 0.13 {137.508 * k % 360:.1f})"


def _class(report: RunReport, k: int) -> str:
    """A class by its colour and its name."""
    if k == UNKNOWN:
        return '<span class="quiet">–</span>'
    return f'<span class="class"><i style="background:{class_colour(k)}"></i>{name(report.classes[k])}</span>'


def _section(key: str, title: str, content: str, lead: str = "") -> str:
    lead = f'<p class="lead">{lead}</p>' if lead else ""
    return (
        f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{title}</h2>{lead}{content}</section>'
    )


def header(report: RunReport) -> str:
    facts = {
        "nodes": count(report.num_nodes),
        "edges": count(report.num_edges),
        "classes": count(report.num_classes),
        "labels given": count(report.labelled),
        "nodes held out": count(report.heldout),
        "time taken": duration(report.seconds),
    }
    listed = "".join(f"<div><dt>{term}</dt><dd>{value}</dd></div>" for term, value in facts.items())
    return (
        f'<header><p class="eyebrow">Learned geodesic distances</p><h1>{text(report.title)}</h1>'
        f'<p class="byline"><span><b>{text(report.dataset)}</b></span><span>{text(report.backbone)}</span>'
        f'<time datetime="{text(report.created)}">{text(moment(report.created))}</time></p>'
        f'<dl class="facts">{listed}</dl></header>'
    )


# -- the result -------------------------------------------------------------------------------------------------------


def result(report: RunReport) -> str:
    """Both accuracies, their difference, and what it means in a sentence."""
    if report.accuracy["lggd"] is None and report.accuracy["raw"] is None:
        return _section(
            "result", "Result", '<p class="card quiet">No accuracy is known: no held-out node has a known class.</p>'
        )
    figures = _accuracy(report, "lggd", "with LGGD") + _accuracy(report, "raw", "without")
    return _section("result", "Result", f'<div class="card verdict">{figures}{_verdict(report)}</div>')


def _accuracy(report: RunReport, key: str, words: str) -> str:
    value = report.accuracy[key]
    shown = '<span class="quiet">unknown</span>' if value is None else percent(value)
    bar = "" if value is None else f'<span class="bar" aria-hidden="true"><i style="width:{value:.2f}%"></i></span>'
    return f'<div class="accuracy {key}"><p class="value">{shown}</p><p class="what">right {words}</p>{bar}</div>'


def _verdict(report: RunReport) -> str:
    difference = report.difference
    if difference is None:
        return (
            '<div class="difference"><p>The other accuracy was not measured, so there is nothing to compare.</p></div>'
        )
    points = signed(difference)
    if points == "0.0":
        kind, said = "equal", "LGGD makes no difference here."
    elif difference > 0:
        kind, said = "better", "LGGD is better."
    else:
        kind, said = "worse", "LGGD is worse here."
    return (
        f'<div class="difference {kind}"><p class="value">{points}<small> points</small></p>'
        f"<p><b>{said}</b> {_uncertainty(report, difference)}</p></div>"
    )


def _uncertainty(report: RunReport, difference: float) -> str:
    """How far an accuracy measured on so few nodes may be off: twice its binomial standard error."""
    if report.heldout < 1:
        return ""
    right = min(max(report.accuracy["lggd"] or 0, report.accuracy["raw"] or 0), 100) / 100
    error = 100 * 1.96 * math.sqrt(max(right * (1 - right), 1e-4) / report.heldout)
    nodes = f"Measured on {counted(report.heldout, 'held-out node')}, either figure is uncertain by about ±{error:.1f}"
    if abs(difference) < error:
        return f"{nodes}, more than they differ."
    more = round(abs(difference) / 100 * report.heldout)
    return f"It gets {counted(more, 'node')} {'more' if difference > 0 else 'fewer'} right. {nodes}."


# -- the maps ---------------------------------------------------------------------------------------------------------


def maps(report: RunReport, drawing: Drawing) -> str:
    """The large map with its controls, and a small one for each class. A script draws them."""
    lead = (
        "Every node has a distance to each class: how far it lies, along the edges, from the nodes labelled with that "
        "class. These distances are the features that the backbone learns from."
    )
    return _section("maps", "Distance maps", _large_map(report, drawing) + _small_maps(report), lead)


def _large_map(report: RunReport, drawing: Drawing) -> str:
    options = "".join(f'<option value="{k}">{name(c)}</option>' for k, c in enumerate(report.classes))
    last = len(report.times) - 1
    slider = (
        f'<label for="map-time">at time <output id="map-time-told" for="map-time">{number(report.times[last])}</output>'
        f'</label><input id="map-time" type="range" min="0" max="{last}" step="1" value="{last}"'
        f' aria-valuetext="{number(report.times[last])}">'
    )
    hidden = " hidden" if last == 0 else ""
    edges = "" if drawing.omits_edges or not drawing.edges.size else " checked"
    unusable = "" if drawing.edges.size else " disabled"
    return (
        '<div class="card map"><div class="controls">'
        '<div class="control"><label for="map-colour">Colour by</label><select id="map-colour">'
        '<option value="distance">distance</option><option value="predicted">predicted class</option>'
        '<option value="truth">true class</option><option value="right">right or wrong</option>'
        '<option value="certainty">certainty</option></select></div>'
        f'<div class="control of-distance"><label for="map-class">to class</label>'
        f'<select id="map-class">{options}</select></div><div class="control of-distance slider"{hidden}>{slider}</div>'
        f'<div class="control check"><input id="map-edges" type="checkbox"{edges}{unusable}>'
        '<label for="map-edges">edges</label></div></div>'
        '<div class="stage"><div class="zoom" role="group" aria-label="Zoom">'
        '<button type="button" id="map-in" aria-label="Zoom in">+</button>'
        '<button type="button" id="map-out" aria-label="Zoom out">−</button>'
        '<button type="button" id="map-fit" aria-label="Show everything">fit</button></div>'
        '<canvas id="map" role="img" tabindex="0" aria-describedby="map-told"'
        f' aria-label="Map of {counted(len(drawing.nodes), "node")}"></canvas><div id="tip" class="tip" hidden></div>'
        "<noscript><p>The maps are drawn by a script, and scripts are turned off.</p></noscript></div>"
        '<div id="map-legend" class="map-legend"></div>'
        f'<p id="map-told" class="quiet">{_drawn_in_words(report, drawing)} Zoom with the wheel or the '
        "buttons, drag to move; keys: + − 0 and the arrows.</p></div>"
    )


def _drawn_in_words(report: RunReport, drawing: Drawing) -> str:
    shown, total = len(drawing.nodes), report.num_nodes
    told = f"All {counted(total, 'node')}." if shown == total else (
        f"{counted(shown, 'node')} of {count(total)} are drawn: labelled and uncertain ones, and others at random."
    )  # fmt: skip
    if drawing.omits_edges:
        told += f" Of {counted(drawing.all_edges, 'edge')} between them, {count(drawing.edges.shape[1])} can be shown."
    return told


def _small_maps(report: RunReport) -> str:
    labels = np.bincount(report.given[report.given != UNKNOWN], minlength=report.num_classes)
    shown = min(report.num_classes, MOST_SMALL_MAPS)
    last = number(report.times[-1])
    buttons = "".join(
        f'<button type="button" class="small-map" data-class="{k}"><canvas role="img" aria-label="Distances to class'
        f' {name(report.classes[k])} at time {last}"></canvas>{_class(report, k)}'
        f"<small>{counted(int(labels[k]), 'label')}</small></button>"
        for k in range(shown)
    )
    # Rows of equal length, of six at most.
    columns = math.ceil(shown / math.ceil(shown / 6))
    rest = "" if shown == report.num_classes else f" The first {shown} of {count(report.num_classes)} classes."
    return (
        f'<h3>Distance to each class at time {last}</h3><p class="quiet">The stronger the colour, the nearer. Rings are'
        f' labelled nodes.{rest} Choose one to see it above.</p><div class="small-maps"'
        f' style="--columns:{columns}">{buttons}</div>'
    )


# -- how it was learned -----------------------------------------------------------------------------------------------


def training(report: RunReport) -> str:
    cards = curve_cards(report.curves)
    if not cards:
        return ""
    return _section("training", "Training", f'<div class="cards">{cards}</div>', "Dots mark the best validated epoch.")


# -- where it errs ----------------------------------------------------------------------------------------------------


def confusion(report: RunReport) -> str:
    """A table of true against predicted classes, and the commonest mistake in words."""
    if not report.tested.any():
        return ""
    table = report.confusion()
    shown = _most_confused(table)
    heads = "".join(f'<th scope="col"><span>{name(report.classes[k])}</span></th>' for k in shown)
    rows = "".join(_confusion_row(report, k, table[k], shown) for k in shown)
    size = "" if report.num_classes <= MOST_CLASSES_WITH_SHARES else " compact"
    return _section(
        "confusion", "Confusion",
        f'<div class="card"><div class="scroll" tabindex="0" role="region" aria-label="Confusion of classes">'
        f'<table class="confusion{size}"><thead><tr><th scope="col" class="corner">true ↓ predicted →</th>{heads}'
        f'<th scope="col" class="right"><span>right</span></th></tr></thead><tbody>{rows}</tbody></table></div></div>',
        _commonest_mistake(report, table)
        + (f" The {len(shown)} classes with the most mistakes are shown." if len(shown) < len(table) else ""),
    )  # fmt: skip


def _most_confused(table: np.ndarray) -> list[int]:
    """All classes, or those with the most mistakes of either kind, in their own order."""
    mistakes = table.sum(0) + table.sum(1) - 2 * np.diag(table)
    return sorted(np.argsort(-mistakes, kind="stable")[:MOST_CLASSES_IN_TABLE].tolist())


def _confusion_row(report: RunReport, k: int, row: np.ndarray, shown: list[int]) -> str:
    total = int(row.sum())
    cells = "".join(_confusion_cell(report, k, j, int(row[j]), total) for j in shown)
    right = percent(100 * row[k] / total) if total else "–"
    return f'<tr><th scope="row">{_class(report, k)}</th>{cells}<td class="right">{right}</td></tr>'


def _confusion_cell(report: RunReport, k: int, j: int, found: int, total: int) -> str:
    if not found:
        return '<td class="none">·</td>'
    share = found / total
    kind = "hit" if j == k else "miss"
    dense = " dense" if share > 0.45 else ""
    # The root makes rare mistakes visible beside common hits.
    return (
        f'<td class="{kind}{dense}" style="--heat:{10 + 80 * math.sqrt(share):.0f}%"'
        f' title="{name(report.classes[k])} taken for {name(report.classes[j])}: {found:,} of {total:,}">'
        f"{found:,}<small>{_share(share)}</small></td>"
    )


def _share(share: float) -> str:
    return "&lt;1 %" if share < 0.005 else percent(100 * share, 0)


def _commonest_mistake(report: RunReport, table: np.ndarray) -> str:
    tested, wrong = int(table.sum()), int(table.sum() - np.trace(table))
    if not wrong:
        return f"All {counted(tested, 'tested node')} are right."
    mistakes = table - np.diag(np.diag(table))
    truth, taken = divmod(int(mistakes.argmax()), report.num_classes)
    often = counted(int(mistakes.max()), "time")
    return (
        f"{count(wrong)} of {counted(tested, 'tested node')} are wrong. The commonest mistake: "
        f"{name(report.classes[truth])} taken for {name(report.classes[taken])}, {often}."
    )


def doubts(report: RunReport) -> str:
    """The nodes that the model can least decide on."""
    if report.num_classes < 2:
        return ""
    rows = "".join(_doubt(report, doubt) for doubt in report.least_certain())
    return _section(
        "doubts", "Least certain nodes",
        '<div class="card"><div class="scroll" tabindex="0" role="region" aria-label="Least certain nodes">'
        '<table class="doubts"><thead><tr><th scope="col">node</th><th scope="col" colspan="2">best</th>'
        '<th scope="col" colspan="2">second</th><th scope="col">margin, points</th>'
        '<th scope="col">truth</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></div>",
        "Their two best classes are almost equally probable. Labels for these are likely to help most.",
    )  # fmt: skip


def _doubt(report: RunReport, doubt: Doubt) -> str:
    truth = int(report.truth[doubt.node])
    judged = "" if truth == UNKNOWN else ' <b class="ok">✓</b>' if truth == doubt.first else ' <b class="wrong">✗</b>'
    known = ' <small class="quiet">labelled</small>' if doubt.labelled else ""
    return (
        f'<tr><td><button type="button" class="show" data-node="{doubt.node}" title="Show on the map">'
        f"{name(report.name_of(doubt.node))}</button>{known}</td>"
        f"<td>{_class(report, doubt.first)}</td><td>{percent(100 * doubt.first_probability)}</td>"
        f"<td>{_class(report, doubt.second)}</td><td>{percent(100 * doubt.second_probability)}</td>"
        f"<td>{100 * doubt.margin:.1f}</td><td>{_class(report, truth)}{judged}</td></tr>"
    )


# -- what follows -----------------------------------------------------------------------------------------------------


def additions(report: RunReport) -> str:
    """What further labels bring, with nothing retrained."""
    if not report.additions:
        return ""
    rising = sorted(report.additions, key=lambda addition: addition.labels)
    labels = np.array([addition.labels for addition in rising], np.float64)
    right = np.array([addition.accuracy for addition in rising], np.float64)
    line = Line("accuracy", labels, right, "var(--series-2)")
    told = "; ".join(f"{count(a.labels)} labels {percent(a.accuracy)}" for a in rising)
    chart = line_chart([line], across="labels", up="accuracy, %", summary=f"Accuracy by labels: {told}.", dots=True)
    rows = "".join(
        f'<tr><th scope="row">{count(a.labels)}</th><td>{percent(a.accuracy)}</td>'
        f"<td>{'' if a is rising[0] else signed(a.accuracy - rising[0].accuracy)}</td>"
        f"<td>{number(a.milliseconds)}</td></tr>"
        for a in rising
    )
    table = (
        '<div class="scroll"><table class="additions"><thead><tr><th scope="col">labels</th><th scope="col">right</th>'
        f'<th scope="col">change</th><th scope="col">ms</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )
    return _section(
        "additions", "Adding labels", f'<div class="card beside">{chart}{table}</div>',
        "New labels change the distances at once. Nothing is trained again.",
    )  # fmt: skip


def settings(report: RunReport) -> str:
    rows = "".join(
        f'<tr><th scope="row">{text(key)}</th><td>{text(value)}</td></tr>' for key, value in flattened(report.settings)
    )
    if not rows:
        return ""
    return _section(
        "settings", "Settings",
        f'<details class="card"><summary>{counted(rows.count("<tr>"), "setting")} of this run</summary>'
        f'<div class="scroll"><table class="settings"><tbody>{rows}</tbody></table></div></details>',
    )  # fmt: skip


def notes(report: RunReport) -> str:
    if not report.notes:
        return ""
    listed = "".join(f"<li>{text(note)}</li>" for note in report.notes)
    return _section("notes", "Notes", f'<ul class="card notes">{listed}</ul>')


def footer(report: RunReport) -> str:
    return f"<footer><p>lggd {text(report.version)} · {text(report.machine)}</p></footer>"
