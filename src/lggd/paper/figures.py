"""Figures of the robustness and geodesic experiments, without pyplot, whose global state belongs to the user."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from lggd.errors import InputError
from lggd.files import check_writable, replacing
from lggd.paper.geodesic import Geodesic
from lggd.paper.robustness import Robustness

FORMATS = (".png", ".pdf", ".svg")
DOTS_PER_INCH = 200
COLOURS = "autumn"  # as in the paper: red at the boundary, yellow at the largest distance
INK, SHAPE_COLOUR, OUT_OF_REACH = "#222222", "#3a3a3a", "#cccccc"


def check_format(path: str | Path) -> Path:
    """Returns the path; raises unless a figure can be written there."""
    path = check_writable(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(str(path), f"end in {', '.join(FORMATS)}", repr(path.suffix), "Choose one of these formats.")
    return path


def save(figure: Figure, path: str | Path, dots_per_inch: int = DOTS_PER_INCH) -> None:
    """Writes a `.png`, `.pdf` or `.svg` file atomically."""
    path = check_format(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=dots_per_inch, format=path.suffix[1:].lower(), facecolor="white")


def draw_robustness(result: Robustness) -> Figure:
    """Draws one row per exponent, with a common colour scale, and one column per number of wrong edges."""
    counts, rows, columns = (0, *result.extra_edges), len(result.distances), 1 + len(result.extra_edges)
    figure = new_figure(2.35 * columns + 0.9, 2.6 * rows + 0.35)
    panels = figure.subplots(rows, columns, squeeze=False)
    size = float(np.clip(50_000 / len(result.points), 0.6, 12))
    for row, (p, values) in zip(panels, result.distances.items(), strict=True):
        scale = Normalize(0, float(values[0][np.isfinite(values[0])].max()))
        means = (None, *result.mean_change(p))
        for panel, value, mean in zip(row, values, means, strict=True):
            _scatter(panel, result, value, scale, size)
            panel.set_xlabel("no wrong edges" if mean is None else f"changed by {100 * float(mean):.2g} %", fontsize=9)
        name = f"{_exponent(p)}\n(shortest path)" if math.isinf(p) else _exponent(p)
        row[0].set_ylabel(name, fontsize=11, labelpad=8)
        _style_colorbar(
            figure.colorbar(ScalarMappable(scale, COLOURS), ax=list(row), shrink=0.78, pad=0.012, aspect=22)
        )
    for panel, count in zip(panels[0], counts, strict=True):
        panel.set_title(f"n = {count}", fontsize=12)
    return figure


def draw_geodesic(result: Geodesic) -> Figure:
    """Draws three panels: the shape with both end points, the distance from the source, and the geodesic."""
    height, width = result.shape.shape
    figure = new_figure(12.0, 4.0 * height / width + 0.75)
    panels = figure.subplot_mosaic(
        [["shape", "field", "path"], ["legend", "bar", "bar"]], height_ratios=[4.0 * height / width, 0.1]
    )
    shape, field, path = panels["shape"], panels["field"], panels["path"]
    inside = np.ma.masked_where(~result.shape, np.zeros(result.shape.shape))
    reached = np.ma.masked_where(~np.isfinite(result.distance), result.distance)
    shape.imshow(inside, cmap=ListedColormap([SHAPE_COLOUR]), interpolation="nearest")
    for panel in (field, path):
        panel.imshow(inside, cmap=ListedColormap([OUT_OF_REACH]), interpolation="nearest")
        image = panel.imshow(reached, cmap=COLOURS, interpolation="nearest")
    field.contour(reached, levels=24, colors="white", linewidths=0.8, alpha=0.8)
    path.plot(result.path[:, 1], result.path[:, 0], color=INK, linewidth=2.2, solid_capstyle="round")
    length = f", {result.length:.0f} pixels long" if math.isinf(result.p) else ""
    ends = {"source": (result.source, "o", 8, "#1f6feb"), "target": (result.target, "*", 14, "#0a9d58")}
    titles = ("shape", f"distance, {_exponent(result.p)}", f"geodesic{length}")
    for panel, title in zip((shape, field, path), titles, strict=True):
        for name, ((row, column), marker, size, colour) in ends.items():
            style: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 1.2, "clip_on": False, "zorder": 5}
            panel.plot(column, row, marker, markersize=size, color=colour, label=name, **style)
        panel.set_title(title, fontsize=12)
        _clear_frame(panel)
    panels["legend"].axis("off")
    panels["legend"].legend(*shape.get_legend_handles_labels(), loc="center", ncols=2, frameon=False, fontsize=10)
    _style_colorbar(figure.colorbar(image, cax=panels["bar"], orientation="horizontal"))
    return figure


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure of a size in inches, independent of pyplot."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    FigureCanvasAgg(figure)
    return figure


def _scatter(panel: Axes, result: Robustness, value: np.ndarray, scale: Normalize, size: float) -> None:
    reached = np.isfinite(value)
    x, y = result.points.T
    dots: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": True}
    panel.scatter(x[~reached], y[~reached], color=OUT_OF_REACH, **dots)
    panel.scatter(x[reached], y[reached], c=value[reached], cmap=COLOURS, norm=scale, **dots)
    panel.set_aspect("equal")
    panel.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03))
    _clear_frame(panel)


def _clear_frame(panel: Axes) -> None:
    panel.set(xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def _style_colorbar(bar: Colorbar) -> None:
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2, color=INK)


def _exponent(p: float) -> str:
    return "p = ∞" if math.isinf(p) else f"p = {p:g}"
