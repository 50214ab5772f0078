"""A comparison as a figure: accuracy, learning curves, calibration, and time against accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lggd.comparison.comparison import Comparison
    from lggd.comparison.summary import MethodSummary

ACCURACY = "accuracy (%)"


def draw_comparison(comparison: Comparison) -> Figure:
    """Returns a figure of four panels; every method has one colour in all of them."""
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
        axes.plot(values, np.full(len(values), k), "o", color=_colour(k), alpha=0.35, markersize=4)
        axes.errorbar(method.mean, k, xerr=method.sd or 0.0, fmt="D", color=_colour(k), capsize=4)
    axes.set_yticks(range(len(methods)), [method.name for method in methods])
    axes.invert_yaxis()
    axes.set(title="Accuracy on each split, mean ± sd", xlabel=ACCURACY)


def _curves(axes: Axes, methods: list[MethodSummary]) -> None:
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
