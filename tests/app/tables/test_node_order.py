"""Orders of nodes in which neighbours lie close to each other."""

import numpy as np
import torch

import lggd
from lggd.app.tables import node_order
from lggd.app.tables.node_order import neighbour_order
from lggd.graph.csr import gaps


def silent(done, total):
    pass


def shuffled(edges, nodes, seed=0):
    name = np.random.default_rng(seed).permutation(nodes)
    return lggd.Graph.from_edges(name[edges], num_nodes=nodes, symmetrize="max").csr


def rank_of(order):
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return rank


def test_a_grid_is_ordered(monkeypatch):
    monkeypatch.setattr(node_order, "MAX_MEMBERS", 64)
    number = np.arange(2500).reshape(50, 50)
    edges = np.concatenate([
        np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()]), np.stack([number[:-1].ravel(), number[1:].ravel()]),
    ], 1)  # fmt: skip
    csr = shuffled(edges, 2500)
    order = neighbour_order(csr, silent)
    assert sorted(order) == list(range(2500))
    assert gaps(csr, rank_of(order))[0] < gaps(csr)[0] / 4


def test_communities_are_contiguous(monkeypatch):
    monkeypatch.setattr(node_order, "MAX_MEMBERS", 60)
    random = np.random.default_rng(0)
    first = np.repeat(np.arange(2000), 12)
    inside = first // 50 * 50 + random.integers(0, 50, len(first))
    second = np.where(random.random(len(first)) < 0.9, inside, random.integers(0, 2000, len(first)))
    csr = shuffled(np.stack([first, second])[:, first != second], 2000)
    order = neighbour_order(csr, silent)
    rank = rank_of(order)
    rows = np.repeat(np.arange(2000), np.diff(csr.indptr))
    close = np.abs(rank[rows] - rank[csr.indices]) < 100
    assert close.mean() > 0.7


def test_isolated_nodes_and_none_at_all():
    csr = lggd.Graph.from_edges([(0, 1)], num_nodes=4, symmetrize="max").csr
    assert sorted(neighbour_order(csr, silent)) == [0, 1, 2, 3]
    assert gaps(lggd.Graph.from_edges([], num_nodes=3).csr) == (0, 0)


def test_the_order_is_the_same_every_time():
    edges = np.random.default_rng(1).integers(0, 500, (2, 3000))
    csr = shuffled(edges[:, edges[0] != edges[1]], 500)
    assert torch.equal(*(torch.from_numpy(neighbour_order(csr, silent)) for _ in range(2)))
