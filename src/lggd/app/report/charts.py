"""Charts of pages as HTML and SVG: lines over axes, and strips of values with intervals.

Lines scale with the page, text does not: a drawing is 100 x 100 units at any size on the screen, strokes keep their
width, and colours are those of the style sheet. `page/charts.js` shows values under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
class Strip:
    """A named value with an interval, such as mean ± sd; `dots` are single values, `words` say all of it."""

    name: str
    value: float
    interval: tuple[float, float]
    colour: str
    words: str
    dots: Sequence[float] = ()


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
    def data(self) -> str:
        """Both ends and whether the axis is logarithmic, for the script."""
        return f"{self.low:.6g} {self.high:.6g} {int(self.logarithmic)}"

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

    def draw_ticks(self, kind: str, side: str) -> str:
        """The ticks as HTML, placed from one `side` of their box."""
        return "".join(
            f'<span class="tick {kind}" style="{side}:{self.percent(tick):.4g}%">{label}</span>'
            for tick, label in zip(self.ticks, self.labels(), strict=True)
        )


def _round_step(minimum: float) -> float:
    """The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is at least `minimum`."""
    power = 10.0 ** math.floor(math.log10(minimum))
    return power * next(digit for digit in (1, 2, 2.5, 5, 10) if digit * power >= minimum * (1 - 1e-9))


def line_chart(lines: Sequence[Line], x_label: str, y_label: str, summary: str, dots: bool = False) -> str:
    """Returns the HTML of a chart; `summary` is its text for screen readers, `dots` marks every point."""
    x = np.concatenate([line.x for line in lines])
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
    if not len(values):
        return '<p class="quiet">No finite value was recorded.</p>'
    vertical = Axis.for_values(values)
    horizontal = Axis.within(float(x.min()), float(x.max())) if (x == np.rint(x)).all() else Axis.for_values(x)
    grid = "".join(f'<path class="grid" d="M0 {100 - vertical.percent(tick):.5g}H100"/>' for tick in vertical.ticks)
    drawn = "".join(_draw_line(line, horizontal, vertical, dots) for line in lines)
    x_name, y_name = (
        escape_text(name) + " · log scale" * axis.logarithmic
        for name, axis in ((x_label, horizontal), (y_label, vertical))
    )
    return (
        f'<div class="chart" role="img" aria-label="{escape_text(summary)}" data-x-label="{escape_text(x_label)}" '
        f'data-x="{horizontal.data}" data-y="{vertical.data}"><span class="axis y" aria-hidden="true">{y_name}</span>'
        '<div class="plot" aria-hidden="true"><svg viewBox="0 0 100 100" preserveAspectRatio="none" focusable="false">'
        f"{grid}{drawn}</svg>{horizontal.draw_ticks('x', 'left')}{vertical.draw_ticks('y', 'bottom')}</div>"
        f'<span class="axis x" aria-hidden="true">{x_name}</span></div>'
    )


def legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 22 10" aria-hidden="true"><path {line.attributes} d="M1 5H21"/></svg>'
        f"{escape_name(line.name)}</li>"
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


def strips(rows: Iterable[Strip]) -> str:
    """One row per value on one scale: a mark at the value, a bar over its interval, and dots."""
    rows = list(rows)
    values = [value for row in rows for value in (row.value, *(row.dots or row.interval))]
    axis = Axis.around(min(values), max(values))
    drawn = "".join(_draw_strip(row, axis) for row in rows)
    scale = f'<div class="strip scale" aria-hidden="true"><b></b><div>{axis.draw_ticks("x", "left")}</div></div>'
    return f'<div class="strips">{drawn}{scale}</div>'


def _draw_strip(row: Strip, axis: Axis) -> str:
    low, high = (min(max(axis.percent(end), 0), 100) for end in row.interval)
    dots = "".join(f'<i class="split" style="left:{axis.percent(value):.4g}%"></i>' for value in row.dots)
    name, words = escape_name(row.name), escape_text(row.words)
    return (
        f'<div class="strip" style="--colour:{row.colour}"><b>{name}</b><div role="img" aria-label="{words}" '
        f'title="{words}"><i class="range" style="left:{low:.4g}%;width:{high - low:.4g}%"></i>{dots}'
        f'<i class="mean" style="left:{axis.percent(row.value):.4g}%"></i></div></div>'
    )


def curve_cards(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """One card per stage with recorded values."""
    return "".join(_card(stage, measures) for stage, measures in curves.items() if any(map(len, measures.values())))


def _card(stage: str, measures: Mapping[str, Sequence[float]]) -> str:
    values = {str(name): np.asarray(value, np.float64).reshape(-1) for name, value in measures.items() if len(value)}
    for name, y in values.items():
        if "accuracy" in name and y[np.isfinite(y)].max(initial=-np.inf) <= 1:
            values[name] = 100 * y
    best = _best_epochs(values)
    lines = _lines(values, {variant: epoch for variant, (epoch, _) in best.items()})
    accuracies = [line for line in lines if "accuracy" in line.name]
    losses = [line for line in lines if "accuracy" not in line.name]
    panels = _panel(losses, stage, "loss") + _panel(accuracies, stage, "accuracy (%)")
    epochs = counted(max(map(len, values.values())), "epoch")
    if len(best) == 1:
        ((epoch, value),) = best.values()
        epochs += f"; best validation at {epoch + 1:,}: {value}"
    elif best:
        at = (f"{epoch + 1:,}\N{NO-BREAK SPACE}({escape_text(variant)})" for variant, (epoch, _) in best.items())
        epochs += f"; best validation at {', '.join(at)}"
    head = f'<h3>{escape_name(stage)}</h3><p class="quiet">{epochs}</p>'
    return f'<article class="card curves">{head}{panels}</article>'


def _panel(lines: Sequence[Line], stage: str, y_label: str) -> str:
    if not lines:
        return ""
    finals = [float(next((y for y in line.y[::-1] if np.isfinite(y)), np.nan)) for line in lines]
    ends = ", ".join(f"{line.name} ends at {number(final)}" for line, final in zip(lines, finals, strict=True))
    chart = line_chart(lines, "epoch", y_label, f"{y_label} by epoch, {stage}: {ends}.")
    variants = {_variant(line.name): line for line in lines if _variant(line.name)}
    if not variants:
        return chart + legend(lines)
    # One entry per measure and one per variant.
    measures = {line.name.removesuffix(f" {_variant(line.name)}"): line for line in lines}
    entries = [replace(line, name=name, colour="var(--quiet)") for name, line in measures.items()]
    return chart + legend([*entries, *(replace(line, name=name, dashed=False) for name, line in variants.items())])


def _lines(values: Mapping[str, Floats], best: Mapping[str, int]) -> list[Line]:
    """One line per measure. "train_loss t=1" is the variant t=1 of train_loss; variants differ in shade."""
    variants = list(dict.fromkeys(map(_variant, values)))
    lines = []
    for k, (measure, y) in enumerate(values.items()):
        is_validation, variant = VALIDATION in measure, _variant(measure)
        # Training is grey, validation stands out, other measures follow.
        colour = f"var(--series-{2 if is_validation else 1 if 'train' in measure else 3 + k % 2})"
        if len(variants) > 1:
            position = 100 * variants.index(variant) / (len(variants) - 1)
            colour = f"color-mix(in oklab,var(--shade-last) {position:.0f}%,var(--shade-first))"
        epoch = best.get(variant, len(y)) if is_validation else len(y)
        mark, dashed = epoch if epoch < len(y) else None, len(variants) > 1 and not is_validation
        lines.append(Line(measure.replace("_", " "), np.arange(1.0, len(y) + 1), y, colour, dashed, mark))
    return lines


def _variant(measure: str) -> str:
    variant = measure.rpartition(" ")[2]
    return variant if "=" in variant else ""


def _best_epochs(values: Mapping[str, Floats]) -> dict[str, tuple[int, str]]:
    """The index of the best validation epoch by variant, and its value: by accuracy if it was recorded, else loss."""
    finite = {name: y for name, y in values.items() if VALIDATION in name and np.isfinite(y).any()}
    accuracies = {name: y for name, y in finite.items() if "accuracy" in name}
    best = {}
    for name, y in (accuracies or finite).items():
        epoch = int(np.nanargmax(np.where(np.isfinite(y), y if accuracies else -y, np.nan)))
        best[_variant(name)] = epoch, percent(y[epoch]) if accuracies else f"loss {number(y[epoch])}"
    return best
