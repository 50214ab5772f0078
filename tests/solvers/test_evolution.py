"""The evolution in time: where it goes, how accurately, and what it says about itself."""

import math
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import zoo
from lggd import RK4, SSPRK3, Euler, Evolution, Graph, Status, TorchDiffEq, distance, evolve
from lggd.equation import operators
from lggd.solvers.scheme import MONOTONE
from zoo import f64

SCHEMES = [Euler, SSPRK3, RK4]
schemes = pytest.mark.parametrize("scheme", SCHEMES)
exponents = pytest.mark.parametrize("p", zoo.P)

# A weighted graph with a cycle, a chord, a tail and a node out of reach.
LASSO = zoo.Instance(
    7, ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 5)), (0.9, 0.5, 0.7, 1.0, 0.3, 0.8, 0.6), (0,),
    potential=(1.0, 0.8, 1.2, 0.9, 1.5, 0.7, 1.0),
)  # fmt: skip
TWO_SETS = [[0], [2, 5]]


def start_of(nodes: int, columns: int = 1, seed: int = 0, scale: float = 5.0) -> torch.Tensor:
    return scale * torch.rand(nodes, columns, generator=torch.Generator().manual_seed(seed), dtype=zoo.F64)


# -- Where it goes -----------------------------------------------------------------------------------------------------


@schemes
@exponents
def test_evolution_comes_ever_closer_to_the_distance(p, scheme):
    exact = distance(LASSO.graph, [0], p=p, potential=LASSO.rho).value
    reached = torch.isfinite(exact)
    f = evolve(LASSO.graph, [0], p=p, potential=LASSO.rho, times=(5, 10, 20, 60), scheme=scheme(), far=100).value
    errors = [float((state[:, 0] - exact)[reached].abs().max()) for state in f]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-9


@settings(max_examples=20)
@given(zoo.instances(least_weight=0.25), st.sampled_from(SCHEMES))
def test_steady_state_is_the_distance(instance, scheme):
    steady = evolve(
        instance.graph, list(instance.sources), p=instance.p, potential=instance.rho,
        scheme=scheme(), far=10, until="steady", tol=1e-9,
    )  # fmt: skip
    assert steady.status == Status.STEADY
    zoo.assert_close(steady.value[0, :, 0], zoo.solve(instance, None), rtol=1e-6, atol=1e-6)


arrows = zoo.case("arrows_towards")
# Two free nodes that see each other, one of them between more of the boundary.
pair = zoo.Instance(5, ((0, 3), (0, 4), (1, 4), (2, 3), (2, 4), (3, 4)), (1.0,) * 6, (0, 1, 2))


@schemes
@settings(max_examples=25)
@given(zoo.instances(p=[1, 2, zoo.inf]))
@example(arrows)
@example(replace(arrows, p=2))
@example(replace(arrows, p=zoo.inf))
@example(pair)
@example(replace(pair, p=2))
@example(replace(pair, p=zoo.inf))
@example(zoo.case("star_leaves"))
def test_automatic_step_never_undershoots_the_distance(scheme, instance):
    zoo.check_never_undershoots(instance, scheme())


@schemes
@settings(max_examples=25)
@given(instance=zoo.instances(p=[1, 2, zoo.inf]), data=st.data())
def test_automatic_step_never_undershoots_from_any_start_above_the_distance(scheme, instance, data):
    rises = st.lists(st.sampled_from([0.0, 1.0, 1e6]), min_size=instance.num_nodes, max_size=instance.num_nodes)
    zoo.check_never_undershoots(instance, scheme(), f64(data.draw(rises)))


@schemes
@pytest.mark.parametrize("p", [1, 2, zoo.inf])
def test_a_high_node_does_not_drag_down_one_at_rest(scheme, p):
    # A single node falls to 0 by stages; at the fourth one of RK4 it stands at (1 − z)(1 + z²/3) of where it began.
    triangle = zoo.Instance(3, ((0, 1), (0, 2), (1, 2)), (1.0,) * 3, (0,), p)
    zoo.check_never_undershoots(triangle, scheme(), f64([0, 0, 1e6]))


