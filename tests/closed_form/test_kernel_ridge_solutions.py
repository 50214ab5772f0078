"""The solutions of `KernelRidge`: those of dense linear algebra, and beside a model those for other labels."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from lggd import InputError, KernelRidge
from lggd.closed_form import ridge
from lggd.filters import Hops
from lggd.kernels import ArcCosine, ChosenKernel, FilterKernel, Gaussian, Linear
from support.dense_kernels import dense_mixture, dense_probabilities, dense_variance, dense_weights
from support.small_data import CLASSES, blocks, changed, random

# -- predictions by dense linear algebra --------------------------------------------------------------------------

SHAPES = (Linear(), Linear(unit=False), ArcCosine(), Gaussian(0.3))
NEAR = ((Hops(0),), (Hops(2),), (Hops(0), Hops(1, False), Hops(2, False)))


def dense_kernel_of(model, data):
    """The kernel of the members from unit rows of x: projections keep the products of so few columns."""
    x = normalize(data.x.double()).numpy()
    return dense_mixture({"x": (dense_weights(data), x)}, model.kernels_)


@settings(max_examples=15)
@given(seed=st.integers(0, 999), weighted=st.booleans(), lonely=st.integers(0, 2), few=st.booleans())
def test_predictions_and_variances_are_those_of_dense_matrices(seed, weighted, lonely, few):
    data = blocks(seed=seed, weighted=weighted, lonely=lonely, noise=1.5, labelled=1 if few else 5)
    kernels = tuple(FilterKernel(filters, shape) for filters in NEAR for shape in SHAPES)
    model = KernelRidge(kernels=kernels, far_kernels=(), wide_kernels=(), topology_kernels=(), agreement=None).fit(data)
    kernel, labels = dense_kernel_of(model, data), torch.where(data.train_mask, data.y, -1).numpy()
    assert model.kernels_[0].weight == 1
    expected = dense_probabilities(kernel, labels, CLASSES, model.ridge_, model.inverse_temperature_)
    np.testing.assert_allclose(model.predict_proba(), expected, atol=2e-3)
    variance = dense_variance(kernel, np.flatnonzero(labels >= 0), model.ridge_)
    np.testing.assert_allclose(model.variance(), variance, atol=2e-3)
    other = np.roll(labels, 3)  # other nodes, the same classes
    expected = dense_probabilities(kernel, other, CLASSES, model.ridge_, model.inverse_temperature_)
    np.testing.assert_allclose(model.with_labels(torch.tensor(other)).predict_proba(), expected, atol=2e-3)


def test_losses_and_weights_are_those_of_leaving_labels_out_by_hand():
    data = blocks(noise=1.5, labelled=5)
    kernels = tuple(FilterKernel((Hops(2),), shape) for shape in SHAPES)
    options = {"far_kernels": (), "wide_kernels": (), "topology_kernels": (), "agreement": None}
    model = KernelRidge(kernels=kernels, **options).fit(data)
    labels, known = torch.where(data.train_mask, data.y, -1).numpy(), np.flatnonzero(data.train_mask.numpy())
    losses = {}
    for kernel in kernels:
        dense = dense_mixture(
            {"x": (dense_weights(data), normalize(data.x.double()).numpy())}, [ChosenKernel("x", kernel)]
        )
        losses[kernel] = min(
            -np.mean([np.log(left_out(dense, labels, node, ridge, 2 ** (step / 2))) for node in known])
            for ridge in (0.01, 0.1, 1.0)
            for step in range(-2, 13)
        )
    best = min(losses.values())
    expected = {kernel: np.exp(-len(known) * (loss - best) / 3) for kernel, loss in losses.items()}
    found = {member.kernel: member.weight for member in model.kernels_}
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
    model = KernelRidge(kernels=LENGTHS, far_kernels=(), wide_kernels=(), topology_kernels=(), agreement=None).fit(data)
    for values in (model.predict_proba(), model.leave_one_out_proba(), model.variance()):
        assert bool(values.isfinite().all())
    assert bool((model.variance() >= 0).all())
    assert len(model.suggest(3).unique()) == 3


def test_lengths_with_all_nodes_as_inducing_points_give_the_exact_answers(monkeypatch):
    data = blocks(noise=1.0)
    options = {"kernels": LENGTHS, "far_kernels": (), "wide_kernels": (), "topology_kernels": (), "agreement": None}
    exact = KernelRidge(**options).fit(data)
    monkeypatch.setattr(ridge, "MAX_EXACT_NODES", 10)
    induced = KernelRidge(**options).fit(data)
    torch.testing.assert_close(induced.predict_proba(), exact.predict_proba(), atol=2e-3, rtol=0)
    torch.testing.assert_close(induced.variance(), exact.variance(), atol=5e-3, rtol=0)
    some = torch.randperm(36, generator=random())[:5]
    labels = torch.full((36,), -1)
    labels[some] = data.y[some]
    one, other = (model.with_labels(labels).predict_proba() for model in (induced, exact))
    torch.testing.assert_close(one, other, atol=2e-3, rtol=0)


# -- models for other labels beside the first ----------------------------------------------------------------------


@pytest.fixture(params=["exact", "induced"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> KernelRidge:
    if request.param == "induced":
        monkeypatch.setattr(ridge, "MAX_EXACT_NODES", 10)
    return KernelRidge(growth=float("inf")).fit(blocks())


def test_the_same_as_adding_changing_and_removing(model: KernelRidge) -> None:
    labels = model.labels_.clone()
    labels[[20, 21, 0, 1]] = torch.tensor([2, 0, 1, -1])
    before, proba = model.labels_.clone(), model.predict_proba().clone()
    found = model.with_labels(labels)
    expected = copy.deepcopy(model)
    expected.add_labels([20, 21], [2, 0]).change_labels([0], [1]).remove_labels([1])
    assert torch.equal(found.labels_, expected.labels_)
    assert torch.allclose(found.predict_proba(), expected.predict_proba(), atol=1e-5)
    assert torch.allclose(found.leave_one_out_proba(), expected.leave_one_out_proba(), atol=1e-5)
    assert torch.equal(model.labels_, before)
    assert torch.equal(model.predict_proba(), proba)
    assert torch.equal(found.with_labels(before).labels_, before)


def test_many_steps_do_not_change_the_first(model: KernelRidge) -> None:
    variance, proba, current = model.variance().clone(), model.predict_proba().clone(), model
    for node in range(15, 30):
        labels = current.labels_.clone()
        labels[node] = node % 3
        current = current.with_labels(labels)
    assert torch.equal(model.variance(), variance)
    assert torch.equal(model.predict_proba(), proba)
    assert torch.allclose(current.with_labels(model.labels_).predict_proba(), proba, atol=1e-4)


def test_other_classes(model: KernelRidge) -> None:
    labels = model.labels_.clone()
    labels[20] = 3
    assert model.with_labels(labels).predict_proba().shape[1] == 4
    assert model.reselected(labels).predict()[20] == 3
    fewer = torch.where(model.labels_ == 2, -1, model.labels_)
    assert model.with_labels(fewer).predict_proba().shape[1] == 2


def test_settings_are_those_of_a_new_fit(model: KernelRidge) -> None:
    data, labels = blocks(), model.labels_.clone()
    labels[20:30] = torch.arange(20, 30) % 3
    data.y, data.train_mask = labels, labels >= 0
    del data.val_mask
    expected, found = KernelRidge().fit(data), model.reselected(labels)
    assert found.kernels_ == expected.kernels_
    assert torch.allclose(found.predict_proba(), expected.predict_proba(), atol=1e-5)


@pytest.mark.parametrize("make", [KernelRidge.with_labels, KernelRidge.reselected])
def test_classes_without_a_label_are_refused(model: KernelRidge, make) -> None:
    labels = torch.where(model.labels_ == 1, -1, model.labels_)
    with pytest.raises(InputError, match="every class"):
        make(model, labels)


def test_settings_chosen_again_elsewhere_leave_the_rule_of_new_edges(model: KernelRidge) -> None:
    edges = torch.tensor([[0, 0, 0, 3, 3], [1, 4, 7, 1, 4]])
    present = {tuple(edge) for edge in model.data_.edge_index.t().tolist()}
    model.add_edges(torch.tensor([edge for edge in edges.t().tolist() if tuple(edge) not in present]).t())
    mean = model.solution_.choice.mean_cosine
    other = model.reselected(model.labels_)
    assert model.solution_.choice.mean_cosine == mean  # that of the edges at its own choice
    assert other.solution_.choice.mean_cosine != mean
