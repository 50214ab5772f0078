"""The numbers that the page's maps are drawn from, small enough to be carried inside the page.

Positions are 0..10000, distances one byte each, both in base64. Where there are more nodes than a screen can show, or
than a page should weigh, some are drawn and the page says so.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd.report.content import UNKNOWN, RunReport
from lggd.report.wording import LONGEST_NAME

MOST_NODES = 20_000
MOST_EDGES = 30_000
# One byte a distance: this many keep the page below 4 MB, whatever the number of classes and times.
MOST_DISTANCES = 2_000_000
FEWEST_NODES = 500
FINEST_POSITION = 10_000
# Distances become 0..254 from the smallest to the largest of their class and time.
LARGEST_CODE, OUT_OF_REACH = 254, 255
# Unless a few are far out. If the largest is this many times what most are below, the scale ends there.
USUAL, FEW_FAR = 0.97, 1.4
# If the largest distance is more than this many times a small one, colours follow the logarithm: an evolution that
# starts at 10⁶ would otherwise show in one colour.
WIDEST_LINEAR = 1_000.0
SAMPLE_SEED = 0


@dataclass(frozen=True, eq=False)
class Drawing:
    """What of the graph is drawn: `nodes [n]` in rising order, and `edges [2, m]` between their positions in it.

    `all_edges` counts those between drawn nodes, each once.
    """

    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    all_edges: int

    @classmethod
    def of(cls, report: RunReport) -> Drawing:
        nodes = _drawn_nodes(report)
        edges = _drawn_edges(report.edges, nodes, report.num_nodes)
        total = edges.shape[1]
        if total > MOST_EDGES:
            kept = np.random.default_rng(SAMPLE_SEED).choice(total, MOST_EDGES, replace=False)
            edges = edges[:, np.sort(kept)]
        return cls(nodes, edges, total)

    @property
    def omits_edges(self) -> bool:
        return bool(self.edges.shape[1] < self.all_edges)


def _drawn_nodes(report: RunReport) -> NDArray[np.int64]:
    """All nodes, or as many as there is room for: the labelled and the least certain ones, and others at random."""
    room = MOST_DISTANCES // (len(report.times) * report.num_classes)
    room = min(MOST_NODES, max(room, FEWEST_NODES))
    if report.num_nodes <= room:
        return np.arange(report.num_nodes)
    wanted = np.full(report.num_nodes, 2.0) + np.random.default_rng(SAMPLE_SEED).random(report.num_nodes)
    labelled = np.flatnonzero(report.given != UNKNOWN)
    wanted[labelled[np.argsort(wanted[labelled])][: room // 2]] = 1
    wanted[[doubt.node for doubt in report.least_certain()]] = 0
    return np.sort(np.argsort(wanted, kind="stable")[:room])


def _drawn_edges(edges: NDArray[np.int64], nodes: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """The edges between drawn nodes, each once, without direction or loops."""
    place = np.full(num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    ends = np.sort(place[edges], axis=0)
    ends = ends[:, (ends[0] >= 0) & (ends[0] < ends[1])]
    low, high = np.divmod(np.unique(ends[0] * len(nodes) + ends[1]), max(len(nodes), 1))
    return np.stack([low, high])


def embed(report: RunReport, drawing: Drawing) -> str:
    """JSON for the page's scripts, safe inside a script element."""
    nodes = drawing.nodes
    ranked = report.ranked
    margin = ranked.margin[nodes]
    probability = np.take_along_axis(report.probabilities, report.predicted[:, None], axis=1)[nodes, 0]
    codes, scales = _coded_distances(report.distances[:, nodes])
    x, y = _coded_positions(report.positions[nodes])
    numbered = None if len(nodes) == report.num_nodes else _packed(nodes, np.uint32)
    content: dict[str, Any] = {
        "count": len(nodes),
        "classes": [str(name) for name in report.classes],
        "times": [float(t) for t in report.times],
        "names": None if report.ids is None else [report.name_of(node)[:LONGEST_NAME] for node in nodes.tolist()],
        "numbers": numbered,
        "x": _packed(x, np.uint16),
        "y": _packed(y, np.uint16),
        "edges": _packed(drawing.edges.T, np.uint16),
        "edgesAreSampled": drawing.omits_edges,
        "truth": _packed(report.truth[nodes], np.int16),
        "given": _packed(report.given[nodes], np.int16),
        "predicted": _packed(report.predicted[nodes], np.int16),
        "second": _packed(ranked.second[nodes], np.int16),
        "tested": _packed(report.tested[nodes], np.uint8),
        "probability": _packed(_bytes_of_shares(probability), np.uint8),
        "margin": _packed(_bytes_of_shares(margin), np.uint8),
        "scales": scales,
        "distances": [_packed(one, np.uint8) for one in codes],
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _packed(array: NDArray[Any], dtype: type[np.generic]) -> str:
    """Little-endian base64, which the page reads into a typed array."""
    plain = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(plain.tobytes()).decode("ascii")


def _bytes_of_shares(shares: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.rint(np.clip(shares, 0, 1) * 255).astype(np.uint8)


def _coded_positions(positions: NDArray[np.float32]) -> NDArray[np.float64]:
    """x and y, `[2, n]`, in 0..10000 with one scale for both. y grows downwards, as on a screen."""
    at = positions.astype(np.float64) * [1, -1]
    low, high = at.min(0), at.max(0)
    size = max(float((high - low).max()), np.finfo(np.float32).tiny)
    centred = (at - (low + high) / 2) / size + 0.5
    return np.asarray(np.rint(centred * FINEST_POSITION).T)


def _coded_distances(distances: NDArray[np.float32]) -> tuple[NDArray[np.uint8], list[list[list[float]]]]:
    """Codes `[T, K, n]`, and for each time and class [smallest, largest, unit of the logarithm or 0, whether some are
    farther than the largest]."""
    times, nodes, classes = distances.shape
    codes = np.full((times, classes, nodes), OUT_OF_REACH, np.uint8)
    scales: list[list[list[float]]] = []
    for t in range(times):
        scales.append([])
        for k in range(classes):
            value = distances[t, :, k].astype(np.float64)
            reached = np.isfinite(value)
            code, scale = _coded(value[reached])
            codes[t, k, reached] = code
            scales[-1].append(scale)
    return codes, scales


def _coded(value: NDArray[np.float64]) -> tuple[NDArray[np.uint8], list[float]]:
    if not len(value):
        return np.zeros(0, np.uint8), [0.0, 0.0, 0.0, 0]
    low, high, farther = float(value.min()), float(value.max()), 0
    usual = float(np.quantile(value, USUAL))
    if high - low > FEW_FAR * (usual - low) > 0:
        high, farther = usual, 1
    above = np.minimum(value, high) - low
    unit = _unit_of_logarithm(above)
    if unit:
        above = np.log1p(above / unit)
    share = above / max(above.max(), np.finfo(float).tiny)
    return np.rint(share * LARGEST_CODE).astype(np.uint8), [_short(low), _short(high), _short(unit), farther]


def _unit_of_logarithm(above: NDArray[np.float64]) -> float:
    """A small distance to count the others in, where they spread widely; 0 where linear colours will do."""
    some = above[above > 0]
    small = float(np.quantile(some, 0.05)) if len(some) else 0.0
    return small if above.max() > WIDEST_LINEAR * small else 0.0


def _short(value: float) -> float:
    return float(f"{value:.6g}")
