"""The classifier: features, backbones, and new labels without training."""

import copy
import math

import pytest
import torch
from torch import nn

from lggd import (
    GAT,
    GCN,
    GGD,
    LGGD,
    ChebNet,
    Ensemble,
    EvolvedKernelRidge,
    Graph,
    JKNet,
    LearnedEdgeWeights,
    LearnedPotential,
    LGGDClassifier,
    LGGDPlus,
    Optimization,
    SelfTraining,
)
from lggd.errors import InputError, InputTypeError
from lggd.estimator import VALIDATION
from support.small_data import Averages, Perceptron, blocks, changed, garbled, random, same, snapshot, unmasked
from support.small_models import TIMES, WIDTH, baseline, classifier, distances, is_fitted, learned

MODELS = {
    "LGGD, GCN": lambda: classifier(distances()),
    "LGGD, GAT": lambda: classifier(distances(cross_fit=2), backbone=GAT(hidden=4, heads=2)),
    "weights, ChebNet": lambda: classifier(distances(potential=LearnedEdgeWeights()), backbone=ChebNet(hidden=8)),
    "potential, JKNet": lambda: classifier(distances(potential=LearnedPotential()), backbone=JKNet(hidden=6)),
    "concat": lambda: classifier(distances(concat=True, per_time=False)),
    "LGGD alone": lambda: classifier(distances(), backbone=None),
    "GGD alone": lambda: classifier(GGD(TIMES), backbone=None),
    "GGD, GCN": lambda: classifier(GGD(TIMES)),
    "GCN alone": lambda: classifier(None),
    "modules": lambda: classifier(distances(initial=Perceptron()), backbone=Averages(WIDTH)),
}
every_model = pytest.mark.parametrize("name", MODELS)
WITH_FEATURES = pytest.mark.parametrize("name", [name for name in MODELS if name != "GCN alone"])


def make(name, **changes):
    return MODELS[name]().set_params(**changes)


@pytest.fixture(scope="module")
def data():
    return blocks()


@pytest.fixture(scope="module")
def fitted(data):
    models = {}

    def fit(name):
        if name not in models:
            models[name] = make(name).fit(data)
        return copy.deepcopy(models[name])

    return fit


def validated(model):
    return any("validation" in name for curves in model.history_.values() for name in curves)


# -- Fitting -----------------------------------------------------------------------------------------------------------


@every_model
def test_stages_are_those_that_are_trained(name, fitted):
    model = fitted(name)
    trained = {"distances": isinstance(model.features, LGGD), "backbone": model.backbone is not None}
    assert list(model.history_) == [stage for stage, is_trained in trained.items() if is_trained]


@every_model
def test_the_same_seed_gives_the_same_bits_and_hidden_labels_are_unreachable(name, data, fitted):
    with torch.random.fork_rng([]):
        torch.manual_seed(77)
        before = torch.get_rng_state()
        model = make(name).fit(garbled(data))
        assert torch.equal(torch.get_rng_state(), before)
    assert same(learned(model), learned(fitted(name)))
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())
    other = make(name, seed=5, **({} if name == "GCN alone" else {"features__seed": 5})).fit(data)
    assert torch.equal(other.predict_proba(), fitted(name).predict_proba()) == (name == "GGD alone")


@every_model
def test_settings_and_modules_of_the_users_are_not_changed(name, data):
    before, model = snapshot(data), make(name)
    settings = model.features, model.backbone
    state = copy.deepcopy(model.backbone.state_dict()) if isinstance(model.backbone, nn.Module) else {}
    model.fit(data).predict()
    assert same(before, snapshot(data))
    assert (model.features, model.backbone) == settings
    assert model.features is None or not is_fitted(model.features)
    assert not state or same(state, model.backbone.state_dict())


@pytest.mark.parametrize("name", ["LGGD, GCN", "GGD, GCN", "GGD alone", "GCN alone", "LGGD alone"])
def test_labels_held_out_join_after_the_fit(name):
    data = unmasked(blocks(each=20, labelled=20, validated=0))
    model = make(name).fit(data)
    assert torch.equal(model.labels_, data.y)
    if model.features_ is not None:
        assert torch.equal(model.features_.labels_, data.y)
    assert validated(model) == (name != "GGD alone")


