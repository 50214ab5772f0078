"""The flow of many problems against evolve and torchdiffeq."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import zoo
from distance_cases import (
    COEFFICIENTS,
    EACH,
    MIXED,
    ROUNDING,
    SHARED,
    TIMES,
    equation_on,
    every_coefficient,
    generators,
    gradients,
    graph_of,
    held_of,
    one_at_a_time,
    start_of,
)
from lggd import (
    RK4,
    SSPRK3,
    DegreePotential,
    Euler,
    Graph,
    TorchDiffEq,
)
from lggd.learning.flow import Flow
from lggd.learning.parameters import Equation
from small_data import CLASSES, random


def check_flow(graph, coefficients, horizons, p, boundary, scheme=RK4()):
    """Values and all gradients are those of evolve."""
    problems = len(horizons)
    equation = equation_on(graph, coefficients, problems)
    flow = Flow(graph, equation, TIMES, horizons, p, scheme)
    start = start_of(graph, problems)
    boundary_mask = held_of(graph, problems) if boundary else None
    value = flow(equation, start, boundary_mask)
    expected = one_at_a_time(graph, equation, flow, start, boundary_mask, p, type(scheme)(step=flow.step, force=True))
    assert value.shape == (len(horizons[0]), graph.num_nodes, problems, CLASSES)
    torch.testing.assert_close(value, expected, **ROUNDING)
    if boundary_mask is not None:
        assert bool((value[:, boundary_mask] == 0).all())
    inputs = [start, *(owned.value for owned in equation.parameters())]
    for ours, theirs in zip(gradients(value, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-7)


@every_coefficient
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("horizons", [EACH, SHARED, MIXED], ids=["each", "shared", "mixed"])
@pytest.mark.parametrize("boundary", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
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
        value = Flow(graph, equation, TIMES, EACH, 1.0, RK4())(equation, start)
        torch.testing.assert_close(value[0], start + torch.tensor(TIMES)[None, :, None])


class AlwaysMirrored(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho, root, boundary_mask, symmetric=True)


class SpreadsInTurns(Flow):
    def _parameters(self, rho, root, classes):
        given = [x if x is None or x.shape[1] == 1 else x.repeat(1, classes) for x in (rho, root)]
        return given[0].contiguous(), given[1]


class NeverSorts(Flow):
    def __call__(self, equation, start, boundary_mask=None):
        return super().__call__(equation, start.flip(1), None if boundary_mask is None else boundary_mask.flip(1))


class HoldsNothing(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho, root, None, symmetric)


class StopsEarly(Flow):
    def __init__(self, graph, equation, times, *rest):
        super().__init__(graph, equation, [t - 0.01 * (t == times[-1]) for t in times], *rest)


class OnePotentialForAll(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho[:, :1].expand_as(rho), root, boundary_mask, symmetric)


class ForgetsTheGradientOfRho(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho.detach() + 0 * rho, root, boundary_mask, symmetric)


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
@pytest.mark.parametrize("horizons", [EACH, SHARED], ids=["each", "shared"])
def test_flow_equals_torchdiffeq(coefficients, horizons):
    pytest.importorskip("torchdiffeq")
    graph = graph_of(True)
    equation = equation_on(graph, coefficients, len(horizons))
    flow = Flow(graph, equation, TIMES, horizons, 1.0, RK4(step=0.25, force=True))
    start, boundary_mask = start_of(graph, len(horizons)), held_of(graph, len(horizons))
    value = flow(equation, start, boundary_mask)
    expected = one_at_a_time(graph, equation, flow, start, boundary_mask, 1.0, TorchDiffEq("rk4", step=0.25))
    torch.testing.assert_close(value, expected, **ROUNDING)
    inputs = [start, *(owned.value for owned in equation.parameters())]
    for ours, theirs in zip(gradients(value, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-6)


@dataclass
class ExactEquation:
    """What a flow asks of an equation, in float64."""

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
    flow = Flow(graph, ExactEquation(rho, root), (0.25, 0.5), [[0], [1]], p, RK4(step=0.125))
    boundary_mask = None
    if boundary:
        boundary_mask = torch.zeros(5, 2, 2, dtype=torch.bool)
        boundary_mask[[0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1]] = True
    zoo.check_gradient(lambda s, r, w: flow(ExactEquation(r, w), s, boundary_mask), start, rho, root)


@every_coefficient
@pytest.mark.parametrize("horizons", [EACH, SHARED, MIXED], ids=["each", "shared", "mixed"])
def test_variants_at_once_equal_variants_one_at_a_time(coefficients, horizons):
    graph, problems = graph_of(True), len(horizons)
    equation = equation_on(graph, coefficients, problems)
    flow = Flow(graph, equation, TIMES, horizons, 1.0, RK4())
    starts = [start_of(graph, problems, seed) for seed in range(4)]
    helds = [held_of(graph, problems, seed) for seed in range(4)]
    at_once = flow(equation, torch.cat(starts, 1), torch.cat(helds, 1))
    in_turn = torch.cat(
        [flow(equation, start, boundary_mask) for start, boundary_mask in zip(starts, helds, strict=True)], 2
    )
    torch.testing.assert_close(at_once, in_turn, **ROUNDING)


def test_number_of_evaluations_and_step():
    graph = graph_of()
    equation = Equation(graph, DegreePotential(-1.0), generators(1))
    flow = Flow(graph, equation, TIMES, SHARED, 1.0, RK4(step=0.25))
    assert (flow.step, flow.plan.evaluations, flow.may_overshoot) == (0.25, 8 * 4, False)
    assert Flow(graph, equation, TIMES, SHARED, 1.0, RK4(step=2.0)).may_overshoot
    with pytest.raises(ValueError, match="`step`"):
        Flow(graph, equation, TIMES, SHARED, 1.0, RK4(step=5.0))


def test_step_does_not_depend_on_learned_coefficients_and_is_stable():
    graph = graph_of(True)
    for coefficients in COEFFICIENTS.values():
        before = Equation(graph, coefficients, generators(3))
        after = equation_on(graph, coefficients, 3, scatter=8.0)
        one, other = (Flow(graph, equation, TIMES, EACH, 1.0, RK4()) for equation in (before, after))
        assert one.step == other.step
        rho, root = after.rho().detach(), after.root_weight().detach()
        cfl_number = rho * torch.zeros(graph.num_nodes, root.shape[1]).index_add(0, graph.edge_index[0], root)
        assert float(cfl_number.max()) * one.step <= 1 + 1e-5
