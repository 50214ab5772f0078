"""Ensembles: members with seeds of their own, whose predictions are averaged."""

import pytest
import torch

from lggd import GGD, Ensemble, KernelRidge, SelfTraining
from lggd.errors import InputError, InputTypeError
from lggd.validation import read_seed
from support.small_data import blocks, random, same, unmasked
from support.small_models import TIMES, baseline, classifier, distances, learned, plus, readout


@pytest.fixture(scope="module")
def data():
    return blocks()


@pytest.mark.parametrize("model", [distances(), classifier(distances()), classifier(None), baseline("MixUp")], ids=repr)
def test_members_differ(model, data):
    one, other = Ensemble(model, members=2).fit(data).members_
    assert not same(learned(one), learned(other))
    assert not torch.equal(one.predict_proba(), other.predict_proba())


def test_members_are_models_fitted_with_the_seeds_that_are_drawn(data):
    ensemble = Ensemble(distances(), members=3, seed=4).fit(data)
    generator = random(4)
    for member in ensemble.members_:
        alone = distances(seed=read_seed(generator)).fit(data)
        torch.testing.assert_close(member.features(data), alone.features(data), rtol=1e-3, atol=5e-4)


def test_probabilities_of_classifiers_are_averaged(data):
    ensemble = Ensemble(classifier(distances()), members=3).fit(data)
    expected = torch.stack([member.predict_proba() for member in ensemble.members_]).mean(0)
    torch.testing.assert_close(ensemble.predict_proba(), expected)


def test_distances_are_averaged_as_features_and_nearness(data):
    ensemble = Ensemble(distances(concat=True), members=2).fit(data)
    one, other = ensemble.members_
    torch.testing.assert_close(ensemble.features(data), (one.features(data) + other.features(data)) / 2)
    torch.testing.assert_close(ensemble.inputs(data), (one.inputs(data) + other.inputs(data)) / 2)
    near = [torch.softmax(-member.distances(data), 2) for member in (one, other)]
    torch.testing.assert_close(ensemble.nearness(data), (near[0] + near[1]) / 2)
    torch.testing.assert_close(ensemble.predict_proba(), ((near[0] + near[1]) / 2).mean(1))


@pytest.mark.parametrize("wrap", [Ensemble, SelfTraining])
def test_features_are_refused_of_models_without_distances(wrap, data):
    model = wrap(KernelRidge()).fit(data)
    for refused in (lambda: model.features(data), lambda: classifier(wrap(model.model)).in_channels(data)):
        with pytest.raises(InputError, match="`model` must provide distances as features, got KernelRidge"):
            refused()
    with pytest.raises(InputError, match="provide distances"):
        plus(wrap(KernelRidge()), readout()).fit(data)


def test_the_curves_of_members_are_told_apart(data):
    model = Ensemble(classifier(distances()), members=2).fit(data)
    assert set(model.history_["backbone"]) == {
        f"{metric} member={k}" for metric in ("train_loss", "validation_loss", "validation_accuracy") for k in range(2)
    }
    assert "train_loss t=1 member=1" in model.history_["distances"]
    single = Ensemble(distances(), members=1).fit(data)
    assert "train_loss t=1" in single.history_["distances"]


def test_ensembles_can_be_nested(data):
    model = Ensemble(Ensemble(distances(), members=2), members=2).fit(data)
    members = [inner for outer in model.members_ for inner in outer.members_]
    assert len({float(member.distances(data).sum()) for member in members}) == 4
    expected = torch.stack([outer.predict_proba() for outer in model.members_]).mean(0)
    torch.testing.assert_close(model.predict_proba(), expected)


def test_labels_are_those_of_all_members():
    data = unmasked(blocks(each=20, labelled=20, validated=0))
    model = Ensemble(distances(), members=2).fit(data)
    assert all(torch.equal(member.labels_, data.y) for member in (model, *model.members_))
    labelled = Ensemble(distances(), members=2).fit(blocks()).add_labels([30], [0])
    assert [int(member.labels_[30]) for member in labelled.members_] == [0, 0]


@pytest.mark.parametrize(
    ("wrong", "error", "argument"),
    [
        ({"members": 0}, InputError, "members"),
        ({"members": 1.5}, InputError, "members"),
        ({"model": "LGGD"}, InputTypeError, "model"),
        ({"model": GGD(times=())}, InputError, "times"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, error, argument, data):
    with pytest.raises(error, match=f"`{argument}`"):
        Ensemble(GGD(TIMES)).set_params(**wrong).fit(data)