def test_models_hold_out_the_fraction_of_the_model_inside():
    inside = distances(validation=0.4)
    for kind in (LGGDClassifier, LGGDPlus, SelfTraining, Ensemble):
        assert kind(inside)._held_out == 0.4
    # A backbone needs validation nodes even where its features need none.
    assert [make(name)._held_out for name in ("GGD alone", "GGD, GCN", "GCN alone")] == [0, VALIDATION, VALIDATION]


def test_few_labels_are_all_trained_on():
    data = unmasked(blocks())
    model = make("LGGD, GCN").fit(data)
    assert torch.equal(model.labels_, data.y)
    assert not validated(model)


# -- Predictions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LGGD alone", "GGD alone"])
def test_without_a_backbone_the_nearest_class_is_predicted(name, data, fitted):
    model = fitted(name)
    mean = model.features_.distances(data).mean(1)
    near = torch.exp(mean.amin(1, keepdim=True) - mean)
    torch.testing.assert_close(model.predict_proba(), near / near.sum(1, keepdim=True))
    assert torch.equal(model.predict()[data.train_mask], data.y[data.train_mask])


@pytest.mark.parametrize("name", ["GGD alone", "GGD, GCN", "LGGD, GCN"])
def test_unreachable_nodes_have_probabilities_too(name):
    data = blocks(lonely=2)
    probability = make(name).fit(data).predict_proba()
    assert torch.isfinite(probability).all()
    torch.testing.assert_close(probability.sum(1), torch.ones(data.num_nodes))


@pytest.mark.parametrize("name", [name for name in MODELS if "alone" not in name])
def test_the_backbone_sees_the_features(name, data, fitted):
    model = fitted(name)
    logits = model.module_.eval()(model.features_.inputs(data), data.edge_index, None)
    assert torch.equal(model.predict_proba(), torch.softmax(logits, 1).detach())
    assert torch.equal(model.features_.features(data), make(name).features.fit(data).features(data))


def test_without_features_the_backbone_sees_the_node_features(data, fitted):
    model = fitted("GCN alone")
    assert torch.equal(model.predict_proba(), torch.softmax(model.module_.eval()(data.x, data.edge_index), 1).detach())
    other = changed(data, x=data.x + 1)
    assert not torch.equal(model.predict_proba(other), model.predict_proba())


def test_an_ensemble_of_distances_can_be_the_features(data):
    model = classifier(Ensemble(distances(), members=2)).fit(data)
    logits = model.module_.eval()(model.features_.inputs(data), data.edge_index, None)
    assert torch.equal(model.predict_proba(), torch.softmax(logits, 1).detach())
    members = [member.features(data) for member in model.features_.members_]
    torch.testing.assert_close(model.features_.features(data), (members[0] + members[1]) / 2)


@pytest.mark.parametrize("name", ["GCN alone", "LGGD, GCN", "concat"])
def test_sparse_node_features_predict_as_dense_ones(name):
    data = blocks(sparse=True)
    dense = changed(data, x=data.x.to_dense())
    one, other = make(name).fit(data).predict_proba(), make(name).fit(dense).predict_proba()
    torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["GGD, GCN", "GCN alone", "LGGD, GAT"])
def test_edge_weights_have_an_effect(name, fitted):
    weighted = blocks(weighted=True)
    assert not torch.equal(make(name).fit(weighted).predict_proba(), fitted(name).predict_proba())


def test_edge_weights_may_have_either_name(data):
    weight = torch.rand(data.edge_index.shape[1], generator=random()) * 0.9 + 0.1
    graph = Graph.from_edges(data.edge_index, weight, num_nodes=data.num_nodes, symmetrize="max")
    predictions = []
    for name in ("edge_weight", "edge_attr"):
        weighted = changed(data, edge_index=graph.edge_index)
        weighted[name] = graph.weight
        model = make("GGD, GCN").fit(weighted)
        predictions += [model.predict_proba(), model.predict_proba(weighted)]
    assert all(torch.equal(predictions[0], other) for other in predictions[1:])


@pytest.mark.parametrize("name", ["LGGD, GCN", "GGD, GCN", "GCN alone", "LGGD alone"])
def test_other_data_of_the_same_nodes_can_be_predicted(name, data, fitted):
    fewer = changed(data, edge_index=data.edge_index[:, (data.edge_index != 20).all(0)])
    model = fitted(name)
    assert not torch.equal(model.predict_proba(fewer), model.predict_proba())
    assert torch.equal(model.predict_proba(data), fitted(name).predict_proba())


