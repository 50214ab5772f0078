"""Ridge regression: dual and primal, and leave-one-out by really leaving labels out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from lggd.closed_form import ridge
from lggd.closed_form.ridge import (
    class_targets,
    leave_one_out_path,
    posterior_covariance,
    posterior_variance,
    ridge_coefficients,
    solve_dual,
    solve_primal,
)
from small_data import random

problems = given(
    seed=st.integers(0, 10**6), labels=st.integers(2, 12), width=st.integers(1, 10), weight=st.floats(-3, 1)
)


def problem(seed, labels, width, classes=3):
    draws = random(seed)
    features = torch.randn(labels, width, generator=draws, dtype=torch.float64)
    return features, class_targets(torch.randint(classes, (labels,), generator=draws), classes)


def left_out_by_hand(features, targets, weight):
    """What the other labels predict for each one, by as many solves as there are labels."""
    found = []
    for i in range(len(features)):
        others = torch.arange(len(features)) != i
        x, y = features[others], targets[others]
        found.append(features[i] @ torch.linalg.solve(x.t() @ x + weight * torch.eye(x.shape[1]), x.t() @ y))
    return torch.stack(found)


def check_leave_one_out(seed, labels, width, weight):
    features, targets = problem(seed, labels, width)
    expected = left_out_by_hand(features, targets, weight)
    gram = features @ features.t()
    torch.testing.assert_close(ridge.solve_dual(gram, targets, weight)[1], expected, atol=1e-7, rtol=1e-6)
    normal, moments = features.t() @ features, features.t() @ targets
    primal = ridge.solve_primal(normal, moments, features, targets, weight)[1]
    torch.testing.assert_close(primal, expected, atol=1e-7, rtol=1e-6)


@problems
def test_leave_one_out_is_leaving_each_label_out_and_solving_again(seed, labels, width, weight):
    check_leave_one_out(seed, labels, width, 10**weight)


@pytest.mark.parametrize("bug", ["dual", "primal"])
def test_the_check_catches_predictions_that_have_seen_the_label(bug, monkeypatch):
    if bug == "dual":
        monkeypatch.setattr(ridge, "solve_dual", lambda k, y, r: (None, k @ solve_dual(k, y, r)[0]))
    else:
        monkeypatch.setattr(ridge, "solve_primal", lambda a, b, x, y, r: (None, x @ solve_primal(a, b, x, y, r)[0]))
    with pytest.raises(AssertionError):
        check_leave_one_out(0, 6, 3, 0.1)


@problems
def test_dual_and_primal_are_the_same_function(seed, labels, width, weight):
    features, targets = problem(seed, labels, width)
    coefficients, _ = solve_dual(features @ features.t(), targets, 10**weight)
    weights, _ = solve_primal(features.t() @ features, features.t() @ targets, features, targets, 10**weight)
    others = torch.randn(5, width, generator=random(1), dtype=torch.float64)
    torch.testing.assert_close(others @ features.t() @ coefficients, others @ weights, atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(ridge_coefficients(features @ features.t(), targets, 10**weight), coefficients)


@problems
def test_a_path_is_the_solution_at_each_ridge(seed, labels, width, weight):
    features, targets = problem(seed, labels, width)
    ridges = (0.01, 10**weight, 5.0)
    gram = features @ features.t()
    path = leave_one_out_path(gram, targets, ridges)
    for found, each in zip(path, ridges, strict=True):
        torch.testing.assert_close(found, solve_dual(gram, targets, each)[1], atol=1e-7, rtol=1e-6)


def test_targets_of_a_label_sum_to_0():
    targets = class_targets(torch.tensor([2, 0]), 4)
    assert targets.tolist() == [[-0.25, -0.25, 0.75, -0.25], [0.75, -0.25, -0.25, -0.25]]
    assert targets.dtype == torch.float64


@given(seed=st.integers(0, 999), weight=st.floats(-3, 0))
def test_the_posterior_is_that_of_a_gaussian_process(seed, weight):
    x = torch.randn(15, 2, generator=random(seed), dtype=torch.float64)
    y, kernel = torch.randn(6, generator=random(seed + 1), dtype=torch.float64), RBF(1.3)
    process = GaussianProcessRegressor(kernel, alpha=10**weight, optimizer=None).fit(x[:6], y)
    mean, covariance = process.predict(x, return_cov=True)
    full = torch.tensor(kernel(x))
    gram, columns = full[:6, :6], full[:, :6]
    found = columns @ solve_dual(gram, y[:, None], 10**weight)[0].squeeze(1)
    torch.testing.assert_close(found, torch.tensor(mean), atol=1e-7, rtol=1e-6)
    variance = posterior_variance(gram, columns, full.diagonal(), 10**weight)
    torch.testing.assert_close(variance, torch.tensor(covariance.diagonal().copy()), atol=1e-8, rtol=1e-6)
    nodes = torch.tensor([9, 0, 14])
    joint = posterior_covariance(gram, columns, full[nodes], nodes, 10**weight)
    torch.testing.assert_close(joint, torch.tensor(covariance[nodes]), atol=1e-8, rtol=1e-6)


def test_a_matrix_that_rounding_made_indefinite_is_solved_with_jitter():
    features = torch.ones(6, 1, dtype=torch.float64)
    gram = features @ features.t() - 1e-6 * torch.eye(6)  # smallest eigenvalue below -ridge
    found = ridge_coefficients(gram, features, 1e-8)
    assert bool(torch.isfinite(found).all())
    torch.testing.assert_close(gram @ found, features, rtol=1e-3, atol=1e-3)


def test_entries_that_are_not_finite_are_named():
    gram = torch.eye(3, dtype=torch.float64)
    gram[0, 0] = torch.nan
    with pytest.raises(torch.linalg.LinAlgError, match="not finite"):
        ridge_coefficients(gram, torch.ones(3, 1, dtype=torch.float64), 0.1)
