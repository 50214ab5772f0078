"""Distances from a boundary of labels: `evolve` is the oracle, and folds do not see their own labels."""

import copy
import math

import pytest
import torch

from lggd import GGD, LGGD, MLP, RK4, DegreePotential, Euler, Graph, LearnedEdgeWeights, LearnedPotential, evolve
from lggd.features import distance_features
from lggd.features.distance_features import assign_folds
from lggd.learning import flow
from lggd.scales import Unscaled
from support.small_data import CLASSES, blocks, changed, random, unmasked
from support.small_features import make
from support.small_models import FEW, TIMES, learned


def sources(labels):
    return [(labels == k).nonzero().squeeze(1).tolist() for k in range(CLASSES)]


# -- The same as evolve ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("potential", [None, DegreePotential(-1.0), DegreePotential(-0.5)])
@pytest.mark.parametrize("scheme", [RK4(), Euler(step=0.05)])
def test_ggd_distances_are_those_of_evolve(p, potential, scheme):
    data = blocks(weighted=True, lonely=1)
    settings = {"times": (0.3, 1.7, 4.0), "p": p, "potential": potential, "scheme": scheme, "initial_value": 20.0}
    model = GGD(**settings, cap=math.inf).fit(data)
    graph = Graph.from_pyg(data, dtype=torch.float32)
    expected = evolve(graph, sources(model.labels_), **settings).value
    torch.testing.assert_close(model.distances(data), expected.permute(1, 0, 2), rtol=1e-5, atol=1e-5)


def phi(state, x, problem):
    """|MLP(x)| of one problem from the saved parameters, in plain torch."""
    h, k = x, 0
    while f"weight.{k}" in state:
        h = h.relu() if k else h
        h = h @ state[f"weight.{k}"][problem] + state[f"bias.{k}"][problem]
        k += 1
    return h.abs()


@pytest.mark.parametrize("per_time", [True, False])
@pytest.mark.parametrize(
    "potential",
    [DegreePotential(-0.5), LearnedPotential(), LearnedEdgeWeights()],
)
@pytest.mark.parametrize("more", [False, True], ids=["as fitted", "labels added"])
def test_lggd_distances_are_those_of_evolve_with_the_trained_parameters(per_time, potential, more):
    data = blocks(weighted=True, lonely=1)
    times = (0.5, 1.7, 2.0)
    model = LGGD(times, potential=potential, initial=MLP((8, 6)), per_time=per_time, optimization=FEW).fit(data)
    if more:
        model.add_labels([30, 31], [0, 1])
    graph = Graph.from_pyg(data, dtype=torch.float32)
    state, rho, weight = learned(model), DegreePotential(-0.5)(graph), None
    for column, time in enumerate(times):
        problem = column if per_time else 0
        if isinstance(potential, LearnedPotential):
            rho = 2 * torch.sigmoid(state["theta_nodes"][problem]) * DegreePotential(-1.0)(graph)
        if isinstance(potential, LearnedEdgeWeights):
            rho = DegreePotential(-1.0)(graph)
            weight = graph.weight * torch.sigmoid(state["theta_edges"][problem])
        settings = {"start": phi(state, data.x, problem), "potential": rho, "weight": weight, "times": [time]}
        expected = evolve(graph, sources(model.labels_), scheme=RK4(step=0.05), **settings).value[0]
        # Other steps in time: the same but for the error of the scheme.
        torch.testing.assert_close(model.distances(data)[:, column], expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["GGD", "LGGD", "learned weights", "module"])
def test_times_may_be_any_that_increase(name, data):
    times = (0.3, 1.75, 1.8)
    model = make(name, times=times).fit(data)
    assert model.feature_names_[::CLASSES][:3] == [f"class 0, t={t:g}" for t in times]
    assert torch.isfinite(model.features(data)).all()


