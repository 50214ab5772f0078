"""Graph: every way in and out, the rules it checks, and that no arrangement in memory ever shows outside."""

import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial.distance import cdist

import lggd
from lggd import Graph
from lggd.graph.csr import inverse

PAIRS = [(0, 1), (1, 0), (1, 3), (3, 1), (0, 3), (3, 0)]
ADJACENCY = np.array([[0, 1, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]], float)
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def dense(graph):
    return graph.to_scipy().toarray()


def random_matrix(n=40, density=0.15, seed=0, symmetric=True):
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((n, n)) < density, rng.uniform(0.1, 1, (n, n)), 0)
    np.fill_diagonal(matrix, 0)
    return np.maximum(matrix, matrix.T) if symmetric else matrix


def same(first, second):
    return (
        torch.equal(first.edge_index, second.edge_index)
        and torch.equal(first.weight, second.weight)
        and (first.num_nodes, first.is_directed, first.dtype) == (second.num_nodes, second.is_directed, second.dtype)
    )


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
    ],
)
def test_from_edges_reads_pairs_and_edge_index(edges):
    assert np.array_equal(dense(Graph.from_edges(edges)), ADJACENCY)


def test_two_by_two_is_an_edge_index_as_an_array_and_pairs_as_a_list():
    given = [[0, 1], [2, 3]]
    assert Graph.from_edges(np.array(given), directed=True).edge_index.tolist() == [[0, 1], [2, 3]]
    assert Graph.from_edges(given, directed=True).edge_index.tolist() == [[0, 2], [1, 3]]


def test_num_nodes_counts_to_the_largest_id_unless_given():
    assert Graph.from_edges(PAIRS).num_nodes == 4
    assert Graph.from_edges(PAIRS, num_nodes=7).num_nodes == 7
    assert Graph.from_edges(PAIRS, num_nodes=np.int64(7)).num_nodes == 7


@pytest.mark.parametrize("edges", [[], np.empty((2, 0), int), torch.empty(2, 0, dtype=torch.long)])
def test_no_edges_are_accepted_when_num_nodes_says_so(edges):
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


def test_equal_edges_keep_the_largest_weight():
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
        ({"symmetrize": "mean"}, [[0, 0.375, 0.125], [0.375, 0, 0], [0.125, 0, 0]]),
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


def test_mean_of_a_single_arrow_of_weight_one_is_a_half():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 1)], symmetrize="mean")
    assert graph.weight.tolist() == [0.5, 0.5, 1, 1]


@pytest.mark.parametrize("how", [{"symmetrize": "max"}, {"symmetrize": "mean"}, {}])
def test_a_symmetric_graph_stays_as_it_is(how):
    matrix = random_matrix()
    assert np.array_equal(dense(Graph.from_scipy(matrix, **how)), matrix)


def test_asymmetry_of_rounding_size_is_averaged():
    graph = Graph.from_edges([(0, 1), (1, 0)], [0.5, 0.5 + 2e-7])
    assert not graph.is_directed
    assert graph.weight.tolist() == pytest.approx([0.5 + 1e-7] * 2, rel=1e-12)


# -- weights and precision ----------------------------------------------------------------------------------------


def test_unbounded_admits_any_positive_weight():
    edges, weight = [(0, 1), (1, 0)], [7.0, 7.0]
    with pytest.raises(ValueError, match="unbounded=True"):
        Graph.from_edges(edges, weight)
    assert Graph.from_edges(edges, weight, unbounded=True).weight.tolist() == weight


