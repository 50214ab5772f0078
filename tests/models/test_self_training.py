"""Self-training: confident predictions become training targets, and never the boundary."""

from dataclasses import replace

import pytest
import torch

from lggd import Ensemble, SelfTraining
from lggd.errors import InputError, InputTypeError
from lggd.inputs import Labels
from support.small_data import CLASSES, blocks, changed, same
from support.small_models import baseline, classifier, distances, learned


@pytest.fixture(scope="module")
def data():
    return blocks()


def true_labels(data):
    return torch.where(data.train_mask, data.y, -1)


def test_the_most_confident_nodes_of_each_class_are_added_and_no_others(monkeypatch):
    seen, with_confident = [], Labels.with_confident

    def spy(labels, probabilities, fraction):
        seen.append((labels, probabilities, found := with_confident(labels, probabilities, fraction)))
        return found

    monkeypatch.setattr(Labels, "with_confident", spy)
    data = blocks(each=20)
    SelfTraining(distances(), fraction=0.5, rounds=2).fit(data)
    assert len(seen) == 2
    for labels, probabilities, found in seen:
        assert torch.equal(labels.train, true_labels(data))
        added, predicted = (found.train >= 0) & (labels.train < 0), probabilities.argmax(1)
        assert torch.equal(found.train[added], predicted[added])
        assert torch.equal(found.train[data.train_mask], data.y[data.train_mask])
        assert torch.equal(found.validation, labels.validation)
        assert not bool(added[data.val_mask].any())
        for k in range(CLASSES):
            free = (predicted == k) & ~data.train_mask & ~data.val_mask
            assert int((added & (predicted == k)).sum()) == int(free.sum()) // 2
            left, confident = probabilities[free & ~added, k], probabilities[added & (predicted == k), k]
            assert not len(left) or not len(confident) or float(left.max()) <= float(confident.min())


@pytest.mark.parametrize("model", [distances(), Ensemble(distances(), 2), classifier(distances())], ids=repr)
def test_the_boundary_stays_at_the_true_labels(model, data):
    fitted = SelfTraining(model, fraction=1.0).fit(data)
    parts = [fitted, fitted.model_, *getattr(fitted.model_, "members_", ())]
    parts += [part.features_ for part in parts if hasattr(part, "features_")]
    assert all(torch.equal(part.labels_, true_labels(data)) for part in parts)
    labelled = parts[-1].distances(data)[data.train_mask] if hasattr(parts[-1], "distances") else None
    assert labelled is None or bool((labelled == 0).any(2).all())


def test_every_round_is_a_stage_and_starts_from_the_same_seed(data):
    plain = SelfTraining(distances(), fraction=0.0, rounds=3).fit(data)
    again = SelfTraining(distances(), fraction=1.0, rounds=2).fit(data)
    assert list(plain.history_) == ["distances"]
    assert list(again.history_) == ["distances", "self-training 1 distances", "self-training 2 distances"]
    assert plain.history_["distances"] == again.history_["distances"]
    assert not torch.equal(plain.predict_proba(), again.predict_proba())
    before, after, _ = (again.history_[stage]["train_loss t=1"][0] for stage in again.history_)
    assert before != after  # the targets differ
    assert torch.equal(plain.predict_proba(), distances().fit(data).predict_proba())


def test_stages_of_classifiers_are_told_apart(data):
    model = SelfTraining(classifier(distances()), fraction=0.5).fit(data)
    assert list(model.history_) == ["distances", "backbone", "self-training 1 distances", "self-training 1 backbone"]


def test_it_wraps_models_that_take_no_labels(data):
    model = SelfTraining(baseline("MixUp"), fraction=0.5).fit(data)
    assert not model.accepts_labels
    assert list(model.history_) == ["training", "self-training 1 training"]
    assert torch.equal(model.labels_, true_labels(data))


def test_features_are_those_of_the_last_model(data):
    model = SelfTraining(distances(), fraction=0.5).fit(data)
    assert torch.equal(model.features(data), model.model_.features(data))
    assert torch.equal(model.inputs(data), model.model_.inputs(data))


def check_hidden_labels(data):
    y = torch.where(data.test_mask, (data.y + 1) % CLASSES, data.y)
    one, other = (SelfTraining(distances(), fraction=0.5).fit(each) for each in (data, changed(data, y=y)))
    assert same(learned(one), learned(other))


def test_hidden_labels_are_unreachable(data):
    check_hidden_labels(data)


def test_the_check_on_hidden_labels_catches_a_leak(data, monkeypatch):
    hidden = iter((data.y, torch.where(data.test_mask, (data.y + 1) % CLASSES, data.y)))
    monkeypatch.setattr(Labels, "with_confident", lambda labels, *_: replace(labels, train=next(hidden)))
    with pytest.raises(AssertionError):
        check_hidden_labels(data)


@pytest.mark.parametrize(
    ("wrong", "error", "argument"),
    [
        ({"fraction": 1.5}, InputError, "fraction"),
        ({"fraction": -0.1}, InputError, "fraction"),
        ({"rounds": 0}, InputError, "rounds"),
        ({"model": 3}, InputTypeError, "model"),
        ({"model__times": ()}, InputError, "times"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, error, argument, data):
    with pytest.raises(error, match=f"`{argument}`"):
        SelfTraining(distances()).set_params(**wrong).fit(data)
