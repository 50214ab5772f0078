"""EvolvedKernelRidge: φ₀ = −log p by kernel ridge regression, solved again for new labels."""

import json
import math

import pytest
import torch

from lggd import GGD, LGGD, MLP, EvolvedKernelRidge, KernelRidge, LearnedPotential, LGGDClassifier, load_model
from lggd.errors import InputError
from lggd.features.evolved_kernel_ridge import DistanceShare
from support.small_data import blocks, changed, splits

TIMES = (0.5, 1.0)


@pytest.fixture(scope="module")
def data():
    return blocks()


@pytest.fixture
def model(data):
    return EvolvedKernelRidge(times=TIMES).fit(data)


def test_nothing_is_trained(model):
    assert model.history_ == {}


def test_distances_start_at_minus_log_p(data):
    model = EvolvedKernelRidge(times=(1e-6,)).fit(data)
    free = model.labels_ < 0
    expected = -KernelRidge(seed=0).fit(data).predict_proba().log()
    assert torch.allclose(model.distances(data)[free, 0], expected[free], atol=1e-3)


def test_labelled_nodes_are_at_distance_zero_of_their_class(model, data):
    nodes = (model.labels_ >= 0).nonzero().squeeze(1)
    assert (model.distances(data)[nodes, :, model.labels_[nodes]] == 0).all()


def test_the_time_is_one_of_the_given_ones_or_zero(model):
    assert model.time_ in (0.0, *TIMES)


@pytest.mark.parametrize("time", [0.0, *TIMES])
def test_predictions_are_those_of_the_chosen_time(model, data, time):
    model.time_, model.share_ = time, DistanceShare()
    expected = model.initial_.predict_proba()
    if time:
        expected = torch.softmax(-model.distances(data)[:, TIMES.index(time)], 1)
    assert torch.equal(model.predict_proba(), expected)


def test_new_labels_change_the_start(data):
    model = EvolvedKernelRidge(times=(1e-6,)).fit(data)
    before = model.distances(data)
    nodes = (model.labels_ < 0).nonzero().squeeze(1)[:3]
    model.add_labels(nodes, data.y[nodes])
    others = (model.labels_ < 0).nonzero().squeeze(1)
    start = -model.initial_.predict_proba().log()
    assert torch.allclose(model.distances(data)[others, 0], start[others], atol=1e-3)
    assert not torch.allclose(before[others, 0], start[others], atol=1e-3)
    assert torch.equal(model.initial_.labels_, model.labels_)


def test_new_labels_equal_a_fit_with_the_same_settings(data):
    nodes = torch.tensor([k for k in range(data.num_nodes) if not data.train_mask[k]][:3])
    updated = (
        EvolvedKernelRidge(times=TIMES, initial=KernelRidge(growth=math.inf)).fit(data).add_labels(nodes, data.y[nodes])
    )
    assert updated.initial_.predict_proba().isfinite().all()
    again = KernelRidge(growth=math.inf).fit(data).add_labels(nodes, data.y[nodes])
    assert torch.equal(updated.initial_.predict_proba(), again.predict_proba())


def test_hidden_labels_are_unreachable(data):
    other = changed(data, y=torch.where(data.test_mask, (data.y + 1) % 3, data.y))
    one, two = (EvolvedKernelRidge(times=TIMES).fit(each).predict_proba() for each in (data, other))
    assert torch.equal(one, two)


def test_saved_and_loaded(model, data, tmp_path):
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.time_ == model.time_
    assert torch.equal(loaded.predict_proba(), model.predict_proba())
    assert torch.equal(loaded.distances(data), model.distances(data))


@pytest.mark.parametrize("features", [EvolvedKernelRidge, GGD])
def test_coefficients_must_be_fixed(features):
    with pytest.raises(InputError, match="`potential` must be fixed"):
        features(potential=LearnedPotential()).check_settings()


def test_trained_and_solved_are_different_classes():
    with pytest.raises(TypeError, match=r"EvolvedKernelRidge\(\) starts at a KernelRidge"):
        LGGD(initial=KernelRidge()).check_settings()
    with pytest.raises(TypeError, match=r"`initial` must be a KernelRidge\(\); LGGD\(\) trains networks"):
        EvolvedKernelRidge(initial=MLP()).check_settings()


def test_nested_settings():
    model = LGGDClassifier(EvolvedKernelRidge(), None).set_params(
        features__initial__max_kernels=2, features__times=TIMES
    )
    assert model.get_params()["features__initial__max_kernels"] == 2
    features = "EvolvedKernelRidge(times=(0.5, 1.0), initial=KernelRidge(max_kernels=2))"
    assert repr(model) == f"LGGDClassifier(features={features}, backbone=None)"


def test_a_model_saved_before_it_was_a_class_is_refused(model, tmp_path):
    model.save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    settings = json.loads(file.read_text())
    settings["model"] |= {"kind": "LGGD", "per_time": True, "validation": 0.2}
    file.write_text(json.dumps(settings))
    with pytest.raises(InputError, match=r"`initial` must be MLP\(\).*EvolvedKernelRidge\(\) starts at a KernelRidge"):
        load_model(tmp_path / "model")


def test_without_node_features(data):
    model = EvolvedKernelRidge(times=TIMES).fit(changed(data, x=None))
    assert model.predict_proba().isfinite().all()


def test_every_split():
    for each in splits(3):
        assert EvolvedKernelRidge(times=TIMES).fit(each).score(each) > 0.4


def test_the_choice_of_time_does_not_see_the_labels_of_a_fold(data, monkeypatch):
    seen, with_labels = [], KernelRidge.with_labels

    def spy(self, labels):
        seen.append(labels)
        return with_labels(self, labels)

    monkeypatch.setattr(KernelRidge, "with_labels", spy)
    given = EvolvedKernelRidge(times=TIMES).fit(data).labels_ >= 0
    left_out = [given & (labels < 0) for labels in seen]
    assert all(bool(each.any()) for each in left_out)
    assert torch.stack(left_out).sum(0).max() == 1  # folds do not overlap


def test_other_labels_leave_the_model_as_it_is(data):
    model = KernelRidge().fit(data)
    before, labels = model.predict_proba(), model.labels_.clone()
    labels[(labels >= 0).nonzero()[0]] = -1
    assert not torch.equal(model.with_labels(labels).predict_proba(), before)
    assert torch.allclose(model.with_labels(model.labels_).predict_proba(), before, atol=1e-6)
    assert torch.equal(model.predict_proba(), before)
