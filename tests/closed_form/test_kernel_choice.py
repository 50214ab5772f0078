"""Which kernels the closed form compares on which graphs, and what the chosen ones predict by dense linear algebra."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from dense_kernels import dense_mixture, dense_probabilities, dense_variance, dense_weights
from lggd import ArcCosine, EdgeAgreement, FilterKernel, Gaussian, Hops, KernelRidge, Linear
from lggd.closed_form import default_kernels, kernel_ridge
from lggd.closed_form.default_kernels import (
    FAR_KERNELS,
    FAR_REWEIGHTED_KERNELS,
    FARTHER,
    KERNELS,
    NEARER,
    REWEIGHTED_KERNELS,
    TOPOLOGY_KERNELS,
    WIDE_KERNELS,
)
from lggd.closed_form.kernels import Member
from lggd.closed_form.leave_one_out import MOST_COMPARED
from small_data import CLASSES, blocks, changed, random

NO_EDGE_WEIGHTS = {"agreement": None, "widths": (3, 5)}


def compared(data, monkeypatch, loss=lambda member: 1.0, **options):
    """The losses of all kernels that a fit compares, where kernels have these losses; and how many labels each saw."""
    seen, counts = {}, []

    def kernel_loss(kernel, nodes, classes, num_classes):
        (member,) = kernel.members
        counts.append((member, len(nodes)))
        return loss(member)

    def best_kernels(losses, count, labels):
        seen.update(losses)
        return (min(losses, key=losses.__getitem__),)

    monkeypatch.setattr(kernel_ridge, "kernel_loss", kernel_loss)
    monkeypatch.setattr(kernel_ridge, "best_kernels", best_kernels)
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
        blocks(), monkeypatch, lambda m: best.get(m.kernel, 1.0), kernels=(own,), wide=(), **NO_EDGE_WEIGHTS
    )[0]
    assert set(kernels_on(members, "x")) == {own, *FAR_KERNELS}


def test_nothing_is_compared_to_look_nowhere(monkeypatch):
    own = FilterKernel((Hops(0),), Linear())
    _, counts = compared(blocks(), monkeypatch, kernels=(own,), far=(), topology=(), wide=(), agreement=None)
    assert [member for member, _ in counts] == [Member("x", own)]


def test_without_features_rows_of_the_adjacency_have_all_kernels(monkeypatch):
    far_is_worse = dict.fromkeys(FARTHER, 9.0)
    members = compared(
        changed(blocks(), x=None), monkeypatch, lambda m: far_is_worse.get(m.kernel, 1.0), **NO_EDGE_WEIGHTS
    )[0]
    assert {member.graph for member in members} == {"x", "wide"}
    assert set(kernels_on(members, "x")) == {*KERNELS, *FAR_KERNELS, *TOPOLOGY_KERNELS}


# -- widths, finalists and optimism -------------------------------------------------------------------------------


def test_features_with_few_columns_have_the_wide_kernels_on_the_same_graph(monkeypatch):
    members = compared(blocks(), monkeypatch, far=(), topology=(), agreement=None)[0]
    assert {member.graph for member in members} == {"x"}
    assert kernels_on(members, "x") == list(dict.fromkeys([*KERNELS, *WIDE_KERNELS]))


@pytest.mark.parametrize("members", [1, 14])
def test_where_labels_are_many_the_best_kernels_are_compared_on_more_of_them(members, monkeypatch):
    data = blocks(each=200, labelled=190, validated=0, inside=0.02, outside=0.001)
    order = {kernel: k for k, kernel in enumerate(dict.fromkeys([*KERNELS, *FAR_KERNELS]))}
    _, counts = compared(  # four hops are best, and not chosen themselves
        data, monkeypatch, lambda m: order.get(m.kernel, 0), members=members, wide=(), topology=(), agreement=None
    )
    assert {count for _, count in counts} == {MOST_COMPARED, 570}
    again = [member.kernel for member, count in counts if count == 570]
    assert again == list(order)[: max(10, members)]


def test_edge_weights_that_have_seen_labels_must_be_better(monkeypatch):
    seen, _ = compared(blocks(), monkeypatch, agreement=EdgeAgreement(2), far=(), topology=())
    assert {member.graph: loss for member, loss in seen.items()} == {
        "x": 1.0, "agreement 0": 1.0, "agreement 1": pytest.approx(1.1), "agreement 2": pytest.approx(1.1),
    }  # fmt: skip


def test_edges_are_weighed_by_predictions_without_the_own_label():
    data, own = blocks(noise=1.5), FilterKernel((Hops(0),), Linear())
    model = KernelRidge(kernels=(own,), far=(), topology=(), wide=(), agreement=None).fit(data)
    found = model._preliminary({Member("x", own): 1.0, Member("wide", own): 0.5}, model.labels_)  # never "wide" ones
    # The same scores at another temperature: here the one of the lowest loss, there the mean of likely ones.
    ours, theirs = (log - log.mean(1, keepdim=True) for log in (found.log(), model.left_out_proba().log()))
    torch.testing.assert_close(ours, theirs * ((ours * theirs).sum() / theirs.square().sum()), atol=1e-3, rtol=0)
    assert float((found - model.predict_proba())[data.train_mask].abs().max()) > 0.01


def test_where_labels_are_many_the_losses_on_more_of_them_decide(monkeypatch):
    data = blocks(each=200, labelled=190, validated=0, inside=0.02, outside=0.001)
    own = tuple(FilterKernel((Hops(count),), Linear()) for count in range(3))
    at_first, finally_ = dict(zip(own, (1.0, 1.1, 1.2), strict=True)), dict(zip(own, (1.002, 1.001, 1.4), strict=True))

    def kernel_loss(kernel, nodes, *_):
        return (at_first if len(nodes) == MOST_COMPARED else finally_)[kernel.members[0].kernel]

    monkeypatch.setattr(kernel_ridge, "kernel_loss", kernel_loss)
    model = KernelRidge(kernels=own, far=(), topology=(), wide=(), agreement=None).fit(data)
    weights = {own[1]: 1.0, own[0]: pytest.approx(np.exp(-570 * 0.001 / 3))}
    assert {member.kernel: member.weight for member in model.members_} == weights


def test_default_kernels_are_all_different():
    for name in ("KERNELS", "WIDE_KERNELS", "FAR_KERNELS", "TOPOLOGY_KERNELS", "REWEIGHTED_KERNELS"):
        kernels = getattr(default_kernels, name)
        assert len(set(kernels)) == len(kernels) > 0
    assert {kernel.kernel.unit for kernel in KERNELS} == {True, False}
    assert [kernel.filters for kernel in NEARER] == [(Hops(2),)] * 3
    assert [kernel.filters for kernel in FARTHER] == [(Hops(4),)] * 3
    assert set(NEARER) <= set(KERNELS)  # known already, as a rule


# -- predictions by dense linear algebra --------------------------------------------------------------------------

SHAPES = (Linear(), Linear(unit=False), ArcCosine(), Gaussian(0.3))
NEAR = ((Hops(0),), (Hops(2),), (Hops(0), Hops(1, False), Hops(2, False)))


def dense_kernel_of(model, data):
    """The kernel of the members from unit rows of x: projections keep the products of so few columns."""
    x = normalize(data.x.double()).numpy()
    return dense_mixture({"x": (dense_weights(data), x)}, model.members_)


@settings(max_examples=15)
@given(seed=st.integers(0, 999), weighted=st.booleans(), lonely=st.integers(0, 2), few=st.booleans())
def test_predictions_and_variances_are_those_of_dense_matrices(seed, weighted, lonely, few):
    data = blocks(seed=seed, weighted=weighted, lonely=lonely, noise=1.5, labelled=1 if few else 5)
    kernels = tuple(FilterKernel(filters, shape) for filters in NEAR for shape in SHAPES)
    model = KernelRidge(kernels=kernels, far=(), wide=(), topology=(), agreement=None).fit(data)
    kernel, labels = dense_kernel_of(model, data), torch.where(data.train_mask, data.y, -1).numpy()
    assert model.members_[0].weight == 1
    expected = dense_probabilities(kernel, labels, CLASSES, model.ridge_, model.inverse_temperature_)
    np.testing.assert_allclose(model.predict_proba(), expected, atol=2e-3)
    variance = dense_variance(kernel, np.flatnonzero(labels >= 0), model.ridge_)
    np.testing.assert_allclose(model.variance(), variance, atol=2e-3)
    other = np.roll(labels, 3)  # other nodes, the same classes
    expected = dense_probabilities(kernel, other, CLASSES, model.ridge_, model.inverse_temperature_)
    np.testing.assert_allclose(model.proba_from(torch.tensor(other)), expected, atol=2e-3)


def test_losses_and_weights_are_those_of_leaving_labels_out_by_hand():
    data = blocks(noise=1.5, labelled=5)
    kernels = tuple(FilterKernel((Hops(2),), shape) for shape in SHAPES)
    options = {"far": (), "wide": (), "topology": (), "agreement": None}
    model = KernelRidge(kernels=kernels, **options).fit(data)
    labels, known = torch.where(data.train_mask, data.y, -1).numpy(), np.flatnonzero(data.train_mask.numpy())
    losses = {}
    for kernel in kernels:
        dense = dense_mixture({"x": (dense_weights(data), normalize(data.x.double()).numpy())}, [Member("x", kernel)])
        losses[kernel] = min(
            -np.mean([np.log(left_out(dense, labels, node, ridge, 2 ** (step / 2))) for node in known])
            for ridge in (0.01, 0.1, 1.0)
            for step in range(-2, 13)
        )
    best = min(losses.values())
    expected = {kernel: np.exp(-len(known) * (loss - best) / 3) for kernel, loss in losses.items()}
    found = {member.kernel: member.weight for member in model.members_}
    assert found == pytest.approx({kernel: w for kernel, w in expected.items() if w >= 0.05}, rel=1e-2)


def left_out(kernel, labels, node, ridge, inverse_temperature):
    """The probability of the label of a node by all others."""
    without = labels.copy()
    without[node] = -1
    return dense_probabilities(kernel, without, CLASSES, ridge, inverse_temperature)[node, labels[node]]


# -- hard cases for lengths ---------------------------------------------------------------------------------------

LENGTHS = tuple(FilterKernel(filters, Linear(unit=False)) for filters in NEAR)


@pytest.mark.parametrize("case", ["star", "constant x", "equal nodes", "one label per class", "zero x"])
def test_lengths_give_finite_answers(case):
    data = blocks(labelled=1 if case == "one label per class" else 4)
    if case == "star":  # one row is far longer than all others
        nodes = torch.arange(1, 36)
        edges = torch.stack([torch.zeros_like(nodes), nodes])
        data = changed(data, edge_index=torch.cat([edges, edges.flip(0)], 1))
    elif case == "constant x":
        data = changed(data, x=torch.ones(36, 3))
    elif case == "equal nodes":
        data = changed(data, x=data.x[:3].repeat(12, 1), edge_index=torch.empty(2, 0, dtype=torch.int64))
    elif case == "zero x":
        data = changed(data, x=torch.zeros(36, 3))
    model = KernelRidge(kernels=LENGTHS, far=(), wide=(), topology=(), agreement=None).fit(data)
    for values in (model.predict_proba(), model.leave_one_out_proba(), model.variance()):
        assert bool(values.isfinite().all())
    assert bool((model.variance() >= 0).all())
    assert len(model.suggest(3).unique()) == 3


def test_lengths_with_all_nodes_as_inducing_points_give_the_exact_answers(monkeypatch):
    data = blocks(noise=1.0)
    options = {"kernels": LENGTHS, "far": (), "wide": (), "topology": (), "agreement": None}
    exact = KernelRidge(**options).fit(data)
    monkeypatch.setattr(kernel_ridge, "MOST_EXACT_NODES", 10)
    induced = KernelRidge(**options).fit(data)
    torch.testing.assert_close(induced.predict_proba(), exact.predict_proba(), atol=2e-3, rtol=0)
    torch.testing.assert_close(induced.variance(), exact.variance(), atol=5e-3, rtol=0)
    some = torch.randperm(36, generator=random())[:5]
    labels = torch.full((36,), -1)
    labels[some] = data.y[some]
    torch.testing.assert_close(induced.proba_from(labels), exact.proba_from(labels), atol=2e-3, rtol=0)
