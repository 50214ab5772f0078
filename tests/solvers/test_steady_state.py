"""Evolving to the steady state, which is the distance."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lggd import RK4, SSPRK3, Euler, Status, TorchDiffEq, distance, equation, evolve_to_steady_state
from support import zoo
from support.lasso import LASSO

SCHEMES = [Euler, SSPRK3, RK4]
schemes = pytest.mark.parametrize("scheme", SCHEMES)
exponents = pytest.mark.parametrize("p", zoo.P)


@settings(max_examples=20)
@given(zoo.instances(least_weight=0.25), st.sampled_from(SCHEMES))
def test_steady_state_is_the_distance(instance, scheme):
    steady = evolve_to_steady_state(
        instance.graph, list(instance.sources), p=instance.p, potential=instance.rho,
        scheme=scheme(), far=10, tol=1e-9,
    )  # fmt: skip
    assert steady.status == Status.STEADY
    zoo.assert_close(steady.value[0, :, 0], zoo.solve(instance, None), rtol=1e-6, atol=1e-6)


@schemes
@exponents
def test_residual_is_within_the_tolerance(p, scheme):
    steady = evolve_to_steady_state(LASSO.graph, [0], p=p, potential=LASSO.rho, far=10, scheme=scheme(), tol=1e-7)
    assert steady.status == Status.STEADY
    assert steady.value.shape == (1, 7, 1)
    assert steady.statistics.residual <= 1e-7
    f = steady.value[0, :, 0]
    assert math.isinf(f[6])
    off = equation.residual(LASSO.graph, f, p, LASSO.rho)[1:6].abs().max()
    assert float(off) == pytest.approx(steady.statistics.residual, abs=1e-12)


def test_running_out_of_steps_is_reported():
    stopped = evolve_to_steady_state(LASSO.graph, [0], far=10, max_steps=11)
    assert stopped.status == Status.NOT_STEADY
    assert stopped.statistics.steps == 11
    assert stopped.statistics.residual > 1e-6


def test_a_steady_start_takes_no_steps():
    exact = distance(LASSO.graph, [0]).value
    rested = evolve_to_steady_state(LASSO.graph, [0], start=exact.nan_to_num(posinf=3.0))
    assert (rested.status, rested.statistics.steps) == (Status.STEADY, 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sources": None}, "`sources` must be passed"),
        ({"tol": 0.0}, "`tol` must"),
        ({"scheme": TorchDiffEq()}, "`scheme` must be a stepping scheme"),
    ],
)
def test_input_that_never_becomes_steady_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        evolve_to_steady_state(LASSO.graph, **{"sources": [0], **wrong})
