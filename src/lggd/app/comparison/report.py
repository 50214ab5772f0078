"""A comparison for people: a page, a table for spreadsheets, and a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lggd._system.files import write_text
from lggd.app.comparison.comparison_page import render_comparison
from lggd.app.comparison.label_splits import describe_labels
from lggd.app.comparison.runner import machine
from lggd.app.comparison.summary import COLUMNS, MethodSummary
from lggd.app.runs.methods import installed_versions
from lggd.app.runs.run import now
from lggd.errors import optional_package
from lggd.html import counted, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lggd.app.comparison.comparison import Comparison

TABLE, PAGE = "comparison.csv", "comparison.html"
ACCURACY = "accuracy (%)"


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


def draw_comparison(comparison: Comparison) -> Figure:
    """Returns a figure of four panels; every method has one colour in all of them."""
    with optional_package("figure", "lggd[figures]"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    methods = comparison.methods
    for draw, axes in zip((_accuracies, _curves, _calibration, _times), panels, strict=True):
        draw(axes, methods)
    handles, names = panels[3].get_legend_handles_labels()
    if names:
        figure.legend(handles, names, loc="outside lower center", ncols=min(5, len(names)), fontsize="small")
    return figure


def _colour(number: int) -> str:
    return f"C{number % 10}"


def _accuracies(axes: Axes, methods: list[MethodSummary]) -> None:
    for k, method in enumerate(methods):
        values = list(method.accuracy.values())
        axes.plot(values, [k] * len(values), "o", color=_colour(k), alpha=0.35, markersize=4)
        axes.errorbar(method.mean, k, xerr=method.sd or 0.0, fmt="D", color=_colour(k), capsize=4)
    axes.set_yticks(range(len(methods)), [method.name for method in methods])
    axes.invert_yaxis()
    axes.set(title="Accuracy on each split, mean ± sd", xlabel=ACCURACY)


def _curves(axes: Axes, methods: list[MethodSummary]) -> None:
    from matplotlib.ticker import MaxNLocator

    for k, method in enumerate(methods):
        if len(method.curve) > 1:
            axes.plot(list(method.curve), list(method.curve.values()), "o-", color=_colour(k), markersize=4)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(title="Learning curve", xlabel="training labels", ylabel=ACCURACY)


def _calibration(axes: Axes, methods: list[MethodSummary]) -> None:
    axes.plot([0, 100], [0, 100], color="grey", linewidth=0.8, linestyle=":")
    for k, method in enumerate(methods):
        points = method.reliability
        axes.plot([x for x, _ in points], [y for _, y in points], "o-", color=_colour(k), markersize=3)
    axes.set(title="Calibration", xlabel="probability of the predicted class (%)", ylabel=ACCURACY)


def _times(axes: Axes, methods: list[MethodSummary]) -> None:
    for k, method in enumerate(methods):
        axes.plot(method.seconds, method.mean, "D", color=_colour(k), label=method.name)
    if methods:
        axes.set_xscale("log")
    axes.set(title="Time and accuracy", xlabel="seconds per fit", ylabel=ACCURACY)
