"""The classifier: from a few labels to predictions, new labels without retraining."""

import copy
import math

import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

from lggd import (
    GAT,
    GCN,
    GGD,
    LGGD,
    MLP,
    ChebNet,
    Checkpoint,
    Graph,
    JKNet,
    LearnedEdgeWeights,
    LearnedPotential,
    LGGDClassifier,
    Optimization,
)
from lggd.estimator.labels import Labels
from small_data import CLASSES, Averages, Perceptron, blocks, changed, garbled, random, same, snapshot, unmasked

TIMES = (1.0, 2.0)
WIDTH = len(TIMES) * CLASSES + 1
FEW = Optimization(lr=0.02, weight_decay=0.002, epochs=4, patience=None)
SOME = Optimization(epochs=12, patience=None)


def features(**settings):
    return LGGD(**{"times": TIMES, "optimization": FEW, "initial": MLP((8,)), **settings})


MODELS = {
    "LGGD, GCN": lambda: {"features": features(), "backbone": GCN(hidden=8)},
    "LGGD, GAT": lambda: {"features": features(cross_fit=2), "backbone": GAT(hidden=4, heads=2)},
    "weights, ChebNet": lambda: {"features": features(potential=LearnedEdgeWeights()), "backbone": ChebNet(hidden=8)},
    "potential, JKNet": lambda: {"features": features(potential=LearnedPotential()), "backbone": JKNet(hidden=6)},
    "beside x": lambda: {"features": features(mode="concat", horizons="shared"), "backbone": GCN(hidden=8)},
    "LGGD alone": lambda: {"features": features(), "backbone": None},
    "GGD alone": lambda: {"features": GGD(TIMES), "backbone": None},
    "GGD, GCN": lambda: {"features": GGD(TIMES), "backbone": GCN(hidden=8)},
    "GCN alone": lambda: {"features": None, "backbone": GCN(hidden=8)},
    "modules": lambda: {"features": features(initial=Perceptron()), "backbone": Averages(WIDTH)},
}
every_model = pytest.mark.parametrize("name", MODELS)
WITH_FEATURES = [name for name in MODELS if name != "GCN alone"]


def make(name, **changes):
    return LGGDClassifier(**{"optimization": SOME, **MODELS[name](), **changes})


@pytest.fixture(scope="module")
def data():
    return blocks()


@pytest.fixture(scope="module")
def fitted(data):
    models = {}

    def fit(name):
        if name not in models:
            models[name] = make(name).fit(data)
        model = copy.copy(models[name])
        model.features_, model.additions_ = copy.copy(model.features_), []
        return model

    return fit


def parameters(model):
    """Everything that was learned, by name."""
    found = {}
    if model.features_ is not None:
        found |= {f"features.{name}": x.clone() for name, x in model.features_.state().items() if name != "known"}
    if model.module_ is not None:
        found |= {f"backbone.{name}": x.clone() for name, x in model.module_.state_dict().items()}
    return found


# -- One contract ------------------------------------------------------------------------------------------------------


@every_model
def test_fit_returns_the_model_itself_and_says_what_it_learned(name, data):
    model = make(name)
    assert model.fit(data) is model
    assert model.num_classes_ == CLASSES
    assert torch.equal(model.labels_, torch.where(data.train_mask, data.y, -1))
    stages = [stage for stage, has in (("distances", model.features), ("backbone", model.backbone)) if has is not None]
    assert list(model.history_) == stages
    assert model.additions_ == []


@every_model
def test_predictions_are_the_most_probable_classes(name, data, fitted):
    model = fitted(name)
    probability, predicted = model.predict_proba(data), model.predict(data)
    assert probability.shape == (data.num_nodes, CLASSES)
    assert probability.dtype == torch.float32
    assert bool((probability >= 0).all())
    torch.testing.assert_close(probability.sum(1), torch.ones(data.num_nodes))
    assert predicted.dtype == torch.int64
    assert torch.equal(predicted, probability.argmax(1))
    assert not probability.requires_grad


@every_model
def test_without_data_those_of_the_fit_are_meant(name, data, fitted):
    model = fitted(name)
    assert torch.equal(model.predict_proba(), model.predict_proba(data))
    assert torch.equal(model.predict(), model.predict(data))


