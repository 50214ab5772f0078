"""Time stepping schemes: their order, and the limits of their steps."""

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lggd import RK4, SSPRK3, Euler, Evolution, distance, evolve
from lggd.results import Status
from lggd.solvers.scheme import MONOTONE
from support import oracles, zoo
from support.lasso import start_of
from support.zoo import f64

SCHEMES = [Euler, SSPRK3, RK4]
schemes = pytest.mark.parametrize("scheme", SCHEMES)

arrows = zoo.case("arrows_towards")
# Two free nodes that see each other, one of them between more of the boundary.
pair = zoo.Instance(5, ((0, 3), (0, 4), (1, 4), (2, 3), (2, 4), (3, 4)), (1.0,) * 6, (0, 1, 2))


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(("scheme", "order"), [(Euler, 1), (SSPRK3, 3), (RK4, 4)])
def test_order_of_convergence_in_time(p, scheme, order):
    graph = zoo.case("grid_corner").graph
    # Five times the hops: so steep that no two nodes change order in this time, and the solution is smooth.
    start = 5 * distance(graph, [0], p=zoo.inf).value
    i, j = graph.edge_index
    span = 0.25

    def at_end(steps: int) -> torch.Tensor:
        return evolve(graph, [0], start=start, times=[span], p=p, scheme=scheme(step=span / steps)).value[0, :, 0]

    exact = oracles.plain_evolve(graph, [[0]], start.unsqueeze(1), p, "RK4", span / 512, 512)[:, 0]
    assert torch.equal(start[i] > start[j], exact[i] > exact[j])
    zoo.check_order([float((at_end(n) - exact).abs().max()) for n in (8, 16, 32, 64)], order)


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
def test_a_high_node_does_not_pull_a_steady_one_below_its_distance(scheme, p):
    # A single node decreases to 0; at RK4's fourth stage it is (1 − z)(1 + z²/3) times its start.
    triangle = zoo.Instance(3, ((0, 1), (0, 2), (1, 2)), (1.0,) * 3, (0,), p)
    zoo.check_never_undershoots(triangle, scheme(), f64([0, 0, 1e6]))


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
        f, n = oracles.plain_evolve(graph, [[4]], f, 1, scheme.__name__, step, 1), n + 1
    node = int((~torch.isfinite(f[:, 0])).nonzero()[0])
    message = rf"Node {node}, column 0, became .* in step {n} .*10, and 10 at its largest"
    with pytest.raises(FloatingPointError, match=message):
        evolve(graph, [4], times=(20, 4000), **given)
    with pytest.raises(FloatingPointError, match=message):
        Evolution(graph, [4], **given).run_until(4000)
