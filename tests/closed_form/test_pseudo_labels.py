"""Self-training in closed form: which predictions become labels, and how many."""

import pytest
import torch

from lggd import KernelRidge, PseudoLabels
from lggd.closed_form.pseudo_labels import MOST_PSEUDO_LABELS, self_trained, with_confident
from lggd.errors import InputError
from small_data import blocks


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


def test_predictions_are_the_mean_of_both():
    data = blocks()
    model = KernelRidge(pseudo_labels=PseudoLabels((0.5,))).fit(data)
    first = KernelRidge().fit(data).predict_proba()
    settings = model.ridge_, model.inverse_temperature_
    model.pseudo_fraction_ = 0.5
    model._solve(model.labels_[model._system.nodes])
    expected = self_trained(model._pseudo_system, model.labels_, first, 0.5, *settings)
    assert torch.allclose(model.predict_proba(), expected, atol=1e-5)
    assert not torch.equal(expected, first)


@pytest.mark.parametrize("wrong", [{"fractions": (0.0,)}, {"fractions": (1.5,)}, {"folds": 1}])
def test_wrong_settings(wrong):
    with pytest.raises(InputError):
        PseudoLabels(**wrong)
