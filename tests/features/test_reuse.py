"""Distances that are learned once for several models."""

import pytest
import torch

from lggd import NearestClass, fit_together
from lggd.features.distance_training import DistanceRequest, reuse_distances
from support.small_data import blocks, splits
from support.small_models import distances, plus


@pytest.fixture
def passes(monkeypatch):
    """How many models are trained in each pass."""
    counts, train = [], DistanceRequest.train.__func__

    def counted(cls, requests, *rest):
        counts.append(len(requests))
        return train(cls, requests, *rest)

    monkeypatch.setattr(DistanceRequest, "train", classmethod(counted))
    return counts


def test_equal_distances_are_learned_once(passes):
    data = splits(2)
    with reuse_distances():
        first = [plus(seed=seed) for seed in range(2)]
        other = [plus(reads=NearestClass(), seed=seed) for seed in range(2)]
        fit_together(first, data)
        fit_together(other, data)
        assert passes == [4, 4]  # two rounds of two networks for each of two splits, once
        plus().set_params(features__model__model__times=(0.5, 0.7), features__fraction=0.0).fit(data[0])
        assert passes == [4, 4, 2]
    for seed, one in enumerate(data):
        again = plus(reads=NearestClass(), seed=seed).fit(one)
        torch.testing.assert_close(other[seed].predict_proba(), again.predict_proba(), rtol=1e-3, atol=1e-4)
    assert passes == [4, 4, 2, 2, 2, 2, 2]
    new, before = data[0].test_mask.nonzero()[0], first[0].predict_proba()
    other[0].add_labels(new, data[0].y[new])
    assert torch.equal(first[0].predict_proba(), before)


def test_reused_distances_have_their_history(passes):
    data = blocks()
    with reuse_distances():
        one, other = distances().fit(data), distances(cross_fit=2).fit(data)
    assert passes == [1]
    assert one.history_ == other.history_


@pytest.mark.parametrize("change", ["label", "validation", "x", "x in place", "edge", "seed", "optimization"])
def test_what_differs_is_learned_again(passes, change):
    data = blocks()
    other, settings = data.clone(), {}
    if change == "label":
        other.y[data.train_mask.nonzero()[0]] = 1
    elif change == "validation":
        other.val_mask[data.val_mask.nonzero()[0]] = False
    elif change == "x":
        other.x[0, 0] += 1
    elif change == "edge":
        other.edge_index = data.edge_index[:, (data.edge_index.amin(0) != data.edge_index[0, 0])]
    elif change == "x in place":
        other.x = data.x
    else:
        settings = {"seed": {"seed": 1}, "optimization": {"optimization__epochs": 3}}[change]
    with reuse_distances():
        distances().fit(data)
        if change == "x in place":
            data.x[0, 0] += 1
        distances().set_params(**settings).fit(other)
        distances(cross_fit=2).fit(data)
    assert len(passes) == 2


def test_nothing_is_reused_outside(passes):
    data = blocks()
    for _ in range(2):
        distances().fit(data)
    assert passes == [1, 1]