@pytest.mark.parametrize("scheme", [Euler, SSPRK3])
@settings(max_examples=20)
@given(instance=zoo.instances(), data=st.data())
def test_higher_start_stays_higher(scheme, instance, data):
    heights = st.lists(st.floats(0, 10), min_size=instance.num_nodes, max_size=instance.num_nodes)
    low, rise = f64(data.draw(heights)), f64(data.draw(heights))
    lower, upper = (
        evolve(instance.graph, list(instance.sources), start=f, p=instance.p, times=(1, 2), scheme=scheme()).value
        for f in (low, low + rise)
    )
    zoo.assert_at_most(lower, upper)


@schemes
@exponents
def test_without_sources_nothing_is_held_and_a_constant_may_be_added(p, scheme):
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
        expected = [zoo.plain_evolve(graph, sources, start, p, scheme.__name__, 0.125, n, rho, weight) for n in (2, 8)]
        zoo.assert_close(f, torch.stack(expected))


@exponents
@pytest.mark.parametrize("directed", [False, True])
def test_rk4_is_that_of_torchdiffeq(p, directed):
    pytest.importorskip("torchdiffeq")
    graph = replace(LASSO, directed=directed).graph
    rho = start_of(7, 2, seed=1, scale=1) + 0.5
    for sources in (TWO_SETS, None):
        ours, theirs = (
            evolve(graph, sources, start=start_of(7, 2), times=(0.5, 1, 2), p=p, potential=rho, scheme=scheme).value
            for scheme in (RK4(step=0.125), TorchDiffEq("rk4", step=0.125))
        )
        zoo.assert_close(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(("scheme", "order"), [(Euler, 1), (SSPRK3, 3), (RK4, 4)])
def test_order_of_convergence_in_time(p, scheme, order):
    graph = zoo.case("grid_corner").graph
    # Five times the hops: so steep that in this time no node overtakes another, and nothing has a kink.
    start = 5 * distance(graph, [0], p=zoo.inf).value
    i, j = graph.edge_index
    span = 0.25

    def at_end(steps: int) -> torch.Tensor:
        return evolve(graph, [0], start=start, times=[span], p=p, scheme=scheme(step=span / steps)).value[0, :, 0]

    exact = zoo.plain_evolve(graph, [[0]], start.unsqueeze(1), p, "RK4", span / 512, 512)[:, 0]
    assert torch.equal(start[i] > start[j], exact[i] > exact[j])
    zoo.check_order([float((at_end(n) - exact).abs().max()) for n in (8, 16, 32, 64)], order)


@schemes
def test_going_on_from_a_state_is_as_if_never_stopped(scheme):
    through = evolve(LASSO.graph, [0], times=(1, 2), far=10, scheme=scheme()).value
    again = evolve(LASSO.graph, [0], start=through[0], times=[1], scheme=scheme()).value
    assert torch.equal(again[0], through[1])


@exponents
def test_columns_evolve_on_their_own(p):
    start, rho = start_of(7, 2), start_of(7, 2, seed=1, scale=1) + 0.5
    together = evolve(LASSO.graph, TWO_SETS, start=start, potential=rho, p=p, scheme=RK4(step=0.1)).value
    for k, nodes in enumerate(TWO_SETS):
        given = {"start": start[:, k], "potential": rho[:, k], "p": p}
        zoo.assert_close(together[:, :, k : k + 1], evolve(LASSO.graph, nodes, scheme=RK4(step=0.1), **given).value)


@exponents
def test_given_weights_stand_in_for_those_of_the_graph(p):
    bare = replace(LASSO, weight=(1.0,) * 7).graph
    expected = evolve(LASSO.graph, [0], far=10, p=p).value
    zoo.assert_close(evolve(bare, [0], far=10, p=p, weight=LASSO.graph.weight).value, expected)


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


def test_torchdiffeq_holds_the_boundary_too():
    pytest.importorskip("torchdiffeq")
    f = evolve(LASSO.graph, TWO_SETS, start=start_of(7, 2), scheme=TorchDiffEq(step=0.125)).value
    assert bool((f[:, [0, 2, 5], [0, 1, 1]] == 0).all())


# -- Steps -------------------------------------------------------------------------------------------------------------


@schemes
@exponents
def test_by_hand_gives_the_bits_of_evolve(p, scheme):
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
    evolution = Evolution(LASSO.graph, [0], far=10, scheme=RK4(step=step))
    for tenth in range(1, 31):
        evolution.run_until(tenth * 0.1)
        assert evolution.time == tenth * 0.1
    zoo.assert_close(evolution.run_until(60).state[:6, 0], distance(LASSO.graph, [0]).value[:6], rtol=1e-6)


def test_run_until_takes_no_more_steps_than_needed():
    evolution = Evolution(LASSO.graph, [0], far=10, scheme=RK4(step=0.25))
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
def test_run_until_refuses_the_past_and_the_endless(t):
    with pytest.raises(ValueError, match="`t` must"):
        Evolution(LASSO.graph, [0]).run_until(1).run_until(t)


@pytest.mark.parametrize("size", [0.0, -0.1, 0.3])
def test_step_refuses_more_than_the_step_of_the_scheme(size):
    with pytest.raises(ValueError, match="`size` must"):
        Evolution(LASSO.graph, [0], scheme=RK4(step=0.25)).step(size)


@schemes
@pytest.mark.parametrize("p", [1, 2, zoo.inf])
def test_step_above_the_stable_limit_is_refused_unless_forced(p, scheme):
    star = zoo.case("star_leaves")
    stable, bound = scheme().stable_at(p), 4 ** (1 / p)  # ρ‖√w‖_p of the centre
    for run in (
        lambda s: evolve(star.graph, [1], times=[1], p=p, scheme=s),
        lambda s: Evolution(star.graph, [1], p=p, scheme=s),
    ):
        run(scheme(step=stable / bound))
        with pytest.raises(ValueError, match=re.escape(f"`step` must be at most {stable / bound:.4g}")):
            run(scheme(step=1.01 * stable / bound))
        run(scheme(step=1.01 * stable / bound, force=True))


@schemes
def test_automatic_step_is_the_monotone_limit(scheme):
    star = zoo.case("star_leaves")
    assert Evolution(star.graph, [1], scheme=scheme()).step_size == pytest.approx(MONOTONE / 4)
    assert Evolution(star.graph, [1], p=2, scheme=scheme()).step_size == pytest.approx(MONOTONE / 2)


@schemes
def test_status_warns_of_steps_between_the_limits(scheme):
    star = zoo.case("star_leaves")
    middle = (MONOTONE + scheme.stable) / 2 / 4
    assert evolve(star.graph, [1], scheme=scheme()).status == Status.REACHED
    assert evolve(star.graph, [1], scheme=scheme(step=MONOTONE / 4)).status == Status.REACHED
    assert evolve(star.graph, [1], scheme=scheme(step=middle)).status == Status.MAY_OVERSHOOT
    assert not Evolution(star.graph, [1], scheme=scheme()).may_overshoot
    assert Evolution(star.graph, [1], scheme=scheme(step=middle)).may_overshoot


@schemes
def test_divergence_names_the_node_and_the_step(scheme):
    graph = zoo.case("complete").graph
    start, step = start_of(6), 2.0
    given = {"start": start, "scheme": scheme(step=step, force=True)}
    f, n = start.masked_fill(torch.arange(6).unsqueeze(1) == 4, 0), 0
    while bool(torch.isfinite(f).all()):
        f, n = zoo.plain_evolve(graph, [[4]], f, 1, scheme.__name__, step, 1), n + 1
    node = int((~torch.isfinite(f[:, 0])).nonzero()[0])
    message = rf"Node {node}, column 0, became .* in step {n} .*10, and 10 at its largest"
    with pytest.raises(FloatingPointError, match=message):
        evolve(graph, [4], times=(20, 4000), **given)
    with pytest.raises(FloatingPointError, match=message):
        Evolution(graph, [4], **given).run_until(4000)
    with pytest.raises(FloatingPointError, match=message):
        evolve(graph, [4], until="steady", **given)


# -- Until steady ------------------------------------------------------------------------------------------------------


@schemes
@exponents
def test_until_steady_keeps_its_word_about_the_residual(p, scheme):
    steady = evolve(LASSO.graph, [0], p=p, potential=LASSO.rho, far=10, scheme=scheme(), until="steady", tol=1e-7)
    assert steady.status == Status.STEADY
    assert steady.value.shape == (1, 7, 1)
    assert steady.statistics.residual <= 1e-7
    f = steady.value[0, :, 0]
    assert math.isinf(f[6])
    off = operators.residual(LASSO.graph, f, p, LASSO.rho)[1:6].abs().max()
    assert float(off) == pytest.approx(steady.statistics.residual, abs=1e-12)


def test_until_steady_that_runs_out_of_steps_says_so():
    stopped = evolve(LASSO.graph, [0], far=10, until="steady", max_steps=11)
    assert stopped.status == Status.NOT_STEADY
    assert stopped.statistics.steps == 11
    assert stopped.statistics.residual > 1e-6


def test_until_steady_stops_at_once_where_there_is_nothing_to_do():
    exact = distance(LASSO.graph, [0]).value
    rested = evolve(LASSO.graph, [0], start=exact.nan_to_num(posinf=3.0), until="steady")
    assert (rested.status, rested.statistics.steps) == (Status.STEADY, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sources": None, "start": torch.ones(7)}, "needs sources"),
        ({"until": "stable"}, "`until` must"),
        ({"tol": 0.0}, "`tol` must"),
        ({"scheme": TorchDiffEq()}, "needs a stepping scheme"),
    ],
)
def test_until_steady_refuses_what_never_ends(wrong, message):
    with pytest.raises(ValueError, match=message):
        evolve(LASSO.graph, **{"sources": [0], "until": "steady", **wrong})


