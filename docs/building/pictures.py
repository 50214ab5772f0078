"""The pictures of the page "Concepts", drawn by the package itself when the site is built."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

import lggd
from lggd.app.report.graph_layout import layout_graph

RESULTS = Path(__file__).resolve().parents[2] / "results"
COLOURS = "viridis"
# The colour-blind safe palette of Okabe and Ito.
BLUE, RED, GREY = "#0072B2", "#D55E00", "#999999"
EXPONENTS = {"p = 1": 1.0, "p = 2": 2.0, "p = ∞, the shortest path": math.inf}
DOTS_PER_INCH = 160


def wrong_edge() -> Figure:
    """A strip of points, measured from its left rim, before and after one edge joins both ends."""
    points = np.random.default_rng(0).random((2000, 2)) * [6, 1]
    graph, rim = lggd.Graph.from_points(points, k=60), points[:, 0] < 0.2
    wrong = _with_edges(graph, [[int(points[:, 0].argmin()), int(points[:, 0].argmax())]])
    figure, panels = _panels(2, height=2.7)
    for panel, p in zip(panels, (1, math.inf), strict=True):
        for one, colour, label in ((graph, "#bbbbbb", "before"), (wrong, RED, "with one wrong edge")):
            panel.plot(points[:, 0], lggd.distance(one, rim, p=p).value, ".", ms=2.5, color=colour, label=label)
        panel.set(title="p = 1" if p == 1 else "p = ∞, the shortest path", xlabel="place along the strip")
        panel.set_ylim(bottom=0)
    panels[0].set_ylabel("distance from the left rim")
    panels[0].legend(markerscale=4, frameon=False, fontsize=8, loc="upper left")
    return figure


def exponents() -> Figure:
    """The distance from one end of a crescent with ten wrong edges for three exponents, each with its own scale."""
    points = _crescent(3000)
    wrong = np.random.default_rng(1).integers(0, len(points), (10, 2))
    graph = _with_edges(lggd.Graph.from_points(points, k=70), wrong.tolist())
    sources = np.flatnonzero(np.linalg.norm(points - points[points[:, 0].argmin()], axis=1) < 0.1)
    figure, panels = _panels(3)
    for panel, (title, p) in zip(panels, EXPONENTS.items(), strict=True):
        _map(panel, points, lggd.distance(graph, sources, p=p).value, title=title, marked=sources[:1])
    return figure


def potentials() -> Figure:
    """Distances where points are denser on one side, for three exponents of the degree."""
    generator = np.random.default_rng(1)
    dense, sparse = generator.normal([0.55, 0], [0.22, 0.28], (1600, 2)), generator.uniform(-1, 1, (1600, 2))
    points = np.concatenate([dense, sparse])
    points = points[np.abs(points).max(1) <= 1]
    graph = lggd.Graph.from_points(points, epsilon=0.09)
    source = int(np.linalg.norm(points - [-0.15, 0], axis=1).argmin())
    figure, panels = _panels(3)
    titles = {-1.0: "α = −1: dense regions are far", 0.0: "α = 0", 1.0: "α = 1: dense regions are near"}
    for panel, (alpha, title) in zip(panels, titles.items(), strict=True):
        distance = lggd.distance(graph, [source], p=1, potential=lggd.DegreePotential(alpha)).value
        _map(panel, points, distance.argsort().argsort().double(), title=title, marked=[source])
    figure.supxlabel("colour: rank of the distance from the red point", fontsize=8)
    return figure


def evolution() -> Figure:
    """The evolution from a start that knows nothing to the distance."""
    points = _crescent(1500)
    graph, source = lggd.Graph.from_points(points, k=16), int(points[:, 0].argmin())
    times = (1.0, 4.0, 8.0)
    moving = lggd.evolve(graph, [source], start=torch.zeros(graph.num_nodes), times=times).value
    steady = lggd.distance(graph, [source]).value
    figure, panels = _panels(4, height=2.1)
    titles = [*(f"t = {time:g}" for time in times), "steady state: the distance"]
    for panel, value, title in zip(panels, [*moving.reshape(len(times), -1), steady], titles, strict=True):
        _map(panel, points, value, title=title, marked=[source], largest=float(steady.max()))
    return figure


def learned() -> Figure:
    """Digits with five labels per class on their map: the start for class 3, the distance, and the nearest class."""
    data = lggd.load("digits", labels_per_class=5)
    model = lggd.EvolvedKernelRidge().fit(data)
    start = -lggd.KernelRidge().fit(data).predict_proba().clamp(min=1e-6).log()
    points, labelled = layout_graph(lggd.Graph.from_pyg(data)), data.train_mask.nonzero().squeeze(1)
    threes = labelled[data.y[labelled] == 3]
    figure, panels = _panels(3, height=2.8)
    _map(panels[0], points, start[:, 3], title="φ₀ = −log p of class 3", marked=threes, size=5)
    _map(
        panels[1],
        points,
        model.distances(data)[:, -1, 3],
        title="distance to class 3, its labels held at 0",
        marked=threes,
        size=5,
    )
    _map(
        panels[2], points, model.predict().double(), title="the nearest class", marked=labelled, colours="tab10", size=5
    )
    return figure


def labels() -> Figure:
    """Measured accuracy while labels arrive one by one: those of the queue of the studio, and random ones."""
    measured = json.loads((RESULTS / "studio.json").read_text(encoding="utf-8"))["active"]
    figure, panels = _panels(len(measured), height=2.7)
    for panel, (dataset, accuracy) in zip(panels, measured.items(), strict=True):
        for key, colour, name in (("queue", BLUE, "the nodes that it asks for"), ("random", GREY, "random nodes")):
            runs = np.array([[np.nan if value is None else value for value in run] for run in accuracy[key]])
            number = np.arange(1, runs.shape[1] + 1)
            known = ~np.isnan(runs).any(0)
            panel.plot(number[known], runs.mean(0)[known], color=colour, label=name)
        panel.set(title=f"{dataset}, mean of {len(runs)} runs", xlabel="labels")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy (%) on the others")
    panels[0].legend(frameon=False, fontsize=9)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "wrong-edge": wrong_edge,
    "exponents": exponents,
    "potentials": potentials,
    "evolution": evolution,
    "learned": learned,
    "labels": labels,
}


def _with_edges(graph: lggd.Graph, edges: Sequence[Sequence[int]]) -> lggd.Graph:
    return lggd.Graph.from_edges(torch.cat([graph.edge_index, torch.tensor(edges).T], 1), symmetrize="max")


def _crescent(number: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(0)
    angle, radius = generator.uniform(0.15, 1.75, number) * np.pi, generator.uniform(0.55, 1, number)
    return np.stack([-radius * np.cos(angle), radius * np.sin(angle)], 1)


def _panels(number: int, *, width: float = 0, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width or 9.2, height), layout="constrained")
    panels = list(np.atleast_1d(figure.subplots(1, number)))
    for panel in panels:
        panel.title.set_fontsize(10)
        panel.tick_params(labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _map(
    panel: Axes, points: Any, value: torch.Tensor, *, title: str, marked: Sequence[int] | torch.Tensor,
    largest: float | None = None, colours: str = COLOURS, size: float = 3,
) -> None:  # fmt: skip
    """Draws points coloured by a value; infinite ones are grey."""
    value = value.detach().double().numpy()
    finite = np.isfinite(value)
    panel.scatter(*points[~finite].T, s=size, color="#dddddd")
    drawn = panel.scatter(
        *points[finite].T, s=size, c=value[finite], cmap=colours, vmin=value[finite].min(), vmax=largest
    )
    panel.scatter(*points[np.asarray(marked)].T, s=24, color=RED, edgecolor="white", zorder=3)
    panel.set_title(title, fontsize=9)
    panel.set_aspect("equal")
    panel.axis("off")
    bar = panel.figure.colorbar(ScalarMappable(drawn.norm, colours), ax=panel, shrink=0.6, aspect=18, pad=0.02)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)


def write(folder: Path) -> None:
    """Draws the pictures that are missing, or older than this file or the package."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = [Path(__file__), *Path(lggd.__file__).parent.rglob("*.py")]
    newest = max(path.stat().st_mtime for path in sources)
    for name, draw in PICTURES.items():
        path = folder / f"{name}.png"
        if not path.exists() or path.stat().st_mtime < newest:
            draw().savefig(path, dpi=DOTS_PER_INCH, facecolor="white")
