"""Edge weights: cosines and probabilities, edge by edge."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd import EdgeAgreement, InputError
from lggd.closed_form import edge_agreement
from lggd.closed_form.edge_agreement import (
    FEATURE_BOUNDS,
    LEAST_AGREEMENT,
    class_agreement,
    edge_cosines,
    edge_products,
    relative_agreement,
)
from small_data import blocks, random


def feature_agreement(x, edge_index):
    cosine = edge_cosines(x, edge_index)
    return relative_agreement(cosine, float(cosine.mean()))


@given(seed=st.integers(0, 999))
def test_weights_by_features_are_cosines_relative_to_their_mean(seed):
    data = blocks(seed=seed, noise=0.3)
    x = data.x.numpy().astype(float)
    i, j = data.edge_index.numpy()
    cosine = (x[i] * x[j]).sum(1) / np.linalg.norm(x[i], axis=1) / np.linalg.norm(x[j], axis=1)
    expected = np.clip(cosine / cosine.mean(), *FEATURE_BOUNDS)
    np.testing.assert_allclose(feature_agreement(data.x, data.edge_index), expected, rtol=1e-4)


@given(seed=st.integers(0, 999))
def test_weights_by_classes_are_probabilities_of_the_same_class(seed):
    data = blocks(seed=seed)
    p = torch.softmax(4 * torch.randn(36, 3, generator=random(seed)), dim=1)
    weight = class_agreement(p, data.edge_index)
    for e in range(0, data.edge_index.shape[1], 17):
        i, j = data.edge_index[:, e].tolist()
        expected = max(LEAST_AGREEMENT, sum(float(p[i, k] * p[j, k]) for k in range(3)))
        assert float(weight[e]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weigh", [feature_agreement, class_agreement])
def test_weights_are_the_same_in_both_directions_to_the_bit(weigh):
    data = blocks()
    values = torch.rand(36, 6, generator=random())
    there, back = weigh(values, data.edge_index), weigh(values, data.edge_index.flip(0))
    assert torch.equal(there, back)
    assert bool((there > 0).all())


@pytest.mark.parametrize("x", [torch.zeros(36, 2), torch.cat([torch.ones(18, 1), -torch.ones(18, 1)])])
def test_features_without_a_common_direction_weigh_nothing(x):
    edge_index = torch.stack([torch.arange(18), torch.arange(18, 36)])
    assert torch.equal(feature_agreement(x, edge_index), torch.ones(18))


def test_a_graph_without_edges_has_no_weights():
    none = torch.empty(2, 0, dtype=torch.int64)
    assert feature_agreement(torch.ones(3, 2), none).shape == (0,)
    assert class_agreement(torch.ones(3, 2), none).shape == (0,)


def test_products_in_parts_are_products_at_once(monkeypatch):
    data, seen = blocks(), []
    expected, split = edge_products(data.x, data.edge_index), torch.split
    monkeypatch.setattr(edge_agreement, "MOST_ENTRIES", 60)
    monkeypatch.setattr(torch, "split", lambda *a: seen.append(a[1]) or split(*a))
    assert torch.equal(edge_products(data.x, data.edge_index), expected)
    assert seen == [10]


@pytest.mark.parametrize("rounds", [-1, 1.5, None, True])
def test_wrong_rounds_are_refused(rounds):
    with pytest.raises(InputError, match="`rounds`"):
        EdgeAgreement(rounds)
