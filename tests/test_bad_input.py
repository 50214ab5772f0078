"""Every error about bad input names the argument, the rule, the value received and the remedy."""

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from lggd import (
    RK4,
    SSPRK3,
    DegreePotential,
    Dijkstra,
    Euler,
    Evolution,
    FastIterative,
    FastMarching,
    Graph,
    PseudoLabels,
    depth,
    distance,
    evolve,
    shortest_path,
)
from lggd.errors import InputTypeError
from lggd.scales import SoftmaxScale

NAN, INF = math.nan, math.inf
PATH = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
SPLIT = Graph.from_edges([(0, 1)], num_nodes=3, symmetrize="max")
POINTS = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]


def edges(given, weight=None, **options):
    return lambda: Graph.from_edges(given, weight, **options)


def weighted(*weight, **options):
    return edges([(0, 1), (1, 0)], list(weight), **options)


def matrix(given, **options):
    return lambda: Graph.from_scipy(np.array(given), **options)


def points(given=POINTS, **options):
    return lambda: Graph.from_points(given, **options)


def grid(given, **options):
    return lambda: Graph.from_grid(np.array(given), **options)


def sources(given):
    return lambda: distance(PATH, given)


def solve(**options):
    return lambda: distance(PATH, [0], **options)


def flow(sources=0, **options):
    return lambda: evolve(PATH, sources, **options)


def walk(solution, target=2, **options):
    return lambda: shortest_path(PATH, solution, target, **options)


def numbers(*given, dtype=None):
    return torch.tensor(given, dtype=dtype)


