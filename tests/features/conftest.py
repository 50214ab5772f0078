"""One small graph, and every kind of features fitted to it."""

import copy

import pytest

from support.distance_cases import turns  # noqa: F401 (a fixture)
from support.small_data import blocks
from support.small_features import make


@pytest.fixture(scope="session")
def data():
    return blocks()


@pytest.fixture(scope="session")
def fitted(data):
    """Fits each kind once, for the tests that only read it; `add_labels` does not change the original."""
    models = {}

    def fit(name):
        if name not in models:
            models[name] = make(name).fit(data)
        model = copy.copy(models[name])
        model.additions_ = []
        return model

    return fit
