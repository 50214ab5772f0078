"""The steady state of an evolution, which is the distance."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lggd import RK4, SSPRK3, Euler, Evolution, distance, equation
from support import oracles, zoo
from support.lasso import LASSO

SCHEMES = [Euler, SSPRK3, RK4]


@settings(max_examples=20)
@given(zoo.instances(least_weight=0.25), st.sampled_from(SCHEMES))
def test_steady_state_is_the_distance(instance, scheme):
    evolution = Evolution(
        instance.graph, list(instance.sources), p=instance.p, potential=instance.rho, scheme=scheme(), initial_value=10
    )
    steady = oracles.steady_state(evolution, tol=1e-9)
    zoo.assert_close(steady[:, 0], zoo.solve(instance, None), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("p", zoo.P)
def test_residual_of_the_state_is_that_of_the_equation(p, scheme):
    evolution = Evolution(LASSO.graph, [0], p=p, potential=LASSO.rho, initial_value=10, scheme=scheme())
    steady = oracles.steady_state(evolution, tol=1e-7)
    assert evolution.residual <= 1e-7
    assert math.isinf(steady[6, 0])
    off = equation.residual(LASSO.graph, steady[:, 0], p, LASSO.rho)[1:6].abs().max()
    assert float(off) == pytest.approx(evolution.residual, abs=1e-12)


def test_the_distance_is_steady():
    exact = distance(LASSO.graph, [0]).value
    assert Evolution(LASSO.graph, [0], start=exact.nan_to_num(posinf=3.0)).residual < 1e-12
