"""The order of nodes in memory never affects results."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

import lggd
from graphs import dense, same
from lggd import Graph
from lggd.graph.csr import inverse


def test_points_are_stored_in_morton_order_but_numbered_as_given():
    points = np.random.default_rng(0).random((500, 2))
    graph = Graph.from_points(points, epsilon=0.1, kernel=lambda length: np.exp(-length))
    assert graph.layout().order is not None
    apart = cdist(points, points)
    expected = np.where((apart <= 0.1) & (apart > 0), np.exp(-apart), 0)
    np.testing.assert_allclose(dense(graph), expected)
    np.testing.assert_allclose(graph.degree.numpy(), expected.sum(1))
    assert same(Graph.from_scipy(dense(graph)), graph)
    length = np.divide(1, np.sqrt(expected), out=np.zeros_like(expected), where=expected > 0)
    np.testing.assert_allclose(
        lggd.distance(graph, [[7], [300]], p=math.inf).value.T, dijkstra(sp.csr_array(length), indices=[7, 300])
    )


@pytest.fixture(scope="module")
def shuffled_ring():
    """A ring of 60,000 nodes with weights, its nodes in random order, and the node at each place of the ring."""
    n, rng = 60_000, np.random.default_rng(0)
    node = rng.permutation(n)
    edges = np.stack([node, np.roll(node, -1)])
    return Graph.from_edges(edges, rng.uniform(0.2, 1, n), symmetrize="max"), node


def test_a_large_scattered_graph_is_reordered_only_for_many_passes(shuffled_ring):
    graph = pickle.loads(pickle.dumps(shuffled_ring[0]))
    assert graph.layout(passes=1).order is None
    assert graph.layout(passes=100).order is not None
    assert graph.layout(passes=1) is graph.layout(passes=100)
    in_order = Graph.from_edges(np.stack([np.arange(60_000), np.roll(np.arange(60_000), -1)]), symmetrize="max")
    assert in_order.layout(passes=100).order is None


def test_reordering_does_not_change_properties(shuffled_ring):
    graph, _ = shuffled_ring
    before = graph.edge_index, graph.weight, graph.degree, graph.to_scipy()
    assert graph.layout(passes=100).order is not None
    assert torch.equal(graph.edge_index, before[0])
    assert torch.equal(graph.weight, before[1])
    assert torch.equal(graph.degree, before[2])
    assert (graph.to_scipy() != before[3]).nnz == 0
    np.testing.assert_allclose(graph.degree.numpy(), graph.to_scipy().sum(1))


def test_reordering_does_not_change_distances(shuffled_ring):
    graph, node = shuffled_ring
    assert graph.layout(passes=100).order is not None
    length = graph.to_scipy()
    length.data = 1 / np.sqrt(length.data)
    sources = node[[0, 17]].tolist()
    found = lggd.distance(graph, [[i] for i in sources], p=math.inf)
    np.testing.assert_allclose(found.value.T, dijkstra(length, indices=sources), rtol=1e-9)
    walk = lggd.shortest_path(graph, found, int(node[40]), column=1).tolist()
    assert walk == node[17:41].tolist()


def test_reordering_does_not_change_evolutions(shuffled_ring):
    graph, node = shuffled_ring
    rng = np.random.default_rng(1)
    in_order = Graph.from_scipy(graph.to_scipy()[node][:, node])
    assert graph.layout(passes=100).order is not None
    assert in_order.layout(passes=100).order is None
    start, potential = torch.from_numpy(rng.uniform(0, 3, (2, 60_000)))
    rows, columns = in_order.edge_index
    weight = 0.1 + 0.9 * start[rows] * potential[columns] / 9

    place = inverse(torch.from_numpy(node))
    rows, columns = place[graph.edge_index[0]], place[graph.edge_index[1]]
    moved = 0.1 + 0.9 * start[rows] * potential[columns] / 9
    expected = lggd.evolve(in_order, [0], start=start, potential=potential + 0.1, weight=weight, times=[0.2]).value
    found = lggd.evolve(
        graph, [int(node[0])], start=start[place], potential=potential[place] + 0.1, weight=moved, times=[0.2]
    ).value
    torch.testing.assert_close(found[:, node], expected)