@every_model
def test_predictions_are_the_same_every_time_and_change_nothing(name, data, fitted):
    model, before = fitted(name), snapshot(data)
    learned, first = parameters(model), model.predict_proba(data)
    assert torch.equal(model.predict_proba(data), first)
    assert same(learned, parameters(model))
    assert same(before, snapshot(data))


@every_model
def test_hidden_labels_are_never_read(name, data, fitted):
    garbage = garbled(data)
    other = make(name).fit(garbage)
    assert torch.equal(other.predict_proba(garbage), fitted(name).predict_proba(data))
    assert torch.equal(other.predict_proba(), fitted(name).predict_proba())


def test_the_check_on_hidden_labels_catches_a_look_at_them(data, monkeypatch):
    def peeking(batch):
        return Labels.checked(torch.where(batch.y >= 0, batch.y % CLASSES, -1), torch.full_like(batch.y, -1))

    monkeypatch.setattr(Labels, "read", peeking)
    with pytest.raises(AssertionError):
        test_hidden_labels_are_never_read("GGD alone", data, lambda name: make(name).fit(data))


@every_model
def test_the_same_seed_gives_the_same_bits_and_another_does_not(name, data, fitted):
    assert same(parameters(make(name).fit(data)), parameters(fitted(name)))
    given = MODELS[name]()
    if given["features"] is not None:
        given["features"].seed = 5
    other = LGGDClassifier(**given, optimization=SOME, seed=5).fit(data)
    assert torch.equal(other.predict_proba(), fitted(name).predict_proba()) == (name == "GGD alone")


@every_model
def test_global_random_numbers_stay_where_they_are(name, data, fitted):
    with torch.random.fork_rng([]):
        torch.manual_seed(77)
        before = torch.get_rng_state()
        model = make(name).fit(data)
        assert torch.equal(model.predict_proba(), fitted(name).predict_proba())
        assert torch.equal(torch.get_rng_state(), before)


@every_model
def test_what_was_given_is_never_changed(name):
    data = blocks()
    before, model = snapshot(data), make(name)
    given = model.features, model.backbone
    state = copy.deepcopy(model.backbone.state_dict()) if isinstance(model.backbone, nn.Module) else {}
    model.fit(data).predict()
    if name in WITH_FEATURES:
        model.add_labels([30], [0])
    assert same(before, snapshot(data))
    assert (model.features, model.backbone) == given
    assert not hasattr(model.features, "labels_")
    if state:
        assert same(state, model.backbone.state_dict())


@every_model
def test_a_refit_forgets(name, data, fitted):
    model = make(name).fit(blocks(each=9, seed=3))
    if name in WITH_FEATURES:
        model.add_labels([26], [2])
    model.fit(data)
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())
    assert same(parameters(model), parameters(fitted(name)))
    assert model.additions_ == []


@every_model
def test_unfitted_use_is_refused(name, data, tmp_path):
    model = make(name)
    for use in (model.predict, model.predict_proba, lambda: model.score(data), lambda: model.add_labels([0], [0])):
        with pytest.raises(NotFittedError, match="fit"):
            use()
    with pytest.raises(NotFittedError, match="fit"):
        model.save(tmp_path / "model")


@every_model
def test_the_callback_hears_of_both_stages(name, data):
    heard = []
    model = make(name).fit(data, callback=heard.append)
    for stage, history in model.history_.items():
        told = [one for one in heard if one.stage == stage]
        for measure, values in history.items():
            assert [one.metrics[measure] for one in told] == values
    learned = name not in ("GGD alone", "GGD, GCN", "GCN alone")
    assert (heard[0].stage == "distances") == learned if heard else name == "GGD alone"


@pytest.mark.parametrize(
    ("name", "stage", "epoch"),
    [
        ("LGGD, GCN", "distances", 3),
        ("LGGD, GCN", "backbone", 1),
        ("LGGD, GCN", "backbone", 7),
        ("modules", "distances", 3),
        ("modules", "backbone", 7),
        ("GCN alone", "backbone", 7),
        ("GGD, GCN", "backbone", 7),
    ],
)
def test_an_interrupted_fit_goes_on_to_the_same_bits(name, stage, epoch, data, fitted, tmp_path):
    def interrupt(progress):
        if (progress.stage, progress.epoch) == (stage, epoch):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(name).fit(data, callback=interrupt, checkpoint=Checkpoint(tmp_path, "key", every=0))
    heard = []
    model = make(name).fit(data, callback=heard.append, checkpoint=Checkpoint(tmp_path, "key", every=0))
    assert (heard[0].stage, heard[0].epoch) == (stage, epoch)
    assert same(parameters(model), parameters(fitted(name)))
    assert model.history_ == fitted(name).history_
    assert torch.equal(model.predict_proba(), fitted(name).predict_proba())


