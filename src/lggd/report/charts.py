"""Line charts as HTML and SVG. Lines stretch with the page, text does not; a style sheet gives the colours.

The drawing is 100 x 100 whatever its size on the screen, so it needs no script to fit; strokes keep their width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lggd.report.wording import number, text

Floats = NDArray[np.float64]
# More points than this show nothing more; of each stretch the lowest and the highest are kept.
MOST_POINTS = 400
# A loss that falls this many times is read better on a logarithmic axis.
WIDEST_LINEAR = 100.0


@dataclass(frozen=True, eq=False)
class Line:
    """Values `y` over rising `x`; those that are not finite leave a gap. `colour` is in CSS. `best` marks a point."""

    name: str
    x: Floats
    y: Floats
    colour: str
    dashed: bool = False
    best: int | None = None


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, with its ticks. A logarithmic one measures in powers of ten."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    @classmethod
    def around(cls, low: float, high: float, about: int = 5, *, whole: bool = False) -> Axis:
        """A linear axis that covers both ends with round ticks."""
        if high <= low:
            room = abs(low) / 2 or 1.0
            low, high = low - room, high + room
        step = round_step((high - low) / max(about - 1, 1))
        step = max(step, 1.0) if whole else step
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        return cls(first * step, last * step, tuple(k * step for k in range(first, last + 1)))

    @classmethod
    def within(cls, low: float, high: float, about: int = 6) -> Axis:
        """A linear axis of whole numbers that ends where they end, with round ticks between."""
        if high <= low:
            return cls(low - 1, high + 1, (low,))
        step = max(round_step((high - low) / about), 1.0)
        inside = tuple(k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1))
        return cls(low, high, inside)

    @classmethod
    def of_powers(cls, low: float, high: float) -> Axis:
        """A logarithmic axis for positive numbers."""
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = math.ceil((last - first) / 5)
        ticks = tuple(10.0**k for k in range(first, last + 1, every))
        return cls(10.0**first, 10.0**last, ticks, logarithmic=True)

    def share(self, value: Floats | float) -> Floats:
        """Where the values lie between the ends, 0 to 1."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            return np.asarray((np.log10(value) - low) / (high - low))
        return np.asarray((np.asarray(value, np.float64) - self.low) / (self.high - self.low))

    def labels(self) -> list[str]:
        """The ticks in words, with as many digits as tell them apart."""
        if self.logarithmic or len(self.ticks) < 2:
            return [number(tick) for tick in self.ticks]
        step = self.ticks[1] - self.ticks[0]
        digits = next((d for d in range(10) if abs(step - round(step, d)) < 1e-6 * step), 10)
        return [f"{tick:,.{digits}f}".replace("-", "−") for tick in self.ticks]


