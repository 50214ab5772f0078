"""GGD and LGGD: one contract for all their settings, what the features are, and what is refused."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from lggd.features.settings import Settings
from sklearn.exceptions import NotFittedError
from torch import nn
from torch_geometric.data import Data
from torch_geometric.transforms import Compose

import small_data
from lggd import (
    GGD,
    LGGD,
    MLP,
    RK4,
    DegreePotential,
    Euler,
    Graph,
    LearnedEdgeWeights,
    LearnedPotential,
    LearnedTimeScale,
    MaxScale,
    Optimization,
    PropagatedMLP,
    SoftmaxScale,
    Standardize,
    TorchDiffEq,
    Unscaled,
    evolve,
)
from lggd.estimator.labels import Labels
from lggd.features import estimator
from lggd.solvers.cauchy import FAR
from small_data import CLASSES, Perceptron, blocks, changed, garbled, permuted, random, same, snapshot, unmasked

TIMES = (1.0, 2.0)
FEW = Optimization(lr=0.01, weight_decay=0.002, epochs=4, patience=None)


def learned(**settings):
    return LGGD, {"times": TIMES, "optimization": FEW, "initial": MLP((8,)), **settings}


MODELS = {
    "GGD": (GGD, {"times": TIMES}),
    "GGD, nothing left out": (GGD, {"times": TIMES, "cross_fit": 0, "scale": Standardize(), "reachable": False}),
    "GGD beside x": (GGD, {"times": TIMES, "mode": "concat", "p": 2.0, "potential": None}),
    "LGGD": (LGGD, {"times": TIMES, "optimization": FEW}),
    "paper": (LGGD, {"preset": "paper", "times": TIMES, "optimization": FEW}),
    "release": (LGGD, {"preset": "release", "times": TIMES, "optimization": FEW}),
    "learned potential": learned(potential=LearnedPotential()),
    "fitted time scale": learned(potential=LearnedTimeScale()),
    "learned weights": learned(potential=LearnedEdgeWeights()),
    "both learned, one model": learned(potential=LearnedEdgeWeights(LearnedPotential()), horizons="shared"),
    "two folds": learned(cross_fit=2, scale=MaxScale()),
    "five folds, one model": learned(cross_fit=5, horizons="shared", scale=SoftmaxScale(None)),
    "beside x": learned(mode="concat", scale=Unscaled(), initial=PropagatedMLP((8,), hops=1)),
    "module": learned(initial=Perceptron()),
}
LEARNED = [name for name, (kind, _) in MODELS.items() if kind is LGGD]
every_model = pytest.mark.parametrize("name", MODELS)


def make(name, **changes):
    kind, settings = MODELS[name]
    return kind(**{**settings, **changes})


@pytest.fixture(scope="module")
def data():
    return blocks()


@pytest.fixture(scope="module")
def fitted(data):
    """Every model, fitted once for the tests that only look at it."""
    models = {}

    def fit(name):
        if name not in models:
            models[name] = make(name).fit(data)
        return copy.copy(models[name])

    return fit


def sources(known):
    return [(known == k).nonzero().squeeze(1).tolist() for k in range(CLASSES)]


# -- One contract ------------------------------------------------------------------------------------------------------


@every_model
def test_fit_returns_the_model_itself(name, data):
    model = make(name)
    assert model.fit(data) is model


@every_model
def test_features_are_finite_float32_and_named(name, data, fitted):
    model = fitted(name)
    features = model.features(data)
    settings = model.settings
    assert features.shape == (data.num_nodes, len(TIMES) * CLASSES + settings.reachable)
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()
    assert not features.requires_grad
    expected = [f"class {k}, t={t:g}" for t in TIMES for k in range(CLASSES)]
    assert model.feature_names_ == expected + ["reachable"] * settings.reachable
    assert model.num_classes_ == CLASSES


@every_model
def test_each_column_is_what_its_name_says(name, data, fitted):
    model = fitted(name)
    distances = model.distances(data)
    assert distances.shape == (data.num_nodes, len(TIMES), CLASSES)
    model.scale, model.cross_fit = Unscaled(), 0
    features = model.features(data)
    for column, told in enumerate(model.feature_names_[: len(TIMES) * CLASSES]):
        k, t = told.removeprefix("class ").split(", t=")
        assert torch.equal(features[:, column], distances[:, TIMES.index(float(t)), int(k)])


@every_model
def test_transform_replaces_x_or_stands_beside_it(name, data, fitted):
    model = fitted(name)
    x = model.transform(data).x
    if model.settings.mode == "concat":
        assert torch.equal(x[:, : data.x.shape[1]], data.x)
        x = x[:, data.x.shape[1] :]
    assert torch.equal(x, model.features(data))


@every_model
def test_features_go_where_attr_name_says(name, data, fitted):
    model = fitted(name)
    model.attr_name = "distances"
    changed_data = model.transform(data)
    assert torch.equal(changed_data.distances, model.features(data))
    assert changed_data.x is data.x
    assert "distances" not in data


@every_model
def test_nothing_given_is_changed(name):
    data = blocks()
    before, model = snapshot(data), make(name)
    settings = copy.deepcopy(vars(model))
    model.fit(data)
    assert same(before, snapshot(data))
    assert {field: repr(vars(model)[field]) for field in settings} == {f: repr(v) for f, v in settings.items()}
    state = {part: value.clone() for part, value in model.state().items()}
    history, names = copy.deepcopy(model.history_), list(model.feature_names_)
    model.transform(data)
    assert same(before, snapshot(data))
    assert same(state, model.state())
    assert (history, names) == (model.history_, model.feature_names_)


@every_model
def test_it_stands_in_a_compose(name, data, fitted):
    model = fitted(name)
    composed = Compose([model, lambda d: changed(d, seen=torch.tensor(1))])(data)
    assert torch.equal(composed.x, model.transform(data).x)
    assert int(composed.seen) == 1


@every_model
def test_fit_transform_is_fit_and_then_transform(name, data, fitted):
    assert torch.equal(make(name).fit_transform(data).x, fitted(name).transform(data).x)


@every_model
def test_hidden_labels_are_never_read(name, data, fitted):
    other = make(name).fit(garbled(data))
    assert torch.equal(other.features(garbled(data)), fitted(name).features(data))
    assert torch.equal(fitted(name).features(garbled(data, seed=9)), fitted(name).features(data))


def test_the_check_on_hidden_labels_catches_a_look_at_them(data, fitted, monkeypatch):
    def peeking(batch):
        return Labels.checked(torch.where(batch.y >= 0, batch.y % CLASSES, -1), torch.full_like(batch.y, -1))

    monkeypatch.setattr(Labels, "read", peeking)
    with pytest.raises(AssertionError):
        test_hidden_labels_are_never_read("GGD", data, lambda name: make(name).fit(data))


@every_model
def test_a_refit_forgets(name, data):
    once = make(name).fit(blocks(each=9, seed=3)).add_labels([26], [2])
    assert torch.equal(once.fit(data).features(data), make(name).fit(data).features(data))
    assert same(once.state(), make(name).fit(data).state())


@every_model
def test_the_same_seed_gives_the_same_bits_and_another_does_not(name, data, fitted):
    assert same(make(name).fit(data).state(), fitted(name).state())
    other = make(name, seed=1).fit(data)
    if other.settings.cross_fit or name in LEARNED:
        assert not torch.equal(other.features(data), fitted(name).features(data))
    else:
        assert torch.equal(other.features(data), fitted(name).features(data))


@every_model
def test_a_generator_is_a_seed_too(name, data):
    one, other = (make(name, seed=random(4)).fit(data).features(data) for _ in range(2))
    assert torch.equal(one, other)


@every_model
def test_global_random_numbers_stay_where_they_are(name, data):
    before = torch.get_rng_state()
    make(name).fit(data).transform(data)
    assert torch.equal(torch.get_rng_state(), before)


@every_model
def test_global_random_numbers_do_not_matter(name, data, fitted):
    with torch.random.fork_rng([]):
        torch.manual_seed(1234)
        other = make(name).fit(data).features(data)
    assert torch.equal(other, fitted(name).features(data))


@every_model
def test_distances_are_exactly_0_on_the_boundary_at_all_times(name, data, fitted):
    distances = fitted(name).distances(data)
    known = fitted(name).labels_
    labelled = (known >= 0).nonzero().squeeze(1)
    assert len(labelled) == 12
    assert bool((distances[labelled, :, known[labelled]] == 0).all())
    others = torch.ones_like(distances, dtype=torch.bool)
    others[labelled, :, known[labelled]] = False
    assert bool((distances[others] > 0).all())


@every_model
def test_unfitted_use_is_refused(name, data):
    model = make(name)
    for use in (model.transform, model.features, model.inputs, model.distances):
        with pytest.raises(NotFittedError, match="fit"):
            use(data)
    for use in (lambda: model.add_labels([0], [0]), model.state):
        with pytest.raises(NotFittedError, match="fit"):
            use()


@every_model
def test_state_and_restore_bring_back_the_features(name, data, fitted):
    model = fitted(name)
    state = {part: value.clone() for part, value in model.state().items()}
    again = make(name, seed=99).restore(data, state, CLASSES)
    assert torch.equal(again.features(data), model.features(data))
    assert again.feature_names_ == model.feature_names_
    assert same(state, again.state())


@every_model
def test_a_fitted_model_can_be_copied_whole(name, data, fitted):
    model = fitted(name)
    other = copy.deepcopy(model)
    assert torch.equal(other.features(data), model.features(data))
    other.add_labels([data.num_nodes - 1], [0])
    assert int(model.labels_[-1]) == -1


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned weights", "beside x"])
def test_and_so_can_one_that_was_fitted_on_sparse_contents(name):
    data = blocks(sparse=True)
    model = make(name).fit(data)
    assert torch.equal(copy.deepcopy(model).features(data), model.features(data))


@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_a_fit_that_was_broken_off_leaves_no_fitted_model(name, data, monkeypatch):
    model = make(name)
    monkeypatch.setattr(type(model), "_learn", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(data)
    with pytest.raises(NotFittedError):
        model.transform(data)


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned potential", "learned weights", "module"])
def test_weights_on_edges_count(name, data):
    weighted = blocks(weighted=True)
    assert torch.equal(weighted.edge_index, data.edge_index)
    assert not torch.equal(make(name).fit(weighted).features(weighted), make(name).fit(data).features(data))


@pytest.mark.parametrize("horizons", ["each", "shared"])
def test_the_callback_hears_of_every_epoch_and_the_history_keeps_it(horizons, data):
    heard = []
    model = make("LGGD", horizons=horizons).fit(data, callback=heard.append)
    assert [(one.stage, one.epoch, one.epochs) for one in heard] == [("distances", e, 4) for e in range(1, 5)]
    names = ["t=1", "t=2"] if horizons == "each" else ["all times"]
    assert set(model.history_) == {f"{kind} {name}" for kind in ("train_loss", "validation_loss") for name in names}
    assert {name: [one.metrics[name] for one in heard] for name in model.history_} == model.history_


def test_learning_lowers_the_loss(data):
    model = make("LGGD", optimization=Optimization(epochs=60, patience=None, weight_decay=0.0)).fit(data)
    for name, losses in model.history_.items():
        assert losses[-1] < 0.8 * losses[0], name


# -- The number of a node means nothing --------------------------------------------------------------------------------

still = {"dropout": 0.0}
EQUIVARIANT = {
    "GGD": GGD(times=TIMES, cross_fit=0),
    "GGD, p=2": GGD(times=TIMES, cross_fit=0, p=2.0, far=5.0),
    "LGGD": LGGD(times=TIMES, optimization=FEW, initial=PropagatedMLP((8,), **still)),
    "learned potential": LGGD(times=TIMES, optimization=FEW, initial=MLP((8,), **still), potential=LearnedPotential()),
    "one model": LGGD(times=TIMES, optimization=FEW, initial=MLP((8,), **still), horizons="shared", scale=MaxScale()),
    "module": LGGD(times=TIMES, optimization=FEW, initial=Perceptron(dropout=0.0)),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", EQUIVARIANT)
def test_permuting_nodes_permutes_features(name, weighted):
    data = blocks(weighted=weighted, lonely=1)
    to = torch.randperm(data.num_nodes, generator=random(8))
    features = copy.copy(EQUIVARIANT[name]).fit(data).features(data)
    moved_data = permuted(data, to)
    moved = copy.copy(EQUIVARIANT[name]).fit(moved_data).features(moved_data)
    torch.testing.assert_close(moved[to], features, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(moved, features, rtol=1e-3, atol=1e-4)


# -- What the features are: evolve is the oracle -----------------------------------------------------------------------


def phi(model, data, problem):
    """|MLP(x)| of one problem from the parameters that were saved, in plain torch."""
    state, h, k = model.state(), data.x, 0
    while f"weight.{k}" in state:
        h = h.relu() if k else h
        h = h @ state[f"weight.{k}"][problem] + state[f"bias.{k}"][problem]
        k += 1
    return h.abs()


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("potential", [None, DegreePotential(-1.0), DegreePotential(-0.5)])
@pytest.mark.parametrize("scheme", [RK4(), Euler(step=0.05)])
def test_ggd_distances_are_those_of_evolve(p, potential, scheme):
    data = blocks(weighted=True, lonely=1)
    times = (0.3, 1.7, 4.0)
    model = GGD(times, p=p, potential=potential, scheme=scheme, far=20.0, cap=math.inf).fit(data)
    graph = Graph.from_pyg(data, dtype=torch.float32)
    given = {"times": times, "p": p, "potential": potential, "scheme": scheme, "far": 20.0}
    expected = evolve(graph, sources(model.labels_), **given).value
    torch.testing.assert_close(model.distances(data), expected.permute(1, 0, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("horizons", ["each", "shared"])
@pytest.mark.parametrize(
    "potential",
    [DegreePotential(-0.5), LearnedPotential(), LearnedTimeScale(), LearnedEdgeWeights()],
)
@pytest.mark.parametrize("more", [False, True], ids=["as fitted", "labels added"])
def test_lggd_distances_are_those_of_evolve_from_what_was_learned(horizons, potential, more):
    data = blocks(weighted=True, lonely=1)
    times = (0.5, 1.7, 2.0)
    model = LGGD(times, potential=potential, initial=MLP((8, 6)), horizons=horizons, optimization=FEW).fit(data)
    if more:
        model.add_labels([30, 31], [0, 1])
    graph = Graph.from_pyg(data, dtype=torch.float32)
    state, rho, weight = model.state(), DegreePotential(-0.5)(graph), None
    for column, _ in enumerate(times):
        problem = column if horizons == "each" else 0
        if isinstance(potential, (LearnedPotential, LearnedTimeScale)):
            rho = 2 * torch.sigmoid(state["theta_nodes"][problem]) * DegreePotential(-1.0)(graph)
        if isinstance(potential, LearnedEdgeWeights):
            rho = DegreePotential(-1.0)(graph)
            weight = graph.weight * torch.sigmoid(state["theta_edges"][problem])
        start = phi(model, data, problem)
        given = {"start": start, "potential": rho, "weight": weight, "scheme": RK4(step=0.05), "times": [times[column]]}
        expected = evolve(graph, sources(model.labels_), **given).value[0]
        # Other steps in time: the same but for the error of the scheme.
        torch.testing.assert_close(model.distances(data)[:, column], expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned weights", "module"])
def test_times_may_be_any_that_increase(name, data):
    times = (0.3, 1.75, 1.8)
    model = make(name, times=times).fit(data)
    assert model.feature_names_[::CLASSES][:3] == [f"class 0, t={t:g}" for t in times]
    assert torch.isfinite(model.features(data)).all()
    for wrong in ((2, 1), (0, 1), (), (1, 1), (1, math.inf)):
        with pytest.raises(ValueError, match="`times`"):
            make(name, times=wrong).fit(data)


# -- Cross-fitting -----------------------------------------------------------------------------------------------------


def folds_by_hand(known, priority, folds):
    """A list of node lists: the labels of each class dealt out like cards, in the order of priority."""
    hands = [[] for _ in range(folds)]
    for k in range(CLASSES):
        nodes = sorted((known == k).nonzero().squeeze(1).tolist(), key=lambda node: int(priority[node]))
        for place, node in enumerate(nodes):
            hands[place % folds].append(node)
    return hands


def check_leaves_out(model, data):
    """A labelled node has the features of a solve without its fold, all others those of a solve with all labels."""
    model.scale = Unscaled()
    features, known = model.features(data), model.labels_
    width = len(model.settings.times) * CLASSES
    everything = model.distances(data).flatten(1)
    unlabelled = known < 0
    torch.testing.assert_close(features[unlabelled, :width], everything[unlabelled])
    for hand in folds_by_hand(known, model.priority_, model.settings.cross_fit):
        without = copy.copy(model)
        without.labels_ = known.clone()
        without.labels_[hand] = -1
        torch.testing.assert_close(features[hand, :width], without.distances(data).flatten(1)[hand])
        assert bool((features[hand, :width] > 0).all())


FOLDED = ["GGD", "two folds", "five folds, one model"]


@pytest.mark.parametrize("name", FOLDED)
def test_a_labelled_node_sees_distances_without_its_own_fold(name, data, fitted):
    check_leaves_out(fitted(name), data)


@pytest.mark.parametrize("name", FOLDED)
def test_and_so_does_a_label_that_was_added(name, data, fitted):
    check_leaves_out(fitted(name).add_labels([30, 31, 32], [0, 1, 2]), data)


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("leak", ["no fold", "one class", "some nodes", "other folds"])
def test_the_check_on_cross_fitting_catches_a_leak(name, leak, data, fitted, monkeypatch):
    right = estimator.fold_of
    wrong = {
        "no fold": lambda known, priority, folds: torch.full_like(known, -1),
        "one class": lambda known, priority, folds: torch.where(known == 0, -1, right(known, priority, folds)),
        "some nodes": lambda known, priority, folds: torch.where(priority < 18, right(known, priority, folds), -1),
        "other folds": lambda known, priority, folds: right(known, torch.where(known == 1, -priority, priority), folds),
    }
    monkeypatch.setattr(estimator, "fold_of", wrong[leak])
    with pytest.raises(AssertionError):
        check_leaves_out(fitted(name), data)


def test_folds_are_even_within_every_class(data):
    known = torch.where(torch.arange(data.num_nodes) < 33, data.y, -1)
    fold = estimator.fold_of(known, torch.randperm(data.num_nodes, generator=random()), 5)
    assert bool(((fold >= 0) == (known >= 0)).all())
    for k in range(CLASSES):
        counts = torch.bincount(fold[known == k], minlength=5)
        assert int(counts.max() - counts.min()) <= 1


def test_more_folds_than_labels_and_a_single_label_are_fine():
    data = unmasked(blocks(labelled=1, validated=0))
    for model in (GGD(TIMES, cross_fit=5), make("five folds, one model")):
        features = model.fit(data).features(data)
        assert torch.isfinite(features).all()


# -- More labels -------------------------------------------------------------------------------------------------------


@every_model
def test_adding_labels_is_solving_with_the_larger_boundary(name, data, fitted):
    nodes, labels = [30, 31, 34], [0, 1, 1]
    larger = fitted(name)
    larger.labels_ = larger.labels_.clone()
    larger.labels_[nodes] = torch.tensor(labels)
    before = fitted(name).features(data)
    model = fitted(name)
    assert model.add_labels(nodes, labels) is model
    assert torch.equal(model.features(data), larger.features(data))
    assert not torch.equal(model.features(data), before)
    assert torch.equal(model.labels_, larger.labels_)
    untouched = {part: value for part, value in model.state().items() if part != "known"}
    assert same(untouched, {part: value for part, value in fitted(name).state().items() if part != "known"})


@pytest.mark.parametrize("cross_fit", [0, 2, 5])
def test_ggd_with_added_labels_is_ggd_fitted_with_them(cross_fit, data):
    given = {"times": TIMES, "cross_fit": cross_fit, "scale": Unscaled(), "seed": 3}
    added = GGD(**given).fit(data).add_labels(data.val_mask, data.y[data.val_mask])
    fresh = GGD(**given).fit(changed(data, train_mask=data.train_mask | data.val_mask, val_mask=None))
    assert torch.equal(added.features(data), fresh.features(data))
    assert torch.equal(added.labels_, fresh.labels_)


@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_adding_labels_in_turns_is_adding_them_at_once(name, data, fitted):
    at_once = fitted(name).add_labels([30, 31], [0, 1])
    in_turns = fitted(name).add_labels([31], [1]).add_labels(torch.tensor([30]), 0).add_labels([31], [1])
    assert torch.equal(at_once.features(data), in_turns.features(data))


@pytest.mark.parametrize("name", ["GGD", "LGGD"])
@pytest.mark.parametrize(
    ("nodes", "labels", "named"),
    [
        ([0], [1], "labels"),
        ([99], [0], "nodes"),
        ([-1], [0], "nodes"),
        ([30], [3], "labels"),
        ([30, 31], [0, 1, 2], "labels"),
    ],
)
def test_wrong_labels_are_refused_and_change_nothing(name, nodes, labels, named, data, fitted):
    model = fitted(name)
    before = model.labels_.clone()
    with pytest.raises(ValueError, match=f"`{named}`"):
        model.add_labels(nodes, labels)
    assert torch.equal(model.labels_, before)


def test_labels_held_out_join_the_boundary_after_learning():
    data = unmasked(blocks(each=20, labelled=20, validated=0))
    model = make("LGGD").fit(data)
    assert torch.equal(model.labels_, data.y)
    assert "validation_loss t=1" in model.history_
    without = make("LGGD", validation=0.0).fit(data)
    assert "validation_loss t=1" not in without.history_
    assert torch.equal(without.labels_, data.y)


def test_given_validation_labels_never_join_the_boundary(data, fitted):
    for name in MODELS:
        assert torch.equal(fitted(name).labels_, torch.where(data.train_mask, data.y, -1))


# -- Out of reach ------------------------------------------------------------------------------------------------------


@every_model
def test_nodes_out_of_reach_have_finite_features(name):
    data = blocks(lonely=2)
    features = make(name).fit(data).features(data)
    assert torch.isfinite(features).all()


@pytest.mark.parametrize("name", ["GGD", "LGGD", "five folds, one model", "learned weights"])
def test_the_reachable_column_tells_who_shares_a_component_with_a_label(name):
    data = blocks(lonely=2)
    model = make(name).fit(data)
    reachable = model.features(data)[:, -1]
    assert model.feature_names_[-1] == "reachable"
    assert reachable.tolist() == [1.0] * 30 + [0.0] * 6
    assert model.add_labels([34], [0]).features(data)[-6:, -1].tolist() == [
        0,
        0,
        0,
        0,
        0 if model.settings.cross_fit else 1,
        1,
    ]


def test_a_cap_bounds_distances():
    data = blocks(lonely=2)
    assert float(GGD(TIMES).fit(data).distances(data).max()) == FAR
    assert float(GGD(TIMES, cap=math.inf).fit(data).distances(data).max()) == FAR + 2
    capped = GGD(TIMES, cap=50.0, scale=Unscaled()).fit(data)
    assert float(capped.distances(data).max()) == float(capped.features(data).max()) == 50
    low = make("LGGD", cap=0.25, scale=Unscaled()).fit(data)
    assert float(low.distances(data).max()) == float(low.features(data)[:, :-1].max()) == 0.25


def test_a_graph_without_edges_is_fine():
    data = changed(blocks(), edge_index=torch.zeros(2, 0, dtype=torch.int64))
    for name in ("GGD", "LGGD", "learned weights", "learned potential"):
        assert torch.isfinite(make(name).fit(data).features(data)).all()


@pytest.mark.parametrize("scale", [Unscaled(), MaxScale(), Standardize(), SoftmaxScale(), SoftmaxScale(None)], ids=repr)
@pytest.mark.parametrize("cross_fit", [0, 2])
def test_every_scale_gives_finite_features_of_a_single_class(scale, cross_fit):
    data = unmasked(blocks(lonely=1))
    data.y = data.y.clamp(max=0)
    for model in (GGD(TIMES, scale=scale, cross_fit=cross_fit), make("LGGD", scale=scale, cross_fit=cross_fit)):
        features = model.fit(data).features(data)
        assert features.shape == (data.num_nodes, 3)
        assert torch.isfinite(features).all()


# -- Scales are fitted once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [MaxScale(), Standardize(), SoftmaxScale(None)], ids=repr)
def test_features_keep_the_scale_they_were_fitted_with(scale, data):
    model = GGD(TIMES, scale=scale, cross_fit=0, reachable=False, far=20.0).fit(data)
    fitted_to = scale.fit(model.distances(data))
    model.add_labels(data.val_mask, data.y[data.val_mask])
    expected = scale.apply(model.distances(data), fitted_to).flatten(1)
    assert torch.equal(model.features(data), expected)
    anew = scale.apply(model.distances(data), scale.fit(model.distances(data))).flatten(1)
    assert not torch.equal(model.features(data), anew)


# -- The data of the moment --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned potential", "module"])
def test_other_edges_and_contents_are_seen_and_what_was_seen_before_is_forgotten(name, data, fitted):
    model, before = fitted(name), fitted(name).features(data)
    fewer = changed(data, edge_index=data.edge_index[:, (data.edge_index != 20).all(0)])
    without = model.features(fewer)
    assert not torch.equal(without, before)
    assert torch.equal(model.features(data), before)
    assert torch.equal(model.features(changed(data, edge_index=fewer.edge_index.clone())), without)


@pytest.mark.parametrize("name", ["LGGD", "module"])
def test_contents_changed_in_place_are_seen(name):
    data = blocks()
    model = make(name).fit(data)
    before = model.features(data)
    data.x[0] += 1
    assert not torch.equal(model.features(data), before)
    data.x[0] -= 1
    torch.testing.assert_close(model.features(data), before, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned weights"])
def test_weights_changed_in_place_are_seen(name):
    data = blocks(weighted=True)
    model = make(name).fit(data)
    before = model.features(data)
    data.edge_weight.fill_(0.5)
    assert not torch.equal(model.features(data), before)


def test_learned_weights_belong_to_their_edges(data, fitted):
    fewer = changed(data, edge_index=data.edge_index[:, (data.edge_index != 20).all(0)])
    with pytest.raises(ValueError, match=r"`data`.*edges"):
        fitted("learned weights").transform(fewer)


def test_order_of_the_edges_in_the_data_does_not_matter(data, fitted):
    order = torch.randperm(data.edge_index.shape[1], generator=random(2))
    shuffled = changed(data, edge_index=data.edge_index[:, order])
    for name in ("GGD", "LGGD", "learned weights"):
        torch.testing.assert_close(fitted(name).features(shuffled), fitted(name).features(data))


def test_data_made_for_inference_are_fine(data, fitted):
    with torch.inference_mode():
        made = changed(data, x=data.x.clone(), edge_index=data.edge_index.clone())
    for name in ("GGD", "LGGD"):
        assert torch.equal(fitted(name).features(made), fitted(name).features(data))


@pytest.mark.parametrize("name", ["LGGD", "two folds", "beside x"])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_contents_give_the_features_of_dense_ones(name, layout):
    data = blocks(sparse=True)
    data.x = data.x.to_sparse(layout=layout)
    dense = changed(data, x=data.x.to_dense())
    one, other = make(name).fit(data).transform(data).x, make(name).fit(dense).transform(dense).x
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_sparse_contents_are_never_made_dense(monkeypatch):
    data = blocks(sparse=True)

    def refuse(*_, **__):
        raise MemoryError

    monkeypatch.setattr(torch.Tensor, "to_dense", refuse)
    for initial in (MLP((8,), normalize=True, zeros=2), PropagatedMLP((8,))):
        make("LGGD", initial=initial).fit(data).transform(data)
    with pytest.raises(MemoryError):
        make("LGGD", mode="concat").fit(data).transform(data)


# -- A transform without a fit -----------------------------------------------------------------------------------------


def test_an_unfitted_ggd_is_a_transform_that_remembers_nothing(data):
    transform = GGD(TIMES)
    assert torch.equal(transform(data).x, GGD(TIMES).fit_transform(data).x)
    assert not hasattr(transform, "labels_")
    other = blocks(each=9, seed=3)
    assert torch.equal(Compose([transform])(other).x, GGD(TIMES).fit_transform(other).x)


def test_a_fitted_ggd_keeps_its_labels(data, fitted):
    other = changed(data, y=data.y.flip(0))
    assert torch.equal(fitted("GGD")(other).x, fitted("GGD").transform(data).x)


def test_an_unfitted_lggd_is_no_transform(data):
    with pytest.raises(NotFittedError):
        make("LGGD")(data)


# -- Modules of the user's ---------------------------------------------------------------------------------------------


def test_a_module_of_the_users_is_never_changed(data):
    module = Perceptron()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    training, asked = module.training, [one.requires_grad for one in module.parameters()]
    make("module", initial=module).fit(data).transform(data)
    assert same(before, module.state_dict())
    assert (module.training, [one.requires_grad for one in module.parameters()]) == (training, asked)
    assert all(one.grad is None for one in module.parameters())


@pytest.mark.parametrize("classes", [2, 4])
def test_a_module_of_the_wrong_width_is_refused(classes, data):
    with pytest.raises(ValueError, match=f"`initial`.*3 classes.*{classes}"):
        make("module", initial=nn.Linear(6, classes)).fit(data)


def test_a_module_that_gives_no_rows_is_refused(data):
    class Sums(nn.Linear):
        def forward(self, x):
            return super().forward(x).sum(0)

    with pytest.raises(ValueError, match=r"`initial`.*\[3\]"):
        make("module", initial=Sums(6, 3)).fit(data)


def test_a_module_needs_contents_that_are_finite(data):
    x = data.x.clone()
    x[3, 1] = math.nan
    with pytest.raises(ValueError, match=r"`data.x`"):
        make("module").fit(changed(data, x=x))
    with pytest.raises(TypeError, match=r"`data.x`"):
        make("module").fit(changed(data, x=None, num_nodes=data.num_nodes))


# -- What is refused ---------------------------------------------------------------------------------------------------


@every_model
def test_data_without_labels_are_refused(name, data):
    with pytest.raises(TypeError, match=r"`data.y`"):
        make(name).fit(changed(data, y=None))
    with pytest.raises(ValueError, match=r"`data.y`"):
        make(name).fit(changed(data, y=torch.full_like(data.y, -1)))


@pytest.mark.parametrize("name", ["LGGD", "paper", "beside x", "GGD beside x"])
def test_data_without_contents_are_refused_where_they_are_needed(name, data):
    with pytest.raises(TypeError, match=r"`data.x`"):
        make(name).fit(changed(data, x=None)).transform(changed(data, x=None))


def test_ggd_needs_no_contents(data, fitted):
    assert torch.equal(
        GGD(TIMES).fit(changed(data, x=None)).features(changed(data, x=None)), fitted("GGD").features(data)
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_contents_that_are_not_finite_are_refused(bad, sparse, data):
    x = data.x.clone()
    x[3, 1] = bad
    with pytest.raises(ValueError, match=r"`data.x`.*finite"):
        make("LGGD").fit(changed(data, x=x.to_sparse_coo() if sparse else x))


@pytest.mark.parametrize("shape", [(36,), (35, 6), (36, 0), (36, 2, 3)])
def test_contents_of_another_shape_are_refused(shape, data):
    with pytest.raises(ValueError, match=r"`data.x`"):
        make("LGGD").fit(changed(data, x=torch.ones(shape)))


@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_directed_edges_are_refused_with_a_remedy(name, data):
    one_way = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    with pytest.raises(ValueError, match=r"`data.edge_index`.*ToUndirected"):
        make(name).fit(changed(data, edge_index=one_way))


@every_model
def test_another_number_of_nodes_is_refused(name, fitted):
    other = blocks(each=9)
    with pytest.raises(ValueError, match=r"`data` must have the 36 nodes.*27"):
        fitted(name).transform(other)


@pytest.mark.parametrize("width", [5, 7])
def test_another_number_of_contents_is_refused_by_name(width, data, fitted):
    with pytest.raises(ValueError, match=r"`data.x`"):
        fitted("LGGD").transform(changed(data, x=torch.ones(36, width)))


@pytest.mark.parametrize("label", [-2, 5, 2**61])
def test_labels_out_of_range_are_refused(label, data):
    y = data.y.clone()
    y[0] = label
    with pytest.raises(ValueError, match=r"`data.y`"):
        GGD().fit(changed(data, y=y))


@pytest.mark.parametrize("thing", [None, 3, "data", torch.ones(3)])
def test_what_is_not_data_is_refused(thing):
    with pytest.raises(TypeError, match="`data"):
        GGD().fit(thing)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"cross_fit": 1}, ValueError),
        ({"cross_fit": -1}, ValueError),
        ({"cross_fit": True}, ValueError),
        ({"cross_fit": 2.5}, ValueError),
        ({"cap": 0.0}, ValueError),
        ({"cap": math.nan}, ValueError),
        ({"mode": "append"}, ValueError),
        ({"p": 0.5}, ValueError),
        ({"scale": "max"}, TypeError),
        ({"scheme": TorchDiffEq()}, TypeError),
        ({"seed": -1}, ValueError),
        ({"seed": 1.5}, ValueError),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["GGD", "LGGD"])
def test_wrong_settings_are_refused_by_name(name, wrong, error, data):
    (setting,) = wrong
    with pytest.raises(error, match=f"`{setting}`"):
        make(name, **wrong).fit(data)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"horizons": "all"}, ValueError),
        ({"validation": 1.0}, ValueError),
        ({"validation": -0.1}, ValueError),
        ({"initial": "mlp"}, TypeError),
        ({"preset": "best"}, ValueError),
    ],
    ids=str,
)
def test_wrong_settings_of_lggd_are_refused_by_name(wrong, error, data):
    (setting,) = wrong
    with pytest.raises(error, match=f"`{setting}`"):
        make("LGGD", **wrong).fit(data)


@pytest.mark.parametrize("far", [-1.0, math.inf, math.nan])
def test_ggd_starts_at_a_finite_distance(far, data):
    with pytest.raises(ValueError, match="`far`"):
        GGD(far=far).fit(data)


# -- Presets -----------------------------------------------------------------------------------------------------------

PRESETS = {
    "default": {
        "potential": DegreePotential(-1.0),
        "initial": PropagatedMLP(hidden=(128,), dropout=0.5, hops=2, activation="relu", normalize=True, zeros=0),
        "horizons": "each",
        "scale": SoftmaxScale(temperature=1.0),
        "reachable": True,
        "cap": 1e6,
        "scheme": RK4(step=None, force=False),
        "optimization": Optimization(lr=0.01, weight_decay=0.002, epochs=150, patience=None),
    },
    "paper": {
        "potential": DegreePotential(-0.5),
        "initial": MLP(hidden=(512, 128), dropout=0.5, activation="relu", normalize=False, zeros=0),
        "horizons": "shared",
        "scale": MaxScale(),
        "reachable": False,
        "cap": math.inf,
        "scheme": RK4(step=0.1, force=True),
        "optimization": Optimization(lr=0.01, weight_decay=0.005, epochs=150, patience=None),
    },
    "release": {
        "potential": LearnedEdgeWeights(DegreePotential(-0.5)),
        "initial": MLP(hidden=(512, 128), dropout=0.5, activation="relu", normalize=False, zeros=0),
        "horizons": "each",
        "scale": MaxScale(),
        "reachable": False,
        "cap": math.inf,
        "scheme": RK4(step=0.1, force=True),
        "optimization": Optimization(lr=0.01, weight_decay=0.005, epochs=150, patience=None),
    },
}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_what_it_is_said_to_be(preset):
    shared = {"times": (1.0, 2.0, 3.0, 4.0, 5.0), "p": 1.0, "cross_fit": 0, "mode": "replace", "validation": 0.2}
    assert LGGD(preset=preset).settings == Settings(**shared, **PRESETS[preset])


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "change",
    [{"times": (0.5,)}, {"p": 2.0}, {"cross_fit": 5}, {"reachable": True}, {"cap": 3.0}, {"validation": 0.0}],
    ids=str,
)
def test_what_is_given_goes_before_the_preset(preset, change):
    assert LGGD(preset=preset, **change).settings == replace(LGGD(preset=preset).settings, **change)


def test_an_lggd_shows_what_was_given_and_no_more():
    assert repr(LGGD()) == "LGGD()"
    assert repr(LGGD(times=(1, 2), preset="paper")) == "LGGD(times=(1, 2), preset='paper')"
    assert repr(LGGD(potential=torch.ones(2))) == "LGGD(potential=tensor([1., 1.]))"


def test_a_small_data_set_of_its_own():
    data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), y=torch.tensor([0, -1, 1]), num_nodes=3)
    model = GGD(times=(50,), cross_fit=0, scale=Unscaled(), far=10.0, potential=None).fit(data)
    torch.testing.assert_close(
        model.features(data), torch.tensor([[0.0, 2, 1], [1, 1, 1], [2, 0, 1]]), atol=1e-4, rtol=0
    )


def test_shared_helpers_can_tell_a_difference():
    assert small_data.equal(torch.ones(2), torch.ones(2))
    assert not small_data.equal(torch.ones(2), torch.tensor([1.0, 1.0 + 1e-6]))
    assert not same({"a": torch.ones(1)}, {"b": torch.ones(1)})
