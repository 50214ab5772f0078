"""Line charts as HTML and SVG. Lines scale with the page, text does not; colours are defined in the style sheet.

The drawing is 100 x 100 units at any size on the screen, so that no script has to fit it; strokes keep their width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lggd.html import escape_name, escape_text
from lggd.text import counted, number, percent

Floats = NDArray[np.float64]
# Longer lines are reduced to the extremes of equal intervals.
MAX_POINTS = 400
# Positive values with a larger ratio get a logarithmic axis.
MAX_LINEAR_RATIO = 100.0
VALIDATION = "validation"
# The HTML of a mark at the best epoch contains this.
BEST_MARK = 'class="best"'


@dataclass(frozen=True, eq=False)
class Line:
    """Values `y` over increasing `x`, with gaps at non-finite values; `colour` is CSS, `best` the index of a mark."""

    name: str
    x: Floats
    y: Floats
    colour: str
    dashed: bool = False
    best: int | None = None

    @property
    def attributes(self) -> str:
        return f'class="{"line dashed" if self.dashed else "line"}" style="stroke:{self.colour}"'


@dataclass(frozen=True)
class Axis:
    """The range from `low` to `high`, and its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    @classmethod
    def around(cls, low: float, high: float) -> Axis:
        """A linear axis that extends to the next round ticks."""
        if high <= low:
            margin = abs(low) / 2 or 1.0
            low, high = low - margin, high + margin
        step = _round_step((high - low) / 4)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        return cls(first * step, last * step, tuple(k * step for k in range(first, last + 1)))

    @classmethod
    def within(cls, low: float, high: float) -> Axis:
        """A linear axis of integers that ends at the values, with round ticks between them."""
        if high <= low:
            return cls(low - 1, high + 1, (low,))
        step = max(_round_step((high - low) / 6), 1.0)
        return cls(low, high, tuple(k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)))

    @classmethod
    def for_values(cls, values: Floats) -> Axis:
        """An axis for finite values, logarithmic if their ratios are large."""
        low, high = float(values.min()), float(values.max())
        if low > 0 and high > MAX_LINEAR_RATIO * low:
            first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
            ticks = tuple(10.0**k for k in range(first, last + 1, math.ceil((last - first) / 5)))
            return cls(10.0**first, 10.0**last, ticks, logarithmic=True)
        return cls.around(0.0 if 0 <= low < high / 3 else low, high)

    @property
    def scale(self) -> str:
        """What the name of the axis ends with."""
        return " · log scale" if self.logarithmic else ""

    def percent(self, value: float) -> float:
        """The position of a value between the ends, 0 to 100."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return 100 * (value - low) / (high - low)

    def labels(self) -> list[str]:
        """The ticks as text, with as many digits as needed to distinguish them."""
        if self.logarithmic or len(self.ticks) < 2:
            return [number(tick) for tick in self.ticks]
        step = self.ticks[1] - self.ticks[0]
        digits = next((d for d in range(10) if abs(step - round(step, d)) < 1e-6 * step), 10)
        return [f"{tick:,.{digits}f}".replace("-", "−") for tick in self.ticks]


def _round_step(minimum: float) -> float:
    """The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is at least `minimum`."""
    power = 10.0 ** math.floor(math.log10(minimum))
    return power * next(digit for digit in (1, 2, 2.5, 5, 10) if digit * power >= minimum * (1 - 1e-9))


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, summary: str, dots: bool = False) -> str:
    """Returns the HTML of a chart; `summary` is its text for screen readers, `dots` marks every point."""
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
    if not len(values):
        return '<p class="quiet">No finite value was recorded.</p>'
    vertical = Axis.for_values(values)
    horizontal = Axis.within(min(float(line.x[0]) for line in lines), max(float(line.x[-1]) for line in lines))
    drawn = "".join(_draw_line(line, horizontal, vertical, dots) for line in lines)
    data = (
        f' data-x="{horizontal.low:g} {horizontal.high:g}" data-x-label="{escape_text(x_label)}"'
        f' data-y="{vertical.low:.6g} {vertical.high:.6g} {int(vertical.logarithmic)}"'
    )
    return draw_chart((horizontal, vertical), (x_label, y_label), summary, drawn, data=data)


def draw_chart(
    axes: tuple[Axis, Axis], labels: tuple[str, str], summary: str, lines: str = "", points: str = "", data: str = ""
) -> str:
    """A grid with the ticks of both axes and their labels, x first; `lines` are SVG within it, `points` HTML above."""
    horizontal, vertical = axes
    grid = "".join(f'<path class="grid" d="M0 {100 - vertical.percent(tick):.5g}H100"/>' for tick in vertical.ticks)
    ticks = "".join(
        f'<span class="tick {kind}" style="{side}:{axis.percent(tick):.4g}%">{label}</span>'
        for axis, kind, side in ((horizontal, "x", "left"), (vertical, "y", "bottom"))
        for tick, label in zip(axis.ticks, axis.labels(), strict=True)
    )
    x_label, y_label = (f"{escape_text(label)}{axis.scale}" for axis, label in zip(axes, labels, strict=True))
    return (
        f'<div class="{"chart points" if points else "chart"}" role="img" aria-label="{escape_text(summary)}"{data}>'
        f'<span class="axis y" aria-hidden="true">{y_label}</span>'
        '<div class="plot" aria-hidden="true"><svg viewBox="0 0 100 100" preserveAspectRatio="none" focusable="false">'
        f"{grid}{lines}</svg>{ticks}{points}</div>"
        f'<span class="axis x" aria-hidden="true">{x_label}</span></div>'
    )


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 22 10" aria-hidden="true"><path {line.attributes} d="M1 5H21"/></svg>'
        f"{escape_text(line.name)}</li>"
        for line in lines
    )
    return f'<ul class="legend">{items}</ul>'


def _draw_line(line: Line, horizontal: Axis, vertical: Axis, dots: bool) -> str:
    def point(k: int) -> str:
        return f"{horizontal.percent(float(line.x[k])):.5g} {100 - vertical.percent(float(line.y[k])):.5g}"

    finite = np.flatnonzero(np.isfinite(line.y))
    path = ""
    for part in np.split(finite, np.flatnonzero(np.diff(finite) > 1) + 1):
        points = [point(k) for k in part[_reduced(line.y[part])]]
        # A path of length 0 is drawn as a dot: a single value between gaps remains visible.
        path += f"M{points[0]}h0" if len(points) == 1 else "M" + "L".join(points) if points else ""
    drawn = f'<path {line.attributes} data-name="{escape_text(line.name)}" d="{path}"/>'
    stroke = f'style="stroke:{line.colour}"'
    drawn += "".join(f'<path class="dot" {stroke} d="M{point(k)}h0"/>' for k in finite.tolist() if dots)
    if line.best is not None and np.isfinite(line.y[line.best]):
        best = point(line.best)
        drawn += f'<path class="halo" d="M{best}h0"/><path {BEST_MARK} {stroke} d="M{best}h0"/>'
    return drawn


def _reduced(values: Floats) -> NDArray[np.int64]:
    """The indices to draw: all of a short line, else both ends and the extremes of equal intervals."""
    if len(values) <= MAX_POINTS:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), MAX_POINTS // 2 + 1).astype(int)
    extremes = [[a + values[a:b].argmin(), a + values[a:b].argmax()] for a, b in pairwise(edges)]
    return np.unique(np.concatenate([[0], np.ravel(extremes), [len(values) - 1]])).astype(np.int64)


def curve_cards(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """One card per stage with recorded values."""
    return "".join(_card(stage, measures) for stage, measures in curves.items() if any(map(len, measures.values())))


def _card(stage: str, measures: Mapping[str, Sequence[float]]) -> str:
    lines = [line for line in _lines(measures) if len(line.y)]
    accuracies = [_in_percent(line) for line in lines if "accuracy" in line.name]
    losses = [line for line in lines if "accuracy" not in line.name]
    best = _best_epochs(losses, accuracies)
    losses, accuracies = ([_mark_best(line, best) for line in group] for group in (losses, accuracies))
    panels = {"loss": losses, "accuracy (%)": accuracies}
    charts = "".join(_panel(group, stage, y_label) for y_label, group in panels.items() if group)
    epochs = counted(max(len(line.y) for line in lines), "epoch")
    return (
        f'<article class="card curves"><h3>{escape_name(stage)}</h3>'
        f'<p class="quiet">{epochs}{_describe_best(best, accuracies or losses)}</p>{charts}</article>'
    )


def _panel(lines: list[Line], stage: str, y_label: str) -> str:
    finals = [float(next((y for y in line.y[::-1] if np.isfinite(y)), np.nan)) for line in lines]
    ends = ", ".join(f"{line.name} ends at {number(final)}" for line, final in zip(lines, finals, strict=True))
    readable = [replace(line, name=line.name.replace("_", " ")) for line in lines]
    chart = line_chart(readable, "epoch", y_label, f"{y_label} by epoch, {stage}: {ends}.")
    variants = {_variant(line.name): line for line in readable if _variant(line.name)}
    if not variants:
        return chart + _legend(readable)
    # One entry per measure and one per variant.
    measures = {line.name.removesuffix(f" {_variant(line.name)}"): line for line in readable}
    entries = [replace(line, name=name, colour="var(--quiet)") for name, line in measures.items()]
    return chart + _legend([*entries, *(replace(line, name=name, dashed=False) for name, line in variants.items())])


def _lines(measures: Mapping[str, Sequence[float]]) -> list[Line]:
    """One line per measure. "train_loss t=1" is the variant t=1 of train_loss; variants differ in shade."""
    variants = list(dict.fromkeys(_variant(measure) for measure in measures))
    lines = []
    for k, (measure, values) in enumerate(measures.items()):
        y = np.asarray(values, np.float64).reshape(-1)
        is_validation, dashed = VALIDATION in measure, False
        # Training is grey, validation stands out, other measures follow.
        colour = f"var(--series-{2 if is_validation else 1 if 'train' in measure else 3 + k % 2})"
        if len(variants) > 1:
            position, dashed = 100 * variants.index(_variant(measure)) / (len(variants) - 1), not is_validation
            colour = f"color-mix(in oklab,var(--shade-last) {position:.0f}%,var(--shade-first))"
        lines.append(Line(str(measure), np.arange(1.0, len(y) + 1), y, colour, dashed))
    return lines


def _variant(measure: str) -> str:
    variant = str(measure).rpartition(" ")[2]
    return variant if "=" in variant else ""


def _in_percent(line: Line) -> Line:
    return replace(line, y=line.y * 100) if line.y[np.isfinite(line.y)].max(initial=-np.inf) <= 1 else line


def _best_epochs(losses: list[Line], accuracies: list[Line]) -> dict[str, int]:
    """The index of the best validation epoch by variant: by accuracy if it was recorded, else by loss."""
    scores = [(line.name, line.y) for line in accuracies if VALIDATION in line.name]
    scores = scores or [(line.name, -line.y) for line in losses if VALIDATION in line.name]
    finite = [(name, np.where(np.isfinite(y), y, -np.inf)) for name, y in scores if np.isfinite(y).any()]
    return {_variant(name): int(score.argmax()) for name, score in finite}


def _mark_best(line: Line, best: Mapping[str, int]) -> Line:
    epoch = best.get(_variant(line.name), len(line.y))
    return replace(line, best=epoch) if VALIDATION in line.name and epoch < len(line.y) else line


def _describe_best(best: Mapping[str, int], lines: list[Line]) -> str:
    if len(best) > 1:
        epochs = (f"{k + 1:,}\N{NO-BREAK SPACE}({escape_text(variant)})" for variant, k in best.items())
        return f"; best validation at {', '.join(epochs)}"
    if not best:
        return ""
    (epoch,) = best.values()
    reached = [line.y[epoch] for line in lines if line.best == epoch][:1]
    shown = "".join(f": {percent(y) if 'accuracy' in lines[0].name else 'loss ' + number(y)}" for y in reached)
    return f"; best validation at {epoch + 1:,}{shown}"
