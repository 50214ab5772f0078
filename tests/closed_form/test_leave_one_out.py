"""The choice of settings: temperature by brute force, and ridges by solving for each."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import norm

from lggd import FilterKernel, Gaussian, Hops, Linear
from lggd.closed_form import leave_one_out
from lggd.closed_form.filters import Propagation
from lggd.closed_form.kernels import Member, MixtureKernel
from lggd.closed_form.leave_one_out import (
    COMPARED_RIDGES,
    DEVIATION,
    INVERSE_TEMPERATURES,
    LEAST_WEIGHT,
    MOST_COMPARED,
    RIDGES,
    TEMPERING,
    TYPICAL,
    best_kernels,
    choose_ridge,
    choose_settings,
    compared_nodes,
    fit_inverse_temperature,
    kernel_loss,
    mean_inverse_temperature,
    typical_inverse_temperature,
)
from lggd.closed_form.ridge import class_targets, solve_dual
from lggd.closed_form.systems import ExactSystem
from small_data import blocks, random


def brute_force(scores, classes, prior=None):
    """The loss of each temperature by SciPy, without a prior or with a lognormal one."""
    rows = np.arange(len(classes))
    losses = [-log_softmax(beta * scores.numpy(), axis=1)[rows, classes].mean() for beta in INVERSE_TEMPERATURES]
    if prior is None:
        return losses
    density = norm(math.log(TYPICAL), prior)
    logs = [density.logpdf(math.log(TYPICAL)) - density.logpdf(math.log(beta)) for beta in INVERSE_TEMPERATURES]
    return [loss + log / len(classes) for loss, log in zip(losses, logs, strict=True)]


def check_temperature(seed, labels, classes, spread, prior=None):
    draws = random(seed)
    scores = spread * torch.randn(labels, classes, generator=draws, dtype=torch.float64)
    given_classes = torch.randint(classes, (labels,), generator=draws)
    given_prior = {} if prior is None else {"deviation": prior}
    temperature, loss = leave_one_out.fit_inverse_temperature(scores, given_classes, **given_prior)
    losses = brute_force(scores, given_classes, prior)
    assert loss == pytest.approx(min(losses))
    assert losses[INVERSE_TEMPERATURES.index(temperature)] == pytest.approx(min(losses))


@given(
    seed=st.integers(0, 999),
    labels=st.integers(1, 20),
    classes=st.integers(1, 5),
    spread=st.floats(0.01, 2),
    prior=st.sampled_from([None, 0.3, 2.0]),
)
def test_the_temperature_has_the_lowest_loss(seed, labels, classes, spread, prior):
    check_temperature(seed, labels, classes, spread, prior)


def test_the_check_catches_a_temperature_that_is_not_the_best(monkeypatch):
    monkeypatch.setattr(leave_one_out, "fit_inverse_temperature", lambda s, c: (INVERSE_TEMPERATURES[0], 0.7))
    with pytest.raises(AssertionError):
        check_temperature(0, 10, 3, 0.5)


def test_temperatures_range_from_doubt_to_certainty():
    assert (INVERSE_TEMPERATURES[0], INVERSE_TEMPERATURES[-1]) == (0.5, 64.0)
    wrong = fit_inverse_temperature(torch.tensor([[1.0, 0.0]]).double(), torch.tensor([1]))
    assert wrong == (0.5, pytest.approx(math.log(1 + math.exp(0.5))))


@given(seed=st.integers(0, 999), labels=st.integers(1, 20), classes=st.integers(1, 5), spread=st.floats(0.01, 2))
def test_the_temperature_in_use_is_the_posterior_mean_of_its_logarithm(seed, labels, classes, spread):
    draws = random(seed)
    scores = spread * torch.randn(labels, classes, generator=draws, dtype=torch.float64)
    given_classes, logs = torch.randint(classes, (labels,), generator=draws), np.log(INVERSE_TEMPERATURES)
    likelihood = -np.array(brute_force(scores, given_classes)) * labels / TEMPERING
    weight = np.exp(likelihood - likelihood.max()) * norm(math.log(4.5 + math.log(max(classes - 1, 1))), 0.2).pdf(logs)
    assert mean_inverse_temperature(scores, given_classes) == pytest.approx(np.exp(weight @ logs / weight.sum()))


def test_many_labels_decide_the_temperature_and_few_hardly():
    noisy = torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]]).double()
    classes = torch.tensor([0, 1, 0, 0])  # one of four is wrong
    few = mean_inverse_temperature(noisy, classes)
    many = mean_inverse_temperature(noisy.repeat(10_000, 1), classes.repeat(10_000))
    assert many == pytest.approx(math.log(3) / 0.8, rel=0.1)
    assert few == pytest.approx(typical_inverse_temperature(2), rel=0.1)


def test_few_labels_are_all_compared_and_many_at_random():
    few = torch.tensor([-1, 2, -1, 0, 1])
    assert compared_nodes(few, 0).tolist() == [1, 3, 4]
    many = torch.zeros(3 * MOST_COMPARED, dtype=torch.int64)
    many[::2] = -1
    nodes = compared_nodes(many, 4)
    assert len(nodes) == MOST_COMPARED
    assert bool((nodes.diff() > 0).all())
    assert bool((many[nodes] >= 0).all())
    assert torch.equal(nodes, compared_nodes(many, 4))
    assert not torch.equal(nodes, compared_nodes(many, 5))
    assert len(compared_nodes(many, 4, most=10)) == 10


def build_kernel(data):
    graph = Propagation(data.x, data.edge_index, None, [Hops(0), Hops(2)])
    return MixtureKernel({"x": graph}, [Member("x", FilterKernel((Hops(0), Hops(2)), Gaussian(0.5)))])


@pytest.fixture
def kernel():
    return build_kernel(blocks())


def losses_at(kernel, nodes, classes, ridges, prior=None):
    points = kernel.points(nodes)
    gram = kernel.between(points, points).double()
    for ridge in ridges:
        left_out = solve_dual(gram, class_targets(classes, 3), ridge)[1]
        yield min(brute_force(left_out, classes, prior)), ridge


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_the_ridge_is_the_one_with_the_lowest_loss(noise):
    data = blocks(noise=noise, labelled=8)
    kernel, nodes = build_kernel(data), data.train_mask.nonzero().squeeze(1)
    system = ExactSystem(kernel)
    system.set_nodes(nodes)
    loss, ridge, temperature = choose_ridge(system, data.y[nodes], 3)
    expected = min(losses_at(kernel, nodes, data.y[nodes], RIDGES, DEVIATION))
    assert loss == pytest.approx(expected[0], rel=1e-4)
    assert ridge == expected[1]
    assert ridge > RIDGES[0]  # or else the first would do
    assert temperature in INVERSE_TEMPERATURES
    left_out = solve_dual(system._gram, class_targets(data.y[nodes], 3), ridge)[1]
    calibrated = mean_inverse_temperature(left_out, data.y[nodes])
    assert choose_settings(system, data.y[nodes], 3) == (loss, ridge, pytest.approx(calibrated))


def test_the_loss_of_a_kernel_is_that_of_its_best_ridge(kernel):
    data = blocks()
    nodes = data.train_mask.nonzero().squeeze(1)
    found = kernel_loss(kernel, nodes, data.y[nodes], 3)
    assert found == pytest.approx(min(losses_at(kernel, nodes, data.y[nodes], COMPARED_RIDGES))[0], rel=1e-3)


def test_a_kernel_that_tells_classes_apart_has_a_lower_loss(kernel):
    data = blocks()
    nodes = data.train_mask.nonzero().squeeze(1)
    noise = Propagation(torch.randn(36, 4, generator=random()), data.edge_index, None, [Hops(0)])
    blind = MixtureKernel({"x": noise}, [Member("x", FilterKernel((Hops(0),), Linear()))])
    losses = [kernel_loss(each, nodes, data.y[nodes], 3) for each in (kernel, blind)]
    assert losses[0] < losses[1]


# -- the weights of kernels ---------------------------------------------------------------------------------------

HOPS = [Member("x", FilterKernel((Hops(count),), Linear())) for count in range(8)]


def test_kernels_weigh_by_their_likelihood():
    # Three times as improbable, in all, weighs exp(−log 3 / 3).
    found = best_kernels({HOPS[1]: 1.0 + math.log(3) / 20, HOPS[0]: 1.0}, 5, 20)
    assert [member.kernel for member in found] == [HOPS[0].kernel, HOPS[1].kernel]
    assert [member.weight for member in found] == [1.0, pytest.approx(3 ** (-1 / 3))]


@given(
    losses=st.lists(st.floats(0, 3), min_size=1, max_size=8),
    count=st.integers(1, 8),
    compared=st.integers(1, 500),
)
def test_the_best_kernels_weigh_exponentially_and_negligible_ones_are_left_out(losses, count, compared):
    found = best_kernels(dict(zip(HOPS, losses, strict=False)), count, compared)
    assert found[0].weight == 1
    assert losses[found[0].kernel.filters[0].count] == min(losses)
    expected = sorted((np.exp(-compared * (loss - min(losses)) / TEMPERING) for loss in losses), reverse=True)
    expected = [weight for weight in expected[:count] if weight >= LEAST_WEIGHT]
    assert [member.weight for member in found] == pytest.approx(expected)


def test_few_labels_leave_the_temperature_near_a_typical_one_and_many_decide_it():
    wrong, typical = (
        torch.tensor([[0.1, 0.9]]).double(),
        min(INVERSE_TEMPERATURES, key=lambda b: abs(math.log(b / TYPICAL))),
    )
    silent = fit_inverse_temperature(torch.zeros(3, 2), torch.tensor([0, 1, 1]), deviation=DEVIATION)[0]
    assert silent == typical
    found = [
        fit_inverse_temperature(wrong.expand(n, 2), torch.zeros(n, dtype=torch.int64), deviation=DEVIATION)[0]
        for n in (1, 4, 10_000)
    ]
    assert typical > found[0] > found[1] > found[2] == INVERSE_TEMPERATURES[0]


def test_the_prior_is_lognormal():
    scores, classes = torch.zeros(4, 2).double(), torch.zeros(4, dtype=torch.int64)  # any β has the loss log 2
    for beta in (TYPICAL, 3.0, 12.0):
        _, loss = fit_inverse_temperature(scores, classes, [beta], deviation=0.5)
        density = norm(math.log(TYPICAL), 0.5)
        drop = density.logpdf(math.log(TYPICAL)) - density.logpdf(math.log(beta))
        assert loss == pytest.approx(math.log(2) + drop / 4)


def test_kernels_are_compared_without_a_prior(kernel):
    data = blocks(labelled=1)
    nodes = data.train_mask.nonzero().squeeze(1)
    found = kernel_loss(kernel, nodes, data.y[nodes], 3)
    coarse = min(
        fit_inverse_temperature(
            solve_dual(
                kernel.between(kernel.points(nodes), kernel.points(nodes)).double(),
                class_targets(data.y[nodes], 3), ridge,
            )[1],
            data.y[nodes],
            INVERSE_TEMPERATURES[::2],
        )[1]
        for ridge in COMPARED_RIDGES
    )  # fmt: skip
    assert found == pytest.approx(coarse, rel=1e-3)
