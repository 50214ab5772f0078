"""Graph: conversion from and to other formats, properties, immutability and devices."""

import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

import lggd
from lggd import Graph
from support.graphs import dense, random_weights, same

PAIRS = [(0, 1), (1, 0), (1, 3), (3, 1), (0, 3), (3, 0)]
ADJACENCY = np.array([[0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]], float)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


# -- from_scipy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.array, sp.csr_array, sp.coo_matrix, sp.csc_matrix, sp.lil_array])
@pytest.mark.parametrize("directed", [False, True])
def test_scipy_round_trip(form, directed):
    matrix = random_weights(symmetric=not directed)
    graph = Graph.from_scipy(form(matrix), directed=directed)
    assert np.array_equal(dense(graph), matrix)
    assert graph.to_scipy().has_sorted_indices
    assert same(Graph.from_scipy(graph.to_scipy(), directed=directed), graph)


def test_stored_zeros_of_scipy_are_no_edges():
    matrix = sp.coo_array(([0.5, 0.5, 0.0], ([0, 1, 1], [1, 0, 2])), shape=(3, 3))
    assert Graph.from_scipy(matrix).num_edges == 2


def test_a_pattern_of_booleans_or_integers_has_unit_weights():
    for dtype in (bool, int):
        assert not Graph.from_scipy(ADJACENCY.astype(dtype)).is_weighted


# -- from_networkx ------------------------------------------------------------------------------------------------


def test_from_networkx_numbers_nodes_in_their_own_order():
    graph = nx.Graph()
    graph.add_nodes_from(["d", "b", "c", "a"])
    graph.add_edge("a", "b", weight=0.5)
    graph.add_edge("d", "a")
    read = Graph.from_networkx(graph)
    assert read.edge_index.tolist() == [[0, 1, 3, 3], [3, 3, 0, 1]]
    assert read.weight.tolist() == [1, 0.5, 1, 0.5]
    assert read.dtype == torch.float64


def test_from_networkx_reads_the_named_attribute():
    graph = nx.Graph()
    graph.add_edge(0, 1, closeness=0.25, weight=0.5)
    assert Graph.from_networkx(graph, weight="closeness").weight.tolist() == [0.25, 0.25]
    assert not Graph.from_networkx(graph, weight=None).is_weighted
    with pytest.raises(ValueError, match=r"got 'closenes'\. Did you mean 'closeness'\?"):
        Graph.from_networkx(graph, weight="closenes")
    with pytest.raises(ValueError, match="`weight` must be an attribute of an edge, got 'length'"):
        Graph.from_networkx(nx.path_graph(3), weight="length")


def test_from_networkx_keeps_directions_only_with_directed():
    arrows = nx.DiGraph([("x", "y")])
    assert Graph.from_networkx(arrows, directed=True).edge_index.tolist() == [[0], [1]]
    assert Graph.from_networkx(arrows, symmetrize="max").num_edges == 2
    with pytest.raises(ValueError, match="symmetric"):
        Graph.from_networkx(arrows)


def test_a_self_loop_of_networkx_is_counted_once():
    with pytest.warns(UserWarning, match="Self-loops dropped: 1, the first at node 1"):
        Graph.from_networkx(nx.Graph([(0, 1), (1, 1)]))


@pytest.mark.parametrize("directed", [False, True])
def test_networkx_round_trip(directed):
    graph = Graph.from_scipy(random_weights(symmetric=not directed), directed=directed)
    there = graph.to_networkx()
    assert isinstance(there, nx.DiGraph) == directed
    assert there.number_of_nodes() == graph.num_nodes
    assert same(Graph.from_networkx(there, directed=directed), graph)


# -- from_pyg -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attribute", ["edge_weight", "edge_attr"])
def test_from_pyg_reads_weights(attribute):
    data = pytest.importorskip("torch_geometric.data")
    weight = torch.tensor([0.5, 0.5, 0.25, 0.25])
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = Graph.from_pyg(data.Data(edge_index=edge_index, num_nodes=5, **{attribute: weight}))
    assert torch.equal(graph.edge_index, edge_index)
    assert torch.equal(graph.weight, weight)
    assert graph.num_nodes == 5


