"""Saved models with many kinds of settings, for the tests of files."""

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
    MaxScale,
    Optimization,
    PropagatedMLP,
    SoftmaxScale,
    Standardize,
)
from small_data import Averages, Perceptron, blocks
from small_models import FEW, TIMES, WIDTH, distances

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
