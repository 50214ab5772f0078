"""Model selection: which kernels are compared on which graphs; temperatures by brute force, ridges one by one."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import norm

from lggd import EdgeAgreement, KernelRidge
from lggd import kernels as all_kernels
from lggd.closed_form import selection
from lggd.closed_form.adjacency import Adjacency, Propagation
from lggd.closed_form.ridge import ExactSystem, class_targets, left_out_scores
from lggd.closed_form.selection import (
    COMPARED_RIDGES,
    DEVIATION,
    INVERSE_TEMPERATURES,
    MAX_COMPARED,
    MIN_WEIGHT,
    RIDGES,
    TEMPERING,
    TYPICAL,
    KernelSelection,
    best_kernels,
    choose_ridge,
    choose_settings,
    compared_nodes,
    fit_inverse_temperature,
    kernel_loss,
    mean_inverse_temperature,
    typical_inverse_temperature,
)
from lggd.filters import Hops
from lggd.kernels import (
    FAR_KERNELS,
    FAR_REWEIGHTED_KERNELS,
    FARTHER,
    KERNELS,
    NEARER,
    REWEIGHTED_KERNELS,
    TOPOLOGY_KERNELS,
    WIDE_KERNELS,
    ChosenKernel,
    FilterKernel,
    Gaussian,
    Linear,
    MixtureKernel,
)
from support.small_data import CLASSES, blocks, changed, random

NO_EDGE_WEIGHTS = {"agreement": None, "widths": (3, 5)}


def compared(data, monkeypatch, loss=lambda member: 1.0, **options):
    """The losses of all kernels that a fit compares, where kernels have these losses; and how many labels each saw."""
    seen, counts = {}, []

    def kernel_loss(kernel, nodes, classes, num_classes):
        (member,) = kernel.kernels
        counts.append((member, len(nodes)))
        return loss(member)

    def best_kernels(losses, count, labels):
        seen.update(losses)
        return (min(losses, key=losses.__getitem__),)

    monkeypatch.setattr(selection, "kernel_loss", kernel_loss)
    monkeypatch.setattr(selection, "best_kernels", best_kernels)
    KernelRidge(**options).fit(data)
    return seen, counts


def kernels_on(members, graph):
    return [member.kernel for member in members if member.graph == graph]


# -- far neighbourhoods -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("excess", "far"), [(-1.0, True), (4.9, True), (5.1, False), (100.0, False)])
def test_far_neighbourhoods_are_compared_unless_four_hops_are_clearly_worse(excess, far, monkeypatch):
    data = blocks()
    labels = int(data.train_mask.sum())

    def loss(member):
        # The best of each counts, whatever the others say.
        return {FARTHER[1]: 1 + excess / labels, NEARER[2]: 1.0}.get(member.kernel, 5.0)

    members = compared(data, monkeypatch, loss, widths=(3, 5))[0]
    expected = {*KERNELS, *FAR_KERNELS} if far else set(KERNELS)
    assert set(kernels_on(members, "x")) == expected
    assert set(kernels_on(members, "wide")) == set(WIDE_KERNELS)
    assert kernels_on(members, "topology") == (list(TOPOLOGY_KERNELS) if far else [])
    reweighted = [*REWEIGHTED_KERNELS, *FAR_REWEIGHTED_KERNELS] if far else [*REWEIGHTED_KERNELS]
    for round in range(3):
        assert kernels_on(members, f"agreement {round}") == reweighted


def test_the_kernels_that_tell_how_far_to_look_are_not_chosen_themselves(monkeypatch):
    best = dict.fromkeys((*FARTHER, *NEARER), 0.0)
    own = FilterKernel((Hops(0),), Linear())
    members = compared(
        blocks(), monkeypatch, lambda m: best.get(m.kernel, 1.0), kernels=(own,), wide_kernels=(), **NO_EDGE_WEIGHTS
    )[0]
    assert set(kernels_on(members, "x")) == {own, *FAR_KERNELS}


def test_nothing_is_compared_to_look_nowhere(monkeypatch):
    own = FilterKernel((Hops(0),), Linear())
    _, counts = compared(
        blocks(), monkeypatch, kernels=(own,), far_kernels=(), topology_kernels=(), wide_kernels=(), agreement=None
    )
    assert [member for member, _ in counts] == [ChosenKernel("x", own)]


def test_without_features_rows_of_the_adjacency_have_all_kernels(monkeypatch):
    far_is_worse = dict.fromkeys(FARTHER, 9.0)
    members = compared(
        changed(blocks(), x=None), monkeypatch, lambda m: far_is_worse.get(m.kernel, 1.0), **NO_EDGE_WEIGHTS
    )[0]
    assert {member.graph for member in members} == {"x", "wide"}
    assert set(kernels_on(members, "x")) == {*KERNELS, *FAR_KERNELS, *TOPOLOGY_KERNELS}


# -- widths, finalists and optimism -------------------------------------------------------------------------------


def test_features_with_few_columns_have_the_wide_kernels_on_the_same_graph(monkeypatch):
    members = compared(blocks(), monkeypatch, far_kernels=(), topology_kernels=(), agreement=None)[0]
    assert {member.graph for member in members} == {"x"}
    assert kernels_on(members, "x") == list(dict.fromkeys([*KERNELS, *WIDE_KERNELS]))


@pytest.mark.parametrize("members", [1, 14])
def test_where_labels_are_many_the_best_kernels_are_compared_on_more_of_them(members, monkeypatch):
    data = blocks(each=200, labelled=190, validated=0, inside=0.02, outside=0.001)
    order = {kernel: k for k, kernel in enumerate(dict.fromkeys([*KERNELS, *FAR_KERNELS]))}
    _, counts = compared(  # four hops are best, and not chosen themselves
        data,
        monkeypatch,
        lambda m: order.get(m.kernel, 0),
        max_kernels=members,
        wide_kernels=(),
        topology_kernels=(),
        agreement=None,
    )
    assert {count for _, count in counts} == {MAX_COMPARED, 570}
    again = [member.kernel for member, count in counts if count == 570]
    assert again == list(order)[: max(10, members)]


def test_edge_weights_that_have_seen_labels_must_be_better(monkeypatch):
    seen, _ = compared(blocks(), monkeypatch, agreement=EdgeAgreement(2), far_kernels=(), topology_kernels=())
    assert {member.graph: loss for member, loss in seen.items()} == {
        "x": 1.0, "agreement 0": 1.0, "agreement 1": pytest.approx(1.1), "agreement 2": pytest.approx(1.1),
    }  # fmt: skip


def test_edges_are_weighed_by_predictions_without_the_own_label():
    data, own = blocks(noise=1.5), FilterKernel((Hops(0),), Linear())
    model = KernelRidge(kernels=(own,), far_kernels=(), topology_kernels=(), wide_kernels=(), agreement=None).fit(data)
    chosen = KernelSelection(model, model.solution_.inputs, model.labels_, CLASSES, seed=0)
    chosen._losses[ChosenKernel("wide", own)] = 0.5  # never used
    found = chosen._preliminary()
    # The same scores at another temperature: here the one of the lowest loss, there the mean of likely ones.
    ours, theirs = (log - log.mean(1, keepdim=True) for log in (found.log(), model.left_out_proba().log()))
    torch.testing.assert_close(ours, theirs * ((ours * theirs).sum() / theirs.square().sum()), atol=1e-3, rtol=0)
    assert float((found - model.predict_proba())[data.train_mask].abs().max()) > 0.01


def test_where_labels_are_many_the_losses_on_more_of_them_decide(monkeypatch):
    data = blocks(each=200, labelled=190, validated=0, inside=0.02, outside=0.001)
    own = tuple(FilterKernel((Hops(count),), Linear()) for count in range(3))
    at_first, finally_ = dict(zip(own, (1.0, 1.1, 1.2), strict=True)), dict(zip(own, (1.002, 1.001, 1.4), strict=True))

    def kernel_loss(kernel, nodes, *_):
        return (at_first if len(nodes) == MAX_COMPARED else finally_)[kernel.kernels[0].kernel]

    monkeypatch.setattr(selection, "kernel_loss", kernel_loss)
    model = KernelRidge(kernels=own, far_kernels=(), topology_kernels=(), wide_kernels=(), agreement=None).fit(data)
    weights = {own[1]: 1.0, own[0]: pytest.approx(np.exp(-570 * 0.001 / 3))}
    assert {member.kernel: member.weight for member in model.kernels_} == weights


def test_default_kernels_are_all_different():
    for name in ("KERNELS", "WIDE_KERNELS", "FAR_KERNELS", "TOPOLOGY_KERNELS", "REWEIGHTED_KERNELS"):
        kernels = getattr(all_kernels, name)
        assert len(set(kernels)) == len(kernels) > 0
    assert {kernel.kernel.unit for kernel in KERNELS} == {True, False}
    assert [kernel.filters for kernel in NEARER] == [(Hops(2),)] * 3
    assert [kernel.filters for kernel in FARTHER] == [(Hops(4),)] * 3
    assert set(NEARER) <= set(KERNELS)  # known already, as a rule


# -- temperatures --------------------------------------------------------------------------------------------------


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
    temperature, loss = selection.fit_inverse_temperature(scores, given_classes, **given_prior)
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
    monkeypatch.setattr(selection, "fit_inverse_temperature", lambda s, c: (INVERSE_TEMPERATURES[0], 0.7))
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
    many = torch.zeros(3 * MAX_COMPARED, dtype=torch.int64)
    many[::2] = -1
    nodes = compared_nodes(many, 4)
    assert len(nodes) == MAX_COMPARED
    assert bool((nodes.diff() > 0).all())
    assert bool((many[nodes] >= 0).all())
    assert torch.equal(nodes, compared_nodes(many, 4))
    assert not torch.equal(nodes, compared_nodes(many, 5))
    assert len(compared_nodes(many, 4, most=10)) == 10


def build_kernel(data):
    graph = Propagation(data.x, Adjacency(data.edge_index, None, data.num_nodes), [Hops(0), Hops(2)])
    return MixtureKernel({"x": graph}, [ChosenKernel("x", FilterKernel((Hops(0), Hops(2)), Gaussian(0.5)))])


@pytest.fixture
def kernel():
    return build_kernel(blocks())


def losses_at(kernel, nodes, classes, ridges, prior=None):
    points = kernel.points(nodes)
    gram = kernel.between(points, points).double()
    for ridge in ridges:
        left_out = left_out_scores(gram, class_targets(classes, 3), ridge)
        yield min(brute_force(left_out, classes, prior)), ridge


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_the_ridge_is_the_one_with_the_lowest_loss(noise):
    data = blocks(noise=noise, labelled=8)
    kernel, nodes = build_kernel(data), data.train_mask.nonzero().squeeze(1)
    system = ExactSystem(kernel).with_nodes(nodes)
    loss, ridge, temperature, _ = choose_ridge(system, data.y[nodes], 3)
    expected = min(losses_at(kernel, nodes, data.y[nodes], RIDGES, DEVIATION))
    assert loss == pytest.approx(expected[0], rel=1e-4)
    assert ridge == expected[1]
    assert ridge > RIDGES[0]  # or else the first would do
    assert temperature in INVERSE_TEMPERATURES
    left_out = left_out_scores(system._gram(), class_targets(data.y[nodes], 3), ridge)
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
    noise = Propagation(torch.randn(36, 4, generator=random()), Adjacency(data.edge_index, None, 36), [Hops(0)])
    blind = MixtureKernel({"x": noise}, [ChosenKernel("x", FilterKernel((Hops(0),), Linear()))])
    losses = [kernel_loss(each, nodes, data.y[nodes], 3) for each in (kernel, blind)]
    assert losses[0] < losses[1]


# -- the weights of kernels ---------------------------------------------------------------------------------------

HOPS = [ChosenKernel("x", FilterKernel((Hops(count),), Linear())) for count in range(8)]


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
    expected = [weight for weight in expected[:count] if weight >= MIN_WEIGHT]
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
            left_out_scores(
                kernel.between(kernel.points(nodes), kernel.points(nodes)).double(),
                class_targets(data.y[nodes], 3), ridge,
            ),
            data.y[nodes],
            INVERSE_TEMPERATURES[::2],
        )[1]
        for ridge in COMPARED_RIDGES
    )  # fmt: skip
    assert found == pytest.approx(coarse, rel=1e-3)
