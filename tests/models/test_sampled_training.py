"""Backbones on a graph on disk: a seeded neighbourhood of the labels, and the same logits as in memory."""

import pytest
import torch

import lggd
from lggd.backbones import GAT, GCN, GPR, ChebNet, JKNet, build_seeded
from lggd.models.sampled_training import induced_edges, sample_neighbourhood, streamed_logits


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    data = lggd.load("digits")
    graph = lggd.Graph.from_pyg(data)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.1
    graph = lggd.Graph.from_edges(data.edge_index, weight, symmetrize="max", dtype=torch.float32)
    folder = tmp_path_factory.mktemp("graph") / "digits"
    graph.save(folder, x=data.x, y=torch.where(data.train_mask, data.y, -1))
    return data, graph, lggd.load(folder)


def test_neighbours_are_drawn_without_replacement_and_by_the_seed(digits):
    _, graph, stored = digits
    nodes = torch.tensor([3, 500])
    one, again, other = (sample_neighbourhood(stored.graph.csr, nodes, (4,), seed) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    rows = graph.csr.rows
    near = torch.cat([nodes, graph.csr.indices[(rows == 3) | (rows == 500)].long()])
    assert len(one) == len(nodes) + 8
    assert bool(torch.isin(one, near).all())
    whole = sample_neighbourhood(stored.graph.csr, nodes, (1000,), 0)
    assert whole.tolist() == near.unique().tolist()


def test_every_neighbour_can_be_drawn(digits):
    _, graph, stored = digits
    drawn = torch.cat([sample_neighbourhood(stored.graph.csr, torch.tensor([7]), (2,), seed) for seed in range(60)])
    row = graph.csr.indices[graph.csr.rows == 7].long()
    assert set(row.tolist()) <= set(drawn.tolist())


def test_induced_edges_are_those_between_the_nodes(digits):
    _, graph, stored = digits
    nodes = torch.arange(0, 1797, 3)
    edges, weight = induced_edges(stored.graph.csr, nodes)
    inside = torch.isin(graph.edge_index, nodes).all(0)
    assert torch.equal(nodes[edges], graph.edge_index[:, inside])
    assert torch.equal(weight, graph.weight[inside])


@pytest.mark.parametrize("backbone", [GCN(), ChebNet(), ChebNet(terms=3), JKNet(), GPR()])
def test_logits_from_disk_are_those_in_memory(digits, backbone):
    data, graph, stored = digits
    module = build_seeded(backbone, data.x.shape[1], 10, seed=0).eval()
    with torch.no_grad():
        expected = module(data.x, graph.edge_index, graph.weight)
    torch.testing.assert_close(streamed_logits(module, stored.graph, stored.x), expected, rtol=1e-4, atol=1e-5)


def test_a_network_learns_from_a_sampled_neighbourhood(digits):
    data, _, stored = digits
    model = lggd.LGGDClassifier(None, GCN(), lggd.Optimization(epochs=100)).fit(stored)
    assert float((model.predict()[data.test_mask] == data.y[data.test_mask]).float().mean()) > 0.8
    assert model.predict_proba().shape == (1797, 10)
    with_distances = lggd.LGGDClassifier(lggd.GGD(times=(1, 2)), GCN(), lggd.Optimization(epochs=5)).fit(stored)
    assert with_distances.predict().shape == (1797,)


def test_networks_that_cannot_be_applied_in_blocks_say_so(digits):
    with pytest.raises(lggd.InputError, match="edges in memory"):
        lggd.LGGDClassifier(None, GAT()).fit(digits[2])
