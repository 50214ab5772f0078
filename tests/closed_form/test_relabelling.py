"""Models for other labels beside the first: the same answers as changing it, which it never notices."""

from __future__ import annotations

import copy

import pytest
import torch

from lggd import KernelRidge
from lggd.closed_form import kernel_ridge
from lggd.closed_form.relabelling import rechosen, relabelled
from lggd.errors import InputError
from small_data import blocks


@pytest.fixture(params=["exact", "induced"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> KernelRidge:
    if request.param == "induced":
        monkeypatch.setattr(kernel_ridge, "MOST_EXACT_NODES", 10)
    return KernelRidge(growth=float("inf")).fit(blocks())


def test_the_same_as_adding_changing_and_removing(model: KernelRidge) -> None:
    labels = model.labels_.clone()
    labels[[20, 21, 0, 1]] = torch.tensor([2, 0, 1, -1])
    before, proba = model.labels_.clone(), model.predict_proba().clone()
    found = relabelled(model, labels)
    expected = copy.deepcopy(model)
    expected.add_labels([20, 21], [2, 0]).change_labels([0], [1]).remove_labels([1])
    assert torch.equal(found.labels_, expected.labels_)
    assert torch.allclose(found.predict_proba(), expected.predict_proba(), atol=1e-5)
    assert torch.allclose(found.leave_one_out_proba(), expected.leave_one_out_proba(), atol=1e-5)
    assert torch.equal(model.labels_, before)
    assert torch.equal(model.predict_proba(), proba)
    assert torch.equal(relabelled(found, before).labels_, before)


def test_many_steps_do_not_change_the_first(model: KernelRidge) -> None:
    variance, proba, current = model.variance().clone(), model.predict_proba().clone(), model
    for node in range(15, 30):
        labels = current.labels_.clone()
        labels[node] = node % 3
        current = relabelled(current, labels)
    assert torch.equal(model.variance(), variance)
    assert torch.equal(model.predict_proba(), proba)
    assert torch.allclose(relabelled(current, model.labels_).predict_proba(), proba, atol=1e-4)


def test_other_classes(model: KernelRidge) -> None:
    labels = model.labels_.clone()
    labels[20] = 3
    assert relabelled(model, labels).predict_proba().shape[1] == 4
    assert rechosen(model, labels).predict()[20] == 3
    fewer = torch.where(model.labels_ == 2, -1, model.labels_)
    assert relabelled(model, fewer).predict_proba().shape[1] == 2


def test_settings_are_those_of_a_new_fit(model: KernelRidge) -> None:
    data, labels = blocks(), model.labels_.clone()
    labels[20:30] = torch.arange(20, 30) % 3
    data.y, data.train_mask = labels, labels >= 0
    del data.val_mask
    expected, found = KernelRidge().fit(data), rechosen(model, labels)
    assert found.members_ == expected.members_
    assert torch.allclose(found.predict_proba(), expected.predict_proba(), atol=1e-5)


@pytest.mark.parametrize("make", [relabelled, rechosen])
def test_classes_without_a_label_are_refused(model: KernelRidge, make) -> None:
    labels = torch.where(model.labels_ == 1, -1, model.labels_)
    with pytest.raises(InputError, match="every class"):
        make(model, labels)


def test_settings_chosen_again_elsewhere_leave_the_rule_of_new_edges(model: KernelRidge) -> None:
    edges = torch.tensor([[0, 0, 0, 3, 3], [1, 4, 7, 1, 4]])
    present = {tuple(edge) for edge in model.data_.edge_index.t().tolist()}
    model.add_edges(torch.tensor([edge for edge in edges.t().tolist() if tuple(edge) not in present]).t())
    mean = model._inputs.mean_cosine
    other = rechosen(model, model.labels_)
    assert model._inputs.mean_cosine == mean  # the mean agreement of the edges that its settings were chosen with
    assert other._inputs.mean_cosine != mean