def test_many_boundaries_are_solved_in_parts(data, fitted, monkeypatch):
    expected = fitted("five folds, all times").features(data)
    monkeypatch.setattr(flow, "MAX_COLUMNS", 2 * CLASSES)
    torch.testing.assert_close(make("five folds, all times").fit(data).features(data), expected)


# -- Folds -------------------------------------------------------------------------------------------------------------


def folds_by_hand(labels, priority, folds):
    """The nodes of each fold: those of each class in turn, in the order of priority."""
    found = [[] for _ in range(folds)]
    for k in range(CLASSES):
        nodes = sorted((labels == k).nonzero().squeeze(1).tolist(), key=lambda node: int(priority[node]))
        for place, node in enumerate(nodes):
            found[place % folds].append(node)
    return found


def check_folds(model, data):
    """A labelled node has the features of a solve without its fold, all others those of a solve with all labels."""
    model.scale = Unscaled()
    features, labels = model.features(data), model.labels_
    width = len(model.times) * CLASSES
    everything = model.distances(data).flatten(1)
    unlabelled = labels < 0
    torch.testing.assert_close(features[unlabelled, :width], everything[unlabelled])
    for fold in folds_by_hand(labels, model.priority_, model.cross_fit):
        without = copy.copy(model)
        without.labels_ = labels.clone()
        without.labels_[fold] = -1
        torch.testing.assert_close(features[fold, :width], without.distances(data).flatten(1)[fold])
        assert bool((features[fold, :width] > 0).all())


FOLDED = pytest.mark.parametrize("name", ["GGD", "two folds", "five folds, all times"])


@FOLDED
def test_a_labelled_node_does_not_see_its_own_fold(name, data, fitted):
    check_folds(fitted(name), data)
    check_folds(fitted(name).add_labels([30, 31, 32], [0, 1, 2]), data)


@FOLDED
@pytest.mark.parametrize("leak", ["no fold", "one class", "some nodes", "other folds"])
def test_the_check_on_folds_catches_a_leak(name, leak, data, monkeypatch):
    wrong = {
        "no fold": lambda labels, priority, folds: torch.full_like(labels, -1),
        "one class": lambda labels, priority, folds: torch.where(
            labels == 0, -1, assign_folds(labels, priority, folds)
        ),
        "some nodes": lambda labels, priority, folds: torch.where(
            priority < 18, assign_folds(labels, priority, folds), -1
        ),
        "other folds": lambda labels, priority, folds: assign_folds(
            labels, torch.where(labels == 1, -priority, priority), folds
        ),
    }
    monkeypatch.setattr(distance_features, "assign_folds", wrong[leak])
    with pytest.raises(AssertionError):
        check_folds(make(name).fit(data), data)


def test_folds_are_even_within_every_class(data):
    labels = torch.where(torch.arange(data.num_nodes) < 33, data.y, -1)
    fold = assign_folds(labels, torch.randperm(data.num_nodes, generator=random()), 5)
    assert bool(((fold >= 0) == (labels >= 0)).all())
    for k in range(CLASSES):
        counts = torch.bincount(fold[labels == k], minlength=5)
        assert int(counts.max() - counts.min()) <= 1


def test_there_may_be_more_folds_than_labels():
    data = unmasked(blocks(labelled=1, validated=0))
    for model in (GGD(TIMES, cross_fit=5), make("five folds, all times")):
        assert torch.isfinite(model.fit(data).features(data)).all()


@pytest.mark.parametrize("cross_fit", [0, 2, 5])
def test_ggd_with_added_labels_is_ggd_fitted_with_them(cross_fit, data):
    settings = {"times": TIMES, "cross_fit": cross_fit, "scale": Unscaled(), "seed": 3}
    added = GGD(**settings).fit(data).add_labels(data.val_mask, data.y[data.val_mask])
    fresh = GGD(**settings).fit(changed(data, train_mask=data.train_mask | data.val_mask, val_mask=None))
    assert torch.equal(added.features(data), fresh.features(data))
    assert torch.equal(added.labels_, fresh.labels_)
