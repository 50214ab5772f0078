"""The data of the maps, compressed to be embedded in a page; `page/map_data.js` reads it.

Positions are 0..10000 and distances one byte each, both in base64. If there are more nodes than the screen or the size
of the page allows, a sample is shown. The functions `pack_…` serve any page with a map.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd.app.report.run_report import UNKNOWN, RunReport, top_two

MAX_NODES, MIN_NODES = 20_000, 500
MAX_EDGES = 30_000
# At one byte per distance, this keeps the page below 4 MB for any number of classes and times.
MAX_DISTANCES = 2_000_000
# Graphs with more nodes have no downloads: their names alone would need several megabytes.
MAX_TABLE = 100_000
MAX_POSITION = 10_000
# Distances are mapped to 0..254, from the smallest to the largest of their class and time.
MAX_CODE, UNREACHABLE = 254, 255
# The scale ends at this quantile if the largest distance is larger by this factor.
OUTLIER_QUANTILE, OUTLIER_RATIO = 0.97, 1.4
# Beyond this ratio of the largest to a small distance, colours are logarithmic: an evolution that starts at 10⁶ would
# otherwise have a single colour.
MAX_LINEAR_RATIO = 1_000.0
SAMPLE_SEED = 0


@dataclass(frozen=True, eq=False)
class DrawnGraph:
    """The drawn part of a graph: `nodes [n]` in increasing order, and `edges [2, m]` as indices into `nodes`.

    `num_edges` counts all undirected edges between drawn nodes.
    """

    nodes: NDArray[np.int64]
    edges: NDArray[np.int64]
    num_edges: int

    @classmethod
    def of(cls, report: RunReport) -> DrawnGraph:
        """Selects the nodes and edges of a report to draw."""
        nodes = _sample_nodes(report)
        index = np.full(report.num_nodes, -1)
        index[nodes] = np.arange(len(nodes))
        return cls(nodes, *drawn_edges(index[report.edges], len(nodes)))

    @property
    def omits_edges(self) -> bool:
        return bool(self.edges.shape[1] < self.num_edges)


def drawn_edges(edges: NDArray[np.int64], num_nodes: int) -> tuple[NDArray[np.int64], int]:
    """Returns each undirected edge once, `[2, m]`, or a sample of them, and how many there are.

    Self-loops and edges with an end of -1 are left out.
    """
    ends = np.sort(edges, axis=0)
    ends = ends[:, (ends[0] >= 0) & (ends[0] < ends[1])]
    once = np.stack(np.divmod(np.unique(ends[0] * num_nodes + ends[1]), max(num_nodes, 1)))
    total = once.shape[1]
    if total > MAX_EDGES:
        sample = np.random.default_rng(SAMPLE_SEED).choice(total, MAX_EDGES, replace=False)
        once = once[:, np.sort(sample)]
    return once, total


def _sample_nodes(report: RunReport) -> NDArray[np.int64]:
    """All nodes, or a sample: labelled nodes, the least certain nodes, and others at random."""
    codes = max(len(report.times) * report.num_classes, 1)
    capacity = min(MAX_NODES, max(MAX_DISTANCES // codes, MIN_NODES))
    if report.num_nodes <= capacity:
        return np.arange(report.num_nodes)
    rank = np.full(report.num_nodes, 2.0) + np.random.default_rng(SAMPLE_SEED).random(report.num_nodes)
    labelled = np.flatnonzero(report.labels != UNKNOWN)
    rank[labelled[np.argsort(rank[labelled])][: capacity // 2]] = 1
    rank[report.least_certain()] = 0
    return np.sort(np.argsort(rank, kind="stable")[:capacity])


def embed(report: RunReport, drawn: DrawnGraph) -> str:
    """Returns JSON for the scripts of the page, escaped for a script element."""
    nodes, is_sample = drawn.nodes, len(drawn.nodes) < report.num_nodes
    content = {
        "classes": [str(name) for name in report.classes], "edgesAreSampled": drawn.omits_edges,
        "names": _names(report, nodes), "numbers": _pack(nodes, "<u4") if is_sample else None,
        **pack_graph(report.positions[nodes], drawn.edges),
        **pack_classes(report.probabilities[nodes], report.predicted[nodes]),
        **pack_labels(report.labels[nodes], report.y[nodes], report.test_mask[nodes]),
        **pack_distances(report.times, report.distances[:, nodes]),
        # The downloads contain all nodes.
        "table": _table(report) if is_sample else None,
    }  # fmt: skip
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def pack_graph(positions: NDArray[Any], edges: NDArray[np.int64]) -> dict[str, Any]:
    """Packs `positions [n, 2]` (y upwards) and `edges [2, m]`, each undirected edge once."""
    x, y = encode_positions(positions)
    wide = len(positions) > 2**16
    return {
        "count": len(positions), "x": _pack(x, "<u2"), "y": _pack(y, "<u2"),
        "edges": _pack(edges.T, "<u4" if wide else "<u2"),
    }  # fmt: skip


def pack_classes(probabilities: NDArray[Any], predicted: NDArray[np.int64] | None = None) -> dict[str, str]:
    """Packs the two most probable classes of `probabilities [n, K]`, and how probable they are.

    `predicted [n]` is by default the most probable class.
    """
    classes, best = top_two(probabilities)
    predicted = classes[:, 0] if predicted is None else predicted
    probability = probabilities[np.arange(len(predicted)), predicted]
    return {
        "predicted": _pack(predicted, "<i2"), "second": _pack(classes[:, 1], "<i2"),
        "probability": _pack(_as_integer(probability, 65535), "<u2"),
        "margin": _pack(_as_integer(best[:, 0] - best[:, 1], 255), "u1"),
    }  # fmt: skip


def pack_labels(labels: NDArray[Any], y: NDArray[Any], test_mask: NDArray[np.bool_]) -> dict[str, str]:
    """Packs the labels known to the model and the true classes `[n]`, -1 if unknown, and which nodes are held out."""
    return {"label": _pack(labels, "<i2"), "truth": _pack(y, "<i2"), "tested": _pack(test_mask, "u1")}


def pack_distances(times: Sequence[float], distances: NDArray[Any]) -> dict[str, Any]:
    """Packs `distances [T, n, K]` at `times`; both may be empty."""
    codes, scales = _encode_distances(distances)
    return {
        "times": [float(t) for t in times], "scales": scales, "distances": [_pack(each, "u1") for each in codes]
    }  # fmt: skip


def _names(report: RunReport, nodes: NDArray[np.int64]) -> list[str] | None:
    return None if report.ids is None else [report.name_of(k) for k in nodes.tolist()]


def _table(report: RunReport) -> dict[str, Any] | None:
    """Classes of all nodes, also those that are not drawn; None if there are too many."""
    if report.num_nodes > MAX_TABLE:
        return None
    classes = pack_classes(report.probabilities, report.predicted)
    return {
        "count": report.num_nodes, "names": _names(report, np.arange(report.num_nodes)),
        "predicted": classes["predicted"], "probability": classes["probability"],
        **pack_labels(report.labels, report.y, report.test_mask),
    }  # fmt: skip


def _as_integer(fraction: NDArray[Any], largest: int) -> NDArray[Any]:
    return np.asarray(np.rint(np.clip(fraction, 0, 1) * largest))


def _pack(array: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(array.astype(dtype).tobytes()).decode("ascii")


def encode_positions(positions: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns x and y `[2, n]` in 0..10000 with a common scale; y increases downwards, as on a screen."""
    at = positions.astype(np.float64) * [1, -1]
    low, high = at.min(0), at.max(0)
    size = max(float((high - low).max()), np.finfo(np.float32).tiny)
    return np.asarray(np.rint(((at - (low + high) / 2) / size + 0.5) * MAX_POSITION).T)