@pytest.mark.parametrize(
    ("weight", "asked", "expected"),
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
def test_dtype_follows_the_weights_unless_asked(weight, asked, expected):
    graph = Graph.from_edges([(0, 1), (1, 0)], weight, dtype=asked)
    assert graph.dtype == graph.weight.dtype == graph.degree.dtype == expected


def test_unit_weights_take_no_memory():
    graph = Graph.from_edges(PAIRS, np.ones(len(PAIRS)))
    assert not graph.is_weighted
    assert graph.csr.weight is None
    assert graph.weight.tolist() == [1.0] * 6


# -- from_scipy ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.array, sp.csr_array, sp.coo_matrix, sp.csc_matrix, sp.lil_array])
@pytest.mark.parametrize("directed", [False, True])
def test_scipy_round_trip(form, directed):
    matrix = random_matrix(symmetric=not directed)
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
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_nodes_from(["d", "b", "c", "a"])
    graph.add_edge("a", "b", weight=0.5)
    graph.add_edge("d", "a")
    read = Graph.from_networkx(graph)
    assert read.edge_index.tolist() == [[0, 1, 3, 3], [3, 3, 0, 1]]
    assert read.weight.tolist() == [1, 0.5, 1, 0.5]
    assert read.dtype == torch.float64


def test_from_networkx_reads_the_named_attribute():
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_edge(0, 1, closeness=0.25, weight=0.5)
    assert Graph.from_networkx(graph, weight="closeness").weight.tolist() == [0.25, 0.25]


def test_from_networkx_keeps_arrows_only_when_told():
    nx = pytest.importorskip("networkx")
    arrows = nx.DiGraph([("x", "y")])
    assert Graph.from_networkx(arrows, directed=True).edge_index.tolist() == [[0], [1]]
    assert Graph.from_networkx(arrows, symmetrize="max").num_edges == 2
    with pytest.raises(ValueError, match="symmetric"):
        Graph.from_networkx(arrows)


def test_a_self_loop_of_networkx_is_counted_once():
    nx = pytest.importorskip("networkx")
    with pytest.warns(UserWarning, match="Self-loops dropped: 1, the first at node 1"):
        Graph.from_networkx(nx.Graph([(0, 1), (1, 1)]))


@pytest.mark.parametrize("directed", [False, True])
def test_networkx_round_trip(directed):
    nx = pytest.importorskip("networkx")
    graph = Graph.from_scipy(random_matrix(symmetric=not directed), directed=directed)
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


def test_from_pyg_leaves_out_features_of_edges():
    data = pytest.importorskip("torch_geometric.data")
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graph = Graph.from_pyg(data.Data(x=torch.zeros(3, 2), edge_index=edge_index, edge_attr=torch.rand(2, 4)))
    assert not graph.is_weighted
    assert graph.num_nodes == 3


# -- from_points --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 20])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_nearest_neighbours_join_where_either_counts_the_other(dimension, as_tensor):
    points = np.random.default_rng(dimension).normal(size=(80, dimension))
    apart = cdist(points, points)
    np.fill_diagonal(apart, np.inf)
    expected = np.zeros((80, 80), bool)
    np.put_along_axis(expected, np.argsort(apart, 1)[:, :4], True, 1)
    graph = Graph.from_points(torch.from_numpy(points) if as_tensor else points, k=4)
    assert np.array_equal(dense(graph) > 0, expected | expected.T)


@pytest.mark.parametrize("dimension", [1, 2, 3, 20])
def test_epsilon_joins_all_points_within_it(dimension):
    points = np.random.default_rng(dimension).normal(size=(80, dimension))
    apart = cdist(points, points)
    epsilon = float(np.quantile(apart, 0.2))
    graph = Graph.from_points(points, epsilon=epsilon)
    assert np.array_equal(dense(graph) > 0, (apart <= epsilon) & ~np.eye(80, dtype=bool))
    assert not graph.is_weighted


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_maps_lengths_to_weights(dtype):
    points = np.random.default_rng(0).random((50, 2)).astype(dtype)
    graph = Graph.from_points(points, k=5, kernel=lambda length: np.exp(-(length**2)))
    expected = np.exp(-(cdist(points, points) ** 2))
    joined = dense(graph) > 0
    assert graph.dtype == torch.from_numpy(points).dtype
    np.testing.assert_allclose(dense(graph)[joined], expected[joined], rtol=1e-5)


@pytest.mark.parametrize("dimension", [1, 2, 20])
def test_equal_points_are_neighbours_and_never_their_own(dimension):
    points = np.zeros((9, dimension))
    points[6:] = np.arange(1, 4)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = Graph.from_points(points, k=2)
    joined = dense(graph) > 0
    assert (joined.sum(1) >= 2).all()
    assert (joined[:6, :6].sum(1) >= 2).all()
    assert Graph.from_points(points, epsilon=0.5).num_edges == 6 * 5


def test_points_of_integers_and_points_on_a_line():
    graph = Graph.from_points([[3], [1], [0]], k=1)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_one_point_has_no_neighbours():
    assert Graph.from_points([[0.5, 0.5]], epsilon=1.0).num_edges == 0
    assert Graph.from_points([[0.5, 0.5]], k=1).num_edges == 0


# -- from_grid ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("form", [np.asarray, torch.from_numpy, np.ndarray.tolist])
def test_pixels_of_a_mask_are_joined_to_adjacent_ones(connectivity, form):
    mask = np.random.default_rng(0).random((9, 13)) < 0.7
    place = np.argwhere(mask)
    step = np.abs(place[:, None] - place[None])
    expected = np.where(step.sum(2) == 1, 1.0, 0.0)
    if connectivity == 8:
        expected[(step == 1).all(2)] = 0.5
    assert np.array_equal(dense(Graph.from_grid(form(mask), connectivity=connectivity)), expected)


def test_an_image_is_the_mask_of_its_dark_half():
    image = np.array([[10, 250, 130], [0, 255, 127]], np.uint8)
    dark = Graph.from_grid(image)
    assert same(dark, Graph.from_grid(image < 128))
    assert dark.num_nodes == 3
    assert same(dark, Graph.from_grid(image / 255))


def test_diagonal_steps_are_root_two_long():
    graph = Graph.from_grid(np.ones((3, 3), bool), connectivity=8)
    corner = lggd.distance(graph, [0], p=math.inf).value[8]
    assert float(corner) == pytest.approx(2 * math.sqrt(2))


def test_a_single_pixel():
    assert repr(Graph.from_grid([[False, True]])) == "Graph(nodes=1, edges=0)"


# -- what it is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_edge_index_and_weight_are_those_of_scipy(directed):
    matrix = random_matrix(symmetric=not directed)
    graph = Graph.from_scipy(matrix, directed=directed)
    rows, columns = np.nonzero(matrix)
    assert np.array_equal(graph.edge_index.numpy(), [rows, columns])
    assert np.array_equal(graph.weight.numpy(), matrix[rows, columns])
    assert same(Graph.from_edges(graph.edge_index, graph.weight, num_nodes=40, directed=directed), graph)


@pytest.mark.parametrize("directed", [False, True])
def test_degree_adds_the_weights_of_a_row(directed):
    matrix = random_matrix(density=0.03, symmetric=not directed)
    graph = Graph.from_scipy(matrix, directed=directed)
    assert (matrix.sum(1) == 0).any(), "the matrix should have an isolated node"
    np.testing.assert_allclose(graph.degree.numpy(), matrix.sum(1))
    unweighted = Graph.from_scipy(matrix > 0, directed=directed)
    assert np.array_equal(unweighted.degree.numpy(), (matrix > 0).sum(1))


@pytest.mark.parametrize("directed", [False, True])
def test_components_are_those_of_scipy(directed):
    matrix = random_matrix(n=60, density=0.02, symmetric=not directed)
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


@pytest.mark.parametrize("name", ["weight", "num_nodes", "degree", "_native", "_dtype", "label"])
def test_a_graph_does_not_change(name):
    graph = Graph.from_edges(PAIRS)
    with pytest.raises(AttributeError, match=f"does not change: cannot set '{name}'"):
        setattr(graph, name, None)
    assert same(graph, Graph.from_edges(PAIRS))


def test_a_graph_keeps_no_memory_of_its_inputs():
    edges, weight = np.array(PAIRS).T.copy(), np.full(6, 0.5)
    graph = Graph.from_edges(edges, weight)
    edges[:], weight[:] = 0, 0.25
    assert same(graph, Graph.from_edges(PAIRS, np.full(6, 0.5)))


@pytest.mark.parametrize(
    "graph",
    [
        Graph.from_scipy(random_matrix()),
        Graph.from_scipy(random_matrix(symmetric=False), directed=True),
        Graph.from_points(np.random.default_rng(0).random((30, 2)), k=3),
    ],
    ids=["weighted", "directed", "points"],
)
def test_pickle_round_trip(graph):
    _ = graph.degree, graph.components, graph.csr.transposed
    copy = pickle.loads(pickle.dumps(graph))
    assert same(copy, graph)
    assert torch.equal(lggd.distance(copy, [0]).value, lggd.distance(graph, [0]).value)


# -- devices ------------------------------------------------------------------------------------------------------


def test_to_the_device_it_lies_on_is_itself():
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


# -- rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_transposed_rows_are_those_of_scipy(directed):
    matrix = random_matrix(symmetric=not directed)
    csr = Graph.from_scipy(matrix, directed=directed).csr
    transposed = csr.transposed
    expected = sp.csr_array(matrix.T)
    assert np.array_equal(transposed.indptr, expected.indptr)
    assert np.array_equal(transposed.indices, expected.indices)
    assert np.array_equal(csr.weight[transposed.edge.long()], expected.data)


@pytest.mark.parametrize("directed", [False, True])
def test_permuted_rows_are_those_of_scipy(directed):
    matrix = random_matrix(symmetric=not directed)
    csr = Graph.from_scipy(matrix, directed=directed).csr
    order = torch.from_numpy(np.random.default_rng(1).permutation(40))
    moved, position = csr.permuted(order)
    expected = sp.csr_array(matrix[order][:, order])
    assert np.array_equal(moved.indptr, expected.indptr)
    assert np.array_equal(moved.indices, expected.indices)
    assert np.array_equal(moved.weight, expected.data)
    assert torch.equal(csr.weight[position.long()], moved.weight)
    assert torch.equal(inverse(order)[order], torch.arange(40))


# -- arrangement in memory ----------------------------------------------------------------------------------------


def test_points_lie_in_morton_order_inside_and_in_their_own_outside():
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


def test_a_large_scattered_graph_is_reordered_only_for_much_work(shuffled_ring):
    graph = pickle.loads(pickle.dumps(shuffled_ring[0]))
    assert graph.layout(passes=1).order is None
    assert graph.layout(passes=100).order is not None
    assert graph.layout(passes=1) is graph.layout(passes=100)
    in_order = Graph.from_edges(np.stack([np.arange(60_000), np.roll(np.arange(60_000), -1)]), symmetrize="max")
    assert in_order.layout(passes=100).order is None


def test_reordering_never_shows_in_what_a_graph_says(shuffled_ring):
    graph, _ = shuffled_ring
    before = graph.edge_index, graph.weight, graph.degree, graph.to_scipy()
    assert graph.layout(passes=100).order is not None
    assert torch.equal(graph.edge_index, before[0])
    assert torch.equal(graph.weight, before[1])
    assert torch.equal(graph.degree, before[2])
    assert (graph.to_scipy() != before[3]).nnz == 0
    np.testing.assert_allclose(graph.degree.numpy(), graph.to_scipy().sum(1))


def test_reordering_never_shows_in_distances(shuffled_ring):
    graph, node = shuffled_ring
    assert graph.layout(passes=100).order is not None
    length = graph.to_scipy()
    length.data = 1 / np.sqrt(length.data)
    sources = node[[0, 17]].tolist()
    found = lggd.distance(graph, [[i] for i in sources], p=math.inf)
    np.testing.assert_allclose(found.value.T, dijkstra(length, indices=sources), rtol=1e-9)
    walk = lggd.shortest_path(graph, found, int(node[40]), column=1).tolist()
    assert walk == node[17:41].tolist()


def test_reordering_never_shows_in_evolutions(shuffled_ring):
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
