"""A comparison for people: a page, a table for spreadsheets, and a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lggd._system.files import write_text
from lggd.app.comparison.comparison_page import render_comparison
from lggd.app.comparison.label_splits import describe_labels
from lggd.app.comparison.runner import machine
from lggd.app.comparison.summary import COLUMNS
from lggd.app.runs.methods import installed_versions
from lggd.app.runs.run import now
from lggd.errors import optional_package
from lggd.text import counted, duration

if TYPE_CHECKING:
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
    with optional_package("plot", "lggd[figures]"):
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
