"""Figures of the measured accuracies, in the colour-blind safe palette of Okabe and Ito."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lggd.paper.comparison import ablation
from lggd.paper.figures import INK, new_figure, save
from lggd.paper.measurements import BACKBONES, BASE_VARIANT, RETRAINED, Measurement, Measurements
from lggd.paper.published import DATASETS, PUBLISHED

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
FAINT = "#dddddd"
BACKBONE_ROWS = {"01": ("raw features", "#999999"), "09": ("LGGD", SKY), "14": ("LGGD+", BLUE)}
CURVES = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
MARGIN = 1.5  # percent around the bars


def draw_table(measured: Measurements) -> Figure:
    """One panel per dataset, one line per row: our mean and the paper's, with standard deviations."""
    names = measured.rows
    rows = [row for row in names if any((row, dataset) in measured.table1 for dataset in DATASETS)]
    figure, panels = _panels(list(DATASETS.values()), 2.5, 0.36 * len(rows) + 1.5, sharey=True)
    style: dict[str, Any] = {"markersize": 5, "elinewidth": 1.4, "capsize": 2.5, "linestyle": "none"}
    for panel, dataset in zip(panels, DATASETS, strict=True):
        sources: tuple[Any, ...] = (
            (PUBLISHED, 0.14, ORANGE, "D", "paper"),
            (measured.table1, -0.14, BLUE, "o", "ours"),
        )
        for values, shift, colour, marker, label in sources:
            known = [(place, values[row, dataset]) for place, row in enumerate(rows) if (row, dataset) in values]
            if known:
                panel.errorbar(
                    [value.mean for _, value in known],
                    [place + shift for place, _ in known],
                    xerr=[value.sd or 0.0 for _, value in known],
                    color=colour, marker=marker, label=label, **style,
                )  # fmt: skip
        panel.set_xlabel("test accuracy (%)", fontsize=10)
        panel.grid(axis="both", color=FAINT, linewidth=0.7)
    panels[0].set_yticks(range(len(rows)), [f"{row}  {names[row]}" for row in rows], fontsize=10)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    _legend_below(figure, panels)
    return figure


def draw_backbones(measured: Measurements) -> Figure:
    """One panel per dataset, one group of bars per backbone: raw features, LGGD, LGGD+."""
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
            low, high = (
                extreme(bar.mean + sign * (bar.sd or 0.0) for bar in shown) for extreme, sign in ((min, -1), (max, 1))
            )
            panel.set_ylim(max(low - MARGIN, 0), min(high + MARGIN, 100))
        panel.set_xticks(range(len(BACKBONES)), list(BACKBONES.values()), fontsize=9)
        panel.set_xlim(-0.6, len(BACKBONES) - 0.4)
    panels[0].set_ylabel("test accuracy (%)\n(axes do not start at 0)", fontsize=10)
    _legend_below(figure, panels)
    return figure


def draw_dynamic(measured: Measurements) -> Figure:
    """One panel per dataset, one curve per row with a band of one standard deviation; retrained rows are dashed."""
    datasets = [dataset for dataset in DATASETS if any(key[1] == dataset for key in measured.dynamic)]
    rows = list(dict.fromkeys(row for row, *_ in measured.dynamic))
    numbers = list(dict.fromkeys(row.split()[0] for row in rows))
    figure, panels = _panels([DATASETS[dataset] for dataset in datasets], 3.4, 3.5)
    for panel, dataset in zip(panels, datasets, strict=True):
        for row in rows:
            curve = {key[2]: found for key, found in measured.dynamic.items() if key[:2] == (row, dataset)}
            if not curve:
                continue
            dashed, steps = RETRAINED in row, sorted(curve)
            mean, spread = np.array([(curve[step].mean, curve[step].sd or 0.0) for step in steps]).T
            colour, label = CURVES[numbers.index(row.split()[0]) % len(CURVES)], row_name(row, curve.values())
            panel.plot(steps, mean, "s--" if dashed else "o-", color=colour, linewidth=1.8, markersize=5, label=label)
            band: dict[str, Any] = {"color": colour, "alpha": 0.1 if dashed else 0.2, "linewidth": 0}
            panel.fill_between(steps, mean - spread, mean + spread, **band)
        panel.set_xlabel("additions of 10 % of the labels", fontsize=10)
        panel.set_xticks(range(max(additions for *_, additions in measured.dynamic) + 1))
        panel.grid(color=FAINT, linewidth=0.7)
    panels[0].set_ylabel("test accuracy (%)", fontsize=10)
    _legend_below(figure, panels)
    return figure


def draw_ablation(measured: Measurements) -> Figure:
    """Two bars per variant: its mean difference to the base on validation and on test nodes, the best on top."""
    shown = [variant for variant in ablation(measured) if variant.name != BASE_VARIANT]
    figure, (panel,) = _panels([""], 8.0, 0.5 * len(shown) + 1.5)
    series = (
        ("validation", BLUE, -0.19, [variant.validation_difference for variant in shown]),
        ("test", ORANGE, 0.19, [variant.test_difference for variant in shown]),
    )
    for name, colour, shift, differences in series:
        lengths = [difference or 0.0 for difference in differences]
        panel.barh(np.arange(len(shown)) + shift, lengths, height=0.36, color=colour, label=name)
    panel.axvline(0, color=INK, linewidth=1)
    panel.set_yticks(range(len(shown)), [variant.name for variant in shown], fontsize=10)
    panel.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    panel.set_xlabel("difference to the base in percentage points, mean over the measured datasets", fontsize=10)
    panel.grid(axis="x", color=FAINT, linewidth=0.7)
    _legend_below(figure, [panel])
    return figure


FIGURES: dict[str, Callable[[Measurements], Figure]] = {
    "table1": draw_table,
    "backbones": draw_backbones,
    "dynamic": draw_dynamic,
    "ablation": draw_ablation,
}


def draw_results(measured: Measurements, folder: Path) -> list[Path]:
    """Draws a figure of every measured experiment into a folder, which is created if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {folder / f"{name}.png": draw for name, draw in FIGURES.items() if getattr(measured, name)}
    for path, draw in paths.items():
        save(draw(measured), path)
    return list(paths)


def row_name(row: str, measurements: Iterable[Measurement | None]) -> str:
    """Returns the name of a row of the dynamic experiment, from its lines."""
    return next((found.line["name"] for found in measurements if found is not None), row)


def _panels(titles: Sequence[str], width: float, height: float, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    figure = new_figure(width * len(titles) + 1.2, height)
    panels: list[Axes] = list(figure.subplots(1, len(titles), squeeze=False, sharey=sharey)[0])
    for panel, title in zip(panels, titles, strict=True):
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=9, color=INK)
        panel.set_title(title, fontsize=12)
    return figure, panels


def _legend_below(figure: Figure, panels: Sequence[Axes]) -> None:
    """Draws one legend for all panels, since a panel may lack a series."""
    known: dict[str, Any] = {}
    for panel in panels:
        handles, names = panel.get_legend_handles_labels()
        known |= dict(zip(names, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=10)
