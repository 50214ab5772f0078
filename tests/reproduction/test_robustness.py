"""Distances with wrong edges: the points, the edges, the changes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lggd import Graph
from lggd.errors import InputError
from reproduction.robustness import Robustness, disk_points, random_edges, robustness, with_edges


@pytest.fixture(scope="module")
def small() -> Robustness:
    return robustness(points=800, epsilon=0.2, extra_edges=(100, 10), exponents=(1, 2, math.inf), seeds=2)


def test_points_are_uniform_in_the_disk() -> None:
    radius = np.linalg.norm(disk_points(20_000, np.random.default_rng(0)), axis=1)
    assert radius.max() < 1
    # A quarter of the area lies within half the radius; four standard errors of 20,000 draws.
    assert abs((radius < 0.5).mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 20_000)


def test_shapes_and_boundary_values(small: Robustness) -> None:
    assert small.points.shape == (800, 2)
    assert small.extra_edges == (10, 100)
    assert list(small.distances) == [1, 2, math.inf]
    assert small.unreachable == 0
    for p in small.distances:
        assert small.distances[p].shape == (3, 800)
        assert small.change[p].shape == (2, 2)
        assert (small.distances[p][:, small.boundary] == 0).all()
        assert (small.distances[p][1:] <= small.distances[p][0] + 1e-12).all()


def test_p_1_is_the_most_robust(small: Robustness) -> None:
    for row in range(2):
        changes = [small.mean_change(p)[row] for p in small.distances]
        assert changes == sorted(changes)
    assert small.mean_change(1)[0] < 0.05 < small.mean_change(math.inf)[0]


def test_change_is_the_relative_norm(small: Robustness) -> None:
    before, after = small.distances[1.0][0], small.distances[1.0][2]
    assert small.change[1.0][1, 0] == pytest.approx(np.linalg.norm(after - before) / np.linalg.norm(before))


def test_same_seed_same_numbers(small: Robustness) -> None:
    again = robustness(points=800, epsilon=0.2, extra_edges=(10, 100), exponents=(1, 2, math.inf), seeds=2)
    other = robustness(points=800, epsilon=0.2, extra_edges=(10, 100), exponents=(1,), seeds=1, seed=1)
    for p in small.distances:
        np.testing.assert_array_equal(again.change[p], small.change[p])
        np.testing.assert_array_equal(again.distances[p], small.distances[p])
    assert not np.array_equal(other.points, small.points)


def test_random_edges_are_new_and_distinct() -> None:
    graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", num_nodes=5)
    drawn = random_edges(graph, 8, np.random.default_rng(0))
    assert sorted(zip(*drawn.tolist(), strict=True)) == [
        (0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)
    ]  # fmt: skip
    assert with_edges(graph, drawn).num_edges == 20
    with pytest.raises(InputError, match="`extra_edges` must be at most 8, the pairs of nodes without an edge, got 9"):
        random_edges(graph, 9, np.random.default_rng(0))


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int | None]] = []
    robustness(
        points=300, epsilon=0.3, extra_edges=(5,), seeds=2, callback=lambda now: seen.append((now.done, now.total))
    )
    assert seen == [(k, 6) for k in range(1, 7)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"points": 1}, "`points` must be a whole number from 2, got 1"),
        ({"epsilon": 0.0}, r"`epsilon` must lie in \(0, 1\)"),
        ({"epsilon": math.nan}, r"`epsilon` must lie in \(0, 1\)"),
        ({"epsilon": 1e-9}, "`epsilon` must reach from the rim to a point"),
        ({"epsilon": 0.05}, "`epsilon` must connect the rim to points farther inside"),
        ({"extra_edges": ()}, "`extra_edges` must be whole numbers from 1"),
        ({"extra_edges": (0,)}, "`extra_edges` must be whole numbers from 1"),
        ({"exponents": ()}, "`exponents` must contain at least one p"),
        ({"exponents": (0.5,)}, r"`p` must lie in \[1, inf\], got 0.5"),
        ({"seeds": 0}, "`seeds` must be a whole number from 1, got 0"),
        ({"seed": -1}, "`seed` must be a whole number from 0, got -1"),
    ],
)
def test_invalid_arguments_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        robustness(**({"points": 60, "epsilon": 0.4, "extra_edges": (3,), "seeds": 1} | wrong))  # type: ignore[arg-type]