def round_step(about: float) -> float:
    """The nearest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(about))
    return power * next(round_ for round_ in (1, 2, 2.5, 5, 10) if round_ * power >= about * (1 - 1e-9))


def axis_for_values(lines: Sequence[Line]) -> Axis | None:
    """An axis for the y of all lines, logarithmic for positive ones that spread widely; None if none is finite."""
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > WIDEST_LINEAR * low:
        return Axis.of_powers(low, high)
    return Axis.around(min(low, 0.0) if low >= 0 and low < high / 3 else low, high)


def line_chart(lines: Sequence[Line], *, across: str, up: str, summary: str, dots: bool = False) -> str:
    """HTML of a chart with ticks. `across` and `up` name its axes, `summary` tells it to those who do not see it.

    `dots` marks every point.
    """
    vertical = axis_for_values(lines)
    if vertical is None:
        return '<p class="quiet">No finite value was recorded.</p>'
    horizontal = Axis.within(min(float(line.x[0]) for line in lines), max(float(line.x[-1]) for line in lines))
    drawn = "".join(_drawn(line, horizontal, vertical, dots) for line in lines)
    grid = "".join(f'<path class="grid" d="M0 {_down(vertical, t)}H100"/>' for t in vertical.ticks)
    scale = " · log scale" if vertical.logarithmic else ""
    return (
        f'<div class="chart" role="img" aria-label="{text(summary)}"'
        f' data-x="{horizontal.low:g} {horizontal.high:g}"'
        f' data-y="{vertical.low:.6g} {vertical.high:.6g} {int(vertical.logarithmic)}" data-across="{text(across)}">'
        f'<span class="axis up" aria-hidden="true">{text(up)}{scale}</span>'
        f'<div class="plot" aria-hidden="true">'
        f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" focusable="false">{grid}{drawn}</svg>'
        f"{_ticks(horizontal, vertical)}</div>"
        f'<span class="axis across" aria-hidden="true">{text(across)}</span></div>'
    )


def legend(lines: Sequence[Line]) -> str:
    """What each line is."""
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 22 10" aria-hidden="true"><path class="{_kind(line)}"'
        f' style="stroke:{line.colour}" d="M1 5H21"/></svg>{text(line.name)}</li>'
        for line in lines
    )
    return f'<ul class="legend">{items}</ul>'


def _kind(line: Line) -> str:
    return "line dashed" if line.dashed else "line"


def _drawn(line: Line, horizontal: Axis, vertical: Axis, dots: bool) -> str:
    path = "".join(_segment(part, line, horizontal, vertical) for part in _finite_parts(line.y))
    drawn = f'<path class="{_kind(line)}" style="stroke:{line.colour}" data-name="{text(line.name)}" d="{path}"/>'
    marked = np.flatnonzero(np.isfinite(line.y)).tolist() if dots else []
    # A path without length and with round ends is a dot that does not stretch with the drawing.
    for at in marked:
        drawn += f'<path class="dot" style="stroke:{line.colour}" d="M{_point(line, at, horizontal, vertical)}h0"/>'
    if line.best is not None and np.isfinite(line.y[line.best]):
        best = _point(line, line.best, horizontal, vertical)
        drawn += f'<path class="halo" d="M{best}h0"/><path class="best" style="stroke:{line.colour}" d="M{best}h0"/>'
    return drawn


def _segment(part: NDArray[np.int64], line: Line, horizontal: Axis, vertical: Axis) -> str:
    kept = part[_outline(line.y[part])]
    points = [_point(line, k, horizontal, vertical) for k in kept]
    # A lone value between gaps is a line without length: round ends make it a dot.
    return f"M{points[0]}h0" if len(points) == 1 else "M" + "L".join(points)


def _point(line: Line, k: int, horizontal: Axis, vertical: Axis) -> str:
    return f"{100 * float(horizontal.share(float(line.x[k]))):.5g} {_down(vertical, float(line.y[k]))}"


def _down(vertical: Axis, value: float) -> str:
    """The distance from the top: SVG counts downwards."""
    return f"{100 - 100 * float(vertical.share(value)):.5g}"


def _finite_parts(values: Floats) -> list[NDArray[np.int64]]:
    finite = np.flatnonzero(np.isfinite(values))
    return [part for part in np.split(finite, np.flatnonzero(np.diff(finite) > 1) + 1) if len(part)]


def _outline(values: Floats) -> NDArray[np.int64]:
    """The positions worth drawing: all of a few, else both ends and the extremes of equal stretches."""
    if len(values) <= MOST_POINTS:
        return np.arange(len(values))
    edges = np.linspace(0, len(values), MOST_POINTS // 2 + 1).astype(int)
    extremes = [[a + values[a:b].argmin(), a + values[a:b].argmax()] for a, b in pairwise(edges)]
    return np.unique(np.concatenate([[0], np.ravel(extremes), [len(values) - 1]])).astype(np.int64)


def _ticks(horizontal: Axis, vertical: Axis) -> str:
    return "".join(
        f'<span class="tick {kind}" style="{side}:{100 * float(axis.share(tick)):.4g}%">{label}</span>'
        for axis, kind, side in ((horizontal, "x", "left"), (vertical, "y", "bottom"))
        for tick, label in zip(axis.ticks, axis.labels(), strict=True)
    )