# -- What the answers are ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["LGGD alone", "GGD alone"])
def test_without_a_backbone_the_nearest_class_answers(name, data, fitted):
    model = fitted(name)
    mean = model.features_.distances(data).mean(1)
    near = torch.exp(mean.amin(1, keepdim=True) - mean)
    torch.testing.assert_close(model.predict_proba(), near / near.sum(1, keepdim=True))
    assert torch.equal(model.predict()[data.train_mask], data.y[data.train_mask])


def test_far_away_nodes_have_probabilities_too():
    data = blocks(lonely=2)
    for name in ("GGD alone", "GGD, GCN", "LGGD, GCN"):
        probability = make(name).fit(data).predict_proba()
        assert torch.isfinite(probability).all()
        torch.testing.assert_close(probability.sum(1), torch.ones(data.num_nodes))


@pytest.mark.parametrize("name", [name for name in MODELS if "alone" not in name])
def test_the_backbone_answers_from_the_features(name, data, fitted):
    model = fitted(name)
    logits = model.module_.eval()(model.features_.inputs(data), data.edge_index, None)
    assert torch.equal(model.predict_proba(), torch.softmax(logits, 1).detach())
    assert torch.equal(model.features_.features(data), MODELS[name]()["features"].fit(data).features(data))


def test_without_features_the_backbone_answers_from_contents(data, fitted):
    model = fitted("GCN alone")
    assert torch.equal(model.predict_proba(), torch.softmax(model.module_.eval()(data.x, data.edge_index), 1).detach())
    other = changed(data, x=data.x + 1)
    assert not torch.equal(model.predict_proba(other), model.predict_proba())


@pytest.mark.parametrize("name", ["GCN alone", "LGGD, GCN", "beside x"])
def test_sparse_contents_are_as_good_as_dense_ones(name):
    data = blocks(sparse=True)
    dense = changed(data, x=data.x.to_dense())
    one, other = make(name).fit(data).predict_proba(), make(name).fit(dense).predict_proba()
    torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["GGD, GCN", "GCN alone", "LGGD, GAT"])
def test_weights_on_edges_count(name, fitted):
    weighted = blocks(weighted=True)
    assert not torch.equal(make(name).fit(weighted).predict_proba(), fitted(name).predict_proba())


@pytest.mark.parametrize("name", ["LGGD, GCN", "GGD, GCN", "GCN alone", "LGGD alone"])
def test_other_data_of_the_same_nodes_may_be_asked_about(name, data, fitted):
    fewer = changed(data, edge_index=data.edge_index[:, (data.edge_index != 20).all(0)])
    model = fitted(name)
    assert not torch.equal(model.predict_proba(fewer), model.predict_proba())
    assert torch.equal(model.predict_proba(data), fitted(name).predict_proba())


def test_it_learns():
    data = blocks(each=20, labelled=4, validated=4, seed=1)
    model = LGGDClassifier().fit(data)
    assert model.score(data) > 0.9
    shuffled = data.y[torch.randperm(data.num_nodes, generator=random())]
    assert model.score(changed(data, y=shuffled)) < 0.6


@pytest.mark.parametrize("backbone", [GCN(), None])
def test_more_labels_make_it_better_where_contents_tell_little(backbone):
    short = Optimization(lr=0.01, weight_decay=0.002, epochs=40, patience=None)
    before = after = 0.0
    for seed in range(3):
        data = blocks(each=20, labelled=1, validated=3, seed=seed, inside=0.3, outside=0.05, noise=3.0)
        features = LGGD(times=(1, 2, 3), optimization=short)
        model = LGGDClassifier(features, backbone, Optimization(epochs=80)).fit(data)
        rest = data.test_mask & (torch.arange(data.num_nodes) >= 36)
        given = data.test_mask & ~rest
        before += model.score(data, rest) / 3
        after += model.add_labels(given, data.y[given]).score(data, rest) / 3
    assert 0.5 < before < after
    assert after > 0.85


