"""The figures of the paper and of the measured accuracies, without pyplot, whose global state belongs to the user."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from lggd.errors import InputError, InputFileError
from reproduction.geodesic import Geodesic
from reproduction.measurements import (
    BACKBONES,
    BASE_VARIANT,
    DATASETS,
    PUBLISHED,
    RETRAINED,
    Measurement,
    Measurements,
    ablation,
)
from reproduction.robustness import Robustness

FORMATS = (".png", ".pdf", ".svg")
DOTS_PER_INCH = 200
COLOURS = "autumn"  # as in the paper: red at the boundary, yellow at the largest distance
INK, SHAPE_COLOUR, OUT_OF_REACH, FAINT = "#222222", "#3a3a3a", "#cccccc", "#dddddd"
# The colour-blind safe palette of Okabe and Ito.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
BACKBONE_ROWS = {"01": ("raw features", "#999999"), "09": ("LGGD", SKY), "14": ("Trained LGGD+", BLUE)}
CURVES = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
MARGIN = 1.5  # percent around the bars


def check_format(path: str | Path) -> Path:
    """Returns the path; raises unless a figure can be written there."""
    path = Path(path)
    if path.is_dir():
        raise InputFileError(str(path), "name a file to write", "a folder", "Add a file name.")
    if not path.parent.is_dir():
        raise InputFileError(str(path), "lie in a folder that exists", remedy="Create it, or check the name.")
    if path.suffix.lower() not in FORMATS:
        raise InputError(str(path), f"end in {', '.join(FORMATS)}", repr(path.suffix), "Choose one of these formats.")
    return path


def save(figure: Figure, path: str | Path, dots_per_inch: int = DOTS_PER_INCH) -> None:
    """Writes a `.png`, `.pdf` or `.svg` file."""
    figure.savefig(check_format(path), dpi=dots_per_inch, facecolor="white")


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
        bar = figure.colorbar(ScalarMappable(scale, COLOURS), ax=list(row), shrink=0.78, pad=0.012, aspect=22)
        _style_colorbar(bar)
    for panel, count in zip(panels[0], counts, strict=True):
        panel.set_title(f"n = {count}", fontsize=12)
    return figure


def draw_geodesic(result: Geodesic) -> Figure:
    """Draws three panels: the shape with both end points, the distance from the source, and the geodesic."""
    height, width = result.shape.shape
    figure = new_figure(12.0, 4.0 * height / width + 0.75)
    ratios = [4.0 * height / width, 0.1]
    panels = figure.subplot_mosaic([["shape", "field", "path"], ["legend", "bar", "bar"]], height_ratios=ratios)
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
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))


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


def draw_table(measured: Measurements) -> Figure:
    """One panel per dataset, one line per row: our mean and the paper's, with standard deviations."""
    names = measured.rows
    rows = [row for row in names if any((row, dataset) in measured.table1 for dataset in DATASETS)]
    figure, panels = _panels(list(DATASETS.values()), 2.5, 0.36 * len(rows) + 1.5, sharey=True)
    style: dict[str, Any] = {"markersize": 5, "elinewidth": 1.4, "capsize": 2.5, "linestyle": "none"}
    for panel, dataset in zip(panels, DATASETS, strict=True):
        ours: tuple[Any, ...] = (measured.table1, -0.14, BLUE, "o", "ours")
        for values, shift, colour, marker, label in ((PUBLISHED, 0.14, ORANGE, "D", "paper"), ours):
            known = [(y, values[row, dataset]) for y, row in enumerate(rows) if (row, dataset) in values]
            if known:
                means, places, spread = zip(*((each.mean, y + shift, each.sd or 0.0) for y, each in known), strict=True)
                panel.errorbar(means, places, xerr=spread, color=colour, marker=marker, label=label, **style)
        panel.set_xlabel("test accuracy (%)", fontsize=10)
        panel.grid(axis="both", color=FAINT, linewidth=0.7)
    panels[0].set_yticks(range(len(rows)), [f"{row}  {names[row]}" for row in rows], fontsize=10)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    return _with_legend(figure)


