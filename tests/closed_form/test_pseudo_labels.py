"""Self-training in closed form: which predictions join the labels, and how many."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd import InputError, KernelRidge
from lggd.closed_form import pseudo_labels
from lggd.closed_form.pseudo_labels import PseudoLabels, probabilities, self_trained, with_confident
from lggd.closed_form.ridge import class_targets
from small_data import blocks, random


@given(seed=st.integers(0, 999), fraction=st.floats(0.01, 1))
def test_the_most_confident_predictions_of_each_class_join_the_labels(seed, fraction):
    draws = random(seed)
    p = torch.softmax(3 * torch.randn(30, 3, generator=draws), dim=1)
    labels = torch.where(torch.rand(30, generator=draws) < 0.3, torch.randint(3, (30,), generator=draws), -1)
    joined = with_confident(labels, p, fraction)
    assert torch.equal(joined[labels >= 0], labels[labels >= 0])
    for k in range(3):
        free = [i for i in range(30) if labels[i] < 0 and int(p[i].argmax()) == k]
        expected = sorted(free, key=lambda i: -float(p[i, k]))[: int(fraction * len(free))]
        assert {i for i in free if joined[i] >= 0} == set(expected)
        assert all(int(joined[i]) == k for i in expected)


def test_no_more_join_than_are_useful(monkeypatch):
    monkeypatch.setattr(pseudo_labels, "MOST_PSEUDO_LABELS", 7)
    p = torch.softmax(torch.randn(40, 3, generator=random()), dim=1)
    one, again = (with_confident(torch.full((40,), -1), p, 1.0) for _ in range(2))
    assert int((one >= 0).sum()) == 7
    assert torch.equal(one, again)


@pytest.fixture
def fitted():
    return KernelRidge(pseudo_labels=PseudoLabels()).fit(blocks(noise=1.0))


def scores_of(model):
    return model._system.scores(class_targets(model.labels_[model._system.nodes], 3), model.ridge_)


def test_predictions_are_the_mean_of_both_solutions(fitted):
    model, system = fitted, copy.deepcopy(fitted._pseudo_system)
    first = torch.softmax(model.temperature_ * scores_of(model), dim=1)
    joined = with_confident(model.labels_, first, 0.6)
    second = probabilities(system, joined, 3, model.ridge_, model.temperature_)
    found = self_trained(system, model.labels_, first, 0.6, model.ridge_, model.temperature_)
    torch.testing.assert_close(found, (first + second) / 2)
    assert self_trained(system, model.labels_, first, 0.0, model.ridge_, model.temperature_) is first


def test_the_fraction_has_the_lowest_loss_on_labels_left_out(fitted):
    model, system = fitted, copy.deepcopy(fitted._pseudo_system)
    settings = model.ridge_, model.temperature_
    nodes = (model.labels_ >= 0).nonzero().squeeze(1)
    order = nodes[torch.randperm(len(nodes), generator=random(0))]
    losses = {}
    for fraction in (0.0, *PseudoLabels().fractions):
        losses[fraction] = 0.0
        for fold in range(5):
            left_out = order[fold::5]
            known = model.labels_.index_fill(0, left_out, -1)
            first = probabilities(system, known, 3, *settings)
            p = self_trained(system, known, first, fraction, *settings)
            losses[fraction] -= float(p[left_out, model.labels_[left_out]].log().sum())
    assert losses[model.pseudo_fraction_] == pytest.approx(min(losses.values()), rel=1e-4)


def test_without_pseudo_labels_the_solution_is_used_as_it_is():
    model = KernelRidge().fit(blocks())
    assert model.pseudo_fraction_ == 0
    torch.testing.assert_close(model.predict_proba(), torch.softmax(model.temperature_ * scores_of(model), dim=1))


@pytest.mark.parametrize(
    ("settings", "argument"),
    [({"folds": 1}, "folds"), ({"fractions": (0.0,)}, "fractions"), ({"fractions": (2,)}, "fractions")],
)
def test_wrong_settings_are_refused(settings, argument):
    with pytest.raises(InputError) as caught:
        PseudoLabels(**settings)
    assert caught.value.argument == argument
