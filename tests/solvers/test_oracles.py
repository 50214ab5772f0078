"""Against other packages, each on the ground that it shares with this one."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import dijkstra

from lggd import Dijkstra, FastIterative, FastMarching, Graph, distance
from support import oracles, zoo

SOURCES = [3, 50, 120]


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def scattered(request) -> tuple[Graph, torch.Tensor]:
    """A random weighted graph with some nodes out of reach, and a potential."""
    rng = np.random.default_rng(1)
    edges, weight = rng.integers(0, 300, (2, 500)), rng.uniform(0.01, 1, 500)
    distinct = edges[0] != edges[1]
    how = {"directed": True} if request.param else {"symmetrize": "max"}
    return Graph.from_edges(edges[:, distinct], weight[distinct], num_nodes=300, **how), zoo.f64(
        rng.uniform(0.5, 2, 300)
    )


def lengths(graph: Graph, rho: torch.Tensor) -> sp.csr_array:
    """The edge (i, j) is 1/(ρ(i)√w(i, j)) long."""
    matrix = graph.to_scipy().astype(float)
    matrix.data = 1 / (np.repeat(rho.numpy(), np.diff(matrix.indptr)) * np.sqrt(matrix.data))
    return matrix


@pytest.mark.parametrize("solver", zoo.solvers_for(zoo.inf), ids=lambda s: type(s).__name__)
def test_shortest_paths_agree_with_scipy(scattered, solver):
    graph, rho = scattered
    # f(i) depends on f(j) through (i, j); SciPy measures from the boundary, against the edge directions.
    expected = dijkstra(lengths(graph, rho).T.tocsr(), indices=SOURCES, min_only=True)
    assert np.isinf(expected).any()
    zoo.assert_close(distance(graph, SOURCES, p=zoo.inf, potential=rho, solver=solver).value, expected)


def test_shortest_paths_agree_with_networkx(scattered):
    graph, rho = scattered
    reversed_edges = nx.from_scipy_sparse_array(lengths(graph, rho).T.tocsr(), create_using=nx.DiGraph)
    expected = np.full(300, np.inf)
    for node, length in nx.multi_source_dijkstra_path_length(reversed_edges, set(SOURCES)).items():
        expected[node] = length
    zoo.assert_close(distance(graph, SOURCES, p=zoo.inf, potential=rho).value, expected)


def test_hops_agree_with_scipy(scattered):
    graph, _ = scattered
    pattern = graph.to_scipy().T.tocsr()
    expected = dijkstra(pattern, indices=SOURCES, min_only=True, unweighted=True)
    bare = Graph.from_edges(graph.edge_index, num_nodes=300, directed=graph.is_directed)
    for solver in (Dijkstra(), FastMarching(), FastIterative()):
        zoo.assert_close(distance(bare, SOURCES, p=zoo.inf, solver=solver).value, expected)


# scikit-fmm takes of two opposite neighbours the lower one, this equation sums over all that are lower. Both say the
# same wherever no pixel lies above two opposite neighbours, as around a point or a straight edge.


def above_both(f: np.ndarray) -> bool:
    """Whether some pixel lies above two opposite neighbours."""
    tall = (f[1:-1] > f[:-2]) & (f[1:-1] > f[2:])
    wide = (f[:, 1:-1] > f[:, :-2]) & (f[:, 1:-1] > f[:, 2:])
    return bool(tall.any() or wide.any())


@pytest.mark.parametrize("source", [(0, 0), (7, 11), (slice(None), 0)], ids=["corner", "inside", "edge"])
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
@pytest.mark.parametrize("solver", [FastMarching(), FastIterative()], ids=lambda s: type(s).__name__)
def test_grids_agree_with_scikit_fmm(source, uneven, solver):
    skfmm = pytest.importorskip("skfmm")
    y, x = np.mgrid[:20, :30]
    # Speeds that change along the way from the edge only, or too little to bend a front from a point into two.
    speed = 1 + uneven * (0.3 * np.sin(x / 7) if isinstance(source[0], slice) else 0.3 * np.sin(x / 7) * np.cos(y / 5))
    # A pixel where φ = 0 is at distance 0; nothing changes sign, so no contour lies between pixels.
    phi = np.ones((20, 30))
    phi[source] = 0
    expected = np.asarray(skfmm.travel_time(phi, speed, order=1))
    assert not above_both(expected)
    graph = Graph.from_grid(np.ones((20, 30), bool))
    found = distance(graph, np.flatnonzero(phi == 0), p=2, potential=zoo.f64(speed.ravel()), solver=solver).value
    zoo.assert_close(found, expected.ravel())


def test_colliding_fronts_arrive_earlier_than_in_scikit_fmm():
    skfmm = pytest.importorskip("skfmm")
    phi = np.ones((9, 9))
    phi[:, [0, 8]] = 0
    expected = np.asarray(skfmm.distance(phi, order=1))
    found = distance(Graph.from_grid(np.ones((9, 9), bool)), np.flatnonzero(phi == 0), p=2).value.reshape(9, 9).numpy()
    assert above_both(expected)
    ridge = np.zeros((9, 9))
    ridge[:, 4] = 1 - np.sqrt(0.5)  # two neighbours at 3: 3 + 1/√2 instead of 3 + 1
    np.testing.assert_allclose(expected - found, ridge, atol=1e-12)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("solver", [FastMarching(), FastIterative()], ids=lambda s: type(s).__name__)
def test_stored_answers_of_graphlearning_are_found(p, solver):
    with np.load(Path(__file__).parents[1] / "stored" / "graphlearning.npz") as stored:
        graph = Graph.from_edges(stored["edges"], stored["weight"], symmetrize="max")
        rho, sources, expected = torch.from_numpy(stored["rho"]), stored["sources"], stored[f"f{p}"]
    zoo.assert_close(distance(graph, sources, p=p, potential=rho, solver=solver).value, expected)


@pytest.mark.parametrize("p", [1, 1.5, 2, 4.5])
@pytest.mark.parametrize("halvings", [30, 60])
def test_graphlearning_agrees_as_far_as_it_bisects(p, halvings):
    graphlearning = pytest.importorskip("graphlearning")
    # It fails on isolated nodes, on nodes out of reach and on arrows, so all of these are left out.
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    graph = Graph.from_points(points, k=10, kernel=lambda d: np.exp(-10 * d))
    assert int(graph.components.max()) == 0
    rho = 0.5 + torch.rand(200, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    powered = sp.csr_matrix(graph.to_scipy().astype(float))
    powered.data **= p / 2
    other = graphlearning.graph(powered)
    expected = other.peikonal(np.array([0, 7]), f=rho.numpy() ** -p, p=p, num_bisection_it=halvings)
    tolerance = 1e-11 if p == 1 or halvings == 60 else 1e-7
    zoo.assert_close(distance(graph, [0, 7], p=p, potential=rho).value, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("solver", [FastMarching(), FastIterative()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("seed", [1810, 3743, *range(60)])
def test_p_2_is_exact_where_weights_span_eight_decades_and_potentials_six(seed, solver):
    """Against 60 decimal digits. Welford's form of the running sums is off by 7e-9 for seed 3743."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    weight = np.triu(np.where(rng.random((n, n)) < 0.6, 10 ** rng.uniform(-8, 0, (n, n)), 0), 1)
    weight, rho = weight + weight.T, 10 ** rng.uniform(-3, 3, n)
    graph = Graph.from_scipy(weight, dtype=zoo.F64)
    found = distance(graph, [0], p=2, potential=torch.from_numpy(rho), solver=solver).value
    expected = np.full(n, np.inf)
    for node, value in oracles.exact_distance(weight, [0], rho).items():
        expected[node] = float(value)
    np.testing.assert_allclose(found.numpy(), expected, rtol=3e-14)
