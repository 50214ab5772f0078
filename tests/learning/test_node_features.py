"""Node features, dense, sparse and propagated, against plain products."""

import pytest
import torch
from torch_geometric.data import Data

from lggd import (
    MLP,
    PropagatedMLP,
)
from lggd.inputs import NodeData
from lggd.learning.node_features import (
    DenseFeatures,
    PropagatedFeatures,
    SparseFeatures,
    read_node_features,
)
from support.distance_cases import (
    adjacency_of,
    dense_features,
    gradients,
    graph_of,
    sparse_features,
)
from support.small_data import random


def features_of(kind, x, graph, normalize):
    data = Data(x=x, edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    if kind == "plain":
        return MLP(normalize=normalize).node_features(NodeData.read(data), graph), dense_features(
            x.to_dense(), graph, 0, normalize
        )
    hops = int(kind[0])
    made = PropagatedMLP(hops=hops, normalize=normalize).node_features(NodeData.read(data), graph)
    return made, dense_features(x.to_dense(), graph, hops, normalize)


@pytest.mark.parametrize("kind", ["plain", "1 hop", "2 hops", "3 hops"])
@pytest.mark.parametrize("given", ["dense", "mostly 0", "coo", "csr"])
@pytest.mark.parametrize("normalize", [False, True], ids=["", "normalised"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_products_equal_those_of_the_dense_matrix(kind, given, normalize):
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 40, generator=random(1))
    if given != "dense":
        x = x.masked_fill(torch.rand(x.shape, generator=random(2)) < 0.97, 0)
    x[0] = 0
    if given in ("coo", "csr"):
        x = x.to_sparse_coo() if given == "coo" else x.to_sparse_csr()
    features, expected = features_of(kind, x, graph, normalize)
    base = features.base if isinstance(features, PropagatedFeatures) else features
    assert isinstance(base, DenseFeatures if given == "dense" else SparseFeatures)
    assert features.shape[1] == expected.shape[1]
    weight = torch.randn(expected.shape[1], 4, generator=random(3), requires_grad=True)
    product = features.matmul(weight)
    torch.testing.assert_close(product, expected @ weight, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(gradients(product, [weight]), gradients(expected @ weight, [weight]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("given", ["dense", "coo"])
def test_zero_columns_are_appended(given):
    x = torch.rand(5, 3, generator=random()) + 0.1
    data = Data(x=x if given == "dense" else x.to_sparse_coo(), num_nodes=5)
    features = read_node_features(NodeData.read(data), normalize=False, zeros=2)
    weight = torch.randn(5, 4, generator=random(1))
    assert features.shape[1] == 5
    torch.testing.assert_close(features.matmul(weight), x @ weight[:3])


def test_sparse_features_are_never_made_dense(monkeypatch):
    graph = graph_of()
    x = torch.eye(graph.num_nodes).to_sparse_coo()

    def refuse(*_, **__):
        raise MemoryError

    for name in ("to_dense", "todense"):
        monkeypatch.setattr(torch.Tensor, name, refuse, raising=False)
    features, weight = (
        read_node_features(NodeData.read(Data(x=x, num_nodes=len(x))), True),
        torch.ones(len(x), 2, requires_grad=True),
    )
    PropagatedFeatures(features, adjacency_of(graph), 2, True).matmul(weight.repeat(3, 1)).sum().backward()
    assert torch.isfinite(weight.grad).all()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64, torch.float16])
def test_features_of_any_real_dtype(dtype):
    x = (torch.rand(6, 4, generator=random()) < 0.5).to(dtype)
    times = read_node_features(NodeData.read(Data(x=x, num_nodes=6)), normalize=False).matmul(torch.eye(4))
    assert times.dtype == torch.float32
    assert torch.equal(times, x.float())


@pytest.mark.parametrize("kind", [DenseFeatures, lambda x: sparse_features(x)])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_stacked_weights_equal_separate_products(kind):
    features = kind(torch.randn(9, 5, generator=random(1)))
    weight = torch.randn(3, 5, 4, generator=random(2), requires_grad=True)
    product, expected = features.matmul(weight), torch.stack([features.matmul(one) for one in weight])
    torch.testing.assert_close(product, expected)
    for ours, theirs in zip(gradients(product, [weight]), gradients(expected, [weight]), strict=True):
        torch.testing.assert_close(ours, theirs)
