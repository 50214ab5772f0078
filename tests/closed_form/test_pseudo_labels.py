"""Self-training in closed form: which predictions become labels, and how many."""

import pytest
import torch

from lggd import KernelRidge, PseudoLabels
from lggd.closed_form.pseudo_labels import MOST_PSEUDO_LABELS, self_trained, with_confident
from lggd.errors import InputError
from support.small_data import blocks

NEAR = {"far": (), "wide": (), "topology": (), "agreement": None}


def test_the_most_confident_of_each_class_join():
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.45, 0.55], [0.7, 0.3]])
    labels = torch.tensor([-1, -1, -1, -1, 1])
    assert with_confident(labels, p, 0.5).tolist() == [0, -1, 1, -1, 1]
    assert with_confident(labels, p, 1.0).tolist() == [0, 0, 1, 1, 1]


def test_labels_are_never_changed():
    labels = torch.tensor([1, -1, 0])
    joined = with_confident(labels, torch.tensor([[0.9, 0.1]] * 3), 1.0)
    assert joined.tolist() == [1, 0, 0]
    assert labels.tolist() == [1, -1, 0]


def test_there_is_a_limit():
    p = torch.rand(3 * MOST_PSEUDO_LABELS, 2, generator=torch.Generator().manual_seed(0)).softmax(1)
    joined = with_confident(torch.full((len(p),), -1), p, 1.0)
    assert int((joined >= 0).sum()) == MOST_PSEUDO_LABELS


def test_a_fraction_of_zero_changes_nothing():
    first = torch.rand(4, 2)
    assert self_trained(None, torch.zeros(4), first, 0.0, 1.0, 1.0) is first  # type: ignore[arg-type]


def test_the_fraction_is_one_of_those_to_choose_from():
    model = KernelRidge(pseudo_labels=PseudoLabels((0.2, 0.5), folds=2)).fit(blocks())
    assert model.pseudo_fraction_ in (0.0, 0.2, 0.5)
    p = model.predict_proba()
    assert torch.allclose(p.sum(1), torch.ones(len(p)), atol=1e-5)


def test_the_fraction_has_the_best_predictions_of_folds_that_were_left_out():
    chosen, fractions, folds = set(), (0.2, 0.5, 1.0), 3
    for seed in range(6):
        data = blocks(noise=1.5, labelled=5, seed=seed)
        model = KernelRidge(pseudo_labels=PseudoLabels(fractions, folds), **NEAR).fit(data)
        settings = model.ridge_, model.inverse_temperature_
        nodes = data.train_mask.nonzero().squeeze(1)
        order = nodes[torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
        losses = dict.fromkeys((0.0, *fractions), 0.0)
        for fold in range(folds):
            left_out, known = order[fold::folds], model.labels_.clone()
            known[left_out] = -1
            first = model._system.fork().probabilities(known, 3, *settings)
            for fraction in losses:
                second = model._system.fork().probabilities(with_confident(known, first, fraction), 3, *settings)
                p = (first + second) / 2 if fraction else first
                losses[fraction] -= float(p[left_out, data.y[left_out]].log().sum())
        best = min(losses.values())
        assert losses[model.pseudo_fraction_] <= best + 1e-2  # inducing points round differently
        chosen.add(model.pseudo_fraction_)
    assert len(chosen) > 1  # or else any rule would do


def test_other_labels_may_be_tried_and_leave_the_model_as_it_is():
    data = blocks()
    model = KernelRidge(pseudo_labels=PseudoLabels((0.5,)), growth=float("inf"), **NEAR).fit(data)
    model.pseudo_fraction_ = 0.5
    model._solve(model.labels_)
    before, labels = model.predict_proba().clone(), model.labels_.clone()
    labels[[0, 20, 25]] = torch.tensor([-1, 2, 1])
    tried = model.proba_from(labels)
    assert torch.equal(model.predict_proba(), before)
    assert torch.equal(model.proba_from(model.labels_), before)
    assert torch.equal(model._system.nodes, (model.labels_ >= 0).nonzero().squeeze(1))
    model.remove_labels([0]).add_labels([20, 25], [2, 1])
    torch.testing.assert_close(model.predict_proba(), tried, atol=1e-4, rtol=0)


def test_predictions_are_the_mean_of_both():
    data = blocks()
    model = KernelRidge(pseudo_labels=PseudoLabels((0.5,))).fit(data)
    first = KernelRidge().fit(data).predict_proba()
    settings = model.ridge_, model.inverse_temperature_
    model.pseudo_fraction_ = 0.5
    model._solve(model.labels_)
    joined = with_confident(model.labels_, first, 0.5)
    second = model._pseudo_system.fork().probabilities(joined, 3, *settings)
    expected = (first + second) / 2
    assert torch.allclose(model.predict_proba(), expected, atol=1e-5)
    assert not torch.equal(expected, first)


@pytest.mark.parametrize(
    "wrong", [{"fractions": (0.0,)}, {"fractions": (1.5,)}, {"fractions": ("half",)}, {"folds": 1}]
)
def test_wrong_settings(wrong):
    with pytest.raises(InputError):
        PseudoLabels(**wrong)