# -- Scores ------------------------------------------------------------------------------------------------------------


def test_a_score_is_the_share_of_right_answers(data, fitted):
    model = fitted("LGGD, GCN")
    right = model.predict(data) == data.y
    assert model.score(data, data.val_mask) == pytest.approx(float(right[data.val_mask].float().mean()))
    assert model.score(data) == pytest.approx(float(right[data.test_mask].float().mean()))
    unknown = changed(data, test_mask=None)
    assert model.score(unknown) == pytest.approx(float(right[~data.train_mask].float().mean()))
    y = data.y.clone()
    y[data.test_mask.nonzero()[:3, 0]] = -1
    partly = data.test_mask & (y >= 0)
    assert model.score(changed(data, y=y)) == pytest.approx(float(right[partly].float().mean()))


def test_a_score_of_nothing_is_refused(data, fitted):
    model = fitted("LGGD, GCN")
    with pytest.raises(ValueError, match="`mask`"):
        model.score(data, torch.zeros(data.num_nodes, dtype=torch.bool))
    with pytest.raises(ValueError, match="`mask`"):
        model.score(changed(data, y=torch.full_like(data.y, -1)))


def test_a_score_needs_labels_and_a_mask_that_fits(data, fitted):
    model = fitted("LGGD, GCN")
    with pytest.raises(TypeError, match=r"`data.y`"):
        model.score(changed(data, y=None))
    with pytest.raises(ValueError, match="`mask`"):
        model.score(data, torch.ones(5, dtype=torch.bool))


# -- More labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_FEATURES)
def test_adding_labels_retrains_nothing(name, data, fitted):
    model = fitted(name)
    learned, before = parameters(model), model.predict_proba()
    assert model.add_labels([30, 31], [0, 1]) is model
    assert same(learned, parameters(model))
    assert not torch.equal(model.predict_proba(), before)
    assert model.labels_[[30, 31]].tolist() == [0, 1]
    assert int((model.labels_ >= 0).sum()) == 14
    assert torch.equal(model.features_.labels_, model.labels_)


@pytest.mark.parametrize("name", WITH_FEATURES)
def test_adding_labels_acts_through_the_boundary_alone(name, data, fitted):
    model, by_hand = fitted(name).add_labels([30, 31], [0, 1]), fitted(name)
    by_hand.features_.labels_ = by_hand.labels_.clone()
    by_hand.features_.labels_[[30, 31]] = torch.tensor([0, 1])
    assert torch.equal(model.predict_proba(), by_hand.predict_proba())


def test_the_check_on_adding_labels_catches_retraining(data, fitted, monkeypatch):
    def retrain(self, nodes, labels):
        y = self.labels_.clone()
        y[nodes] = torch.tensor(labels)
        return self.fit(changed(self.data_, y=y))

    monkeypatch.setattr(LGGDClassifier, "add_labels", retrain)
    with pytest.raises(AssertionError):
        test_adding_labels_retrains_nothing("LGGD, GCN", data, fitted)


def test_what_was_added_is_written_down(data, fitted):
    model = fitted("LGGD, GCN").add_labels([31, 30], [1, 0]).add_labels(torch.arange(36) == 33, 2).add_labels([30], [0])
    assert [(one["nodes"], one["labels"]) for one in model.additions_] == [([30, 31], [0, 1]), ([33], [2]), ([], [])]
    assert all(one["when"].endswith("+00:00") for one in model.additions_)


@pytest.mark.parametrize(("nodes", "labels"), [([0], [1]), ([30], [7]), ([99], [0]), ([30, 31], [0, 1, 2])])
def test_wrong_labels_are_refused_and_change_nothing(nodes, labels, fitted):
    model = fitted("LGGD, GCN")
    before, known = model.predict_proba(), model.labels_.clone()
    with pytest.raises(ValueError, match=r"`nodes`|`labels`"):
        model.add_labels(nodes, labels)
    assert torch.equal(model.predict_proba(), before)
    assert torch.equal(model.labels_, known)
    assert model.additions_ == []