# -- What it says about itself -----------------------------------------------------------------------------------------


@schemes
def test_statistics_count_what_was_done(scheme):
    f = evolve(LASSO.graph, [0], far=10, times=(0.5, 1.25), potential=LASSO.rho, scheme=scheme(step=0.25))
    took, stages = f.statistics, {Euler: 1, SSPRK3: 3, RK4: 4}[scheme]
    assert (took.method, took.steps, took.evaluations, took.step) == (scheme.__name__, 5, 5 * stages, 0.25)
    assert took.seconds > 0
    off = operators.residual(LASSO.graph, f.value[-1, :, 0], 1, LASSO.rho)[1:6].abs().max()
    assert took.residual == pytest.approx(float(off), rel=1e-12)


def test_statistics_of_torchdiffeq_count_evaluations():
    pytest.importorskip("torchdiffeq")
    took = evolve(LASSO.graph, [0], far=10, times=[1], scheme=TorchDiffEq(step=0.25)).statistics
    assert (took.method, took.steps, took.evaluations, took.step) == ("TorchDiffEq", None, 16, 0.25)


def test_start_on_the_boundary_is_zero_whatever_is_given():
    f = evolve(LASSO.graph, [0], start=start_of(7), times=[1]).value
    lifted = start_of(7)
    lifted[0] = 99
    assert torch.equal(evolve(LASSO.graph, [0], start=lifted, times=[1]).value, f)


def test_one_start_serves_all_columns():
    start = start_of(7)
    expected = evolve(LASSO.graph, TWO_SETS, start=start.expand(7, 2)).value
    assert torch.equal(evolve(LASSO.graph, TWO_SETS, start=start).value, expected)
    assert torch.equal(evolve(LASSO.graph, TWO_SETS, start=start[:, 0]).value, expected)


def test_without_sources_a_start_is_needed():
    with pytest.raises(ValueError, match="`start` must be given"):
        evolve(LASSO.graph, None)


@pytest.mark.parametrize("times", [[], [0], [-1], [1, 1], [2, 1], [math.inf], [math.nan], [1, math.nan]])
def test_times_must_be_positive_finite_and_increasing(times):
    with pytest.raises(ValueError, match="`times` must"):
        evolve(LASSO.graph, [0], times=times)
