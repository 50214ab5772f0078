"""Every check must pass a correct solver and catch a wrong one."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lggd import RK4, SSPRK3, Euler, FastMarching, Graph, evolve
from lggd.results import Solution
from lggd.solvers.eikonal_problem import EikonalProblem
from support import oracles, zoo
from support.zoo import inf

# -- Wrong solvers -----------------------------------------------------------------------------------------------------


class Wrong:
    """Marches, but on another problem, or changes what comes out."""

    def read(self, problem: EikonalProblem) -> EikonalProblem:
        return problem

    def write(self, f: Tensor, problem: EikonalProblem) -> Tensor:
        return f

    def solve(self, problem: EikonalProblem) -> Solution:
        found = FastMarching().solve(replace(self.read(problem), single=False)).value
        return problem.solution(self.write(found.clone(), problem), self)


def rebuilt(problem: EikonalProblem, graph: Graph) -> EikonalProblem:
    """The same problem on another graph with the same nodes."""
    return replace(problem, graph=graph, layout=graph.layout())


class IgnoresWeights(Wrong):
    def read(self, problem):
        bare = Graph.from_edges(problem.graph.edge_index, num_nodes=problem.graph.num_nodes, directed=True)
        return rebuilt(problem, bare)


class RaisesWeights(Wrong):
    power = 1.0

    def read(self, problem):
        graph = problem.graph
        weight = graph.weight**self.power
        return rebuilt(
            problem,
            Graph.from_edges(graph.edge_index, weight, num_nodes=graph.num_nodes, directed=True, unbounded=True),
        )


class TakesWeightsForTheirRoots(RaisesWeights):
    power = 2.0


class TakesWeightsForLengths(RaisesWeights):
    power = -1.0


class IgnoresArrows(Wrong):
    def read(self, problem):
        w = problem.graph.to_scipy()
        return rebuilt(problem, Graph.from_scipy(w.maximum(w.T), unbounded=True))


class TurnsArrows(Wrong):
    def read(self, problem):
        return rebuilt(problem, Graph.from_scipy(problem.graph.to_scipy().T, directed=True, unbounded=True))


class IgnoresPotential(Wrong):
    def read(self, problem):
        return replace(problem, potential=torch.ones(1, 1, dtype=torch.float64))


class InvertsPotential(Wrong):
    def read(self, problem):
        return replace(problem, potential=1 / problem.potential)


class OnePotentialForAll(Wrong):
    def read(self, problem):
        return replace(problem, potential=problem.potential[:, :1].contiguous())


class AnotherExponent(Wrong):
    def read(self, problem):
        return replace(problem, p=2.0 if problem.p == 1 else 1.0)


class ForgetsASource(Wrong):
    def read(self, problem):
        return replace(problem, starts=[problem.starts[0][:1]])


class KeepsTheLastSource(Wrong):
    def read(self, problem):
        return replace(problem, starts=[problem.starts[0].sort().values[-1:]])


class UnreachableIsZero(Wrong):
    def write(self, f, problem):
        return f.masked_fill(torch.isinf(f), 0)


class ReachesEverything(Wrong):
    def write(self, f, problem):
        return f.nan_to_num(posinf=1e9)


class OffByAMillionth(Wrong):
    def write(self, f, problem):
        return f * (1 + 1e-6)


class OffByAMillionthAtOneNode(Wrong):
    def write(self, f, problem):
        f[int(f[:, 0].nan_to_num(posinf=0).argmax())] *= 1 + 1e-6
        return f


class BoundaryNotQuiteZero(Wrong):
    def write(self, f, problem):
        return f + 1e-300


class FavoursLowNumbers(Wrong):
    def write(self, f, problem):
        return f + 1e-6 * torch.arange(len(f)).unsqueeze(1) * (f > 0)


class SwapsColumns(Wrong):
    def write(self, f, problem):
        return f.flip(1)


class FallsWithP(Wrong):
    def write(self, f, problem):
        return f / min(problem.p, 10)


@dataclass
class Restless(Wrong):
    """Another last bit every time."""

    calls: int = 0

    def write(self, f, problem):
        self.calls += 1
        return f * (1 + self.calls * 2**-52)


# -- Each check against the bugs it is made for ------------------------------------------------------------------------

loop = zoo.Instance(
    6, ((0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (3, 4)), (0.9, 0.25, 0.5, 0.8, 0.3, 0.6), (0,),
    potential=(1.0, 0.5, 2.0, 0.8, 1.5, 1.0),
)  # fmt: skip
arrows = replace(loop, directed=True, edges=((1, 0), (2, 1), (3, 2), (0, 3), (3, 1), (3, 4)))
two = replace(loop, sources=(0, 4))


def same_bits(instance: zoo.Instance, solver: Any) -> None:
    zoo.check_same_bits(lambda: zoo.solve(instance, solver))


def all_answers(_: zoo.Instance, solver: Any) -> None:
    for known in zoo.CASES:
        for p in known.ps:
            zoo.check_answer(known, p, solver)


def more_boundary(instance: zoo.Instance, solver: Any) -> None:
    zoo.check_more_boundary(instance, solver, node=4)


def larger_potential(instance: zoo.Instance, solver: Any) -> None:
    zoo.check_larger_potential(instance, solver, node=2)


PLANTED = [
    *((all_answers, loop, wrong) for wrong in [
        IgnoresWeights, TakesWeightsForTheirRoots, IgnoresArrows, TurnsArrows, IgnoresPotential, InvertsPotential,
        AnotherExponent, ForgetsASource, UnreachableIsZero, ReachesEverything, OffByAMillionth,
        OffByAMillionthAtOneNode,
    ]),
    *((zoo.check_equation, loop, wrong) for wrong in [
        IgnoresWeights, TakesWeightsForTheirRoots, IgnoresPotential, InvertsPotential, AnotherExponent,
        OffByAMillionth, OffByAMillionthAtOneNode, FavoursLowNumbers,
    ]),
    (zoo.check_equation, arrows, IgnoresArrows),
    (zoo.check_equation, arrows, TurnsArrows),
    (zoo.check_boundary, two, ForgetsASource),
    (zoo.check_boundary, loop, BoundaryNotQuiteZero),
    (zoo.check_boundary, loop, UnreachableIsZero),
    (zoo.check_reach, loop, ReachesEverything),
    (zoo.check_reach, arrows, IgnoresArrows),
    *((zoo.check_oracle, loop, wrong) for wrong in [
        IgnoresWeights, IgnoresPotential, AnotherExponent, UnreachableIsZero, OffByAMillionth,
        OffByAMillionthAtOneNode,
    ]),
    (zoo.check_oracle, arrows, IgnoresArrows),
    (zoo.check_oracle, arrows, TurnsArrows),
    (zoo.check_oracle, two, ForgetsASource),
    (zoo.check_weight_scaling, loop, IgnoresWeights),
    (zoo.check_weight_scaling, loop, TakesWeightsForTheirRoots),
    (zoo.check_potential_scaling, loop, IgnoresPotential),
    (zoo.check_potential_scaling, loop, InvertsPotential),
    (more_boundary, loop, KeepsTheLastSource),
    (larger_potential, loop, InvertsPotential),
    (zoo.check_larger_weight, loop, TakesWeightsForLengths),
    (zoo.check_permutation, loop, FavoursLowNumbers),
    (zoo.check_rises_with_p, loop, FallsWithP),
    (zoo.check_columns, loop, SwapsColumns),
    (zoo.check_columns, loop, OnePotentialForAll),
    (same_bits, loop, Restless),
]  # fmt: skip


def named(case: Any) -> str:
    check, _, wrong = case
    return f"{check.__name__}-{wrong.__name__}"


@pytest.mark.parametrize("case", PLANTED, ids=named)
def test_each_check_passes_marching_and_catches_the_bug(case):
    check, instance, wrong = case
    check(instance, FastMarching())
    with pytest.raises(AssertionError):
        check(instance, wrong())


# -- The evolution and its gradient ------------------------------------------------------------------------------------


def test_undershooting_is_caught():
    star = zoo.case("star_leaves")
    zoo.check_never_undershoots(star, Euler())
    with pytest.raises(AssertionError, match="below the distance"):
        zoo.check_never_undershoots(star, Euler(step=0.26))  # the limit is 1/4
    with pytest.raises(AssertionError, match="below the distance"):
        zoo.check_never_undershoots(star, RK4(step=1.7 / 4))


def test_a_lower_order_is_caught():
    errors = [2.0**-k for k in range(4)]
    zoo.check_order(errors, 1)
    with pytest.raises(AssertionError):
        zoo.check_order(errors, 2)
    with pytest.raises(AssertionError):
        zoo.check_order([error + 0.1 for error in errors], 1)


@pytest.mark.parametrize("p", zoo.P)
def test_another_scheme_is_caught(p):
    start = torch.linspace(0, 5, 6, dtype=zoo.F64).unsqueeze(1)
    f = evolve(loop.graph, [0], start=start, p=p, times=[0.5], scheme=SSPRK3(step=0.125)).value[0]
    zoo.assert_close(f, oracles.plain_evolve(loop.graph, [[0]], start, p, "SSPRK3", 0.125, 4))
    for other, sources in (("RK4", [[0]]), ("Euler", [[0]]), ("SSPRK3", None)):
        with pytest.raises(AssertionError):
            zoo.assert_close(f, oracles.plain_evolve(loop.graph, sources, start, p, other, 0.125, 4))


class Scaled(torch.autograd.Function):
    """The identity with a gradient that is off by `factor`."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


