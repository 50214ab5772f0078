"""Drawings of measured results. The colours are Okabe and Ito's, told apart by all common kinds of eyes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from lggd.paper.bars import RETRAINED
from lggd.paper.comparison import BACKBONES, BASE, Findings, Idea, Measurement, ideas
from lggd.paper.figures import save
from lggd.paper.paper_tables import DATASETS, PUBLISHED

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
INK, FAINT = "#222222", "#dddddd"
COMPARED = {"01": ("raw features", "#999999"), "09": ("LGGD", SKY), "14": ("LGGD+", BLUE)}
CURVES = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
ROOM = 1.5  # per cent left free around what is drawn


def draw_table(findings: Findings) -> Figure:
    """A panel a dataset, a line a row: our mean and the paper's, each with its standard deviation."""
    names = findings.rows
    rows = [row for row in names if any((row, dataset) in findings.table for dataset in DATASETS)]
    figure, panels = _panels(len(DATASETS), 2.5, 0.36 * len(rows) + 1.5, sharey=True)
    for panel, (dataset, title) in zip(panels, DATASETS.items(), strict=True):
        ours = [(place, findings.table.get((row, dataset))) for place, row in enumerate(rows)]
        known = [(place - 0.14, found.mean, found.sd) for place, found in ours if found]
        told = [(place, PUBLISHED.get((row, dataset))) for place, row in enumerate(rows)]
        printed = [(place + 0.14, paper.mean, paper.sd) for place, paper in told if paper]
        _dots(panel, printed, ORANGE, "D", "paper")
        _dots(panel, known, BLUE, "o", "ours")
        panel.set_title(title, fontsize=12)
        panel.set_xlabel("test accuracy, %", fontsize=10)
        panel.grid(axis="both", color=FAINT, linewidth=0.7)
    panels[0].set_yticks(range(len(rows)), [f"{row}  {names[row]}" for row in rows], fontsize=10)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    _legend_below(figure, panels)
    return figure


def draw_backbones(findings: Findings) -> Figure:
    """A panel a dataset, a group of bars a backbone: raw features, LGGD, LGGD+."""
    figure, panels = _panels(len(DATASETS), 2.9, 3.3)
    for panel, (dataset, title) in zip(panels, DATASETS.items(), strict=True):
        found = {
            (row, each): on_backbone(findings, row, dataset, each) for row in COMPARED for each in BACKBONES.values()
        }
        for place, (row, (name, colour)) in enumerate(COMPARED.items()):
            bars = [(group + 0.27 * (place - 1), found[row, each]) for group, each in enumerate(BACKBONES.values())]
            _bars(panel, [(x, bar) for x, bar in bars if bar], colour, name)
        _cut_axis(panel, [measured for measured in found.values() if measured])
        panel.set_xticks(range(len(BACKBONES)), list(BACKBONES.values()), fontsize=9)
        panel.set_xlim(-0.6, len(BACKBONES) - 0.4)
        panel.set_title(title, fontsize=12)
    panels[0].set_ylabel("test accuracy, %\n(axes do not start at 0)", fontsize=10)
    _legend_below(figure, panels)
    return figure


def draw_dynamic(findings: Findings) -> Figure:
    """A panel a dataset, a curve a row with a band of one standard deviation; what was retrained is dashed."""
    datasets = [dataset for dataset in DATASETS if any(key[1] == dataset for key in findings.dynamic)]
    rows = list(dict.fromkeys(row for row, *_ in findings.dynamic))
    plain = list(dict.fromkeys(_without_mark(row) for row in rows))
    figure, panels = _panels(len(datasets), 3.4, 3.5)
    for panel, dataset in zip(panels, datasets, strict=True):
        for row in rows:
            curve = {key[2]: found for key, found in findings.dynamic.items() if key[:2] == (row, dataset)}
            colour = CURVES[plain.index(_without_mark(row)) % len(CURVES)]
            _curve(panel, curve, colour, row_name(row, curve.values()), dashed=RETRAINED in row)
        panel.set_title(DATASETS[dataset], fontsize=12)
        panel.set_xlabel("additions of 10 % of the labels", fontsize=10)
        panel.set_xticks(range(max(additions for *_, additions in findings.dynamic) + 1))
        panel.grid(color=FAINT, linewidth=0.7)
    panels[0].set_ylabel("test accuracy, %", fontsize=10)
    _legend_below(figure, panels)
    return figure


