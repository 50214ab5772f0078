"""Edge lists: what is read, how it becomes symmetric, and its precision. Edges of PyG data: checked and replaced."""

import numpy as np
import pytest
import torch

import lggd
from lggd import Graph, Symmetrize
from lggd.errors import InputError
from lggd.graph.edge_list import check_edges, check_symmetric, check_weights, read_weight, with_edges
from support.graphs import dense, random_weights
from support.small_data import blocks, changed

PAIRS = [(0, 1), (1, 0), (1, 3), (3, 1), (0, 3), (3, 0)]
ADJACENCY = np.array([[0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]], float)


# -- from_edges ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edges",
    [
        PAIRS,
        tuple(PAIRS),
        [list(pair) for pair in PAIRS],
        np.array(PAIRS),
        np.array(PAIRS).T,
        np.array(PAIRS).T.tolist(),
        np.array(PAIRS, np.uint8),
        torch.tensor(PAIRS),
        torch.tensor(PAIRS).T,
        torch.tensor(PAIRS, dtype=torch.int32).T.contiguous(),
        set(PAIRS),
        dict.fromkeys(PAIRS).keys(),
        zip(*np.array(PAIRS).T, strict=True),
    ],
)
def test_from_edges_reads_pairs_and_edge_index(edges):
    assert np.array_equal(dense(Graph.from_edges(edges)), ADJACENCY)


def test_a_generator_of_edges_has_the_order_of_weights_and_a_set_has_none():
    weight = np.random.default_rng(0).uniform(0.1, 1, 3).repeat(2)
    assert np.array_equal(dense(Graph.from_edges(iter(PAIRS), weight)), dense(Graph.from_edges(PAIRS, weight)))
    with pytest.raises(InputError, match="`edges` must have an order, that of the weights, got set"):
        Graph.from_edges(set(PAIRS), weight)


def test_two_by_two_is_an_edge_index_as_an_array_and_pairs_as_a_list():
    given = [[0, 1], [2, 3]]
    assert Graph.from_edges(np.array(given), directed=True).edge_index.tolist() == [[0, 1], [2, 3]]
    assert Graph.from_edges(given, directed=True).edge_index.tolist() == [[0, 2], [1, 3]]


def test_num_nodes_counts_to_the_largest_id_unless_given():
    assert Graph.from_edges(PAIRS).num_nodes == 4
    assert Graph.from_edges(PAIRS, num_nodes=7).num_nodes == 7
    assert Graph.from_edges(PAIRS, num_nodes=np.int64(7)).num_nodes == 7


@pytest.mark.parametrize("edges", [[], np.empty((2, 0), int), torch.empty(2, 0, dtype=torch.long)])
def test_a_graph_without_edges_needs_num_nodes(edges):
    graph = Graph.from_edges(edges, num_nodes=3)
    assert (graph.num_nodes, graph.num_edges, graph.is_directed) == (3, 0, False)
    assert graph.edge_index.shape == (2, 0)
    assert graph.degree.tolist() == [0, 0, 0]
    assert graph.components.tolist() == [0, 1, 2]


def test_one_node():
    graph = Graph.from_edges([], num_nodes=1)
    assert repr(graph) == "Graph(nodes=1, edges=0)"
    assert lggd.distance(graph, [0]).value.tolist() == [0.0]


def test_both_directions_are_stored_and_rows_are_sorted():
    edges = np.random.default_rng(1).integers(0, 30, (2, 200))
    graph = Graph.from_edges(edges[:, edges[0] != edges[1]], symmetrize="max")
    rows, columns = graph.edge_index.tolist()
    pairs = list(zip(rows, columns, strict=True))
    assert pairs == sorted(set(pairs))
    assert {(j, i) for i, j in pairs} == set(pairs)
    assert graph.csr.symmetric


def test_duplicate_edges_keep_the_largest_weight():
    graph = Graph.from_edges([(0, 1), (1, 0), (0, 1), (1, 0)], [0.25, 0.5, 0.5, 0.125])
    assert graph.num_edges == 2
    assert graph.weight.tolist() == [0.5, 0.5]


def test_self_loops_are_dropped_with_one_warning_at_the_caller():
    with pytest.warns(UserWarning, match="Self-loops dropped: 2, the first at node 2") as caught:
        graph = Graph.from_edges([(0, 1), (2, 2), (1, 0), (1, 1)], [0.5, 0.1, 0.5, 0.2])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert graph.weight.tolist() == [0.5, 0.5]
    assert graph.num_nodes == 3


# -- symmetry -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"symmetrize": "max"}, [[0, 0.5, 0.25], [0.5, 0, 0], [0.25, 0, 0]]),
        ({"symmetrize": Symmetrize.MAX}, [[0, 0.5, 0.25], [0.5, 0, 0], [0.25, 0, 0]]),
        ({"symmetrize": "mean"}, [[0, 0.375, 0.125], [0.375, 0, 0], [0.125, 0, 0]]),
        ({"symmetrize": Symmetrize.MEAN}, [[0, 0.375, 0.125], [0.375, 0, 0], [0.125, 0, 0]]),
        ({"directed": True}, [[0, 0.5, 0.25], [0.25, 0, 0], [0, 0, 0]]),
    ],
)
def test_asymmetric_weights_are_refused_or_remedied(options, expected):
    edges, weight = [(0, 1), (1, 0), (0, 2)], [0.5, 0.25, 0.25]
    with pytest.raises(ValueError, match="must be symmetric"):
        Graph.from_edges(edges, weight)
    graph = Graph.from_edges(edges, weight, **options)
    assert np.array_equal(dense(graph), expected)
    assert graph.is_directed == ("directed" in options)


def test_mean_of_one_direction_of_weight_one_is_a_half():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 1)], symmetrize="mean")
    assert graph.weight.tolist() == [0.5, 0.5, 1, 1]


