"""Systems of equations that are kept while labels come and go: exact, and with inducing points."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd import ArcCosine, FilterKernel, Gaussian, Hops
from lggd.closed_form.filters import Propagation
from lggd.closed_form.kernels import Member, MixtureKernel
from lggd.closed_form.ridge import class_targets
from lggd.closed_form.systems import ExactSystem, InducedSystem, RidgeSystem
from small_data import blocks, random

NODES = 36
RIDGE = 0.1
label_sets = st.lists(st.sets(st.integers(0, NODES - 1), min_size=1, max_size=30), min_size=1, max_size=4)
CLOSE = {"atol": 2e-4, "rtol": 0}


def build_kernel():
    data = blocks()
    graph = Propagation(data.x, data.edge_index, None, [Hops(0), Hops(2)])
    members = [Member("x", FilterKernel((Hops(0),), Gaussian(0.3))), Member("x", FilterKernel((Hops(2),), ArcCosine()))]
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
        system.set_nodes(torch.tensor(sorted(nodes)))
        system.variance(RIDGE)  # computes what is then kept
    return system


def answers(system):
    """All that a system tells, by name."""
    targets = targets_of(system.nodes)
    solution = system.solve(targets, RIDGE)
    some = torch.tensor([5, 0, 30])
    return {
        "scores": solution.scores, "scores alone": system.scores(targets, RIDGE),
        "leave-one-out": solution.leave_one_out.float(),
        "path": system.path(targets, [RIDGE, 1.0]).float(),
        "variance": system.variance(RIDGE).float(), "covariance": system.covariance(some, RIDGE),
    }  # fmt: skip


def check_same(one: RidgeSystem, other: RidgeSystem) -> None:
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


@given(sets=label_sets)
def test_with_all_nodes_as_inducing_points_the_solution_is_exact(sets):
    check_same(with_nodes(induced(), *sets), with_nodes(exact(), *sets))


@given(sets=label_sets)
def test_labelled_inducing_points_make_the_leave_one_out_scores_exact(sets):
    nodes = torch.tensor(sorted(sets[-1]))
    other = torch.tensor([node for node in range(NODES) if node not in sets[-1]][:3], dtype=torch.int64)
    one, expected = with_nodes(induced(torch.cat([nodes, other])), nodes.tolist()), with_nodes(exact(), nodes.tolist())
    targets = targets_of(nodes)
    found, left_out = one.solve(targets, RIDGE), expected.solve(targets, RIDGE)
    torch.testing.assert_close(found.leave_one_out, left_out.leave_one_out, **CLOSE)
    torch.testing.assert_close(found.scores, left_out.scores, **CLOSE)


@every_system
@given(sets=label_sets)
def test_the_answers_of_one_system_fit_together(build, sets):
    system = with_nodes(build(), *sets)
    found = answers(system)
    torch.testing.assert_close(found["scores alone"], found["scores"], **CLOSE)
    torch.testing.assert_close(found["path"][0], found["leave-one-out"], **CLOSE)
    unexplained = found["variance"][[5, 0, 30]] - found["covariance"][[0, 1, 2], [5, 0, 30]]
    assert float(unexplained.min()) > -1e-3
    if build is not few_inducing:
        torch.testing.assert_close(unexplained, torch.zeros(3), **CLOSE)
    assert bool((found["variance"] >= 0).all())


@every_system
def test_leave_one_out_is_solving_without_the_label(build):
    system = with_nodes(build(), range(0, 30, 2))
    left_out = system.solve(targets_of(system.nodes), RIDGE).leave_one_out.float()
    for position, node in enumerate(range(0, 30, 2)):
        without = with_nodes(build(), set(range(0, 30, 2)) - {node})
        expected = without.solve(targets_of(without.nodes), RIDGE).scores[node]
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
    graph = Propagation(x, torch.empty(2, 0, dtype=torch.int64), None, [Hops(0)])
    kernel = MixtureKernel({"x": graph}, [Member("x", FilterKernel((Hops(0),), Gaussian(0.3)))])
    system = InducedSystem(kernel, kernel.points())
    system.set_nodes(torch.arange(6))
    exact_system = ExactSystem(kernel)
    exact_system.set_nodes(torch.arange(6))
    targets = class_targets(torch.arange(6) % 3, 3)
    found, expected = (each.solve(targets, RIDGE).scores for each in (system, exact_system))
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)
