"""Distance features with every kind of setting, small enough for tests."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lggd import GGD, LGGD, LearnedEdgeWeights, LearnedPotential, PropagatedMLP
from lggd.features.distance_features import DistanceFeatures
from lggd.scales import MaxScale, SoftmaxScale, Standardize, Unscaled
from support.small_data import Perceptron
from support.small_models import FEW, TIMES, distances

FEATURES = {
    "GGD": GGD(TIMES),
    "GGD, no folds": GGD(TIMES, cross_fit=0, scale=Standardize(), reachable=False),
    "GGD, concat": GGD(TIMES, concat=True, p=2.0, potential=None),
    "LGGD": LGGD(TIMES, optimization=FEW),
    "paper": LGGD.paper(times=TIMES, optimization=FEW),
    "release": LGGD.release(times=TIMES, optimization=FEW),
    "learned potential": distances(potential=LearnedPotential()),
    "learned weights": distances(potential=LearnedEdgeWeights()),
    "both learned, all times": distances(potential=LearnedEdgeWeights(LearnedPotential()), per_time=False),
    "two folds": distances(cross_fit=2, scale=MaxScale()),
    "five folds, all times": distances(cross_fit=5, per_time=False, scale=SoftmaxScale(None)),
    "concat": distances(concat=True, scale=Unscaled(), initial=PropagatedMLP((8,), hops=1)),
    "module": distances(initial=Perceptron()),
}
every_features = pytest.mark.parametrize("name", FEATURES)


def make(name: str, **changes: Any) -> DistanceFeatures:
    return copy.copy(FEATURES[name]).set_params(**changes)