@pytest.mark.parametrize("how", [{"symmetrize": "max"}, {"symmetrize": "mean"}, {}])
def test_symmetrizing_a_symmetric_graph_changes_nothing(how):
    matrix = random_weights()
    assert np.array_equal(dense(Graph.from_scipy(matrix, **how)), matrix)


def test_asymmetry_of_rounding_size_is_averaged():
    graph = Graph.from_edges([(0, 1), (1, 0)], [0.5, 0.5 + 2e-7])
    assert not graph.is_directed
    assert graph.weight.tolist() == pytest.approx([0.5 + 1e-7] * 2, rel=1e-12)


# -- weights and precision ----------------------------------------------------------------------------------------


def test_unbounded_allows_any_positive_weight():
    edges, weight = [(0, 1), (1, 0)], [7.0, 7.0]
    with pytest.raises(ValueError, match="unbounded=True"):
        Graph.from_edges(edges, weight)
    assert Graph.from_edges(edges, weight, unbounded=True).weight.tolist() == weight


@pytest.mark.parametrize(
    ("weight", "dtype", "expected"),
    [
        (None, None, torch.float32),
        (np.full(2, 0.5, np.float32), None, torch.float32),
        (np.full(2, 0.5, np.float16), None, torch.float32),
        (np.full(2, 0.5), None, torch.float64),
        (torch.full((2,), 0.5, dtype=torch.float64), None, torch.float64),
        (np.ones(2, int), None, torch.float32),
        (np.full(2, 0.5), torch.float32, torch.float32),
        (None, torch.float64, torch.float64),
    ],
)
def test_dtype_follows_the_weights_unless_given(weight, dtype, expected):
    graph = Graph.from_edges([(0, 1), (1, 0)], weight, dtype=dtype)
    assert graph.dtype == graph.weight.dtype == graph.degree.dtype == expected


def test_unit_weights_take_no_memory():
    graph = Graph.from_edges(PAIRS, np.ones(len(PAIRS)))
    assert not graph.is_weighted
    assert graph.csr.weight is None
    assert graph.weight.tolist() == [1.0] * 6


# -- PyG data -----------------------------------------------------------------------------------------------------


def test_weights_come_from_edge_weight_or_edge_attr():
    data = blocks(weighted=True)
    assert read_weight(data) is data.edge_weight
    renamed = changed(changed(data, edge_weight=None), edge_attr=data.edge_weight)
    assert read_weight(renamed) is data.edge_weight
    assert read_weight(blocks()) is None
    assert read_weight(changed(blocks(), edge_attr=torch.rand(data.num_edges, 3))) is None


def test_weights_may_be_a_column_of_edge_attr():
    data = blocks(weighted=True)
    column = changed(changed(data, edge_weight=None), edge_attr=data.edge_weight.unsqueeze(1))
    assert torch.equal(read_weight(column), data.edge_weight)
    assert torch.equal(Graph.from_pyg(column).weight, Graph.from_pyg(data).weight)
    assert torch.equal(lggd.KernelRidge().fit(column).predict_proba(), lggd.KernelRidge().fit(data).predict_proba())


@pytest.mark.parametrize(
    ("edge_index", "edge_weight", "message"),
    [
        (torch.zeros(3, 4, dtype=torch.int64), None, r"`edge_index` must be int64 \[2, E\], got torch.int64 \[3, 4\]"),
        (torch.zeros(2, 4), None, r"`edge_index` must be int64 \[2, E\], got torch.float32 \[2, 4\]"),
        (torch.tensor([[0], [5]]), None, "`edge_index` must contain node ids from 0 to 4, got 5"),
        (torch.tensor([[-1], [0]]), None, "`edge_index` must contain node ids from 0 to 4, got -1"),
        (
            torch.tensor([[0], [1]]),
            torch.ones(2),
            r"`edge_weight` must have shape \[1\], one weight per edge, got \[2\]",
        ),
    ],
)
def test_invalid_edges_raise(edge_index, edge_weight, message):
    with pytest.raises(ValueError, match=message):
        check_edges(edge_index, edge_weight, num_nodes=5)


def test_invalid_weights_name_their_edge():
    with pytest.raises(
        InputError, match=r"`edge_attr` must be 0 or above and finite, got -1 on edge \(4, 2\)"
    ) as refused:
        check_weights(torch.tensor([[0, 4], [1, 2]]), torch.tensor([1.0, -1.0]), "edge_attr")
    assert "on edge (ben, ada)" in str(refused.value.replace(nodes=["ben", "ada"]))


def test_symmetric_edges():
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    check_symmetric(edges, None, 3)
    check_symmetric(edges, torch.tensor([1.0, 1.0, 0.5, 0.5, 2.0]), 3)
    # The weights of duplicate edges are summed.
    check_symmetric(torch.tensor([[0, 0, 1], [1, 1, 0]]), torch.tensor([1.0, 2.0, 3.0]), 2)
    for index, weight in ((edges[:, 1:], None), (edges, torch.tensor([1.0, 2.0, 0.5, 0.5, 2.0]))):
        with pytest.raises(ValueError, match="both directions"):
            check_symmetric(index, weight, 3)


def test_replaced_edges_leave_the_data_unchanged():
    data = changed(blocks(weighted=True), edge_attr=torch.zeros(3))
    before, edges = data.edge_index, torch.tensor([[0], [1]])
    other = with_edges(data, edges, None)
    assert other.edge_index is edges
    assert other.edge_weight is None
    assert other.edge_attr is None
    assert other.x is data.x
    assert data.edge_index is before
    assert data.edge_weight is not None
    assert with_edges(data, edges, torch.ones(1)).edge_weight.tolist() == [1.0]
