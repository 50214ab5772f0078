"""The evolution in time: where it goes, how accurately, and its statistics."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lggd import RK4, SSPRK3, Euler, Evolution, Graph, distance, equation, evolve
from support import oracles, zoo
from support.lasso import LASSO, TWO_SETS, start_of
from support.zoo import f64

SCHEMES = [Euler, SSPRK3, RK4]
schemes = pytest.mark.parametrize("scheme", SCHEMES)
exponents = pytest.mark.parametrize("p", zoo.P)


# -- Where it goes -----------------------------------------------------------------------------------------------------


@schemes
@exponents
def test_evolution_converges_to_the_distance(p, scheme):
    exact = distance(LASSO.graph, [0], p=p, potential=LASSO.rho).value
    reached = torch.isfinite(exact)
    f = evolve(
        LASSO.graph, [0], p=p, potential=LASSO.rho, times=(5, 10, 20, 60), scheme=scheme(), initial_value=100
    ).value
    errors = [float((state[:, 0] - exact)[reached].abs().max()) for state in f]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-9


@pytest.mark.parametrize("scheme", [Euler, SSPRK3])
@settings(max_examples=20)
@given(instance=zoo.instances(), data=st.data())
def test_a_higher_start_stays_higher(scheme, instance, data):
    heights = st.lists(st.floats(0, 10), min_size=instance.num_nodes, max_size=instance.num_nodes)
    low, rise = f64(data.draw(heights)), f64(data.draw(heights))
    lower, upper = (
        evolve(instance.graph, list(instance.sources), start=f, p=instance.p, times=(1, 2), scheme=scheme()).value
        for f in (low, low + rise)
    )
    zoo.assert_at_most(lower, upper)


@schemes
@exponents
def test_without_sources_a_constant_shift_is_preserved(p, scheme):
    start = start_of(7, 3)
    f, shifted = (
        evolve(LASSO.graph, None, start=s, p=p, times=(1, 2), scheme=scheme()).value for s in (start, start + 7)
    )
    assert f.shape == (2, 7, 3)
    zoo.assert_close(shifted, f + 7)
    zoo.assert_close(f[1, 6], start[6] + 2)  # a node without neighbours rises with time


# -- How accurately ----------------------------------------------------------------------------------------------------


@schemes
@exponents
@pytest.mark.parametrize("directed", [False, True])
def test_schemes_are_those_of_the_textbooks(p, scheme, directed):
    graph = replace(LASSO, directed=directed).graph
    start, rho = start_of(7, 2), start_of(7, 2, seed=1, scale=1) + 0.5
    weight = start_of(graph.num_edges, 2, seed=2, scale=1) + 0.1
    for sources in (TWO_SETS, None):
        given = {"p": p, "potential": rho, "weight": weight}
        f = evolve(graph, sources, start=start, times=(0.25, 1), scheme=scheme(step=0.125), **given).value
        expected = [
            oracles.plain_evolve(graph, sources, start, p, scheme.__name__, 0.125, n, rho, weight) for n in (2, 8)
        ]
        zoo.assert_close(f, torch.stack(expected))


@exponents
@pytest.mark.parametrize("directed", [False, True])
def test_rk4_is_that_of_torchdiffeq(p, directed):
    graph = replace(LASSO, directed=directed).graph
    rho = start_of(7, 2, seed=1, scale=1) + 0.5
    for sources in (TWO_SETS, None):
        given = {"start": start_of(7, 2), "times": (0.5, 1, 2), "p": p, "potential": rho}
        ours = evolve(graph, sources, scheme=RK4(step=0.125), **given).value
        zoo.assert_close(ours, oracles.torchdiffeq_evolve(graph, sources, step=0.125, **given), rtol=1e-12)


@schemes
def test_resuming_from_a_state_changes_nothing(scheme):
    through = evolve(LASSO.graph, [0], times=(1, 2), initial_value=10, scheme=scheme()).value
    again = evolve(LASSO.graph, [0], start=through[0], times=[1], scheme=scheme()).value
    assert torch.equal(again[0], through[1])


@exponents
def test_columns_are_independent(p):
    start, rho = start_of(7, 2), start_of(7, 2, seed=1, scale=1) + 0.5
    together = evolve(LASSO.graph, TWO_SETS, start=start, potential=rho, p=p, scheme=RK4(step=0.1)).value
    for k, nodes in enumerate(TWO_SETS):
        given = {"start": start[:, k], "potential": rho[:, k], "p": p}
        zoo.assert_close(together[:, :, k : k + 1], evolve(LASSO.graph, nodes, scheme=RK4(step=0.1), **given).value)


@exponents
def test_given_weights_replace_those_of_the_graph(p):
    bare = replace(LASSO, weight=(1.0,) * 7).graph
    expected = evolve(LASSO.graph, [0], initial_value=10, p=p).value
    zoo.assert_close(evolve(bare, [0], initial_value=10, p=p, weight=LASSO.graph.weight).value, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@exponents
def test_precision_is_that_of_the_start(p, dtype):
    f = evolve(LASSO.graph, [0], start=start_of(7).to(dtype), p=p, potential=LASSO.rho).value
    assert f.dtype == dtype
    expected = evolve(LASSO.graph, [0], start=start_of(7), p=p, potential=LASSO.rho).value
    zoo.assert_close(f.double(), expected, rtol=1e-5 if dtype == torch.float32 else 0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_that_of_the_graph_where_no_start_is_given(dtype):
    graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", dtype=dtype)
    assert evolve(graph, [0]).value.dtype == dtype
    assert Evolution(graph, [0]).step().state.dtype == dtype


# -- The boundary ------------------------------------------------------------------------------------------------------


@schemes
@exponents
def test_boundary_is_exactly_zero_at_all_times(p, scheme):
    boundary_mask = torch.zeros(7, 2, dtype=torch.bool)
    for k, nodes in enumerate(TWO_SETS):
        boundary_mask[nodes, k] = True
    start = start_of(7, 2) + 1
    f = evolve(LASSO.graph, TWO_SETS, start=start, p=p, times=(0.1, 1, 10), scheme=scheme()).value
    assert bool((f[:, boundary_mask] == 0).all())
    evolution = Evolution(LASSO.graph, TWO_SETS, start=start, p=p, scheme=scheme())
    assert bool((evolution.state[boundary_mask] == 0).all())
    for _ in range(10):
        assert bool((evolution.step().state[boundary_mask] == 0).all())


# -- Step by step ------------------------------------------------------------------------------------------------------


@schemes
@exponents
def test_step_by_step_is_bitwise_equal_to_evolve(p, scheme):
    given = {"start": start_of(7, 2), "p": p, "potential": LASSO.rho, "scheme": scheme()}
    expected = evolve(LASSO.graph, TWO_SETS, times=(0.7, 2, 5), **given).value
    evolution = Evolution(LASSO.graph, TWO_SETS, **given)
    for t, f in zip((0.7, 2, 5), expected, strict=True):
        assert torch.equal(evolution.run_until(t).state, f)
        assert evolution.time == t


def test_the_state_is_a_copy():
    evolution = Evolution(LASSO.graph, [0])
    evolution.state.fill_(-1)
    assert bool((evolution.state >= 0).all())


@pytest.mark.parametrize("step", [0.1, 0.07, None])
def test_run_until_lands_exactly_on_every_tenth(step):
    evolution = Evolution(LASSO.graph, [0], initial_value=10, scheme=RK4(step=step))
    for tenth in range(1, 31):
        evolution.run_until(tenth * 0.1)
        assert evolution.time == tenth * 0.1
    zoo.assert_close(evolution.run_until(60).state[:6, 0], distance(LASSO.graph, [0]).value[:6], rtol=1e-6)


def test_run_until_takes_no_more_steps_than_needed():
    evolution = Evolution(LASSO.graph, [0], initial_value=10, scheme=RK4(step=0.25))
    assert evolution.run_until(1).steps == 4
    assert evolution.run_until(1.1).steps == 5
    assert evolution.run_until(1.1).steps == 5
    assert evolution.step(0.05).time == pytest.approx(1.15)


def test_without_edges_every_free_node_rises_with_time():
    graph = Graph.from_edges([], num_nodes=3, dtype=zoo.F64)
    start = f64([5.0, 1.0, 2.0])
    expected = [[0.0], [4.0], [5.0]]
    assert evolve(graph, [0], start=start, times=[3]).value[0].tolist() == expected
    assert Evolution(graph, [0], start=start).step(3.0).state.tolist() == expected
    assert Evolution(graph, [0], start=start).run_until(3.0).state.tolist() == expected


@pytest.mark.parametrize("t", [0.5, math.inf, math.nan])
def test_run_until_refuses_past_and_infinite_times(t):
    with pytest.raises(ValueError, match="`t` must"):
        Evolution(LASSO.graph, [0]).run_until(1).run_until(t)


@pytest.mark.parametrize("size", [0.0, -0.1, 0.3])
def test_step_refuses_more_than_the_step_of_the_scheme(size):
    with pytest.raises(ValueError, match="`size` must"):
        Evolution(LASSO.graph, [0], scheme=RK4(step=0.25)).step(size)


# -- Statistics and input ----------------------------------------------------------------------------------------------


@schemes
def test_statistics_count_steps_and_evaluations(scheme):
    f = evolve(LASSO.graph, [0], initial_value=10, times=(0.5, 1.25), potential=LASSO.rho, scheme=scheme(step=0.25))
    took, stages = f.statistics, {Euler: 1, SSPRK3: 3, RK4: 4}[scheme]
    assert (took.method, took.steps, took.evaluations, took.step) == (scheme.__name__, 5, 5 * stages, 0.25)
    assert took.seconds > 0
    off = equation.residual(LASSO.graph, f.value[-1, :, 0], 1, LASSO.rho)[1:6].abs().max()
    assert took.residual == pytest.approx(float(off), rel=1e-12)


def test_start_on_the_boundary_is_zero_whatever_is_given():
    f = evolve(LASSO.graph, [0], start=start_of(7), times=[1]).value
    lifted = start_of(7)
    lifted[0] = 99
    assert torch.equal(evolve(LASSO.graph, [0], start=lifted, times=[1]).value, f)


def test_one_start_is_broadcast_to_all_columns():
    start = start_of(7)
    expected = evolve(LASSO.graph, TWO_SETS, start=start.expand(7, 2)).value
    assert torch.equal(evolve(LASSO.graph, TWO_SETS, start=start).value, expected)
    assert torch.equal(evolve(LASSO.graph, TWO_SETS, start=start[:, 0]).value, expected)


def test_without_sources_a_start_is_needed():
    with pytest.raises(ValueError, match="`start` must be passed"):
        evolve(LASSO.graph, None)


@pytest.mark.parametrize("times", [[], [0], [-1], [1, 1], [2, 1], [math.inf], [math.nan], [1, math.nan]])
def test_times_must_be_positive_finite_and_increasing(times):
    with pytest.raises(ValueError, match="`times` must"):
        evolve(LASSO.graph, [0], times=times)