@pytest.mark.parametrize("factor", [1 + 1e-4, -1.0, 0.0])
@pytest.mark.parametrize("given", ["start", "potential", "weight"])
def test_a_wrong_gradient_is_caught(factor, given):
    sizes = {"start": 6, "potential": 6, "weight": loop.graph.num_edges}
    x = torch.linspace(0.5, 2, sizes[given], dtype=zoo.F64).square().requires_grad_()

    def f(x: Tensor, off: float = 1.0) -> Tensor:
        return evolve(loop.graph, [0], times=[0.5], initial_value=3, **{given: Scaled.apply(x, off)}).value

    zoo.check_gradient(f, x)
    with pytest.raises(AssertionError):
        zoo.check_gradient(lambda x: f(x, factor), x)


# -- The tools themselves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", zoo.CASES, ids=lambda known: known.name)
def test_the_dense_oracle_finds_the_answers(known):
    problem = known.problem
    for p in known.ps:
        found = oracles.dense_distance(problem.dense, problem.sources, p, problem.rho.numpy())
        zoo.assert_close(torch.from_numpy(found), known.answer(p))


@pytest.mark.parametrize(("found", "expected"), [(inf, 1.0), (1.0, inf), (float("nan"), 1.0), (1 + 1e-9, 1.0)])
def test_assert_close_catches_differences(found, expected):
    zoo.assert_close(zoo.f64([expected]), [expected])
    with pytest.raises(AssertionError):
        zoo.assert_close(zoo.f64([found]), [expected])


@pytest.mark.parametrize(("low", "high"), [(1 + 1e-9, 1.0), (inf, 1.0), (float("nan"), 1.0), (1e-9, 0.0)])
def test_assert_at_most_catches_differences(low, high):
    zoo.assert_at_most(zoo.f64([high]), zoo.f64([high]))
    with pytest.raises(AssertionError):
        zoo.assert_at_most(zoo.f64([low]), zoo.f64([high]))
