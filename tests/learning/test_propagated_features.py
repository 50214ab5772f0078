"""Features of the neighbourhood, and their PageRank."""

import pytest
import torch

from lggd import (
    Graph,
)
from lggd.learning import node_features as propagated_features
from lggd.learning.node_features import DenseFeatures, PropagatedFeatures, propagate
from support.distance_cases import (
    adjacency_of,
    graph_of,
    pageranked,
    sparse_features,
)
from support.small_data import random


def test_rows_whose_neighbours_cancel_stay_zero():
    """Their length is 0, and nothing may be divided by it, however large the terms that cancel."""
    graph = Graph.from_edges([(0, 1), (0, 2)], num_nodes=3, symmetrize="max", dtype=torch.float32)
    x = torch.tensor([[0.0] * 40, [1.0] + [0.0] * 39, [-1.0] + [0.0] * 39])
    features = propagate(sparse_features(x), graph, 1, normalize=True)
    product = features.matmul(torch.full((80, 3), 1e3))
    assert torch.equal(product[0], torch.zeros(3))
    assert torch.isfinite(product).all()


def test_row_norms_do_not_depend_on_the_block_size(monkeypatch):
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(1))
    one = PropagatedFeatures(DenseFeatures(x), adjacency_of(graph), 2, True).row_norms
    monkeypatch.setattr(propagated_features, "BLOCK_ENTRIES", 2 * graph.num_nodes)
    for a, b in zip(one, PropagatedFeatures(DenseFeatures(x), adjacency_of(graph), 2, True).row_norms, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("normalize", [False, True])
def test_dense_blocks_equal_products(normalize):
    graph = graph_of(True)
    x = DenseFeatures(torch.randn(graph.num_nodes, 7, generator=random(1)))
    blocks, formed = PropagatedFeatures(x, adjacency_of(graph), 2, normalize), propagate(x, graph, 2, normalize)
    assert isinstance(formed, DenseFeatures)
    weight = torch.randn(3, blocks.shape[1], 4, generator=random(3))
    torch.testing.assert_close(formed.matmul(weight), blocks.matmul(weight), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", [DenseFeatures, lambda x: sparse_features(x)])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_the_last_block_is_the_pagerank_of_the_features(kind, normalize):
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(1)).relu()
    features = propagate(kind(x), graph, 1, normalize, pagerank=0.15)
    expected = pageranked(x, graph, 0.15)
    if normalize:
        expected = torch.nn.functional.normalize(expected)
    assert features.shape[1] == 21
    formed = features.matmul(torch.eye(21))
    torch.testing.assert_close(formed[:, 14:], expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(formed[:, :14], propagate(kind(x), graph, 1, normalize).matmul(torch.eye(14)))