def draw_backbones(measured: Measurements) -> Figure:
    """One panel per dataset, one group of bars per backbone: raw features, LGGD, trained LGGD+."""
    figure, panels = _panels(list(DATASETS.values()), 2.9, 3.3)
    for panel, dataset in zip(panels, DATASETS, strict=True):
        shown: list[Measurement] = []
        for place, (row, (name, colour)) in enumerate(BACKBONE_ROWS.items()):
            bars = [measured.with_backbone(row, dataset, backbone) for backbone in BACKBONES]
            known = [(group + 0.27 * (place - 1), bar) for group, bar in enumerate(bars) if bar is not None]
            if known:
                means, spread = [bar.mean for _, bar in known], [bar.sd or 0.0 for _, bar in known]
                style: dict[str, Any] = {"ecolor": INK, "capsize": 2, "error_kw": {"elinewidth": 1}}
                panel.bar([x for x, _ in known], means, 0.25, yerr=spread, color=colour, label=name, **style)
                shown += [bar for _, bar in known]
        if shown:  # differences would be invisible on an axis from 0
            mean, spread = np.array([(bar.mean, bar.sd or 0.0) for bar in shown]).T
            panel.set_ylim(max(min(mean - spread) - MARGIN, 0), min(max(mean + spread) + MARGIN, 100))
        panel.set_xticks(range(len(BACKBONES)), list(BACKBONES.values()), fontsize=9)
        panel.set_xlim(-0.6, len(BACKBONES) - 0.4)
    panels[0].set_ylabel("test accuracy (%)\n(axes do not start at 0)", fontsize=10)
    return _with_legend(figure)


def draw_dynamic(measured: Measurements) -> Figure:
    """One panel per dataset, one curve per row with a band of one standard deviation; retrained rows are dashed."""
    datasets = [dataset for dataset in DATASETS if any(key[1] == dataset for key in measured.dynamic)]
    rows = list(dict.fromkeys(row for row, *_ in measured.dynamic))
    numbers = list(dict.fromkeys(row.split()[0] for row in rows))
    figure, panels = _panels([DATASETS[dataset] for dataset in datasets], 3.4, 3.5)
    for panel, dataset in zip(panels, datasets, strict=True):
        for row in rows:
            curve = {key[2]: cell for key, cell in measured.dynamic.items() if key[:2] == (row, dataset)}
            if not curve:
                continue
            dashed, steps = RETRAINED in row, sorted(curve)
            mean, spread = np.array([(curve[step].mean, curve[step].sd or 0.0) for step in steps]).T
            colour, label = CURVES[numbers.index(row.split()[0]) % len(CURVES)], curve[steps[0]].line["name"]
            panel.plot(steps, mean, "s--" if dashed else "o-", color=colour, linewidth=1.8, markersize=5, label=label)
            band: dict[str, Any] = {"color": colour, "alpha": 0.1 if dashed else 0.2, "linewidth": 0}
            panel.fill_between(steps, mean - spread, mean + spread, **band)
        panel.set_xlabel("additions of 10 % of the labels", fontsize=10)
        panel.set_xticks(range(max(additions for *_, additions in measured.dynamic) + 1))
        panel.grid(color=FAINT, linewidth=0.7)
    panels[0].set_ylabel("test accuracy (%)", fontsize=10)
    return _with_legend(figure)


def draw_ablation(measured: Measurements) -> Figure:
    """Two bars per variant: its mean difference to the base on validation and on test nodes, the best on top."""
    shown = [variant for variant in ablation(measured) if variant.name != BASE_VARIANT]
    figure, (panel,) = _panels([""], 8.0, 0.5 * len(shown) + 1.5)
    for name, colour, shift in (("validation", BLUE, -0.19), ("test", ORANGE, 0.19)):
        lengths = [getattr(variant, f"{name}_difference") or 0.0 for variant in shown]
        panel.barh(np.arange(len(shown)) + shift, lengths, height=0.36, color=colour, label=name)
    panel.axvline(0, color=INK, linewidth=1)
    panel.set_yticks(range(len(shown)), [variant.name for variant in shown], fontsize=10)
    panel.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    panel.set_xlabel("difference to the base in percentage points, mean over the measured datasets", fontsize=10)
    panel.grid(axis="x", color=FAINT, linewidth=0.7)
    return _with_legend(figure)


FIGURES: dict[str, Callable[[Measurements], Figure]] = {
    "table1": draw_table, "backbones": draw_backbones, "dynamic": draw_dynamic, "ablation": draw_ablation
}  # fmt: skip


def draw_results(measured: Measurements, folder: Path) -> list[Path]:
    """Draws a figure of every measured experiment into a folder, which is created if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {folder / f"{name}.png": draw for name, draw in FIGURES.items() if getattr(measured, name)}
    for path, draw in paths.items():
        save(draw(measured), path)
    return list(paths)


def _panels(titles: Sequence[str], width: float, height: float, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    figure = new_figure(width * len(titles) + 1.2, height)
    panels: list[Axes] = list(figure.subplots(1, len(titles), squeeze=False, sharey=sharey)[0])
    for panel, title in zip(panels, titles, strict=True):
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=9, color=INK)
        panel.set_title(title, fontsize=12)
    return figure, panels


def _with_legend(figure: Figure) -> Figure:
    """Draws one legend for all panels, since a panel may lack a series."""
    known: dict[str, Any] = {}
    for panel in figure.axes:
        handles, names = panel.get_legend_handles_labels()
        known |= dict(zip(names, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=10)
    return figure