def _encode_distances(distances: NDArray[np.float32]) -> tuple[NDArray[np.uint8], list[list[list[float]]]]:
    """Returns codes `[T, K, n]` and, for each time and class, the scale: [smallest, largest, unit of the logarithm or
    0, whether some distances exceed the largest]."""
    times, nodes, classes = distances.shape
    codes = np.full((times, classes, nodes), UNREACHABLE, np.uint8)
    scales: list[list[list[float]]] = [[[0.0, 0.0, 0.0, 0] for _ in range(classes)] for _ in range(times)]
    for t, k in np.ndindex(times, classes):
        value = distances[t, :, k].astype(np.float64)
        finite = np.isfinite(value)
        if finite.any():
            codes[t, k, finite], scales[t][k] = _encode(value[finite])
    return codes, scales


def _encode(value: NDArray[np.float64]) -> tuple[NDArray[np.uint8], list[float]]:
    low, high, exceeds = float(value.min()), float(value.max()), 0
    quantile = float(np.quantile(value, OUTLIER_QUANTILE))
    if high - low > OUTLIER_RATIO * (quantile - low) > 0:
        high, exceeds = quantile, 1
    above = np.minimum(value, high) - low
    small = float(np.quantile(above[above > 0], 0.05)) if above.any() else 0.0
    unit = small if above.max() > MAX_LINEAR_RATIO * small else 0.0
    if unit:
        above = np.log1p(above / unit)
    code = np.rint(above / max(above.max(), np.finfo(float).tiny) * MAX_CODE).astype(np.uint8)
    return code, [*(float(f"{bound:.6g}") for bound in (low, high, unit)), exceeds]
