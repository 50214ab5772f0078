"""LGGD+: the composition of ensemble, self-training and readouts."""

import pytest
import torch

from lggd import (
    GCN,
    MLP,
    BackboneReadout,
    Ensemble,
    LGGDPlus,
    MeanReadout,
    NearestClass,
    Optimization,
    PropagatedMLP,
    SelfTraining,
    load_model,
)
from lggd.diffusion import DiffusionGraph
from lggd.errors import InputError, InputTypeError
from lggd.filters import Heat
from support.small_data import CLASSES, blocks, unmasked
from support.small_models import baseline, distances, is_fitted, plus, readout, stop_at

SHORT = Optimization(epochs=12, patience=None)
BACKBONES = readout(optimization=Optimization(epochs=15))


def model(reads=None, fraction=0.3, rounds=1, seed=0, **features):
    """Accurate enough for scores: two networks on near and far node features."""
    settings = {"times": (0.5, 1.0), "initial": PropagatedMLP((8,), pagerank=0.1), "optimization": SHORT}
    networks = Ensemble(distances(**{**settings, "reachable": False, **features}), members=2)
    return LGGDPlus(SelfTraining(networks, fraction, rounds), reads or MeanReadout((BACKBONES, NearestClass())), seed)


def test_the_default_is_the_composition_that_is_documented():
    default = LGGDPlus.trained()
    assert isinstance(default.features, SelfTraining)
    assert (default.features.fraction, default.features.rounds, default.features.model.members) == (0.3, 1, 3)
    networks = default.features.model.model
    assert (networks.times, networks.reachable) == ((0.2, 0.4, 0.6, 0.8, 1.0), False)
    assert networks.initial == PropagatedMLP(hidden=(256, 64), pagerank=0.1)
    backbones, nearest = default.readout.readouts
    assert nearest == NearestClass()
    assert (backbones.backbone, backbones.members, backbones.use_x, backbones.diffusion) == (GCN(), 3, True, None)


@pytest.mark.parametrize("reads", [None, NearestClass(), BACKBONES], ids=["both", "nearest", "backbone"])
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_it_learns(reads, fraction):
    data = blocks(lonely=1)
    fitted = model(reads, fraction).fit(data)
    assert fitted.predict_proba().shape == (data.num_nodes, CLASSES)
    torch.testing.assert_close(fitted.predict_proba().sum(1), torch.ones(data.num_nodes))
    assert fitted.score(data) > 0.5
    assert len(fitted.features_.model_.members_) == 2


def test_stages_come_in_order():
    fitted = plus().fit(blocks())
    assert list(fitted.history_) == ["distances", "self-training 1 distances", "backbone"]
    assert "train_loss t=1 member=1" in fitted.history_["self-training 1 distances"]
    assert "validation_accuracy member=1" in fitted.history_["backbone"]


def test_the_boundary_stays_at_the_true_labels():
    data = blocks()
    fitted = plus(SelfTraining(Ensemble(distances(), 2), fraction=1.0)).fit(data)
    expected = torch.where(data.train_mask, data.y, -1)
    parts = [fitted, fitted.features_, fitted.features_.model_, *fitted.features_.model_.members_]
    assert all(torch.equal(part.labels_, expected) for part in parts)


def test_readouts_are_trained_with_the_boundary_at_the_true_labels(monkeypatch):
    boundaries, data, fit = [], blocks(), BackboneReadout.fit

    def spy(self, features, *rest):
        boundaries.append([features.labels_, features.model_.labels_, features.model_.members_[0].labels_])
        return fit(self, features, *rest)

    monkeypatch.setattr(BackboneReadout, "fit", spy)
    plus().fit(data)
    expected = torch.where(data.train_mask, data.y, -1)
    assert all(torch.equal(labels, expected) for labels in boundaries[0])


def test_labels_are_added_at_once():
    data = blocks(each=20, noise=1.5)
    fitted = model(seed=3).fit(data)
    new = data.test_mask & (torch.arange(data.num_nodes) % 2 == 0)
    before = fitted.score(data, data.test_mask & ~new)
    fitted.add_labels(new, data.y[new])
    assert bool((fitted.predict()[new] == data.y[new]).float().mean() >= 0.9)
    assert fitted.score(data, data.test_mask & ~new) >= before - 0.1
    with pytest.raises(InputError, match="two labels"):
        fitted.add_labels(new, (data.y[new] + 1) % CLASSES)


def test_held_out_labels_join_the_boundary():
    data = blocks(each=40, labelled=25)
    del data.val_mask
    fitted = plus(reads=NearestClass()).fit(data)
    assert torch.equal(fitted.labels_ >= 0, data.train_mask)


def test_its_labels_are_its_own():
    data = unmasked(blocks())
    fitted = plus(reads=NearestClass()).fit(data)
    before = fitted.labels_.clone()
    data.y.fill_(-1)
    assert torch.equal(fitted.labels_, before)


def test_it_works_with_plain_networks_sparse_node_features_and_weights():
    data = blocks(weighted=True, sparse=True)
    assert model(initial=MLP((8,))).fit(data).score(data) > 0.4


# The second round is self-training.
STOPS = ["distances", "self-training 1 distances", "backbone"]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("stage", STOPS)
def test_an_interrupted_fit_leaves_it_unfitted(stage, before):
    data, broken = blocks(), plus()
    if before:
        broken.fit(data)
    with pytest.raises(KeyboardInterrupt):
        broken.fit(data, callback=stop_at(stage, 1))
    assert not is_fitted(broken)
    assert torch.equal(broken.fit(data).predict_proba(), plus().fit(data).predict_proba())


@pytest.mark.parametrize(
    "reads",
    [None, NearestClass(), readout(diffusion=DiffusionGraph(Heat(1.0), 5), use_features=False)],
    ids=["both", "nearest", "diffusion"],
)
def test_a_loaded_model_predicts_the_same_after_more_labels(reads, tmp_path):
    data = blocks(weighted=True)
    fitted = plus(reads=reads).fit(data)
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert torch.equal(loaded.predict_proba(), fitted.predict_proba())
    new = data.test_mask.nonzero()[:3].squeeze(1)
    for one in (fitted, loaded):
        one.add_labels(new, data.y[new])
    assert torch.equal(loaded.predict_proba(), fitted.predict_proba())


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    plus(reads=NearestClass()).fit(blocks()).save(tmp_path / "model")
    settings = tmp_path / "model" / "model.json"
    settings.write_text(settings.read_text().replace('"members": 2', '"members": 3'))
    with pytest.raises(InputError, match="must be a saved model whose files fit together"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("wrong", "error", "argument"),
    [
        ({"features": 3}, InputTypeError, "features"),
        ({"features": baseline("MixUp")}, InputTypeError, "features"),
        ({"readout": None}, InputTypeError, "readout"),
        ({"features__rounds": 0}, InputError, "rounds"),
        ({"features__model__members": 0}, InputError, "members"),
        ({"features__model__model__times": ()}, InputError, "times"),
        ({"seed": -1}, InputError, "seed"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong, error, argument):
    with pytest.raises(error, match=f"`{argument}`"):
        plus().set_params(**wrong).fit(blocks())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_it_scores_as_on_a_cpu():
    data = blocks(each=30)
    on_cpu, on_gpu = model().fit(data), model().fit(data.clone().to("cuda"))
    assert abs(on_cpu.score(data) - on_gpu.score(data.to("cuda"))) < 0.15
