"""How the time of one evaluation grows with edges and columns: times, slopes of their logarithms, and a figure."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.graphs import disk
from benchmarks.operation import Operation
from benchmarks.record import Run
from benchmarks.timing import Row, Table, race_on

GRAPHS, COLUMNS = ("d5k", "d50k", "d500k", "d5M"), (1, 10, 100)
# The largest number of entries of a state, by kind of device.
LARGEST = {"cpu": 10**8, "gpu": 10**9}
# The smallest size in the slope over all points: smaller ones do not occupy a GPU.
SMALLEST = 10**6
# A colour-blind safe palette (Okabe and Ito), and markers for those who see no colours.
COLOURS, MARKS = ("#0072B2", "#D55E00", "#009E73"), "os^"
UNITS = {"cpu": ("ns", 1e9), "gpu": ("ps", 1e12)}
LABELS = {"cpu": "CPU", "gpu": "GPU"}


class Point(NamedTuple):
    """One measurement: a graph's edges, the columns, and the seconds of a stage."""

    graph: str
    edges: int
    columns: int
    seconds: float

    @property
    def size(self) -> int:
        return self.edges * self.columns


def measure(name: str, columns: int, run: Run) -> Point:
    graph = disk(name)[0].to(run.device)
    operation = Operation(graph, columns)
    large = graph.num_edges * columns > 10**8
    calls = {"stage": 3 if large else 50}
    best = race_on(run.device, calls, turns=5 if large else 15, stage=operation.stage)
    return Point(name, graph.num_edges, columns, best["stage"])


def slope(points: list[Point]) -> float:
    """The exponent e of seconds ∝ (edges · columns)^e, by least squares."""
    sizes, seconds = np.log([p.size for p in points]), np.log([p.seconds for p in points])
    return float(np.polyfit(sizes, seconds, 1)[0])


def table_of(points: list[Point], kind: str) -> Table:
    unit, scale = UNITS[kind]
    table = Table(f"Growth of the right-hand side with E and K ({unit} an edge and column)")
    for p in points:
        what = f"{p.graph}: E={p.edges:,}, K={p.columns}"
        table.rows.append(Row(what, p.seconds * scale / p.size, unit=unit, note=f"{p.seconds * 1e3:.3f} ms"))
    for columns in COLUMNS:
        mine = [p for p in points if p.columns == columns]
        table.rows.append(Row(f"slope of log time over log E·K, K={columns}", slope(mine), unit="", note=_span(mine)))
    counted = [p for p in points if p.size >= SMALLEST]
    table.rows.append(Row("slope of log time over log E·K, all", slope(counted), unit="", note=_span(counted)))
    return table


def _span(points: list[Point]) -> str:
    sizes = [p.size for p in points]
    return f"E·K from {min(sizes):.0e} to {max(sizes):.0e}"


def draw(measured: dict[str, list[Point]], path: Path) -> None:
    """Draws time over edges × columns, both logarithmic, for every device with measurements."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
    for (kind, points), (k, columns) in product(measured.items(), enumerate(COLUMNS)):
        mine = sorted((p for p in points if p.columns == columns), key=lambda p: p.size)
        line, fill = ("-", COLOURS[k]) if kind == "gpu" else ("--", "white")
        axes.plot(
            [p.size for p in mine], [p.seconds for p in mine], line, color=COLOURS[k], marker=MARKS[k],
            markerfacecolor=fill, label=f"{LABELS[kind]}, {columns} column{'s' * (columns > 1)}",
        )  # fmt: skip
    everything = [p for points in measured.values() for p in points]
    ends = np.array([min(p.size for p in everything), max(p.size for p in everything)], float)
    # Through the largest measurement: curves of proportional growth are parallel to it.
    top = max(everything, key=lambda p: p.size)
    axes.plot(ends, ends * top.seconds / top.size, ":", color="0.4", label="in proportion (slope 1)")
    axes.set(xscale="log", yscale="log", xlabel="edges × columns", ylabel="seconds of one evaluation")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def earlier(kind: str, run: Run) -> list[Point]:
    """The points of an earlier run on that kind of device."""
    path = run.found(f"growth-{kind}.json")
    return [] if path is None else [Point(**point) for point in json.loads(path.read_text())]


def tables(run: Run) -> list[Table]:
    names = GRAPHS[:2] if run.quick else GRAPHS
    points = [
        measure(name, columns, run)
        for name, columns in product(names, COLUMNS)
        if disk(name)[0].num_nodes * columns <= LARGEST[run.kind]
    ]
    if run.writes:
        text = json.dumps([p._asdict() for p in points], indent=1)
        run.path(f"growth-{run.kind}.json").write_text(text + "\n")
        measured = {kind: points if kind == run.kind else earlier(kind, run) for kind in LABELS}
        draw({kind: found for kind, found in measured.items() if found}, run.path("growth.png"))
    return [table_of(points, run.kind)]
