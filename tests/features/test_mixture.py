"""Mixtures of predictions: weights by expectation maximization, and the share of the plain distance."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse.csgraph import dijkstra
from sklearn.datasets import make_circles
from sklearn.neighbors import NearestNeighbors
from torch_geometric.utils import to_scipy_sparse_matrix

import lggd
from lggd.datasets.by_name import split_by_count
from lggd.features.evolved_kernel_ridge import MIXTURE_ITERATIONS, DistanceShare, class_distances, mixture_weights
from lggd.samples import graph_data
from support.small_data import random


def test_weights_are_those_of_highest_likelihood_and_prior():
    likelihoods, prior = torch.rand(40, 3, generator=random(0)).double(), (2.0, 1.0, 0.5)
    weights = torch.tensor(mixture_weights(likelihoods, prior), dtype=torch.float64)

    def objective(w):
        return float((likelihoods @ w).log().sum() + (torch.tensor(prior).double() * w.log()).sum())

    assert abs(float(weights.sum()) - 1) < 1e-9
    for other in torch.rand(200, 3, generator=random(1)).double():
        assert objective(0.9 * weights + 0.1 * other / other.sum()) <= objective(weights) + 1e-6


@given(
    seed=st.integers(0, 999),
    labels=st.integers(0, 30),
    prior=st.lists(st.floats(0.05, 5), min_size=1, max_size=4),
    alike=st.floats(0, 1),
)
def test_weights_solve_the_conditions_of_the_stated_optimum(seed, labels, prior, alike):
    likelihoods = torch.rand(labels, len(prior), generator=random(seed), dtype=torch.float64).clamp(min=1e-3)
    likelihoods = alike * likelihoods[:, :1] + (1 - alike) * likelihoods  # up to readouts that predict the same
    counts = torch.tensor(prior, dtype=torch.float64)
    weights = torch.tensor(mixture_weights(likelihoods, prior), dtype=torch.float64)
    assert float(weights.sum()) == pytest.approx(1)
    # Concave: the objective exceeds that of the weights by at most the largest slope towards any readout.
    slopes = (likelihoods / (likelihoods @ weights)[:, None]).sum(0) + counts / weights
    total = labels + sum(prior)
    best = minimize(
        lambda z: -float(((likelihoods @ (w := torch.softmax(torch.tensor(z), 0))).log().sum()) + counts @ w.log()),
        weights.log().numpy(),
    )
    found = float((likelihoods @ weights).log().sum() + counts @ weights.log())
    assert -best.fun - found <= total * -math.log(min(prior) / sum(prior)) / MIXTURE_ITERATIONS + 1e-6
    if alike < 0.5:
        torch.testing.assert_close(slopes, torch.full_like(slopes, total), rtol=0.05, atol=0)


def test_known_weights_of_two_readouts():
    # Each is certain of the labels that the other one misses: their counts decide.
    likelihoods = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).double()
    assert mixture_weights(likelihoods, (1.0, 1.0)) == pytest.approx([3 / 5, 2 / 5], abs=1e-3)
    assert mixture_weights(likelihoods, (3.0, 0.5)) == pytest.approx([5 / 6.5, 1.5 / 6.5], abs=1e-3)
    assert mixture_weights(torch.full((9, 2), 0.3).double(), (3.0, 1.0)) == pytest.approx([0.75, 0.25])


def test_a_certain_and_wrong_prediction_does_not_decide_alone():
    likelihoods = torch.tensor([[0.9, 0.5]] * 30 + [[0.0, 0.5]]).double()
    weights = mixture_weights(likelihoods, (1.0, 1.0))
    assert weights[0] > 0.8
    # Where all readouts are wrong, how certain they are of it does not matter.
    for hopeless in ([[0.0, 0.0]], [[1e-12, 1e-6]] * 20):
        assert mixture_weights(torch.tensor(hopeless).double(), (3.0, 1.0)) == pytest.approx([0.75, 0.25])


def circles():
    X, y = make_circles(600, noise=0.08, factor=0.5, random_state=1)
    data = graph_data(X, y.astype(np.int64), NearestNeighbors(n_neighbors=10).fit(X))
    data.train_mask, data.test_mask = split_by_count(data.y, 5, 1)
    return data


def test_distances_of_classes_are_shortest_paths_for_infinite_p():
    data = circles()
    labels = torch.where(data.train_mask, data.y, -1)
    graph = lggd.Graph.from_edges(data.edge_index, num_nodes=600)
    found = class_distances(graph, labels, 3, math.inf)
    adjacency = to_scipy_sparse_matrix(data.edge_index, num_nodes=600)
    for k in range(2):
        nearest = dijkstra(adjacency, indices=(labels == k).nonzero().squeeze(1).numpy(), min_only=True)
        reached = np.isfinite(nearest)
        np.testing.assert_allclose(found[:, k].numpy()[reached], nearest[reached], rtol=1e-6)
    assert (found[:, 2] == found.max()).all()  # a class without labels


def test_a_share_that_misleads_is_zero():
    classes = torch.arange(40) % 2
    right = torch.nn.functional.one_hot(classes, 2).double()
    undecided = torch.full((40, 2), 0.5)
    assert DistanceShare.choose(undecided, 1 - right, classes).weight > 0.9
    assert DistanceShare.choose(undecided, right, classes).weight == 0  # the own class is the farther one
    assert DistanceShare.choose(0.98 * right + 0.01, 1 - right, classes).weight == 0  # nothing to gain
    assert DistanceShare.choose(undecided, torch.ones(40, 2), classes) == DistanceShare()


def test_the_share_is_the_weight_of_a_mixture():
    probabilities, distances = torch.tensor([[0.9, 0.1]]), torch.tensor([[2.0, 1.0]])
    share = DistanceShare(0.25, 3.0)
    expected = 0.75 * probabilities + 0.25 * torch.softmax(-3 * distances, dim=1)
    torch.testing.assert_close(share.mix(probabilities, distances), expected)
    assert torch.equal(DistanceShare().mix(probabilities, distances), probabilities)


def test_distances_take_part_where_points_lie_on_curves(tmp_path):
    data = circles()
    model = lggd.EvolvedKernelRidge().fit(data)
    assert model.share_.weight > 0.2
    right = (model.predict() == data.y)[data.test_mask].double().mean()
    assert right > (model.initial_.predict() == data.y)[data.test_mask].double().mean()
    model.save(tmp_path / "model")
    loaded = lggd.load_model(tmp_path / "model")
    assert loaded.share_ == model.share_
    torch.testing.assert_close(loaded.predict_proba(), model.predict_proba())


def test_new_labels_change_the_plain_distance():
    data = circles()
    model = lggd.EvolvedKernelRidge().fit(data)
    model.predict_proba()
    nodes = (model.labels_ < 0).nonzero().squeeze(1)[:4]
    model.add_labels(nodes, data.y[nodes])
    expected = class_distances(lggd.Graph.from_edges(data.edge_index, num_nodes=600), model.labels_, 2, model.p)
    model.predict_proba()
    torch.testing.assert_close(model._plain_distances(model.data_), expected)