@pytest.mark.parametrize("make", [lambda: LGGDClassifier(EvolvedKernelRidge(), None), LGGDClassifier])
def test_it_learns(make):
    data = blocks(each=20, labelled=4, validated=4, seed=1)
    model = make().fit(data)
    assert model.score(data) > 0.9
    shuffled = data.y[torch.randperm(data.num_nodes, generator=random())]
    assert model.score(changed(data, y=shuffled)) < 0.6


# -- Labels ------------------------------------------------------------------------------------------------------------


@WITH_FEATURES
def test_added_labels_act_through_the_boundary_alone(name, fitted):
    model, by_hand = fitted(name).add_labels([30, 31], [0, 1]), fitted(name)
    by_hand.features_.labels_ = by_hand.labels_.clone()
    by_hand.features_.labels_[[30, 31]] = torch.tensor([0, 1])
    assert torch.equal(model.predict_proba(), by_hand.predict_proba())
    assert not torch.equal(model.predict_proba(), fitted(name).predict_proba())
    assert same(learned(model), learned(fitted(name)))
    assert torch.equal(model.features_.labels_, model.labels_)


def test_the_check_on_added_labels_catches_training(data, fitted, monkeypatch):
    def retrain(self, nodes, labels):
        y = self.labels_.clone()
        y[nodes] = torch.tensor(labels)
        return self.fit(changed(self.data_.to_pyg(), y=y))

    monkeypatch.setattr(LGGDClassifier, "add_labels", retrain)
    with pytest.raises(AssertionError):
        test_added_labels_act_through_the_boundary_alone("LGGD, GCN", fitted)


def test_additions_are_recorded(fitted):
    model = fitted("LGGD, GCN").add_labels([31, 30], [1, 0])
    model.add_labels(torch.arange(36) == 33, [2]).add_labels([30], [0])
    assert [(one["nodes"], one["labels"]) for one in model.additions_] == [([30, 31], [0, 1]), ([33], [2]), ([], [])]
    assert all(one["when"].endswith("+00:00") for one in model.additions_)


@pytest.mark.parametrize("backbone", [GCN(), None])
def test_more_labels_improve_it_where_node_features_tell_little(backbone):
    short = Optimization(lr=0.01, weight_decay=0.002, epochs=40, patience=None)
    before = after = 0.0
    for seed in range(3):
        data = blocks(each=20, labelled=1, validated=3, seed=seed, inside=0.3, outside=0.05, noise=3.0)
        features = LGGD(times=(1, 2, 3), optimization=short)
        model = LGGDClassifier(features, backbone, Optimization(epochs=80)).fit(data)
        rest = data.test_mask & (torch.arange(data.num_nodes) >= 36)
        added = data.test_mask & ~rest
        before += model.score(data, rest) / 3
        after += model.add_labels(added, data.y[added]).score(data, rest) / 3
    assert 0.5 < before < after
    assert after > 0.85


# -- Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"features": "LGGD"}, InputTypeError),
        ({"features": baseline("MixUp")}, InputTypeError),
        ({"backbone": "GCN"}, InputTypeError),
        ({"optimization": 100}, InputTypeError),
        ({"backbone": None, "features": None}, InputError),
        ({"features": GGD(times=(2, 1))}, InputError),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_name(wrong, error, data):
    argument = "times" if isinstance(wrong.get("features"), GGD) else next(iter(wrong))
    with pytest.raises(error, match=f"`{argument}`"):
        make("LGGD, GCN", **wrong).fit(data)


@pytest.mark.parametrize("name", ["LGGD, GCN", "GCN alone"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_node_features_must_be_finite(name, bad, data):
    x = data.x.clone()
    x[3, 1] = bad
    with pytest.raises(InputError, match=r"`data.x`"):
        make(name).fit(changed(data, x=x))


def test_a_backbone_of_the_wrong_width_is_refused(data):
    class Narrow(nn.Linear):
        def forward(self, x, edge_index):
            return super().forward(x)

    with pytest.raises(InputError, match="`backbone`"):
        make("LGGD, GCN", backbone=Narrow(WIDTH, 2)).fit(data)


@WITH_FEATURES
def test_another_number_of_nodes_is_refused(name, fitted):
    with pytest.raises(InputError, match="`data`"):
        fitted(name).predict(blocks(each=9))
