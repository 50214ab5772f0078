"""The robustness of distances from the rim of the unit disk against a few wrong edges (paper, Fig. 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd import Graph, Progress, distance
from lggd.errors import InputError
from lggd.progress import Callback
from lggd.validation import check_int, check_real

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Robustness:
    """Distances with and without wrong edges.

    `distances[p]` is `[1 + len(extra_edges), N]` for the first draw, row 0 without extra edges. `change[p]` is
    ‖f_n − f_0‖₂ / ‖f_0‖₂ as `[len(extra_edges), seeds]`, over the nodes that reach the boundary without extra edges.
    """

    points: Floats
    boundary: NDArray[np.bool_]
    num_edges: int  # undirected, without the extra ones
    extra_edges: tuple[int, ...]
    distances: dict[float, Floats]
    change: dict[float, Floats]

    @property
    def unreachable(self) -> int:
        """The number of points that do not reach the boundary without extra edges."""
        return int(np.isinf(next(iter(self.distances.values()))[0]).sum())

    def mean_change(self, p: float) -> Floats:
        return np.asarray(self.change[p].mean(1))

    def changes(self) -> list[dict[str, Any]]:
        """The changes for JSON, which has no infinity."""
        return [
            {"p": json_p, "extra_edges": number, "mean": float(values.mean()), "each": values.tolist()}
            for p, json_p in ((p, "inf" if math.isinf(p) else p) for p in self.distances)
            for number, values in zip(self.extra_edges, self.change[p], strict=True)
        ]


def robustness(
    *,
    points: int = 20_000,
    epsilon: float = 0.05,
    extra_edges: Sequence[int] = (10, 100, 1000),
    exponents: Sequence[float] = (1, math.inf),
    seeds: int = 5,
    seed: int = 0,
    callback: Callback | None = None,
) -> Robustness:
    """Connects points within `epsilon`, adds wrong edges, and measures how the distances from the rim change.

    The points depend only on `seed`. Wrong edges are drawn `seeds` times; n edges are the first n of a draw.
    `callback` is told of every distance.
    """
    check_real("epsilon", epsilon, 0, 1, closed="neither", remedy="Try 0.05.")
    if len(extra_edges) == 0 or min(extra_edges) < 1:
        raise InputError("extra_edges", "be whole numbers from 1", list(extra_edges), "Try (10, 100, 1000).")
    if len(exponents) == 0:
        raise InputError("exponents", "contain at least one p", "none", "Try (1, math.inf).")
    check_int("seeds", seeds, 1)
    check_int("seed", seed, 0)
    extra_edges = tuple(sorted(set(extra_edges)))
    positions = disk_points(points, np.random.default_rng(seed))
    boundary = np.linalg.norm(positions, axis=1) >= 1 - epsilon
    if not boundary.any():
        raise InputError("epsilon", "reach from the rim to a point", f"{epsilon:g} for {points} points", "Increase it.")
    graph = Graph.from_points(positions, epsilon=epsilon)
    solved, total = count(1), len(exponents) * (1 + seeds * len(extra_edges))

    def solve(graph: Graph, p: float) -> Floats:
        values: Floats = distance(graph, boundary, p=p).value.numpy()
        if callback is not None:
            callback(Progress("distances", next(solved), total))
        return values

    distances = {float(p): [solve(graph, p)] for p in exponents}
    (first,) = next(iter(distances.values()))
    if not first[np.isfinite(first)].any():
        rule = "connect the rim to points farther inside"
        raise InputError("epsilon", rule, f"{epsilon:g}, which connects none", "Increase it.")
    change = {p: np.empty((len(extra_edges), seeds)) for p in distances}
    for draw in range(seeds):
        wrong = random_edges(graph, max(extra_edges), np.random.default_rng([seed, 1 + draw]))
        for row, number in enumerate(extra_edges):
            changed = with_edges(graph, wrong[:, :number])
            for p, solutions in distances.items():
                solution = solve(changed, p)
                finite = np.isfinite(solutions[0])  # these distances stay finite with additional edges
                moved = np.linalg.norm(solution[finite] - solutions[0][finite])
                change[p][row, draw] = moved / np.linalg.norm(solutions[0][finite])
                if draw == 0:
                    solutions.append(solution)
    stacked = {p: np.stack(solutions) for p, solutions in distances.items()}
    return Robustness(positions, boundary, graph.num_edges // 2, extra_edges, stacked, change)


def disk_points(number: int, generator: np.random.Generator) -> Floats:
    """Draws points `[number, 2]` uniformly in the unit disk."""
    check_int("points", number, 2)
    radius = np.sqrt(generator.random(number))  # the area within radius r grows as r²
    angle = 2 * np.pi * generator.random(number)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def random_edges(graph: Graph, number: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draws distinct pairs `[2, number]` of nodes without an edge, uniformly."""
    n, (row, column) = graph.num_nodes, graph.edge_index.numpy()
    absent = n * (n - 1) // 2 - graph.num_edges // 2
    if number > absent:
        raise InputError("extra_edges", f"be at most {absent}, the pairs of nodes without an edge", number)
    drawn = np.empty(0, np.int64)
    while len(drawn) < number:
        pairs = np.sort(generator.integers(n, size=(2, 2 * number)), axis=0)
        codes = pairs[0] * n + pairs[1]
        codes = np.concatenate([drawn, codes[(pairs[0] < pairs[1]) & ~np.isin(codes, row * n + column)]])
        drawn = codes[np.sort(np.unique(codes, return_index=True)[1])][:number]
    return np.stack([drawn // n, drawn % n])


def with_edges(graph: Graph, extra: NDArray[np.int64]) -> Graph:
    """Returns the unweighted graph with additional undirected edges `[2, E]`."""
    edges = np.concatenate([graph.edge_index.numpy(), extra, extra[::-1]], axis=1)
    return Graph.from_edges(edges, num_nodes=graph.num_nodes)