def test_from_pyg_ignores_edge_features():
    data = pytest.importorskip("torch_geometric.data")
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graph = Graph.from_pyg(data.Data(x=torch.zeros(3, 2), edge_index=edge_index, edge_attr=torch.rand(2, 4)))
    assert not graph.is_weighted
    assert graph.num_nodes == 3


# -- properties ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_edge_index_and_weight_are_those_of_scipy(directed):
    matrix = random_weights(symmetric=not directed)
    graph = Graph.from_scipy(matrix, directed=directed)
    rows, columns = np.nonzero(matrix)
    assert np.array_equal(graph.edge_index.numpy(), [rows, columns])
    assert np.array_equal(graph.weight.numpy(), matrix[rows, columns])
    assert same(Graph.from_edges(graph.edge_index, graph.weight, num_nodes=40, directed=directed), graph)


@pytest.mark.parametrize("directed", [False, True])
def test_degree_adds_the_weights_of_a_row(directed):
    matrix = random_weights(density=0.03, symmetric=not directed)
    graph = Graph.from_scipy(matrix, directed=directed)
    assert (matrix.sum(1) == 0).any(), "the matrix should have an isolated node"
    np.testing.assert_allclose(graph.degree.numpy(), matrix.sum(1))
    unweighted = Graph.from_scipy(matrix > 0, directed=directed)
    assert np.array_equal(unweighted.degree.numpy(), (matrix > 0).sum(1))


@pytest.mark.parametrize("directed", [False, True])
def test_components_are_those_of_scipy(directed):
    matrix = random_weights(n=60, density=0.02, symmetric=not directed)
    count, expected = connected_components(sp.csr_array(matrix), directed=directed, connection="weak")
    assert count > 3
    assert np.array_equal(Graph.from_scipy(matrix, directed=directed).components.numpy(), expected)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (Graph.from_edges(PAIRS), "Graph(nodes=4, edges=6)"),
        (Graph.from_edges(PAIRS, [0.5] * 6), "Graph(nodes=4, edges=6, weighted)"),
        (Graph.from_edges([(0, 1)], [0.5], directed=True), "Graph(nodes=2, edges=1, weighted, directed)"),
    ],
)
def test_repr(graph, expected):
    assert repr(graph) == expected


@pytest.mark.parametrize("name", ["weight", "num_nodes", "degree", "_native", "dtype", "label"])
def test_a_graph_is_immutable(name):
    graph = Graph.from_edges(PAIRS)
    with pytest.raises(AttributeError, match=f"is immutable: cannot set '{name}'"):
        setattr(graph, name, None)
    assert same(graph, Graph.from_edges(PAIRS))


def test_a_graph_does_not_share_memory_with_its_inputs():
    edges, weight = np.array(PAIRS).T.copy(), np.full(6, 0.5)
    graph = Graph.from_edges(edges, weight)
    edges[:], weight[:] = 0, 0.25
    assert same(graph, Graph.from_edges(PAIRS, np.full(6, 0.5)))


@pytest.mark.parametrize(
    "graph",
    [
        Graph.from_scipy(random_weights()),
        Graph.from_scipy(random_weights(symmetric=False), directed=True),
        Graph.from_points(np.random.default_rng(0).random((30, 2)), k=3),
    ],
    ids=["weighted", "directed", "points"],
)
def test_pickle_round_trip(graph):
    _ = graph.degree, graph.components, graph.csr.column_order
    copy = pickle.loads(pickle.dumps(graph))
    assert same(copy, graph)
    assert torch.equal(lggd.distance(copy, [0]).value, lggd.distance(graph, [0]).value)


# -- devices ------------------------------------------------------------------------------------------------------


def test_to_the_same_device_returns_the_graph_itself():
    graph = Graph.from_edges(PAIRS)
    assert graph.to("cpu") is graph
    assert graph.to(torch.device("cpu")) is graph


@pytest.mark.gpu
@needs_cuda
def test_to_cuda_and_back():
    graph = Graph.from_points(np.random.default_rng(0).random((100, 2)), k=4, kernel=lambda length: np.exp(-length))
    there = graph.to("cuda")
    assert there.device.type == there.edge_index.device.type == there.degree.device.type == "cuda"
    assert there.to(there.device) is there
    assert "device=cuda" in repr(there)
    assert torch.equal(there.components.cpu(), graph.components)
    assert same(there.to("cpu"), graph)
