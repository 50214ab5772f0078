"""LGGD+ in closed form: what the networks are trained on, how they fade, and graphs that change."""

import pytest
import torch

from lggd import (
    GCN,
    LGGD,
    BackboneReadout,
    KernelRidge,
    LGGDClassifier,
    LGGDPlus,
    MeanReadout,
    NearestClass,
    load_model,
)
from lggd.models import plus
from small_data import blocks
from small_models import FEW

EDGES = torch.tensor([[36, 36, 36], [0, 1, 14]])


@pytest.fixture(scope="module")
def data():
    return blocks()


def solved(**changes):
    networks = BackboneReadout(members=1, use_features=False, optimization=FEW)
    return LGGDPlus.solved(readout=MeanReadout((networks, NearestClass()), fade=True), **changes)


def test_networks_are_trained_on_confident_predictions_too(data, monkeypatch):
    seen = []
    fit = BackboneReadout.fit

    def spy(self, features, task, labels, *others):
        seen.append((features, labels))
        yield from fit(self, features, task, labels, *others)

    monkeypatch.setattr(BackboneReadout, "fit", spy)
    for confident in (0.0, 0.5):
        model = solved(confident=confident).fit(data)
        features, labels = seen.pop()
        added = (labels.train >= 0) & ~data.train_mask
        assert torch.equal(labels.train[data.train_mask], data.y[data.train_mask])
        assert bool(added.any()) == (confident > 0)
        assert not bool((added & data.val_mask).any())
        assert torch.equal(labels.train[added], features.predict()[added])
        assert int((model.labels_ >= 0).sum()) == int(data.train_mask.sum())  # never on the boundary


@pytest.mark.parametrize("fade", [True, False])
def test_networks_fade_as_labels_arrive(data, fade):
    model = solved().fit(data)
    mean = model.readout_
    mean.fade = fade
    trained, nearest = (readout.predict_proba(model.features_, model.data_) for readout in mean.readouts_)
    assert torch.allclose(model.predict_proba(), (trained + nearest) / 2, atol=1e-6)
    new = (~data.train_mask).nonzero().squeeze(1)[:12]
    model.add_labels(new, data.y[new])
    weight = 0.5 if fade else 1.0  # the networks have seen 12 of 24 labels
    nearest = mean.readouts_[1].predict_proba(model.features_, model.data_)
    assert torch.allclose(model.predict_proba(), (weight * trained + nearest) / (1 + weight), atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [LGGD.solved, lambda: LGGDClassifier(), solved],
    ids=["LGGD", "LGGDClassifier", "LGGDPlus"],
)
def test_nodes_and_edges_arrive_through_outer_models(make, data, tmp_path):
    model, inner = make().fit(data), KernelRidge().fit(data)
    assert model.accepts_nodes
    x = data.x[:1] + 0.01
    model.add_nodes(x, EDGES)
    assert model.predict_proba().shape == (37, 3)
    assert model.data_.num_nodes == len(model.labels_) == 37
    model.remove_edges(EDGES[:, :1]).add_labels([36], [int(data.y[0])])
    assert int(model.labels_[36]) == int(data.y[0])
    if isinstance(model, LGGD):
        inner.add_nodes(x, EDGES).remove_edges(EDGES[:, :1]).add_labels([36], [int(data.y[0])])
        assert torch.allclose(model.initial_.predict_proba(), inner.predict_proba(), atol=1e-5)
        assert model.distances(model.data_)[36, :, int(data.y[0])].max() == 0
    model.save(tmp_path / "model")
    assert torch.allclose(load_model(tmp_path / "model").predict_proba(), model.predict_proba(), atol=1e-4)


def test_trained_distances_do_not_take_nodes():
    for model in (LGGD(), LGGDClassifier.trained(), LGGDPlus(), LGGDClassifier(None, GCN())):
        assert not model.accepts_nodes


def test_labels_and_predictions_that_join_them_are_kept_apart(data):
    labels = plus.Labels.read(data)
    p = torch.eye(3)[data.y]
    joined = plus.with_confident(labels, p, 1.0)
    assert torch.equal(joined.validation, labels.validation)
    assert bool((joined.train[data.test_mask] == data.y[data.test_mask]).all())
