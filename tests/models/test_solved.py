"""LGGD+ in closed form: what the networks are trained on, how they fade, and graphs that change."""

from dataclasses import replace

import pytest
import torch

from lggd import (
    GCN,
    GPR,
    LGGD,
    BackboneReadout,
    Ensemble,
    EvolvedKernelRidge,
    KernelRidge,
    LGGDClassifier,
    LGGDPlus,
    NearestClass,
    SelfTraining,
    WeightedReadout,
    load_model,
)
from lggd.diffusion import DiffusionGraph
from lggd.filters import Heat
from lggd.inputs import Labels
from lggd.models import readout as readouts
from support.small_data import blocks
from support.small_models import FEW

EDGES = torch.tensor([[36, 36, 36], [0, 1, 14]])


@pytest.fixture(scope="module")
def data():
    return blocks()


def solved(confident=0.3, fade=True, **changes):
    networks = BackboneReadout(GPR(8), 1, use_features=False, optimization=FEW, confident=confident)
    readout = WeightedReadout((NearestClass(), networks, replace(networks, diffusion=DiffusionGraph())), fade)
    return LGGDPlus(readout=readout, **changes)


def test_the_default_is_the_composition_that_is_documented():
    default = LGGDPlus()
    nearest, *networks = default.readout.readouts
    assert isinstance(nearest, NearestClass)
    assert [part.confident for part in networks] == [0.3, 0.6, 0.0, 0.3]
    assert [part.diffusion for part in networks] == [None, None, DiffusionGraph(Heat(3.0)), None]
    assert [part.backbone for part in networks] == [GPR(), GPR(), GPR(hops=2), GPR(hops=0)]
    assert all(part.members == 3 for part in networks)
    assert default.readout.prior[0] == sum(default.readout.prior[1:])
    assert default.readout.fade


def test_networks_are_trained_on_confident_predictions_too(data, monkeypatch):
    seen = []
    train = readouts.train_backbones

    def spy(backbone, x, edges, labels, *others):
        seen.append(labels)
        return train(backbone, x, edges, labels, *others)

    monkeypatch.setattr(readouts, "train_backbones", spy)
    for confident in (0.0, 0.5):
        model = solved(confident).fit(data)
        labels = seen.pop()
        added = (labels.train >= 0) & ~data.train_mask
        assert torch.equal(labels.train[data.train_mask], data.y[data.train_mask])
        assert bool(added.any()) == (confident > 0)
        assert not bool((added & data.val_mask).any())
        assert torch.equal(labels.train[added], model.features_.predict()[added])
        assert int((model.labels_ >= 0).sum()) == int(data.train_mask.sum())  # never on the boundary


@pytest.mark.parametrize("fade", [True, False])
def test_networks_fade_as_labels_arrive(data, fade):
    model = solved(fade=fade).fit(data)
    weighted = model.readout_

    def parts():
        return [readout.predict_proba(model.features_, model.data_) for readout in weighted.readouts_]

    def mean(*weights):
        return sum(w * p for w, p in zip(weights, parts(), strict=True)) / sum(weights)

    closed, *trained = weighted.weights_
    assert torch.allclose(model.predict_proba(), mean(closed, *trained), atol=1e-6)
    new = (~data.train_mask).nonzero().squeeze(1)[:12]
    model.add_labels(new, data.y[new])
    share = 0.25 if fade else 1.0  # the networks have seen 12 of 24 labels
    assert torch.allclose(model.predict_proba(), mean(closed, *(share * w for w in trained)), atol=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        EvolvedKernelRidge,
        lambda: LGGDClassifier(EvolvedKernelRidge(), None),
        solved,
        lambda: Ensemble(KernelRidge(), 2),
        lambda: SelfTraining(EvolvedKernelRidge()),
    ],
    ids=["EvolvedKernelRidge", "LGGDClassifier", "LGGDPlus", "Ensemble", "SelfTraining"],
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
    if isinstance(model, EvolvedKernelRidge):
        inner.add_nodes(x, EDGES).remove_edges(EDGES[:, :1]).add_labels([36], [int(data.y[0])])
        assert torch.allclose(model.initial_.predict_proba(), inner.predict_proba(), atol=1e-5)
        assert model.distances(model.data_)[36, :, int(data.y[0])].max() == 0
    model.save(tmp_path / "model")
    assert torch.allclose(load_model(tmp_path / "model").predict_proba(), model.predict_proba(), atol=1e-4)


def test_trained_distances_do_not_take_nodes():
    for model in (LGGD(), LGGDClassifier(), LGGDPlus.trained(), LGGDClassifier(None, GCN())):
        assert not model.accepts_nodes


def test_labels_and_predictions_that_join_them_are_kept_apart(data):
    labels = Labels.read(data)
    p = torch.eye(3)[data.y]
    joined = labels.with_confident(p, 1.0)
    assert torch.equal(joined.validation, labels.validation)
    assert bool((joined.train[data.test_mask] == data.y[data.test_mask]).all())