def draw_ablation(findings: Findings) -> Figure:
    """Two bars an idea: its mean difference to the base on validation and on test nodes, the best on top."""
    shown: list[Idea] = [idea for idea in ideas(findings) if idea.name != BASE]
    figure, (panel,) = _panels(1, 8.0, 0.5 * len(shown) + 1.5)
    series: tuple[tuple[str, str, float, Callable[[Idea], float | None]], ...] = (
        ("validation", BLUE, -0.19, lambda idea: idea.validation_difference),
        ("test", ORANGE, 0.19, lambda idea: idea.test_difference),
    )
    for name, colour, shift, difference in series:
        lengths = [difference(idea) or 0.0 for idea in shown]
        panel.barh(np.arange(len(shown)) + shift, lengths, height=0.36, color=colour, label=name)
    panel.axvline(0, color=INK, linewidth=1)
    panel.set_yticks(range(len(shown)), [idea.name for idea in shown], fontsize=10)
    panel.set_ylim(max(len(shown), 1) - 0.5, -0.5)
    panel.set_xlabel("difference to the base in points, mean over the datasets measured", fontsize=10)
    panel.grid(axis="x", color=FAINT, linewidth=0.7)
    _legend_below(figure, [panel])
    return figure


DRAWINGS: dict[str, tuple[Callable[[Findings], Any], Callable[[Findings], Figure]]] = {
    "table1": (lambda findings: findings.table, draw_table),
    "backbones": (lambda findings: findings.backbones, draw_backbones),
    "dynamic": (lambda findings: findings.dynamic, draw_dynamic),
    "ablation": (lambda findings: findings.ablation, draw_ablation),
}


def draw_results(findings: Findings, folder: str | Path) -> list[Path]:
    """Draws every figure there are results for, into a folder that is made where it is not there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, (behind, draw) in DRAWINGS.items():
        if behind(findings):
            save(draw(findings), folder / f"{name}.png")
            drawn.append(folder / f"{name}.png")
    return drawn


def _panels(count: int, width: float, height: float, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * count + 1.2, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    FigureCanvasAgg(figure)
    panels: list[Axes] = list(figure.subplots(1, count, squeeze=False, sharey=sharey)[0])
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=9, color=INK)
    return figure, panels


def _dots(
    panel: Axes, places: Sequence[tuple[float, float, float | None]], colour: str, marker: str, name: str
) -> None:
    if places:
        heights, means, deviations = zip(*places, strict=True)
        spread = [deviation or 0.0 for deviation in deviations]
        style: dict[str, Any] = {"markersize": 5, "elinewidth": 1.4, "capsize": 2.5, "linestyle": "none"}
        panel.errorbar(means, heights, xerr=spread, color=colour, marker=marker, label=name, **style)


def _bars(panel: Axes, bars: Sequence[tuple[float, Measurement]], colour: str, name: str) -> None:
    if bars:
        places, found = zip(*bars, strict=True)
        spread = [each.sd or 0.0 for each in found]
        rim: dict[str, Any] = {"ecolor": INK, "capsize": 2, "error_kw": {"elinewidth": 1}}
        panel.bar(places, [each.mean for each in found], 0.25, yerr=spread, color=colour, label=name, **rim)


def _curve(panel: Axes, curve: Mapping[int, Measurement], colour: str, name: str, *, dashed: bool) -> None:
    if not curve:
        return
    stages = sorted(curve)
    mean = np.array([curve[stage].mean for stage in stages])
    spread = np.array([curve[stage].sd or 0.0 for stage in stages])
    panel.plot(stages, mean, "s--" if dashed else "o-", color=colour, linewidth=1.8, markersize=5, label=name)
    panel.fill_between(stages, mean - spread, mean + spread, color=colour, alpha=0.1 if dashed else 0.2, linewidth=0)


def _cut_axis(panel: Axes, found: Sequence[Measurement]) -> None:
    """Bars from zero would all look alike; the label says that these do not start there."""
    if found:
        low = min(each.mean - (each.sd or 0.0) for each in found) - ROOM
        high = max(each.mean + (each.sd or 0.0) for each in found) + ROOM
        panel.set_ylim(max(low, 0), min(high, 100))


def on_backbone(findings: Findings, row: str, dataset: str, backbone: str) -> Measurement | None:
    """GCN is the backbone of the table, and need not be measured twice."""
    found = findings.backbones.get((row, dataset, backbone))
    return findings.table.get((row, dataset)) if found is None and backbone == "GCN" else found


def row_name(row: str, measured: Iterable[Measurement | None]) -> str:
    """As its lines call it, which must tell what is retrained from what is not."""
    name = next((found.name for found in measured if found is not None), row)
    return f"{name}, {RETRAINED}" if RETRAINED in row and RETRAINED not in name else name


def _without_mark(row: str) -> str:
    return row.replace(RETRAINED, "").strip()


def _legend_below(figure: Figure, panels: Sequence[Axes]) -> None:
    """One for all panels: what the first lacks, another may have."""
    known: dict[str, Any] = {}
    for panel in panels:
        handles, names = panel.get_legend_handles_labels()
        known |= dict(zip(names, handles, strict=True))
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=10)
