"""Compressed rows: their sort, their order in memory, and connected components."""

import gc
import math
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial.distance import cdist

import lggd
from lggd import Graph
from lggd.graph import csr as rows
from lggd.graph.csr import inverse
from support.graphs import dense, random_weights, same


@pytest.mark.parametrize("directed", [False, True])
def test_transposed_rows_are_those_of_scipy(directed):
    matrix = random_weights(symmetric=not directed)
    csr = Graph.from_scipy(matrix, directed=directed).csr
    transposed = csr.transposed
    expected = sp.csr_array(matrix.T)
    assert np.array_equal(transposed.indptr, expected.indptr)
    assert np.array_equal(transposed.indices, expected.indices)
    assert np.array_equal(transposed.weight, expected.data)
    assert transposed.indices.dtype == csr.indices.dtype == torch.int32  # half the memory of SciPy's default
    assert torch.equal(csr.weight[csr.column_order.long()], transposed.weight)


def test_transposed_rows_of_a_symmetric_graph_take_no_memory():
    csr = Graph.from_scipy(random_weights()).csr
    assert csr.transposed is csr
    assert csr.column_order is csr.column_order
    alive = weakref.ref(csr)
    gc.disable()  # freed by its reference count: it may have millions of edges
    try:
        del csr
        assert alive() is None
    finally:
        gc.enable()


def test_lengths_of_a_directed_graph_are_held_once():
    csr = (graph := Graph.from_scipy(random_weights(symmetric=False), directed=True)).csr
    lggd.distance(graph, [0], p=math.inf)
    assert "length" in vars(csr.transposed)
    assert "length" not in vars(csr)


@pytest.mark.parametrize("directed", [False, True])
def test_permuted_rows_are_those_of_scipy(directed):
    matrix = random_weights(symmetric=not directed)
    csr = Graph.from_scipy(matrix, directed=directed).csr
    order = torch.from_numpy(np.random.default_rng(1).permutation(40))
    moved, position = csr.permuted(order)
    expected = sp.csr_array(matrix[order][:, order])
    assert np.array_equal(moved.indptr, expected.indptr)
    assert np.array_equal(moved.indices, expected.indices)
    assert np.array_equal(moved.weight, expected.data)
    assert torch.equal(csr.weight[position.long()], moved.weight)
    assert torch.equal(inverse(order)[order], torch.arange(40))


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


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("edges", [0, 20, 60, 200])
def test_components_agree_with_scipy(edges, directed):
    ends = np.random.default_rng(edges).integers(0, 80, (2, edges))
    ends = ends[:, ends[0] != ends[1]]
    graph = lggd.Graph.from_edges(ends, num_nodes=80, directed=directed, symmetrize=None if directed else "max")
    matrix = sp.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(80, 80))
    expected = connected_components(matrix, directed=directed, connection="weak")[1]
    assert graph.components.tolist() == expected.tolist()


def test_components_of_a_graph_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "EDGES_PER_BLOCK", 7)
    graph = lggd.Graph.from_edges([(0, 3), (1, 4), (4, 6), (6, 7), (2, 3)], num_nodes=9, symmetrize="max")
    graph.save(tmp_path / "graph")
    opened = lggd.Graph.open(tmp_path / "graph")
    assert len(opened.csr.row_ranges()) > 1
    assert torch.equal(opened.components, graph.components)
    assert graph.components.tolist() == [0, 1, 0, 0, 1, 2, 1, 1, 3]
