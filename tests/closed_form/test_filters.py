"""Filters against dense matrix powers, inverses and exponentials; principal directions against the SVD."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm

from graphs import random_weights
from lggd import HighPass, Hops, InputError
from lggd.closed_form import filters
from lggd.closed_form.filters import Propagation, principal_axes, unit_rows
from lggd.diffusion import PPR, Heat
from lggd.graph.sparse import without_sparse_warnings
from small_data import random

EVERY_FILTER = (
    *(Hops(count, loops) for count in (0, 1, 2, 5, 16) for loops in (True, False)),
    HighPass(), PPR(0.1), PPR(0.02), PPR(1), Heat(3.0),
)  # fmt: skip


def adjacency(weights, self_loops):
    """Â of dense weights, or without self-loops; a node without neighbours has a row of zeros there."""
    matrix = weights + np.eye(len(weights)) if self_loops else weights
    degree = matrix.sum(1)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return root[:, None] * matrix * root


def dense_filter(filter, weights, x):
    """The filtered features by dense linear algebra in double precision, with rows of unit length or zero."""
    a, identity = adjacency(weights, True), np.eye(len(weights))
    match filter:
        case Hops():
            out = np.linalg.matrix_power(adjacency(weights, filter.self_loops), filter.count) @ x
        case HighPass():
            out = x - a @ x
        case PPR():
            out = filter.alpha * np.linalg.inv(identity - (1 - filter.alpha) * a) @ x
        case Heat():
            out = expm(-filter.t * (identity - a)) @ x
    length = np.linalg.norm(out, axis=1, keepdims=True)
    return np.where(length > 1e-6, out / np.maximum(length, 1e-6), 0)


def propagation(weights, x, chosen):
    rows, columns = np.nonzero(weights)
    edge_index = torch.tensor(np.stack([rows, columns]))
    weight = torch.tensor(weights[rows, columns], dtype=torch.float32)
    return Propagation(torch.tensor(x, dtype=torch.float32), edge_index, weight, chosen)


def check_filters(chosen, seed=0, nodes=20, lonely=2, width=3):
    weights = random_weights(nodes, 0.2, seed)
    weights[nodes - lonely :], weights[:, nodes - lonely :] = 0, 0
    x = np.random.default_rng(seed).normal(size=(nodes, width)).astype(np.float32).astype(np.float64)
    found = propagation(weights, x, chosen)
    for filter in chosen:
        expected = dense_filter(filter, weights, x)
        # A diffusion is truncated; where its result is small, unit length makes more of that.
        np.testing.assert_allclose(found.block(filter).numpy(), expected, atol=2e-3, err_msg=str(filter))


@pytest.mark.parametrize("filter", EVERY_FILTER, ids=str)
def test_each_filter_is_its_function_of_the_adjacency(filter):
    check_filters([filter])


@given(chosen=st.lists(st.sampled_from(EVERY_FILTER), min_size=1, unique=True), seed=st.integers(0, 99))
def test_filters_computed_together_are_those_computed_alone(chosen, seed):
    check_filters(chosen, seed)


@pytest.mark.parametrize("bug", ["recurrence", "power", "loops"])
def test_the_check_catches_a_wrong_filter(bug, monkeypatch):
    if bug == "recurrence":
        matrix = filters.normalized_adjacency
        monkeypatch.setattr(
            filters, "normalized_adjacency", lambda *a, **k: (lambda m: m.with_values(m.values * 0.9))(matrix(*a, **k))
        )
    elif bug == "power":
        monkeypatch.setattr(filters, "_power", lambda exponent: [1 / (exponent + 1)] * (exponent + 1))
    else:
        matrix = filters.normalized_adjacency
        monkeypatch.setattr(filters, "normalized_adjacency", lambda *a, **_: matrix(*a, self_loops=True))
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


@pytest.mark.parametrize(("settings", "argument"), [((-1,), "count"), ((1.5,), "count"), ((1, "yes"), "self_loops")])
def test_wrong_hops_are_refused(settings, argument):
    with pytest.raises(InputError) as caught:
        Hops(*settings)
    assert caught.value.argument == argument


# -- principal directions -----------------------------------------------------------------------------------------


def decaying(rows, columns, seed=0):
    """A matrix whose singular values fall by half each time."""
    draws = np.random.default_rng(seed)
    left = np.linalg.qr(draws.normal(size=(rows, rows)))[0]
    right = np.linalg.qr(draws.normal(size=(columns, columns)))[0]
    count = min(rows, columns)
    return torch.tensor((left[:, :count] * 0.5 ** np.arange(count)) @ right[:count], dtype=torch.float32)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("shape", "width"), [((30, 12), 12), ((30, 12), 40), ((30, 12), 5), ((8, 25), 25), ((8, 25), 6)]
)
@pytest.mark.parametrize("exact", [0, 1000])
def test_principal_axes_span_the_subspace_of_the_svd(shape, width, sparse, exact, monkeypatch):
    monkeypatch.setattr(filters, "MOST_EXACT_COLUMNS", exact)
    x = decaying(*shape)
    axes = principal_axes(x.to_sparse_coo() if sparse else x, width, random())
    count = min(width, *shape)
    assert axes.shape == (shape[1], count)
    torch.testing.assert_close(axes.t() @ axes, torch.eye(count), atol=1e-4, rtol=0)
    leading = min(count, 4)  # smaller singular values are lost in rounding
    _, values, right = np.linalg.svd(x.numpy())
    overlap = np.abs(right[:leading] @ axes[:, :leading].numpy())
    np.testing.assert_allclose(overlap, np.eye(leading), atol=0.02)
    lengths = (x @ axes).norm(dim=0)[:leading]
    np.testing.assert_allclose(lengths.numpy(), values[:leading], rtol=1e-3)


def test_principal_axes_depend_on_the_generator_alone(monkeypatch):
    monkeypatch.setattr(filters, "MOST_EXACT_COLUMNS", 0)
    x = decaying(20, 30)
    one, again = (principal_axes(x, 4, random(3)) for _ in range(2))
    assert torch.equal(one, again)


# -- unit rows ----------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 999))
def test_rows_have_unit_length_dense_or_sparse(seed):
    draws = random(seed)
    x = torch.randn(7, 5, generator=draws).masked_fill(torch.rand(7, 5, generator=draws) < 0.5, 0)
    x[2] = 0
    dense = unit_rows(x)
    expected = x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)
    torch.testing.assert_close(dense, expected)
    torch.testing.assert_close(unit_rows(x.to_sparse_coo()).to_dense(), expected)
    with without_sparse_warnings():
        torch.testing.assert_close(unit_rows(x.to_sparse_csr()).to_dense(), expected)
