"""Distances: fast marching, shortest paths and grids, compared with graphlearning, SciPy and scikit-fmm."""

from __future__ import annotations

import math

import graphlearning as gl
import numpy as np
import skfmm
from scipy.sparse.csgraph import dijkstra

import lggd
from benchmarks.graphs import disk
from benchmarks.record import Run
from benchmarks.timing import Row, Table, race


def marching(name: str, p: float, bar: float, peer_runs: int) -> Row:
    graph, boundary = disk(name)
    peer = gl.graph(graph.to_scipy())
    best = race(
        {"ours": 30 if name == "d20k" and p in (1, 2) else 5, "peer": peer_runs},
        ours=lambda: lggd.distance(graph, boundary, p=p),
        peer=lambda: peer.peikonal(boundary, p=p),
    )
    return Row(f"marching p={p:g}, {name}", best["ours"] * 1e3, best["peer"] * 1e3, "graphlearning fmm", bar)


def ten_classes() -> Row:
    graph, boundary = disk("d20k")
    classes = [boundary[k::10] for k in range(10)]
    peer = gl.graph(graph.to_scipy())
    best = race(
        {"ours": 5, "peer": 1},
        ours=lambda: lggd.distance(graph, classes),
        peer=lambda: [peer.peikonal(one) for one in classes],
    )
    return Row("ten classes, p=1, d20k", best["ours"] * 1e3, best["peer"] * 1e3, "graphlearning fmm", 150)


def shortest_paths(name: str, weighted: bool, bar: float) -> Row:
    graph, boundary = disk(name)
    if weighted:
        weight = np.random.default_rng(1).uniform(0.1, 1, graph.num_edges)
        graph = lggd.Graph.from_edges(graph.edge_index, weight, symmetrize="max")
    matrix = graph.to_scipy()
    matrix.data = 1 / np.sqrt(matrix.data)
    runs = 60 if name == "d20k" else 9
    best = race(
        {"ours": runs, "peer": runs},
        ours=lambda: lggd.distance(graph, boundary, p=math.inf),
        peer=lambda: dijkstra(matrix, indices=boundary, min_only=True),
    )
    kind = "weighted" if weighted else "unweighted"
    return Row(f"p=inf {kind}, {name}", best["ours"] * 1e3, best["peer"] * 1e3, "SciPy dijkstra(min_only)", bar)


def grid() -> Row:
    side = 1000
    graph = lggd.Graph.from_grid(np.ones((side, side), bool))
    centre = side // 2 * side + side // 2
    phi = np.ones((side, side))
    phi[side // 2, side // 2] = -1
    best = race(
        {"ours": 7, "peer": 7},
        ours=lambda: lggd.distance(graph, [centre], p=2),
        peer=lambda: skfmm.distance(phi, order=1),
    )
    return Row("grid 1000 x 1000, p=2", best["ours"] * 1e3, best["peer"] * 1e3, "scikit-fmm order 1", 1)


def tables(run: Run) -> list[Table]:
    table = Table("Steady state")
    table.rows += [marching("d20k", 1, 60, 3), marching("d20k", 2, 600, 1), ten_classes()]
    if not run.quick:
        table.rows += [marching("d200k", 1, 60, 1), marching("d2M", 1, 15, 1), marching("d20k", 3, 1, 1)]
    for name in ("d20k",) if run.quick else ("d20k", "d200k", "d2M"):
        table.rows += [shortest_paths(name, False, 2), shortest_paths(name, True, 1)]
    table.rows += [grid()]
    return [table]
