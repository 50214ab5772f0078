"""How much a distance changes when a few edges are wrong (paper, Fig. 1 and 2).

Points lie in the unit disk, the boundary is its rim, and random pairs of points are joined that should not be. Few such
shortcuts ruin shortest paths, p = ∞, while the distance for p = 1 hardly notices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lggd.distances import distance
from lggd.errors import InputError
from lggd.graph import Graph

Floats = NDArray[np.float64]
# Called with the number of distances solved and the number of all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Robustness:
    """Distances with and without wrong edges, and how far they lie apart.

    `distances[p]` is `[1 + len(extra_edges), N]` for the first seed, row 0 without extra edges. `change[p]` is
    ‖f_n − f_0‖₂ / ‖f_0‖₂ as `[len(extra_edges), seeds]`, over the nodes that reach the boundary without extra edges.
    """

    points: Floats
    boundary: NDArray[np.bool_]
    epsilon: float
    num_edges: int  # of the undirected graph without extra edges, each counted once
    extra_edges: tuple[int, ...]
    distances: dict[float, Floats]
    change: dict[float, Floats]

    @property
    def exponents(self) -> tuple[float, ...]:
        return tuple(self.distances)

    @property
    def unreachable(self) -> int:
        """How many points cannot reach the boundary without extra edges."""
        return int(np.isinf(next(iter(self.distances.values()))[0]).sum())

    def mean_change(self, p: float) -> Floats:
        """The change for each number of extra edges, averaged over the seeds."""
        return np.asarray(self.change[p].mean(1))


def robustness(
    *,
    points: int = 20_000,
    epsilon: float = 0.05,
    extra_edges: Sequence[int] = (10, 100, 1000),
    exponents: Sequence[float] = (1, math.inf),
    seeds: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
) -> Robustness:
    """Joins points within `epsilon`, adds wrong edges, and measures what that does to the distance from the rim.

    The points depend on `seed` alone. The wrong edges are drawn `seeds` times; of each draw, n edges are the first n.
    """
    _check(epsilon, extra_edges, exponents, seeds, seed)
    extra_edges = tuple(sorted(set(extra_edges)))
    places = disk_points(points, np.random.default_rng(seed))
    boundary = np.linalg.norm(places, axis=1) >= 1 - epsilon
    if not boundary.any():
        raise InputError(
            "epsilon", "reach from the rim to a point", f"{epsilon:g} for {points} points", "Raise either of them."
        )
    graph = Graph.from_points(places, epsilon=epsilon)
    total = len(exponents) * (1 + seeds * len(extra_edges))
    solved = 0

    def solve(on: Graph, p: float) -> Floats:
        nonlocal solved
        found: Floats = distance(on, boundary, p=p).value.numpy()
        solved += 1
        if progress is not None:
            progress(solved, total)
        return found

    distances = {float(p): [solve(graph, p)] for p in exponents}
    _check_spread(next(iter(distances.values()))[0], epsilon)
    change = {p: np.empty((len(extra_edges), seeds)) for p in distances}
    for draw in range(seeds):
        wrong = random_edges(graph, max(extra_edges), np.random.default_rng([seed, 1 + draw]))
        for row, count in enumerate(extra_edges):
            shortened = with_edges(graph, wrong[:, :count])
            for p, kept in distances.items():
                found = solve(shortened, p)
                change[p][row, draw] = relative_change(found, kept[0])
                if draw == 0:
                    kept.append(found)
    stacked = {p: np.stack(kept) for p, kept in distances.items()}
    return Robustness(places, boundary, epsilon, graph.num_edges // 2, extra_edges, stacked, change)


def disk_points(count: int, generator: np.random.Generator) -> Floats:
    """Points `[count, 2]`, uniform in the unit disk."""
    if count < 2:
        raise InputError("points", "be at least 2", count)
    # The area within radius r grows as r², so a uniform share of the area is a radius √u.
    radius = np.sqrt(generator.random(count))
    angle = 2 * np.pi * generator.random(count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def random_edges(graph: Graph, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Distinct pairs `[2, count]` of distinct nodes that are not joined yet, each as likely as any other."""
    n = graph.num_nodes
    absent = n * (n - 1) // 2 - graph.num_edges // 2
    if count > absent:
        raise InputError("extra_edges", f"be at most the {absent} pairs that are not joined yet", count)
    row, column = graph.edge_index.numpy()
    joined = row * n + column  # ascending, as edge_index is
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        pairs = np.sort(generator.integers(n, size=(2, 2 * count)), axis=0)
        codes = pairs[0] * n + pairs[1]
        codes = np.concatenate([drawn, codes[(pairs[0] < pairs[1]) & ~_contains(joined, codes)]])
        first = np.sort(np.unique(codes, return_index=True)[1])
        drawn = codes[first][:count]
    return np.stack([drawn // n, drawn % n])


def with_edges(graph: Graph, extra: NDArray[np.int64]) -> Graph:
    """The unweighted graph with more edges `[2, E]`, in both directions."""
    edges = np.concatenate([graph.edge_index.numpy(), extra, extra[::-1]], axis=1)
    return Graph.from_edges(edges, num_nodes=graph.num_nodes)


def relative_change(changed: Floats, original: Floats) -> float:
    """‖f_n − f_0‖₂ / ‖f_0‖₂ over the nodes where f_0 is finite; more edges can only keep f finite there."""
    finite = np.isfinite(original)
    return float(np.linalg.norm(changed[finite] - original[finite]) / np.linalg.norm(original[finite]))


def _check_spread(found: Floats, epsilon: float) -> None:
    if not found[np.isfinite(found)].any():
        raise InputError(
            "epsilon", "join the rim to points farther inside", f"{epsilon:g}, which joins none", "Raise it."
        )


def _contains(ascending: NDArray[np.int64], sought: NDArray[np.int64]) -> NDArray[np.bool_]:
    place = np.searchsorted(ascending, sought)
    found = place < len(ascending)
    found[found] = ascending[place[found]] == sought[found]
    return np.asarray(found)


def _check(epsilon: float, extra_edges: Sequence[int], exponents: Sequence[float], seeds: int, seed: int) -> None:
    if not 0 < epsilon < 1:
        raise InputError("epsilon", "lie in (0, 1), within the unit disk", epsilon, "Try 0.05.")
    if len(extra_edges) == 0 or min(extra_edges) < 1:
        raise InputError("extra_edges", "be numbers of at least 1", list(extra_edges), "Try (10, 100, 1000).")
    if len(exponents) == 0:
        raise InputError("exponents", "hold at least one p", "none", "Try (1, math.inf).")
    if seeds < 1:
        raise InputError("seeds", "be at least 1", seeds, "It counts the draws that are averaged.")
    if seed < 0:
        raise InputError("seed", "be at least 0", seed)
