"""Every solver against distances derived by hand."""

import pytest
import torch

from lggd import Dijkstra, Evolution, FastIterative, FastMarching, Graph, distance
from lggd.results import Status
from support import oracles, zoo

KNOWN = [pytest.param(known, p, id=f"{known.name}-{p}") for known in zoo.CASES for p in known.ps]
SOLVERS = [FastMarching(), FastIterative()]


def name(solver):
    return type(solver).__name__


@pytest.mark.parametrize(("known", "p"), KNOWN)
@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_solver_finds_the_answer(known, p, solver):
    zoo.check_answer(known, p, solver)


@pytest.mark.parametrize("known", [known for known in zoo.CASES if zoo.inf in known.ps], ids=lambda known: known.name)
def test_dijkstra_finds_the_answer(known):
    zoo.check_answer(known, zoo.inf, Dijkstra())


@pytest.mark.parametrize(("known", "p"), KNOWN)
def test_distance_picks_an_exact_solver_and_reports_its_status(known, p):
    problem = known.problem
    solution = distance(problem.graph, list(problem.sources), p=p, potential=problem.rho)
    zoo.assert_close(solution.value, known.answer(p))
    assert solution.status == (Status.EXACT if all(problem.reachable) else Status.UNREACHABLE)
    assert solution.statistics.method == ("Dijkstra" if p == zoo.inf else "FastMarching")
    assert solution.statistics.residual < 1e-12


@pytest.mark.parametrize(("known", "p"), KNOWN)
def test_steady_state_of_the_evolution_is_the_answer(known, p):
    problem = known.problem
    sources = list(problem.sources)
    evolution = Evolution(problem.graph, sources, p=p, potential=problem.rho, initial_value=100)
    steady = oracles.steady_state(evolution, tol=1e-11)
    zoo.assert_close(steady[:, 0], known.answer(p), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["weighted_path", "one_way_and_back"])
def test_a_source_named_twice_is_one_source(name):
    problem = zoo.case(name)
    assert torch.equal(zoo.solve(problem, None, [0, 0]), zoo.solve(problem, None, [0]))


def test_fast_iterative_reports_that_it_ran_out_of_sweeps():
    problem = zoo.case("cycle_even")
    stopped = distance(problem.graph, [0], solver=FastIterative(max_sweeps=2))
    assert stopped.status == Status.NOT_CONVERGED
    assert bool((stopped.value >= zoo.solve(problem, None)).all())


@pytest.mark.parametrize("p", zoo.P)
@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_distances_are_float64_even_where_weights_are_float32(p, solver):
    # 1/2 is exact in float32; its root is not.
    graph = Graph.from_edges([(0, 1), (1, 2)], [0.5, 0.5], symmetrize="max", dtype=torch.float32)
    zoo.assert_close(distance(graph, [0], p=p, solver=solver).value, [0, 2**0.5, 2 * 2**0.5])


@pytest.mark.parametrize("p", zoo.P)
@pytest.mark.parametrize("scale", [1e-10, 1e10])
@pytest.mark.parametrize("solver", SOLVERS, ids=name)
def test_precision_is_relative_at_any_scale(p, scale, solver):
    edges, weight = ((0, 1), (1, 2), (0, 2), (2, 3)), (0.3, 0.6, 0.9, 0.3)
    zoo.check_potential_scaling(zoo.Instance(4, edges, weight, (0,), p), solver, scale)
    zoo.check_weight_scaling(zoo.Instance(4, edges, weight, (0,), p), solver, scale)
