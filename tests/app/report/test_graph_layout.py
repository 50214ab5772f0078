"""The layout of graphs: deterministic, with clusters apart and neighbours together."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

from lggd import Graph
from lggd.app.report.graph_layout import layout_graph, pack


def undirected(*pairs, nodes=None, **options):
    return Graph.from_edges(list(pairs), num_nodes=nodes, symmetrize="max", **options)


def clique(first, size):
    return [(a, b) for a in range(first, first + size) for b in range(a + 1, first + size)]


def blobs(seed=0, clusters=6, size=60):
    """Points around centres that lie far apart in many dimensions, and the cluster of each."""
    generator = np.random.default_rng(seed)
    centres = 8 * generator.normal(size=(clusters, 10))
    cluster = np.repeat(np.arange(clusters), size)
    return centres[cluster] + generator.normal(size=(clusters * size, 10)), cluster


def pair_distances(positions, pairs):
    return np.linalg.norm(positions[pairs[0]] - positions[pairs[1]], axis=1)


def relative_edge_length(graph, positions):
    """The median edge length relative to the median distance of random pairs."""
    generator = np.random.default_rng(1)
    random_pairs = generator.integers(graph.num_nodes, size=(2, 5000))
    beside = np.median(pair_distances(positions, graph.edge_index.numpy()))
    return beside / np.median(pair_distances(positions, random_pairs))


GRAPHS = {
    "one node": Graph.from_edges(np.zeros((2, 0), int), num_nodes=1),
    "two isolated nodes": Graph.from_edges(np.zeros((2, 0), int), num_nodes=2),
    "no edges": Graph.from_edges(np.zeros((2, 0), int), num_nodes=500),
    "a pair": undirected((0, 1)),
    "a triangle and three isolated nodes": undirected((0, 1), (1, 2), (0, 2), nodes=6),
    "a long path": undirected(*[(k, k + 1) for k in range(400)]),
    "a star": undirected(*[(0, k) for k in range(1, 300)]),
    "a complete graph": undirected(*clique(0, 40)),
    "many pairs": undirected(*[(2 * k, 2 * k + 1) for k in range(300)]),
    "components of all sizes": undirected(*[edge for k in range(2, 30) for edge in clique(k * k, k)], nodes=1000),
    "directed": Graph.from_edges([(0, 1), (1, 2), (2, 0), (3, 2)], directed=True),
    "weighted": Graph.from_edges([(0, 1), (1, 2)], [0.001, 1.0], symmetrize="max"),
    "tiny weights": Graph.from_edges([(0, 1), (1, 2)], [1e-30, 1e-30], symmetrize="max"),
    "grid": Graph.from_grid(np.ones((20, 30), bool)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_positions_are_finite_and_within_bounds(name):
    graph = GRAPHS[name]
    positions = layout_graph(graph)
    assert positions.dtype == np.float32
    assert positions.shape == (graph.num_nodes, 2)
    assert np.isfinite(positions).all()
    assert np.abs(positions).max() <= 1


@pytest.mark.parametrize("name", GRAPHS)
def test_positions_are_distinct(name):
    positions = layout_graph(GRAPHS[name])
    assert len(np.unique(positions, axis=0)) == len(positions)


@pytest.mark.parametrize("name", GRAPHS)
def test_layout_is_deterministic(name):
    assert layout_graph(GRAPHS[name], seed=5).tobytes() == layout_graph(GRAPHS[name], seed=5).tobytes()


def test_seeds_give_different_layouts():
    assert not np.array_equal(layout_graph(GRAPHS["a long path"], seed=0), layout_graph(GRAPHS["a long path"], seed=1))


def test_layout_fills_its_square():
    positions = layout_graph(GRAPHS["grid"])
    assert np.ptp(positions, axis=0).max() == pytest.approx(2, abs=1e-5)


def test_connected_cliques_are_separated():
    graph = undirected(*clique(0, 20), *clique(20, 20), (0, 20))
    positions = layout_graph(graph)
    centres = positions[:20].mean(0), positions[20:].mean(0)
    width = max(np.linalg.norm(positions[k * 20 : k * 20 + 20] - centres[k], axis=1).max() for k in (0, 1))
    assert np.linalg.norm(centres[0] - centres[1]) > 2 * width


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_are_closer_than_random_pairs(seed):
    points, _ = blobs(seed)
    graph = Graph.from_points(points, k=8)
    positions = layout_graph(graph, seed=seed)
    assert relative_edge_length(graph, positions) < 1 / 3
    # The measure can fail: shuffled positions preserve nothing.
    shuffled = np.random.default_rng(seed).permutation(positions)
    assert relative_edge_length(graph, shuffled) > 0.8


def test_classes_of_digits_form_clusters():
    digits = load_digits()
    positions = layout_graph(Graph.from_points(digits.data, k=10)).astype(float)
    squares = ((positions[:, None] - positions[None]) ** 2).sum(2)
    nearest = np.argsort(squares, axis=1)[:, 1:6]
    assert (digits.target[nearest] == digits.target[:, None]).mean() > 0.9


def test_heavy_edges_attract_more():
    """A node between two cliques goes to the one it is tied to more strongly."""
    ties = [(20, k) for k in range(10)], [(20, k) for k in range(10, 20)]
    edges = clique(0, 10) + clique(10, 10) + ties[0] + ties[1]
    weight = [1.0] * 90 + [1.0] * 10 + [0.02] * 10
    positions = layout_graph(Graph.from_edges(edges, weight, symmetrize="max"))
    strong, weak = positions[:10].mean(0), positions[10:20].mean(0)
    assert np.linalg.norm(positions[20] - strong) < 0.5 * np.linalg.norm(positions[20] - weak)


def test_isolated_nodes_surround_the_rest():
    graph = undirected(*clique(0, 30), nodes=60)
    positions = layout_graph(graph)
    distance = np.linalg.norm(positions - positions[:30].mean(0), axis=1)
    assert distance[30:].min() > distance[:30].max()


def test_components_do_not_overlap():
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 200, 60)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    packed = pack(generator.normal(size=(starts[-1], 2)), starts)
    spans = [packed[a:b] for a, b in pairwise(starts)]
    centres = [(span.min(0) + span.max(0)) / 2 for span in spans]
    for k, span in enumerate(spans):
        for other in range(k):
            # A line perpendicular to the one between the centres separates both components.
            towards = centres[other] - centres[k]
            assert (span @ towards).max() < (spans[other] @ towards).min()


def test_directions_are_ignored():
    arrows = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]
    assert np.array_equal(layout_graph(Graph.from_edges(arrows, directed=True)), layout_graph(undirected(*arrows)))


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, 2**63])
def test_invalid_seeds_are_rejected(seed):
    with pytest.raises(ValueError, match="`seed` must be a whole number from 0"):
        layout_graph(GRAPHS["a pair"], seed=seed)