# What is wrong, the call, the type of the error, and what its message must contain.
TABLE = [
    # edges
    ("edges are floats", edges([(0.0, 1.0)]), TypeError, ["`edges`", "float64", "Number the nodes"]),
    ("edges are names", edges([("a", "b")]), TypeError, ["`edges`", "integers", "Number the nodes"]),
    ("edges are booleans", edges(np.ones((2, 3), bool)), TypeError, ["`edges`", "bool"]),
    ("edges are 3 x 3", edges(np.ones((3, 3), int)), ValueError, ["`edges`", "(3, 3)", "[2, E] or a list of pairs"]),
    ("edges are 1-D", edges([0, 1]), ValueError, ["`edges`", "(2,)", "list of pairs"]),
    ("edge beyond num_nodes", edges([(0, 5)], num_nodes=3), ValueError, ["`edges`", "0..2", "got 5", "num_nodes"]),
    ("edge to a negative node", edges([(0, -1)]), ValueError, ["`edges`", "got -1", "Renumber"]),
    ("only negative nodes", edges([(-3, -1)]), ValueError, ["`edges`", "got -3", "Renumber"]),
    ("no edges, no num_nodes", edges([]), ValueError, ["`num_nodes`", "be passed", "without edges"]),
    ("zero nodes", edges([], num_nodes=0), ValueError, ["`num_nodes`", "whole number from 1", "got 0"]),
    ("num_nodes negative", edges([(0, 1)], num_nodes=-1), ValueError, ["`num_nodes`", "got -1"]),
    ("num_nodes a float", edges([(0, 1)], num_nodes=3.0), TypeError, ["`num_nodes`", "whole number", "got 3.0"]),
    ("num_nodes too large", edges([(0, 2**31)]), ValueError, ["`num_nodes`", "2**31", "Split the graph"]),
    ("one direction missing", edges([(0, 1), (1, 2), (2, 1)]), ValueError,
     ["`edges`", "(0, 1) without (1, 0)", 'symmetrize="max" or "mean"', "directed=True"]),
    ("directions weigh differently", weighted(0.5, 0.7), ValueError,
     ["`weight`", "0.5 on (0, 1)", "0.7 on (1, 0)", 'symmetrize="max" or "mean"', "directed=True"]),
    ("directed and symmetrize", edges([(0, 1)], directed=True, symmetrize="max"), ValueError,
     ["`symmetrize`", "directed=True", "'max'", "Pass only one"]),
    ("unknown symmetrize", edges([(0, 1)], symmetrize="min"), ValueError, ["`symmetrize`", '"max", "mean"', "'min'"]),
    ("half precision", edges([(0, 1)], dtype=torch.float16), TypeError, ["`dtype`", "torch.float16", "torch.float32"]),
    # weights
    ("weight negative", weighted(0.5, -0.5), ValueError, ["`weight`", "positive", "got -0.5", "(1, 0)"]),
    ("weight NaN", weighted(NAN, 0.5), ValueError, ["`weight`", "finite", "got nan", "(0, 1)"]),
    ("weight infinite", weighted(INF, INF, unbounded=True), ValueError, ["`weight`", "finite", "got inf"]),
    ("weight zero", weighted(0.5, 0.0), ValueError, ["`weight`", "got 0", "Omit edges of weight 0"]),
    ("weight above 1", weighted(2.0, 2.0), ValueError, ["`weight`", "(0, 1]", "got 2", "unbounded=True"]),
    ("weight zero though unbounded", weighted(0, 2, unbounded=True), ValueError, ["`weight`", "positive", "got 0"]),
    ("weight too small for float32", weighted(1e-50, 1e-50, dtype=torch.float32), ValueError,
     ["`weight`", "got 1e-50", "dtype=torch.float64"]),
    ("weight of wrong length", weighted(0.5), ValueError, ["`weight`", "shape [2]", "got [1]"]),
    ("weight a matrix", weighted([0.5], [0.5]), ValueError, ["`weight`", "shape [2]", "got [2, 1]"]),
    ("weight a text", weighted("a", "b"), TypeError, ["`weight`", "numbers", "<U1"]),
    # settings
    ("alpha a text", lambda: DegreePotential("a"), TypeError, ["`alpha`", "finite number", "got 'a'"]),
    ("alpha NaN", lambda: DegreePotential(NAN), ValueError, ["`alpha`", "finite number", "got nan"]),
    ("temperature a text", lambda: SoftmaxScale("1"), TypeError, ["`temperature`", "or None to fit it", "got '1'"]),
    ("temperature zero", lambda: SoftmaxScale(0), ValueError, ["`temperature`", "positive", "got 0"]),
    ("a single fraction", lambda: PseudoLabels(0.5), TypeError, ["`fractions`", "a tuple such as", "got 0.5"]),
    # scipy, networkx, PyG
    ("matrix not square", matrix(np.ones((2, 3))), ValueError, ["`matrix`", "square", "(2, 3)", "N x N"]),
    ("matrix without rows", matrix(np.ones((0, 0))), ValueError, ["whole number from 1", "got 0"]),
    ("matrix with NaN", matrix([[0, NAN], [NAN, 0]]), ValueError, ["`weight`", "got nan", "(0, 1)"]),
    ("matrix not symmetric", matrix([[0, 1], [0, 0]]), ValueError, ["symmetric", "(0, 1)", "directed=True"]),
    ("data without edge_index", lambda: Graph.from_pyg([1]), TypeError, ["`data`", "edge_index", "list", "PyG Data"]),
    # points
    ("neither k nor epsilon", points(), ValueError,
     ["`k`", "if and only if epsilon", "k=None and epsilon=None", "Pass one"]),
    ("both k and epsilon", points(k=1, epsilon=0.5), ValueError,
     ["`k`", "if and only if epsilon", "k=1 and epsilon=0.5"]),
    ("k too large", points(k=3), ValueError, ["`k`", "at most 2", "3 points", "got 3"]),
    ("k zero", points(k=0), ValueError, ["`k`", "whole number from 1", "got 0"]),
    ("k a fraction", points(k=1.5), TypeError, ["`k`", "whole number", "got 1.5"]),
    ("epsilon negative", points(epsilon=-1), ValueError, ["`epsilon`", "positive", "got -1"]),
    ("epsilon NaN", points(epsilon=NAN), ValueError, ["`epsilon`", "positive", "got nan"]),
    ("epsilon joins nothing", points(epsilon=0.1), ValueError, ["`epsilon`", "got 0.1", "closest two are 1 apart"]),
    ("points NaN", points([[0.0], [NAN]], k=1), ValueError, ["`points`", "finite", "nan", "row 1", "Drop or repair"]),
    ("points 1-D", points([0.0, 1.0], k=1), ValueError, ["`points`", "[N, d]", "(2,)", "one row per point"]),
    ("points without coordinates", points(np.ones((3, 0)), k=1), ValueError, ["`points`", "[N, d]", "(3, 0)"]),
    ("no points", points(np.ones((0, 2)), k=1), ValueError, ["`points`", "at least one point", "none"]),
    ("points are texts", points([["a"], ["b"]], k=1), TypeError, ["`points`", "numbers", "<U1"]),
    ("kernel above 1", points(k=1, kernel=lambda d: 1 + d), ValueError, ["`kernel`", "(0, 1]", "got 2", "at length 1"]),
    ("kernel zero", points(k=1, kernel=lambda d: 0 * d), ValueError, ["`kernel`", "(0, 1]", "got 0", "at length 1"]),
    ("kernel gives one number", points(k=1, kernel=lambda d: 0.5), ValueError, ["`kernel`", "one number", "shape ()"]),
    ("kernel gives nothing", points(k=1, kernel=lambda d: None), ValueError, ["`kernel`", "one number", "object"]),
    # grids
    ("mask 3-D", grid(np.ones((2, 2, 3))), ValueError, ["`mask`", "2-D", "(2, 2, 3)", "grey"]),
    ("mask empty", grid(np.ones((0, 2), bool)), ValueError, ["`mask`", "2-D", "(0, 2)"]),
    ("mask all False", grid(np.zeros((2, 2), bool)), ValueError, ["`mask`", "at least one True pixel", "none"]),
    ("image of one colour", grid(np.full((2, 2), 7)), ValueError, ["`mask`", "two colours", "got 7", "boolean mask"]),
    ("image with NaN", grid([[0.0, NAN]]), ValueError, ["`mask`", "finite", "got nan", "pixel (0, 1)"]),
    ("image of texts", grid([["a", "b"]]), TypeError, ["`mask`", "numbers", "<U1"]),
    ("connectivity 6", grid(np.ones((2, 2), bool), connectivity=6), ValueError, ["`connectivity`", "4 or 8", "got 6"]),
    # sources
    ("no source", sources([]), ValueError, ["`sources`", "at least one node", "none"]),
    ("no source in a mask", sources(np.zeros(3, bool)), ValueError, ["`sources`", "at least one node"]),
    ("source out of range", sources([0, 3]), ValueError, ["`sources`", "0..2", "got 3"]),
    ("source negative", sources([-1]), ValueError, ["`sources`", "0..2", "got -1"]),
    ("source a float", sources([0.5]), TypeError, ["`sources`", "ids or a mask", "float64"]),
    ("source a text", sources("a"), TypeError, ["`sources`", "ids or a mask"]),
    ("source None", sources(None), TypeError, ["`sources`", "ids or a mask"]),
    ("sources 2-D ids", sources(torch.zeros(2, 2, dtype=torch.long)), TypeError, ["`sources`", "[2, 2]"]),
    ("mask of wrong length", sources(torch.ones(2, dtype=torch.bool)), ValueError, ["`sources`", "[3]", "got [2]"]),
    ("masks of wrong length", sources(np.ones((2, 4), bool)), ValueError, ["`sources[:, 0]`", "[3]", "got [2]"]),
    ("masks without columns", sources(np.ones((3, 0), bool)), ValueError, ["`sources`", "[3]", "got [3, 0]"]),
    ("empty column of a mask", sources(np.eye(3, dtype=bool)[:, [0, 1]] & [True, False]), ValueError,
     ["`sources[:, 1]`", "at least one node"]),
    ("empty column of a list", sources([[0], []]), ValueError, ["`sources[1]`", "at least one node"]),
    ("bad node in a column", sources([[0], [1, 9]]), ValueError, ["`sources[1]`", "0..2", "got 9"]),
    # p and graph
    ("p below 1", solve(p=0.5), ValueError, ["`p`", "[1, inf]", "got 0.5", "math.inf"]),
    ("p negative infinity", solve(p=-INF), ValueError, ["`p`", "[1, inf]", "got -inf"]),
    ("p NaN", solve(p=NAN), ValueError, ["`p`", "[1, inf]", "got nan"]),
    ("p a text", solve(p="inf"), TypeError, ["`p`", "number", "'inf'", "math.inf"]),
    ("p a boolean", solve(p=True), TypeError, ["`p`", "number", "True"]),
    ("p of evolve", flow(p=0.5), ValueError, ["`p`", "[1, inf]", "got 0.5"]),
    ("p of depth", lambda: depth(PATH, p=0.5), ValueError, ["`p`", "[1, inf]", "got 0.5"]),
    ("graph a matrix", lambda: distance(np.eye(3), [0]), TypeError, ["`graph`", "ndarray", "Graph.from_scipy"]),
    ("graph of evolve", lambda: evolve(sp.eye(3), [0]), TypeError, ["`graph`", "lggd.Graph", "Graph.from_scipy"]),
    # potential
    ("potential negative", solve(potential=numbers(1.0, -1.0, 1.0)), ValueError,
     ["`potential`", "positive", "got -1", "node 1"]),
    ("potential zero", solve(potential=numbers(1, 1, 0)), ValueError, ["`potential`", "positive", "got 0", "node 2"]),
    ("potential NaN", solve(potential=numbers(NAN, 1.0, 1.0)), ValueError, ["`potential`", "finite", "got nan"]),
    ("potential of wrong length", solve(potential=torch.ones(2)), ValueError, ["`potential`", "[3]", "got [2]"]),
    ("potential of wrong columns", flow(potential=torch.ones(3, 2)), ValueError, ["`potential`", "[3, 1]", "[3, 2]"]),
    ("potential an array", solve(potential=np.ones(3)), TypeError, ["`potential`", "ndarray", "DegreePotential"]),
    ("potential a number", solve(potential=2.0), TypeError, ["`potential`", "float", "DegreePotential"]),
    ("potential gives a number", flow(potential=lambda graph: 1), TypeError, ["`potential`", "return one", "int"]),
    ("potential overflows", solve(potential=DegreePotential(1e6)), ValueError, ["`potential`", "finite", "got inf"]),
    # solver
    ("solver a text", solve(solver="fmm"), TypeError, ["`solver`", "'fmm'", "FastMarching()"]),
    ("solver a class", solve(solver=FastMarching), TypeError, ["`solver`", "FastMarching()"]),
    ("Dijkstra with p = 1", solve(solver=Dijkstra()), ValueError,
     ["`p`", "for Dijkstra", "got 1.0", "FastMarching()"]),
    ("tolerance too large", lambda: FastIterative(tolerance=1.0), ValueError, ["`tolerance`", "[0, 1)", "got 1.0"]),
    ("no sweeps", lambda: FastIterative(max_sweeps=0), ValueError, ["`max_sweeps`", "from 1", "got 0"]),
    # start and weight of evolve
    ("neither start nor sources", flow(None), ValueError, ["`start`", "sources=None"]),
    ("start negative", flow(start=numbers(0.0, -1.0, 0.0)), ValueError,
     ["`start`", "non-negative", "got -1", "node 1", "absolute value"]),
    ("start NaN", flow(start=numbers(0.0, 0.0, NAN)), ValueError, ["`start`", "finite", "got nan", "node 2"]),
    ("start infinite", flow(start=numbers(0.0, INF, 0.0)), ValueError, ["`start`", "finite", "got inf"]),
    ("start of wrong length", flow(start=torch.ones(2)), ValueError, ["`start`", "[3, 1]", "got [2]"]),
    ("start of wrong columns", flow(start=torch.ones(3, 2)), ValueError, ["`start`", "[3, 1]", "got [3, 2]"]),
    ("start one number", flow(None, start=torch.tensor(1.0)), ValueError, ["`start`", "[3, 1]", "got []"]),
    ("start integers", flow(start=numbers(1, 2, 3)), TypeError, ["`start`", "torch.int64", "torch.as_tensor"]),
    ("start half precision", flow(start=torch.ones(3, dtype=torch.float16)), TypeError,
     ["`start`", "torch.float16", "start.float()"]),
    ("start a list", flow(start=[1.0, 2.0, 3.0]), TypeError, ["`start`", "list", "torch.as_tensor"]),
    ("initial value negative", flow(initial_value=-1.0), ValueError, ["`initial_value`", "non-negative", "got -1"]),
    ("initial value infinite", flow(initial_value=INF), ValueError, ["`initial_value`", "finite", "got inf"]),
    ("weight of evolve short", flow(weight=torch.ones(3)), ValueError, ["`weight`", "[4]", "edge_index", "got [3]"]),
    ("weight of evolve zero", flow(weight=numbers(1.0, 1.0, 0.0, 1.0)), ValueError, ["`weight`", "got 0", "edge 2"]),
    ("weight of evolve NaN", flow(weight=numbers(1.0, NAN, 1.0, 1.0)), ValueError, ["`weight`", "got nan", "edge 1"]),
    ("weight of evolve an array", flow(weight=np.ones(4)), TypeError, ["`weight`", "ndarray", "torch.as_tensor"]),
    # times, steps and endings
    ("times not increasing", flow(times=[2, 1]), ValueError, ["`times`", "increasing", "got 1 after 2"]),
    ("times repeated", flow(times=[1, 1]), ValueError, ["`times`", "increasing", "got 1 after 1"]),
    ("times empty", flow(times=[]), ValueError, ["`times`", "at least one", "none"]),
    ("times zero", flow(times=[0, 1]), ValueError, ["`times`", "positive", "got 0"]),
    ("times infinite", flow(times=[INF]), ValueError, ["`times`", "finite", "got inf"]),
    ("times NaN", flow(times=[NAN]), ValueError, ["`times`", "finite", "got nan"]),
    ("times one number", flow(times=5), TypeError, ["`times`", "sequence", "got 5", "[t]"]),
    ("step zero", lambda: RK4(step=0), ValueError, ["`step`", "positive", "got 0", "step=None"]),
    ("step negative", lambda: SSPRK3(step=-0.1), ValueError, ["`step`", "positive", "got -0.1", "step=None"]),
    ("step NaN", lambda: Euler(step=NAN), ValueError, ["`step`", "positive", "got nan", "step=None"]),
    ("step above the limit", flow(scheme=RK4(step=5)), ValueError,
     ["`step`", "at most 1.393", "got 5", "step=None", "DegreePotential(-1)", "force=True"]),
    ("step above the limit for p = 2", flow(scheme=Euler(step=1.5), p=2), ValueError, ["`step`", "at most 0.7071"]),
    ("scheme a text", flow(scheme="rk4"), TypeError, ["`scheme`", "'rk4'", "RK4()"]),
    ("scheme a class", flow(scheme=RK4), TypeError, ["`scheme`", "RK4()"]),
    ("Evolution with a text", lambda: Evolution(PATH, 0, scheme="rk4"), TypeError, ["`scheme`", "RK4()"]),
    ("size above the step", lambda: Evolution(PATH, 0).step(9.0), ValueError, ["`size`", "(0, 0.5]", "got 9.0"]),
    ("size missing", lambda: Evolution(Graph.from_edges([], num_nodes=2), 0).step(), ValueError, ["`size`", "passed"]),
    ("time in the past", lambda: Evolution(PATH, 0).run_until(-1.0), ValueError, ["`t`", "current time 0", "got -1.0"]),
    # shortest paths and depth
    ("target out of range", walk(numbers(0, 1, 2), 3), ValueError, ["`target`", "0..2", "got 3"]),
    ("target negative", walk(numbers(0, 1, 2), -1), ValueError, ["`target`", "0..2", "got -1"]),
    ("target a float", walk(numbers(0, 1, 2), 1.5), TypeError, ["`target`", "node id", "got 1.5"]),
    ("target unreachable", lambda: shortest_path(SPLIT, distance(SPLIT, [0]), 2), ValueError,
     ["`target`", "no path joins node 2 and a source"]),
    ("not a distance", walk(numbers(1.0, 2.0, 3.0)), ValueError, ["`solution`", "node 0", "distance()"]),
    ("a distance of another graph", walk(torch.zeros(4)), ValueError, ["`solution`", "3 nodes", "got [4]"]),
    ("solution a list", walk([0, 1, 2]), TypeError, ["`solution`", "list", "distance()"]),
    ("no such column", walk(torch.zeros(3, 2), column=2), ValueError, ["`column`", "0..1", "got 2"]),
    ("no candidate", lambda: depth(PATH, candidates=[]), ValueError, ["`candidates`", "at least one node"]),
    ("bad candidate", lambda: depth(PATH, candidates=[7]), ValueError, ["`candidates`", "0..2", "got 7"]),
    ("sets of candidates", lambda: depth(PATH, candidates=[[0], [1]]), ValueError, ["`candidates`", "2 sets"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "fragments"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_message_names_argument_rule_value_and_remedy(call, error, fragments):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, InputTypeError) == (error is TypeError)
    message = str(caught.value)
    assert [fragment for fragment in fragments if fragment not in message] == [], message
    assert message.endswith(".")


def test_weights_of_networkx_must_be_numbers():
    with pytest.raises(TypeError, match="`weight` must be numbers"):
        Graph.from_networkx(nx.Graph([("a", "b", {"weight": "heavy"})]))


def test_a_graph_of_networkx_is_named_with_the_remedy():
    with pytest.raises(TypeError, match=r"lggd.Graph, got <class 'networkx.classes.graph.Graph'>.*Graph.from_networkx"):
        distance(nx.path_graph(3), [0])


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (Graph.from_edges, {"edges": torch.tensor([[0, 1], [1, 0]]), "weight": torch.tensor([0.5, 2.0])}),
        (Graph.from_edges, {"edges": np.array([[0, 1, 2], [1, 0, 9]]), "num_nodes": 3}),
        (Graph.from_scipy, {"matrix": sp.csr_array([[0, 0.5], [0.25, 0]])}),
        (Graph.from_points, {"points": np.array([[0.0], [NAN]]), "k": 1}),
        (Graph.from_grid, {"mask": np.full((2, 2), 7)}),
        (distance, {"graph": PATH, "sources": np.array([2, 0, 9])}),
        (distance, {"graph": PATH, "sources": [0], "potential": torch.tensor([1.0, -1.0, 1.0])}),
        (evolve, {"graph": PATH, "sources": [0], "start": torch.ones(3), "scheme": RK4(step=50)}),
        (evolve, {"graph": PATH, "sources": [0], "start": torch.ones(3), "weight": torch.tensor([1.0, 1, NAN, 1])}),
    ],
)
def test_a_failed_call_does_not_modify_its_inputs(call, given):
    def content(value):
        return value.toarray().tolist() if sp.issparse(value) else getattr(value, "tolist", lambda: repr(value))()

    before = {name: content(value) for name, value in given.items()}
    with pytest.raises(ValueError, match="must"):
        call(**given)
    assert repr({name: content(value) for name, value in given.items()}) == repr(before)


def test_a_failed_step_does_not_advance_the_evolution():
    evolution = Evolution(PATH, 0, initial_value=5.0).run_until(1.0)
    before = evolution.state
    with pytest.raises(ValueError, match="`size`"):
        evolution.step(100.0)
    assert (evolution.time, torch.equal(evolution.state, before)) == (1.0, True)
