"""Readouts: the nearest class, backbones on features and node features, and their mean."""

import pytest
import torch
from torch.nn.functional import normalize

from lggd import (
    GCN,
    LGGD,
    BackboneReadout,
    Ensemble,
    KernelRidge,
    LGGDPlus,
    MeanReadout,
    NearestClass,
    SelfTraining,
    WeightedReadout,
    load_model,
)
from lggd.diffusion import PPR, DiffusionGraph, Heat
from lggd.errors import InputError, InputTypeError
from lggd.features.solved_lggd import mixture_weights
from support.small_data import CLASSES, blocks, changed
from support.small_models import SOME, distances, readout


@pytest.fixture(scope="module")
def data():
    return blocks()


def fit(readout, data, **settings):
    """Two networks without self-training, read in this way."""
    return LGGDPlus(Ensemble(distances(reachable=False, **settings), members=2), readout).fit(data)


def test_the_nearest_class_is_that_of_the_features(data):
    model = fit(NearestClass(), data)
    assert torch.equal(model.predict_proba(), model.features_.predict_proba())


def test_networks_differ_and_are_averaged(data):
    model = fit(readout(), data)
    inputs = model.readout_._inputs(model.features_, model.data_)
    with torch.no_grad():
        one, other = (module(inputs, data.edge_index).softmax(1) for module in model.readout_.modules_)
    assert not torch.equal(one, other)
    torch.testing.assert_close(model.predict_proba(), (one + other) / 2)


def test_node_features_stand_before_the_features_with_their_length(data):
    width = data.x.shape[1]
    model = fit(readout(), data)
    inputs = model.readout_._inputs(model.features_, model.data_)
    torch.testing.assert_close(inputs[:, width:], model.features_.features(data))
    torch.testing.assert_close(inputs[:, :width].norm(dim=1).mean(), inputs[:, width:].norm(dim=1).mean())
    alone = fit(readout(use_x=False), data)
    assert torch.equal(alone.readout_._inputs(alone.features_, alone.data_), alone.features_.features(data))
    without = fit(readout(use_features=False), data)
    assert torch.equal(without.readout_._inputs(without.features_, without.data_), normalize(data.x))


@pytest.mark.parametrize("kernel", [PPR(0.2), Heat(2.0)])
def test_backbones_run_on_the_graph_of_a_diffusion(kernel, data):
    diffusion = DiffusionGraph(kernel, 5)
    model = fit(readout(diffusion=diffusion), data)
    diffused = diffusion.transform(data)
    edge_index, edge_weight = model.readout_._edges(model.data_)
    assert torch.equal(edge_index, diffused.edge_index)
    assert torch.equal(edge_weight, diffused.edge_weight)
    assert not torch.equal(model.predict_proba(), fit(readout(), data).predict_proba())


def test_the_mean_is_that_of_its_readouts(data):
    both = fit(MeanReadout((readout(), NearestClass())), data).predict_proba()
    one, other = (fit(each, data).predict_proba() for each in (readout(), NearestClass()))
    torch.testing.assert_close(both, (one + other) / 2)


def test_weighted_readouts_are_the_weighted_mean_of_their_parts(data):
    model = fit(WeightedReadout((readout(), NearestClass()), prior=(1.0, 4.0)), data)
    parts = [part.predict_proba(model.features_, model.data_) for part in model.readout_.readouts_]
    val = data.val_mask.nonzero().squeeze(1)
    likelihoods = torch.stack([part[val, data.y[val]] for part in parts], dim=1).double()
    weights = model.readout_.weights_
    assert weights == pytest.approx(mixture_weights(likelihoods, (1.0, 4.0)))
    torch.testing.assert_close(model.predict_proba(), weights[0] * parts[0] + weights[1] * parts[1])


def test_an_empty_prior_counts_one_for_each(data):
    one, other = (fit(WeightedReadout((NearestClass(), readout()), prior=prior), data) for prior in ((), (1.0, 1.0)))
    assert one.readout_.weights_ == other.readout_.weights_


def test_weights_are_saved_and_networks_fade(data, tmp_path):
    parts = WeightedReadout((NearestClass(), readout(use_features=False)), prior=(1.0, 2.0), fade=True)
    model = LGGDPlus(LGGD.solved(), parts).fit(data)
    weights = model.readout_.weights_
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.readout_.weights_ == weights
    torch.testing.assert_close(loaded.predict_proba(), model.predict_proba(), atol=1e-5, rtol=0)
    new = data.test_mask.nonzero().squeeze(1)[:6]
    loaded.add_labels(new, data.y[new])  # 18 labels instead of 12
    near, network = (part.predict_proba(loaded.features_, loaded.data_) for part in loaded.readout_.readouts_)
    faded = weights[1] * (12 / 18) ** 2
    torch.testing.assert_close(loaded.predict_proba(), (weights[0] * near + faded * network) / (weights[0] + faded))


