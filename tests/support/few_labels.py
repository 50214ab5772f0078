"""Samples of which few are labelled, and small classifiers of samples."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from lggd import GCN, GGD, LGGD, LGGDClassifier, Optimization
from lggd.sklearn import KNNGraphClassifier

# Distances alone, nothing learned; both stages of learning, briefly; and the default, which is solved.
DISTANCES = KNNGraphClassifier(LGGDClassifier(GGD(times=(1, 2)), None), random_state=0)
LEARNED = KNNGraphClassifier(
    LGGDClassifier(LGGD(times=(1, 2), optimization=Optimization(epochs=3)), GCN(), Optimization(epochs=12, lr=0.05)),
    random_state=0,
)
SOLVED = KNNGraphClassifier(random_state=0)
ESTIMATORS = {"distances": DISTANCES, "learned": LEARNED, "solved": SOLVED}
BOTH = pytest.mark.parametrize("estimator", [DISTANCES, LEARNED], ids=["distances", "learned"])
EACH = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)


def few(truth, count, seed=0):
    """y with `count` labels of each class and -1 elsewhere."""
    rng = np.random.default_rng(seed)
    y = np.full(len(truth), -1)
    for k in np.unique(truth):
        chosen = rng.choice(np.flatnonzero(truth == k), count, replace=False)
        y[chosen] = k
    return y


def moons(count=2):
    X, truth = make_moons(300, noise=0.08, random_state=0)
    return X, truth, few(truth, count)


def accuracy(model, truth, y):
    return (model.transduction_ == truth)[y == -1].mean()
