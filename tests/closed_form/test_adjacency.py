"""Filters against dense matrix powers, inverses and exponentials; their Chebyshev series and limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd import InputError, filters
from lggd.closed_form import adjacency
from lggd.closed_form.adjacency import Adjacency, Propagation
from lggd.filters import PPR, Heat, HighPass, Hops
from support.dense_kernels import dense_filter
from support.graphs import random_weights

EVERY_FILTER = (
    *(Hops(count, loops) for count in (0, 1, 2, 5, 16) for loops in (True, False)),
    HighPass(), PPR(0.1), PPR(0.02), PPR(1), Heat(3.0),
)  # fmt: skip


def adjacency_of(weights):
    rows, columns = np.nonzero(weights)
    weight = torch.tensor(weights[rows, columns], dtype=torch.float32)
    return Adjacency(torch.tensor(np.stack([rows, columns])), weight, len(weights))


def propagation(weights, x, chosen):
    return Propagation(torch.tensor(x, dtype=torch.float32), adjacency_of(weights), chosen)


def check_filters(chosen, seed=0, nodes=20, lonely=2, width=3):
    weights = random_weights(nodes, 0.2, seed)
    weights[nodes - lonely :], weights[:, nodes - lonely :] = 0, 0
    x = np.random.default_rng(seed).normal(size=(nodes, width)).astype(np.float32).astype(np.float64)
    found = propagation(weights, x, chosen)
    for filter in chosen:
        for unit in (True, False):
            expected = dense_filter(filter, weights, x, unit)
            # A diffusion is truncated; where its result is small, unit length makes more of that.
            np.testing.assert_allclose(found.block(filter, unit).numpy(), expected, atol=2e-3, err_msg=str(filter))


@pytest.mark.parametrize("filter", EVERY_FILTER, ids=str)
def test_each_filter_is_its_function_of_the_adjacency(filter):
    check_filters([filter])


@given(chosen=st.lists(st.sampled_from(EVERY_FILTER), min_size=1, unique=True), seed=st.integers(0, 99))
def test_filters_computed_together_are_those_computed_alone(chosen, seed):
    check_filters(chosen, seed)


@pytest.mark.parametrize("bug", ["recurrence", "power", "loops"])
def test_the_check_catches_a_wrong_filter(bug, monkeypatch):
    if bug == "recurrence":
        matrix = adjacency.normalized_adjacency
        monkeypatch.setattr(
            adjacency,
            "normalized_adjacency",
            lambda *a, **k: (lambda m: m.with_values(m.values * 0.9))(matrix(*a, **k)),
        )
    elif bug == "power":
        flat = lambda self, _: [1 / (self.count + 1)] * (self.count + 1)  # noqa: E731
        monkeypatch.setattr(Hops, "chebyshev_coefficients", flat)
    else:
        matrix = adjacency.normalized_adjacency
        monkeypatch.setattr(adjacency, "normalized_adjacency", lambda *a, **_: matrix(*a, self_loops=True))
    with pytest.raises(AssertionError):
        check_filters(EVERY_FILTER)


def test_a_graph_without_edges_keeps_x_and_leaves_no_neighbours():
    found = propagation(np.zeros((4, 4)), np.eye(4), [Hops(0), Hops(3), Hops(1, False), HighPass(), PPR(0.1)])
    for filter in (Hops(0), Hops(3), PPR(0.1)):
        torch.testing.assert_close(found.block(filter), torch.eye(4))
    for filter in (Hops(1, False), HighPass()):
        assert not found.block(filter).any()


def test_rounding_errors_of_zero_are_zero():
    # A constant x on a regular graph is what its neighbourhood is, and an isolated node sees nothing at two hops.
    ring = np.roll(np.eye(9), 1, axis=1) + np.roll(np.eye(9), -1, axis=1)
    assert not propagation(ring, np.full((9, 2), 0.3), [HighPass()]).block(HighPass()).any()
    isolated = propagation(np.zeros((3, 3)), np.random.default_rng(0).normal(size=(3, 4)), [Hops(16, False)])
    assert not isolated.block(Hops(16, False)).any()


@given(
    first=st.lists(st.sampled_from(EVERY_FILTER), min_size=1, unique=True),
    more=st.lists(st.sampled_from(EVERY_FILTER), unique=True),
    seed=st.integers(0, 99),
)
def test_filters_that_are_added_later_equal_those_computed_together(first, more, seed):
    weights, x = random_weights(12, 0.3, seed), np.random.default_rng(seed).normal(size=(12, 3))
    later, together = propagation(weights, x, first), propagation(weights, x, [*first, *more])
    before = {filter: later.block(filter) for filter in first}
    later.extend(more)
    assert later.filters == tuple(dict.fromkeys([*first, *more]))
    for filter in later.filters:
        for unit in (True, False):
            assert torch.equal(later.block(filter, unit), together.block(filter, unit))
    assert all(later.block(filter) is block for filter, block in before.items())  # not computed again


@given(seed=st.integers(0, 99), loops=st.booleans())
def test_sharing_changes_nothing(seed, loops):
    draws = np.random.default_rng(seed)
    weights, x = random_weights(12, 0.3, seed) + loops * np.diag(draws.random(12) < 0.5), draws.normal(size=(12, 3))
    reweighted = weights * (lambda noise: noise + noise.T)(draws.random((12, 12)))
    given = adjacency_of(weights)
    other = given.reweighted(adjacency_of(reweighted).edge_weight)
    for used, its_weights in ((given, weights), (given, weights), (other, reweighted)):
        found = Propagation(torch.tensor(x, dtype=torch.float32), used, EVERY_FILTER)
        alone = propagation(its_weights, x, EVERY_FILTER)
        for filter in EVERY_FILTER:
            torch.testing.assert_close(found.block(filter, False), alone.block(filter, False))
    assert given.matrix(True) is given.matrix(True)
    assert given.matrix(True) is not other.matrix(True)
    assert given.matrix(False).pattern is other.matrix(False).pattern


def test_lengths_are_kept_relative_to_their_mean_square():
    # One hop on a star: the centre sees all leaves, each leaf the centre alone.
    star = np.zeros((5, 5))
    star[0, 1:] = star[1:, 0] = 1
    found = propagation(star, np.ones((5, 1)), [Hops(1, False)])
    lengths = np.array([4 / 2, *[1 / 2] * 4])
    block = found.block(Hops(1, False), unit=False)
    np.testing.assert_allclose(block[:, 0], lengths / np.sqrt((lengths**2).mean()), rtol=1e-6)
    assert float(block.square().sum(1).mean()) == pytest.approx(1)
    nodes = torch.tensor([3, 0])
    assert torch.equal(found.rows(Hops(1, False), nodes, unit=False), block[nodes])
    assert torch.equal(found.rows(Hops(1, False), nodes), torch.ones(2, 1))


def test_lengths_of_nothing_are_zero():
    ring = np.roll(np.eye(9), 1, axis=1) + np.roll(np.eye(9), -1, axis=1)
    assert not propagation(ring, np.full((9, 2), 0.3), [HighPass()]).block(HighPass(), unit=False).any()
    assert not propagation(ring, np.zeros((9, 2)), [Hops(2)]).block(Hops(2), unit=False).any()
    lonely = propagation(np.zeros((3, 3)), np.eye(3), [Hops(1, False)])
    assert not lonely.block(Hops(1, False), unit=False).any()


@pytest.mark.parametrize(("settings", "argument"), [((-1,), "count"), ((1.5,), "count"), ((1, "yes"), "self_loops")])
def test_wrong_hops_are_refused(settings, argument):
    with pytest.raises(InputError) as caught:
        Hops(*settings)
    assert caught.value.argument == argument


# -- limits of diffusions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "value", "message"),
    [
        (PPR, 0, r"`alpha` must lie in \[1e-05, 1\], got 0"),
        (PPR, 1e-9, r"`alpha` must lie in \[1e-05, 1\], got 1e-09.*use 0.05"),
        (PPR, 1e-17, r"`alpha` must lie in \[1e-05, 1\], got 1e-17.*use 0.05"),
        (PPR, True, r"`alpha` must lie in \[1e-05, 1\], got True"),
        (Heat, 0, "`t` must be positive"),
        (Heat, 1e12, r"`t` must be positive and at most 1e\+06, got 1000000000000.0.*use 5"),
        (Heat, math.inf, r"`t` must be positive and at most 1e\+06, got inf.*use 5"),
    ],
)
def test_kernels_without_finite_series_raise(kernel, value, message):
    with pytest.raises(ValueError, match=message):
        kernel(value)


@pytest.mark.parametrize("kernel", [PPR(filters.MIN_ALPHA), Heat(filters.MAX_T)], ids=str)
def test_series_of_the_widest_kernels_are_finite_and_exact(kernel):
    coefficients = kernel.chebyshev_coefficients()
    assert len(coefficients) < 10_000
    assert math.fsum(coefficients) == pytest.approx(1, abs=2 * filters.TOLERANCE)
