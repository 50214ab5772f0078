"""Models that are fitted once: every kind, and saved ones with many kinds of settings."""

import copy
from functools import cache
from math import inf

import pytest

from lggd import (
    GAT,
    GCN,
    GGD,
    LGGD,
    ChebNet,
    JKNet,
    LearnedEdgeWeights,
    LearnedPotential,
    LGGDClassifier,
    Optimization,
    PropagatedMLP,
)
from lggd.scales import MaxScale, SoftmaxScale, Standardize
from support.small_data import Averages, Perceptron, blocks
from support.small_models import FEW, MODELS, TIMES, WIDTH, distances

# Features, backbone, and the kind of graph.
SAVED = {
    "plain": (distances(), GCN(hidden=8), {}),
    "sparse": (distances(initial=PropagatedMLP((8,))), GCN(hidden=8), {"sparse": True}),
    "weighted": (
        distances(potential=LearnedEdgeWeights(LearnedPotential()), cross_fit=2),
        GAT(hidden=4),
        {"weighted": True},
    ),
    "no-backbone": (distances(scale=Standardize(), per_time=False), None, {}),
    "no-features": (None, JKNet(hidden=6), {"sparse": True}),
    "ggd": (GGD(TIMES, p=inf, scale=SoftmaxScale(None), cap=inf, potential=None), ChebNet(hidden=8), {"lonely": 2}),
    "paper": (LGGD.paper(times=TIMES, optimization=FEW), GCN(hidden=8), {}),
    "release": (LGGD.release(times=TIMES, optimization=FEW), GCN(hidden=8), {}),
    "concat": (distances(concat=True, scale=MaxScale(), attr_name="f"), GCN(hidden=8), {}),
    "modules": (distances(initial=Perceptron()), Averages(WIDTH), {}),
}


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folder of all these models and the models by name, fitted, with labels added where that is possible."""
    root, models = tmp_path_factory.mktemp("models"), {}
    for name, (features, backbone, kind) in SAVED.items():
        model = LGGDClassifier(features, backbone, Optimization(epochs=5)).fit(blocks(**kind))
        if model.accepts_labels:
            model.add_labels([21], [0]).add_labels([22], [1])
        model.metadata_ = {"class_names": ["Fuchs", "Wölfin", "狐"], "name": name}
        model.save(root / name)
        models[name] = model
    return root, models


@pytest.fixture(scope="session")
def data():
    return blocks()


@pytest.fixture(scope="session")
def _fits(data):
    """Fits of every kind of model, with their progress reports."""

    @cache
    def fit(name):
        reports = []
        return MODELS[name](0).fit(data, callback=reports.append), reports

    return fit


@pytest.fixture(scope="session")
def fitted(_fits):
    """Every model, fitted once; each test gets a copy of its own."""
    return lambda name: copy.deepcopy(_fits(name)[0])


@pytest.fixture(scope="session")
def reports(_fits):
    """The progress reports of these fits."""
    return lambda name: _fits(name)[1]