def test_a_backbone_alone_takes_no_labels(fitted):
    with pytest.raises(ValueError, match="`features`"):
        fitted("GCN alone").add_labels([30], [0])


@pytest.mark.parametrize("name", ["LGGD, GCN", "GGD, GCN", "GGD alone", "GCN alone", "LGGD alone"])
def test_labels_held_out_join_after_the_fit(name):
    data = unmasked(blocks(each=20, labelled=20, validated=0))
    model = make(name).fit(data)
    assert torch.equal(model.labels_, data.y)
    if model.features_ is not None:
        assert torch.equal(model.features_.labels_, data.y)
    validated = any("validation" in measure for history in model.history_.values() for measure in history)
    assert validated == (name != "GGD alone")


def test_few_labels_are_all_learned_from():
    data = unmasked(blocks())
    model = make("LGGD, GCN").fit(data)
    assert torch.equal(model.labels_, data.y)
    assert not any("validation" in measure for history in model.history_.values() for measure in history)


# -- What is refused ---------------------------------------------------------------------------------------------------


def test_something_must_answer(data):
    with pytest.raises(ValueError, match="`features` or `backbone`"):
        LGGDClassifier(None, None).fit(data)


@pytest.mark.parametrize("name", ["LGGD, GCN", "GCN alone", "LGGD alone"])
def test_data_without_contents_are_refused_where_they_are_needed(name, data):
    with pytest.raises(TypeError, match=r"`data.x`"):
        make(name).fit(changed(data, x=None))


@pytest.mark.parametrize("name", ["LGGD, GCN", "GCN alone"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_contents_that_are_not_finite_are_refused(name, bad, data):
    x = data.x.clone()
    x[3, 1] = bad
    with pytest.raises(ValueError, match=r"`data.x`"):
        make(name).fit(changed(data, x=x))


@every_model
def test_data_without_labels_are_refused(name, data):
    with pytest.raises(TypeError, match=r"`data.y`"):
        make(name).fit(changed(data, y=None))


@pytest.mark.parametrize("wrong", [{"features": "LGGD"}, {"backbone": "GCN"}, {"optimization": 100}], ids=str)
def test_what_is_neither_features_nor_backbone_nor_optimization_is_refused(wrong, data):
    with pytest.raises(TypeError, match=f"`{next(iter(wrong))}`"):
        make("LGGD, GCN", **wrong).fit(data)


def test_a_backbone_of_the_wrong_width_is_refused(data):
    class Narrow(nn.Linear):
        def forward(self, x, edge_index):
            return super().forward(x)

    with pytest.raises(ValueError, match="`backbone`"):
        make("LGGD, GCN", backbone=Narrow(WIDTH, 2)).fit(data)


@pytest.mark.parametrize("name", WITH_FEATURES)
def test_another_number_of_nodes_is_refused(name, fitted):
    with pytest.raises(ValueError, match="`data`"):
        fitted(name).predict(blocks(each=9))


def test_a_fit_that_is_broken_off_leaves_nothing_fitted(data):
    def stop(progress):
        raise KeyboardInterrupt

    for features in (None, LGGD(times=(1.0, 2.0), optimization=Optimization(epochs=2))):
        model = LGGDClassifier(features, optimization=Optimization(epochs=2)).fit(data)
        with pytest.raises(KeyboardInterrupt):
            model.fit(data, callback=stop)
        with pytest.raises(NotFittedError):
            model.predict()


def test_weights_are_the_same_for_distances_and_backbone_by_either_name(data):
    weight = torch.rand(data.edge_index.shape[1], generator=torch.Generator().manual_seed(0)) * 0.9 + 0.1
    graph = Graph.from_edges(data.edge_index, weight, num_nodes=data.num_nodes, symmetrize="max")
    answers = []
    for name in ("edge_weight", "edge_attr"):
        weighted = copy.copy(data)
        weighted.edge_index = graph.edge_index
        weighted[name] = graph.weight
        model = LGGDClassifier(GGD(times=(1.0, 2.0)), optimization=Optimization(epochs=5)).fit(weighted)
        answers += [model.predict_proba(), model.predict_proba(weighted)]
    assert all(torch.equal(answers[0], other) for other in answers[1:])
