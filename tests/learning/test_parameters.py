"""Learned coefficients of the equation."""

import pytest
import torch

from distance_cases import (
    equation_on,
    every_coefficient,
    generators,
    graph_of,
)
from lggd import (
    RK4,
    DegreePotential,
    LearnedEdgeWeights,
    LearnedPotential,
    LearnedTimeScale,
    evolve,
)
from lggd.learning.parameters import Equation
from small_data import random


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
    whole = equation_on(graph, LearnedTimeScale(DegreePotential(-0.5)), 2)
    assert whole.theta_nodes.shape == (2, 1)
    torch.testing.assert_close(whole.rho(), base[:, None] * (2 * torch.sigmoid(whole.theta_nodes)).t())


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


@every_coefficient
def test_part_holds_copies_of_some_problems(coefficients):
    graph = graph_of(True)
    equation = equation_on(graph, coefficients, 5)
    part = equation.part(slice(1, 3))
    for mine, whole in zip(part.parameters(), equation.parameters(), strict=True):
        assert mine.name == whole.name
        assert mine.value.requires_grad
        assert mine.value.is_leaf
        assert torch.equal(mine.value, whole.value[1:3])
        with torch.no_grad():
            mine.value.zero_()
        assert not bool((whole.value[1:3] == 0).all())
    assert part.rho().shape == (graph.num_nodes, 1 if part.theta_nodes is None else 2)
