"""Coefficients against their formulas, and the flow of many problems against evolve and torchdiffeq."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from lggd import (
    RK4,
    SSPRK3,
    DegreePotential,
    Euler,
    Graph,
    LearnedEdgeWeights,
    LearnedPotential,
    evolve,
)
from lggd.learning.flow import Equation, Flow
from support import oracles, zoo
from support.distance_cases import (
    COEFFICIENTS,
    EACH,
    MIXED,
    ROUNDING,
    SHARED,
    TIMES,
    by_evolve,
    equation_on,
    every_coefficient,
    generators,
    gradients,
    graph_of,
    held_of,
    one_at_a_time,
    start_of,
)
from support.small_data import CLASSES, random


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_coefficients_equal_their_formulas(weighted):
    graph = graph_of(weighted)
    base, root = DegreePotential(-0.5)(graph), graph.weight.sqrt()
    fixed = Equation(graph, DegreePotential(-0.5), generators(2))
    torch.testing.assert_close(fixed.rho(), base[:, None])
    assert fixed.parameters() == []
    assert (fixed.root_weight() is None) == (not weighted)
    nodes = equation_on(graph, LearnedPotential(DegreePotential(-0.5)), 2)
    torch.testing.assert_close(nodes.rho(), 2 / (1 + torch.exp(-nodes.theta_nodes.t())) * base[:, None])
    edges = equation_on(graph, LearnedEdgeWeights(LearnedPotential(DegreePotential(-0.5))), 2)
    expected = root[:, None] * (1 / (1 + torch.exp(-edges.theta_edges.t()))).sqrt()
    torch.testing.assert_close(edges.root_weight(), expected)
    assert [owned.name for owned in edges.parameters()] == ["theta_nodes", "theta_edges"]


def test_scaling_the_potential_scales_time():
    graph, tau = graph_of(weighted=True), 1.7
    start = 3 * torch.rand(graph.num_nodes, 2, generator=random(1))
    given = {"sources": [[0, 1], [2]], "scheme": RK4(step=0.01)}
    potential = DegreePotential(-0.5)(graph)
    slow = evolve(graph, start=start, times=[tau], potential=potential, **given).value
    fast = evolve(graph, start=start / tau, times=[1.0], potential=tau * potential, **given).value
    torch.testing.assert_close(tau * fast, slow, rtol=1e-3, atol=1e-3)


def test_initial_values_of_learned_coefficients():
    graph = graph_of()
    nodes = Equation(graph, LearnedPotential(DegreePotential(-0.5)), generators(2))
    torch.testing.assert_close(nodes.rho(), DegreePotential(-0.5)(graph)[:, None].repeat(1, 2))
    edges = Equation(graph, LearnedEdgeWeights(), generators(2)).theta_edges
    assert edges.shape == (2, graph.num_edges)
    assert bool((edges < -0.9).any() & (edges > 0.9).any() & (edges.abs() <= 1).all())
    alone = Equation(graph, LearnedEdgeWeights(), generators(1, first=1)).theta_edges
    assert torch.equal(edges[1], alone[0])


def check_flow(graph, coefficients, horizons, p, boundary, scheme=RK4()):
    """Values and all gradients are those of evolve."""
    problems = len(horizons)
    equation = equation_on(graph, coefficients, problems)
    flow = Flow(equation, TIMES, horizons, p, scheme)
    start = start_of(graph, problems)
    boundary_mask = held_of(graph, problems) if boundary else None
    value = flow(start, boundary_mask)
    solve = partial(by_evolve, scheme=type(scheme))
    expected = one_at_a_time(graph, equation, flow, start, boundary_mask, p, solve)
    assert value.shape == (len(horizons[0]), graph.num_nodes, problems, CLASSES)
    torch.testing.assert_close(value, expected, **ROUNDING)
    if boundary_mask is not None:
        assert bool((value[:, boundary_mask] == 0).all())
    inputs = [start, *(owned.value for owned in equation.parameters())]
    for ours, theirs in zip(gradients(value, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-7)


@every_coefficient
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize(
    ("horizons", "boundary", "weighted"),
    [(EACH, True, False), (SHARED, False, True), (MIXED, True, True)],
    ids=["each, held", "shared, weighted", "mixed, held, weighted"],
)
def test_flow_equals_evolve(coefficients, p, horizons, boundary, weighted):
    check_flow(graph_of(weighted), coefficients, horizons, p, boundary)


@pytest.mark.parametrize("scheme", [Euler(), SSPRK3(), RK4(step=0.01), RK4(step=0.2, force=True)], ids=repr)
def test_flow_equals_evolve_with_any_scheme(scheme):
    check_flow(graph_of(True), COEFFICIENTS["both"], EACH, 1.0, True, scheme)


@pytest.mark.parametrize("problems", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("name", ["fixed", "both"])
def test_flow_with_any_number_of_columns(problems, name):
    check_flow(graph_of(), COEFFICIENTS[name], [[2]] * problems, 1.0, True)


def test_flow_on_a_graph_without_edges_only_grows():
    graph = Graph.from_edges([], num_nodes=3, symmetrize="max", dtype=torch.float32)
    for coefficients in COEFFICIENTS.values():
        equation = Equation(graph, coefficients, generators(3))
        start = torch.rand(3, 3, CLASSES)
        value = Flow(equation, TIMES, EACH, 1.0, RK4())(start)
        torch.testing.assert_close(value[0], start + torch.tensor(TIMES)[None, :, None])


class AlwaysMirrored(Flow):
    def __init__(self, *settings):
        super().__init__(*settings)
        self.symmetric = True


class SpreadsInTurns(Flow):
    def _parameters(self, rho, root, classes):
        given = [x if x is None or x.shape[1] == 1 else x.repeat(1, classes) for x in (rho, root)]
        return given[0].contiguous(), given[1]


class NeverSorts(Flow):
    def __call__(self, start, boundary_mask=None):
        return super().__call__(start.flip(1), None if boundary_mask is None else boundary_mask.flip(1))


class HoldsNothing(Flow):
    def advance(self, plan, state, rho, root, boundary_mask):
        return super().advance(plan, state, rho, root, None)


class StopsEarly(Flow):
    def __init__(self, equation, times, *rest):
        super().__init__(equation, [t - 0.01 * (t == times[-1]) for t in times], *rest)


class OnePotentialForAll(Flow):
    def advance(self, plan, state, rho, root, boundary_mask):
        return super().advance(plan, state, rho[:, :1].expand_as(rho), root, boundary_mask)


class ForgetsTheGradientOfRho(Flow):
    def advance(self, plan, state, rho, root, boundary_mask):
        return super().advance(plan, state, rho.detach() + 0 * rho, root, boundary_mask)


@pytest.mark.parametrize(
    "wrong",
    [AlwaysMirrored, SpreadsInTurns, NeverSorts, HoldsNothing, StopsEarly, OnePotentialForAll, ForgetsTheGradientOfRho],
)
def test_flow_check_catches_planted_bugs(wrong, monkeypatch):
    check_flow(graph_of(True), COEFFICIENTS["both"], EACH, 1.0, True)
    monkeypatch.setitem(globals(), "Flow", wrong)
    with pytest.raises(AssertionError):
        check_flow(graph_of(True), COEFFICIENTS["both"], EACH, 1.0, True)


@every_coefficient
def test_flow_equals_torchdiffeq(coefficients):
    graph = graph_of(True)
    equation = equation_on(graph, coefficients, len(EACH))
    flow = Flow(equation, TIMES, EACH, 1.0, RK4(step=0.25, force=True))
    start, boundary_mask = start_of(graph, len(EACH)), held_of(graph, len(EACH))
    value = flow(start, boundary_mask)
    expected = one_at_a_time(graph, equation, flow, start, boundary_mask, 1.0, oracles.torchdiffeq_evolve)
    torch.testing.assert_close(value, expected, **ROUNDING)
    inputs = [start, *(owned.value for owned in equation.parameters())]
    for ours, theirs in zip(gradients(value, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-6)


@dataclass
class ExactEquation:
    """What a flow asks of an equation, in float64."""

    graph: Graph
    potential: Tensor
    root: Tensor

    @property
    def theta_edges(self):
        return self.root

    def rho(self):
        return self.potential

    def root_weight(self):
        return self.root

    def limits(self):
        return self.potential.detach().amax(1, keepdim=True), self.root.detach().amax(1, keepdim=True)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("boundary", [False, True], ids=["free", "held"])
def test_gradients_equal_finite_differences(p, boundary):
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    graph = Graph.from_edges(edges, num_nodes=5, symmetrize="max", dtype=zoo.F64)

    def draw(seed, *shape):
        return (0.3 + torch.rand(shape, generator=random(seed), dtype=zoo.F64)).requires_grad_()

    start, rho, root = draw(1, 5, 2, 2), draw(2, 5, 2), draw(3, graph.num_edges, 2)
    flow = Flow(ExactEquation(graph, rho, root), (0.25, 0.5), [[0], [1]], p, RK4(step=0.125))
    boundary_mask = None
    if boundary:
        boundary_mask = torch.zeros(5, 2, 2, dtype=torch.bool)
        boundary_mask[[0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1]] = True

    def evolved(s, r, w):
        flow.equation = ExactEquation(graph, r, w)
        return flow(s, boundary_mask)

    zoo.check_gradient(evolved, start, rho, root)


@every_coefficient
def test_variants_at_once_equal_variants_one_at_a_time(coefficients):
    graph, problems = graph_of(True), len(MIXED)
    equation = equation_on(graph, coefficients, problems)
    flow = Flow(equation, TIMES, MIXED, 1.0, RK4())
    starts = [start_of(graph, problems, seed) for seed in range(4)]
    helds = [held_of(graph, problems, seed) for seed in range(4)]
    at_once = flow(torch.cat(starts, 1), torch.cat(helds, 1))
    in_turn = torch.cat([flow(start, boundary_mask) for start, boundary_mask in zip(starts, helds, strict=True)], 2)
    torch.testing.assert_close(at_once, in_turn, **ROUNDING)


def test_number_of_evaluations_and_step():
    graph = graph_of()
    equation = Equation(graph, DegreePotential(-1.0), generators(1))
    flow = Flow(equation, TIMES, SHARED, 1.0, RK4(step=0.25))
    assert (flow.step, flow.plan.evaluations, flow.may_overshoot) == (0.25, 8 * 4, False)
    assert Flow(equation, TIMES, SHARED, 1.0, RK4(step=2.0)).may_overshoot
    with pytest.raises(ValueError, match="`step`"):
        Flow(equation, TIMES, SHARED, 1.0, RK4(step=5.0))


def test_step_does_not_depend_on_learned_coefficients_and_is_stable():
    graph = graph_of(True)
    for coefficients in COEFFICIENTS.values():
        before = Equation(graph, coefficients, generators(3))
        after = equation_on(graph, coefficients, 3, scatter=8.0)
        one, other = (Flow(equation, TIMES, EACH, 1.0, RK4()) for equation in (before, after))
        assert one.step == other.step
        rho, root = after.rho().detach(), after.root_weight().detach()
        cfl_number = rho * torch.zeros(graph.num_nodes, root.shape[1]).index_add(0, graph.edge_index[0], root)
        assert float(cfl_number.max()) * one.step <= 1 + 1e-5


def test_step_of_a_reordered_graph_pairs_each_potential_with_its_own_node():
    """With ρ = 1/δ and unit weights ρ‖√w‖₁ is 1 at every node, in any order of the nodes."""
    graph = Graph.from_points(np.random.default_rng(0).random((300, 2)), k=5)
    assert graph.layout().order is not None
    assert len(graph.degree.unique()) > 3
    equation = Equation(graph, DegreePotential(-1.0), [torch.Generator()])
    flow = Flow(equation, (1.0,), [[0]], 1.0, RK4())
    torch.testing.assert_close(flow.step, 1.0, rtol=1e-6, atol=0)
