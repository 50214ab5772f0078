"""Ridge regression: dual and primal, leave-one-out by leaving labels out; systems kept while labels come and go."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from lggd.closed_form import ridge
from lggd.closed_form.adjacency import Adjacency, Propagation
from lggd.closed_form.ridge import (
    ExactSystem,
    InducedSystem,
    LocalSystem,
    class_targets,
    leave_one_out_path,
    left_out_scores,
    posterior_covariance,
    posterior_variance,
    ridge_coefficients,
)
from lggd.filters import Hops
from lggd.kernels import ArcCosine, ChosenKernel, FilterKernel, Gaussian, MixtureKernel
from support.small_data import blocks, random

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
    gram, normal = features @ features.t(), features.t() @ features
    dual = ridge.left_out_scores(gram, targets, weight)
    primal = ridge.primal_left_out_scores(normal, features, targets, weight)
    for found in (dual, primal):
        torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-6)


@problems
def test_leave_one_out_is_leaving_each_label_out_and_solving_again(seed, labels, width, weight):
    check_leave_one_out(seed, labels, width, 10**weight)


@pytest.mark.parametrize("bug", ["dual", "primal"])
def test_the_check_catches_predictions_that_have_seen_the_label(bug, monkeypatch):
    if bug == "dual":
        monkeypatch.setattr(ridge, "left_out_scores", lambda k, y, r: k @ ridge_coefficients(k, y, r))
    else:
        seen = lambda a, x, y, r: x @ ridge_coefficients(a, x.t() @ y, r)  # noqa: E731
        monkeypatch.setattr(ridge, "primal_left_out_scores", seen)
    with pytest.raises(AssertionError):
        check_leave_one_out(0, 6, 3, 0.1)


@problems
def test_dual_and_primal_are_the_same_function(seed, labels, width, weight):
    features, targets = problem(seed, labels, width)
    coefficients = ridge_coefficients(features @ features.t(), targets, 10**weight)
    weights = ridge_coefficients(features.t() @ features, features.t() @ targets, 10**weight)
    others = torch.randn(5, width, generator=random(1), dtype=torch.float64)
    torch.testing.assert_close(others @ features.t() @ coefficients, others @ weights, atol=1e-8, rtol=1e-6)


@problems
def test_a_path_is_the_solution_at_each_ridge(seed, labels, width, weight):
    features, targets = problem(seed, labels, width)
    ridges = (0.01, 10**weight, 5.0)
    gram = features @ features.t()
    path = leave_one_out_path(gram, targets, ridges)
    for found, each in zip(path, ridges, strict=True):
        torch.testing.assert_close(found, left_out_scores(gram, targets, each), atol=1e-7, rtol=1e-6)


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
    found = columns @ ridge_coefficients(gram, y[:, None], 10**weight).squeeze(1)
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


# -- systems -------------------------------------------------------------------------------------------------------

NODES = 36
RIDGE = 0.1
label_sets = st.lists(st.sets(st.integers(0, NODES - 1), min_size=1, max_size=30), min_size=1, max_size=4)
CLOSE = {"atol": 2e-4, "rtol": 0}


def build_kernel():
    data = blocks()
    graph = Propagation(data.x, Adjacency(data.edge_index, None, data.num_nodes), [Hops(0), Hops(2)])
    members = [
        ChosenKernel("x", FilterKernel((Hops(0),), Gaussian(0.3))),
        ChosenKernel("x", FilterKernel((Hops(2),), ArcCosine())),
    ]
    return MixtureKernel({"x": graph}, members)


KERNEL = build_kernel()


def exact():
    return ExactSystem(KERNEL)


def induced(nodes=None):
    return InducedSystem(KERNEL, KERNEL.points(nodes))


def few_inducing():
    return induced(torch.arange(0, NODES, 3))


every_system = pytest.mark.parametrize("build", [exact, induced, few_inducing])


def targets_of(nodes):
    return class_targets(blocks().y[nodes], 3)


def with_nodes(system, *sets):
    for nodes in sets:
        system = system.with_nodes(torch.tensor(sorted(nodes)))
        system.variance(RIDGE)  # computes what is then kept
    return system


def answers(system):
    """All that a system tells, by name."""
    targets = targets_of(system.nodes)
    some = torch.tensor([5, 0, 30])
    return {
        "scores": system.scores(targets, RIDGE), "leave-one-out": system.left_out(targets, RIDGE).float(),
        "path": system.path(targets, [RIDGE, 1.0]).float(),
        "variance": system.variance(RIDGE).float(), "covariance": system.covariance(some, RIDGE),
    }  # fmt: skip


def check_same(one: LocalSystem, other: LocalSystem) -> None:
    assert torch.equal(one.nodes, other.nodes)
    expected = answers(other)
    for name, value in answers(one).items():
        torch.testing.assert_close(value, expected[name], msg=lambda text, name=name: f"{name}: {text}", **CLOSE)


@every_system
@given(sets=label_sets)
def test_labels_that_come_and_go_leave_the_system_of_those_that_stay(build, sets):
    check_same(with_nodes(build(), *sets), with_nodes(build(), sets[-1]))


@pytest.mark.parametrize(("build", "bug"), [(exact, "columns"), (induced, "normal"), (few_inducing, "normal")])
def test_the_check_catches_labels_that_are_not_taken_back(build, bug):
    system = with_nodes(build(), range(20), range(1, 20))
    if bug == "columns":
        system.columns[:, 3] += 0.01
    else:
        row = system.features[:1].double()
        system._normal = system._normal_matrix() + row.t() @ row
    with pytest.raises(AssertionError):
        check_same(system, with_nodes(build(), range(1, 20)))


@every_system
def test_a_system_never_changes(build):
    system = with_nodes(build(), range(20))
    before = {name: value.clone() for name, value in answers(system).items()}
    with_nodes(system, range(10, 30), {0, 1})
    assert all(torch.equal(value, before[name]) for name, value in answers(system).items())


@given(sets=label_sets)
def test_with_all_nodes_as_inducing_points_the_solution_is_exact(sets):
    check_same(with_nodes(induced(), *sets), with_nodes(exact(), *sets))


@given(sets=label_sets)
def test_labelled_inducing_points_make_the_leave_one_out_scores_exact(sets):
    nodes = torch.tensor(sorted(sets[-1]))
    other = torch.tensor([node for node in range(NODES) if node not in sets[-1]][:3], dtype=torch.int64)
    one, expected = with_nodes(induced(torch.cat([nodes, other])), nodes.tolist()), with_nodes(exact(), nodes.tolist())
    targets = targets_of(nodes)
    for answer in ("scores", "left_out"):
        found, wanted = (getattr(system, answer)(targets, RIDGE) for system in (one, expected))
        torch.testing.assert_close(found, wanted, **CLOSE)


@every_system
@given(sets=label_sets)
def test_the_answers_of_one_system_fit_together(build, sets):
    system = with_nodes(build(), *sets)
    found = answers(system)
    torch.testing.assert_close(found["path"][0], found["leave-one-out"], **CLOSE)
    unexplained = found["variance"][[5, 0, 30]] - found["covariance"][[0, 1, 2], [5, 0, 30]]
    assert float(unexplained.min()) > -1e-3
    if build is not few_inducing:
        torch.testing.assert_close(unexplained, torch.zeros(3), **CLOSE)
    assert bool((found["variance"] >= 0).all())


@every_system
def test_leave_one_out_is_solving_without_the_label(build):
    system = with_nodes(build(), range(0, 30, 2))
    left_out = system.left_out(targets_of(system.nodes), RIDGE).float()
    for position, node in enumerate(range(0, 30, 2)):
        without = with_nodes(build(), set(range(0, 30, 2)) - {node})
        expected = without.scores(targets_of(without.nodes), RIDGE)[node]
        torch.testing.assert_close(left_out[position], expected, **CLOSE)


@every_system
def test_a_label_lowers_the_variance_everywhere_and_most_at_its_node(build):
    few, more = with_nodes(build(), {0, 1, 2}), with_nodes(build(), {0, 1, 2, 20})
    gain = few.variance(RIDGE) - more.variance(RIDGE)
    assert float(gain.min()) > -1e-5
    assert float(gain[20]) > float(gain.mean())
    row = few.covariance(torch.tensor([20]), RIDGE)[0]
    torch.testing.assert_close(gain.float(), row.square() / (row[20] + RIDGE), atol=2e-3, rtol=0)


@pytest.mark.parametrize("copies", [2, 4])
def test_equal_points_do_not_make_it_singular(copies):
    x = torch.randn(6, 3, generator=random()).repeat(copies, 1)
    graph = Propagation(x, Adjacency(torch.empty(2, 0, dtype=torch.int64), None, len(x)), [Hops(0)])
    kernel = MixtureKernel({"x": graph}, [ChosenKernel("x", FilterKernel((Hops(0),), Gaussian(0.3)))])
    system = InducedSystem(kernel, kernel.points()).with_nodes(torch.arange(6))
    exact_system = ExactSystem(kernel).with_nodes(torch.arange(6))
    targets = class_targets(torch.arange(6) % 3, 3)
    found, expected = (each.scores(targets, RIDGE) for each in (system, exact_system))
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)
