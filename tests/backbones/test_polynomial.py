"""Scores and their propagation against dense NumPy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lggd.backbones import GPR, build_seeded, trainable_backbones
from lggd.backbones import polynomial as module
from lggd.backbones.network import no_dropout
from lggd.backbones.polynomial import pagerank_coefficients, polynomial
from lggd.errors import InputError
from lggd.graph.sparse import normalized_adjacency
from support.baseline_cases import EXACT, dense_adjacency, graph
from support.small_data import random


@given(seed=st.integers(0, 99), gamma=st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=6))
def test_polynomials_are_sums_of_dense_powers(seed, gamma):
    data = graph(seed=seed)
    scores = torch.randn(2, data.num_nodes, 3, generator=random(seed))
    adjacency = normalized_adjacency(data.edge_index, data.edge_weight, data.num_nodes)
    found = polynomial(scores, torch.tensor([gamma]), adjacency)
    dense = dense_adjacency(data)
    powers = sum(value * torch.linalg.matrix_power(dense, k) for k, value in enumerate(gamma))
    torch.testing.assert_close(found, powers @ scores, **EXACT)


@given(alpha=st.floats(0, 1), hops=st.integers(1, 20))
def test_pagerank_coefficients_sum_to_one_and_decay(alpha, hops):
    gamma = pagerank_coefficients(alpha, hops)
    assert len(gamma) == hops + 1
    assert abs(float(gamma.sum()) - 1) < 1e-5
    assert bool((gamma[:-1].diff() <= 0).all())


def test_sparse_node_features_change_nothing_but_the_order_of_sums(monkeypatch):
    data = graph()
    x = data.x * (torch.rand(data.x.shape, generator=random(1)) < 0.3)
    networks = [build_seeded(GPR(5, hops=2), 6, 3, seed=seed) for seed in range(2)]
    found = {}
    for limit in (0.0, 1.0):  # dense, sparse
        monkeypatch.setattr(module, "SPARSE", limit)
        stacked = trainable_backbones(networks, x, data.edge_index, data.edge_weight, seeds=(0, 1))
        loss = stacked.logits().square().sum()
        stacked._logits(training=False).square().sum().backward()
        found[limit] = [stacked.logits(), loss, *(value.grad for value in stacked.stacked.values())]
    for dense, sparse in zip(found[0.0], found[1.0], strict=True):
        torch.testing.assert_close(dense, sparse, **EXACT)


def test_node_features_may_all_be_zero():
    data = graph()
    networks = [build_seeded(GPR(5, hops=2), 6, 3, seed=seed) for seed in range(2)]
    logits = trainable_backbones(networks, 0 * data.x, data.edge_index, seeds=(0, 1))._logits(training=True)
    assert logits.shape == (2, data.num_nodes, 3)
    assert logits.isfinite().all()


def test_dropout_of_sparse_node_features_keeps_their_mean(monkeypatch):
    monkeypatch.setattr(module, "SPARSE", 1.0)
    data = graph()
    network = build_seeded(GPR(5, dropout=0.5), 6, 3, seed=0)
    networks = trainable_backbones([network, build_seeded(GPR(5), 6, 3, seed=1)], data.x, data.edge_index, seeds=(0, 1))
    weight = networks.stacked["first.weight"].detach()
    drawn = torch.stack([network._project(data.x, weight, networks._dropout) for _ in range(2000)])
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0, 0] / weight[0].norm(), drawn[0, 1] / weight[1].norm())
    torch.testing.assert_close(drawn.mean(0), network._project(data.x, weight, no_dropout), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("limit", [0.0, 1.0], ids=["dense", "sparse"])
def test_node_features_may_be_differentiated(limit, monkeypatch):
    monkeypatch.setattr(module, "SPARSE", limit)
    data, network = graph(), build_seeded(GPR(5, hops=2), 6, 3, seed=0).eval()
    x = data.x.clone().requires_grad_()
    network(x, data.edge_index)[0].sum().backward()
    step = 1e-2 * torch.randn(x.shape, generator=random())
    with torch.no_grad():
        ahead, behind = (network(data.x + sign * step, data.edge_index)[0].sum() for sign in (1, -1))
    assert float((x.grad * step).sum()) == pytest.approx(float(ahead - behind) / 2, rel=0.05, abs=1e-5)


def test_sparse_node_features_that_change_in_place_are_read_again(monkeypatch):
    monkeypatch.setattr(module, "SPARSE", 1.0)
    data, network = graph(), build_seeded(GPR(5, hops=2), 6, 3, seed=0).eval()
    x = data.x.clone()
    with torch.no_grad():
        network(x, data.edge_index)
        x[0] = 0
        found = network(x, data.edge_index)
    monkeypatch.setattr(module, "SPARSE", 0.0)
    torch.testing.assert_close(found, network(x, data.edge_index).detach(), **EXACT)


def test_a_network_that_predicted_in_inference_mode_can_be_trained(monkeypatch):
    monkeypatch.setattr(module, "SPARSE", 1.0)
    data, network = graph(), build_seeded(GPR(5, hops=2, dropout=0.0, propagation_dropout=0.0), 6, 3, seed=0)
    with torch.inference_mode():
        network(data.x, data.edge_index)
    network(data.x, data.edge_index).square().sum().backward()
    fresh = build_seeded(GPR(5, hops=2, dropout=0.0, propagation_dropout=0.0), 6, 3, seed=0)
    fresh(data.x, data.edge_index).square().sum().backward()
    for one, other in zip(network.parameters(), fresh.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_the_network_of_gpr_gnn_starts_at_personalized_pagerank():
    data, network = graph(), build_seeded(GPR(5, hops=4), 6, 3, seed=0).eval()
    assert network.gamma.tolist() == pytest.approx([0.1, 0.09, 0.081, 0.0729, 0.6561], rel=1e-5)
    assert sum(network.gamma.tolist()) == pytest.approx(1)
    loaded = build_seeded(GPR(5, hops=4), 6, 3, seed=1).eval()
    loaded.load_state_dict(network.state_dict())
    with torch.no_grad():
        one, other = (each(data.x, data.edge_index, data.edge_weight) for each in (network, loaded))
    assert torch.equal(one, other)


@pytest.mark.parametrize("wrong", [{"hidden": 0}, {"hops": -1}, {"hops": 1.5}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError, match=f"`{next(iter(wrong))}`"):
        GPR(**wrong)


def test_without_hops_edges_do_not_matter():
    data, network = graph(), build_seeded(GPR(5, hops=0), 6, 3, seed=0).eval()
    assert network.gamma.tolist() == [1.0]
    alone = network(data.x, torch.empty(2, 0, dtype=torch.int64))
    torch.testing.assert_close(network(data.x, data.edge_index), alone)