def test_networks_on_node_features_alone_need_no_distances(data):
    model = LGGDPlus(SelfTraining(KernelRidge()), readout(use_features=False)).fit(data)
    assert model.predict_proba().shape == (data.num_nodes, CLASSES)


def test_without_validation_labels_weights_are_those_of_the_prior(data):
    unvalidated = changed(data, val_mask=torch.zeros_like(data.val_mask))
    model = fit(WeightedReadout((NearestClass(), readout()), prior=(3.0, 1.0)), unvalidated)
    assert model.readout_.weights_ == [0.75, 0.25]


def test_readouts_that_predict_the_validation_labels_count_more(data):
    model = fit(WeightedReadout((readout(optimization=SOME), NearestClass()), prior=(1e-3, 1e-3)), data)
    parts = [part.predict_proba(model.features_, model.data_) for part in model.readout_.readouts_]
    own = [float(p[data.val_mask, data.y[data.val_mask]].log().sum()) for p in parts]
    assert (own[0] > own[1]) == (model.readout_.weights_[0] > model.readout_.weights_[1])


def test_weights_never_depend_on_test_labels(data):
    y = torch.where(data.test_mask, (data.y + 1) % CLASSES, data.y)
    one, other = (fit(WeightedReadout((NearestClass(), readout())), each) for each in (data, changed(data, y=y)))
    assert one.readout_.weights_ == other.readout_.weights_


def test_cross_fitted_features_differ_on_labelled_nodes_only(data):
    model = fit(readout(), data, cross_fit=2)
    plain = model.features_.nearness(data).flatten(1)
    equal = (model.features_.features(data) - plain).abs().amax(1) < 1e-6
    assert bool(equal[~data.train_mask].all())
    assert not bool(equal[data.train_mask].all())


def test_several_backbones_have_curves_of_their_own(data):
    mean = MeanReadout((readout(use_features=False), NearestClass(), readout(use_features=False)))
    history = LGGDPlus(distances(), mean).fit(data).history_
    assert list(history) == ["distances", "backbone", "readout 2 backbone"]
    assert history["backbone"] != history["readout 2 backbone"]


def test_probabilities_are_those_of_all_nodes(data):
    for each in (NearestClass(), readout(), MeanReadout((NearestClass(), readout(), readout(backbone=GCN(4))))):
        probabilities = fit(each, data).predict_proba()
        assert probabilities.shape == (data.num_nodes, CLASSES)
        torch.testing.assert_close(probabilities.sum(1), torch.ones(data.num_nodes))


def test_a_readout_of_a_model_is_not_changed(data):
    own = readout()
    fit(MeanReadout((own, NearestClass())), data)
    assert not hasattr(own, "modules_")


@pytest.mark.parametrize(
    ("wrong", "error", "argument"),
    [
        (BackboneReadout(backbone=None), InputTypeError, "backbone"),
        (BackboneReadout(members=0), InputError, "members"),
        (BackboneReadout(optimization=None), InputTypeError, "optimization"),
        (BackboneReadout(diffusion=0.1), InputTypeError, "diffusion"),
        (BackboneReadout(diffusion=Heat(1.0)), InputTypeError, "diffusion"),
        (BackboneReadout(use_features=False, use_x=False), InputError, "use_features"),
        (BackboneReadout(confident=1.5), InputError, "confident"),
        (WeightedReadout((NearestClass(),), prior=(1.0, 1.0)), InputError, "prior"),
        (WeightedReadout((NearestClass(),), prior=(0.0,)), InputError, "prior"),
        (MeanReadout(()), InputError, "readouts"),
        (MeanReadout(NearestClass()), InputError, "readouts"),
        (MeanReadout((NearestClass(), "backbone")), InputTypeError, "readouts"),
        (MeanReadout((BackboneReadout(members=0, optimization=SOME),)), InputError, "members"),
        ("all", InputTypeError, "readout"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_name(wrong, error, argument, data):
    with pytest.raises(error, match=f"`{argument}`"):
        fit(wrong, data)
