"""GOAL's complement graph: ranked lists, losses, sampled pairs and edges."""

import math

import pytest
import torch
from torch.nn import functional
from torch_geometric.nn import GATConv
from torch_geometric.utils import homophily

from reproduction.baselines import Complement, complement_graph
from reproduction.baselines.complement_graph import SimilarityLoss, complement_graphs, least_similar, relevance
from support.baseline_cases import EXACT
from support.small_data import CLASSES, blocks, random

F64 = torch.float64


def close(a, b, **tolerance):
    torch.testing.assert_close(a, b, **(tolerance or EXACT))


def encoders_of(data, train=None, inputs=None, problems=1):
    train = torch.where(data.train_mask, data.y, -1).repeat(problems, 1) if train is None else train
    inputs = data.x if inputs is None else inputs
    generators = [random(q) for q in range(problems)]
    return complement_graph.Encoders(Complement(hidden=4), inputs, data.x, train, generators)


def test_attention_on_self_loops_is_a_linear_layer():
    """Why the encoder, published as an attention network on self-loops, is written as an MLP."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        layer = GATConv(4, 3)
        torch.nn.init.normal_(layer.bias)
    x = torch.randn(5, 4, generator=random())
    close(layer(x, torch.empty(2, 0, dtype=torch.int64)), layer.lin(x) + layer.bias)


def test_lists_hold_the_most_similar_of_the_class_and_then_of_others():
    labels = torch.tensor([0] * 4 + [1] * 6)
    x = torch.randn(10, 3, generator=random())
    expected = torch.zeros(10, 10)
    weight = torch.softmax(torch.tensor([4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 0)
    for i in range(10):
        by_similarity = sorted(range(10), key=lambda j: -float(x[i] @ x[j]) * (i != j))
        same = [j for j in by_similarity if labels[j] == labels[i]][:4]
        other = [j for j in by_similarity if labels[j] != labels[i]][:4]
        for position, j in enumerate(same + other):
            expected[i, j] = weight[position]
    close(relevance(x, labels), expected)


@pytest.mark.parametrize("half", range(1, 12))
def test_relevance_falls_in_three_blocks(half):
    points = complement_graph.relevance_points(half)
    block = int(0.4 * half)
    assert len(points) == 2 * half
    assert points == [4.0] * block + [3.0] * block + [2.0] * block + [1.0] * (2 * half - 3 * block)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (3,), (1,), (2, 2, 9)])
def test_lists_of_few_labels(sizes):
    labels = torch.tensor([k for k, size in enumerate(sizes) for _ in range(size)])
    found = relevance(torch.randn(len(labels), 3, generator=random()), labels)
    close(found.sum(1), torch.ones(len(labels)))
    others = 0 if len(sizes) == 1 else min(sizes)
    assert ((found > 0).sum(1) == min(sizes) + others).all()


def test_lists_have_a_maximal_length(monkeypatch):
    monkeypatch.setattr(complement_graph, "MAX_HALF", 2)
    found = relevance(torch.randn(12, 3, generator=random()), torch.arange(12) % 2)
    assert ((found > 0).sum(1) == 4).all()


def test_ranking_loss_is_minimal_at_the_relevances_up_to_a_constant():
    loss = SimilarityLoss(torch.randn(1, 8, 3, generator=random(), dtype=F64), (torch.arange(8) % 2).unsqueeze(0))
    shift = torch.randn(8, 1, generator=random(1), dtype=F64)
    best = (loss.relevance.log() + shift).masked_fill(loss.unlisted, 0.0).requires_grad_()
    least = loss.ranking(best)
    (gradient,) = torch.autograd.grad(least.sum(), best)
    close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-6)
    for seed in range(5):
        other = best.detach() + 0.1 * torch.randn(best.shape, generator=random(seed), dtype=F64)
        assert float(loss.ranking(other)) > float(least.detach())


def test_losses_are_their_definitions():
    # With classes of one node, which list themselves, and of several, which do not.
    labels = [torch.tensor([0, 0, 0, 2, 2, 1]), torch.tensor([0, 0, 1, 1])]
    padded = torch.stack([labels[0], functional.pad(labels[1], (0, 2), value=-1)])
    x, z = torch.rand(2, 6, 3, generator=random(3)), torch.randn(2, 6, 4, generator=random(4))
    left, right = torch.randn(2, 2, 7, 4, generator=random(9))
    negative = torch.rand(2, 7, generator=random(1)) < 0.6
    loss = SimilarityLoss(x, padded)
    assert not loss.relevance.diagonal(dim1=1, dim2=2)[0].all()
    found = loss(z, left, right, negative)
    for q, own in enumerate(labels):
        n = len(own)
        classes = functional.cross_entropy(z[q, :n], own)
        positives = [z[q, i] @ z[q, j] for i in range(n) for j in range(i, n) if own[i] == own[j]]
        negatives = [left[q, e] @ right[q, e] for e in range(7) if negative[q, e]]
        pairs = -torch.stack(positives).sigmoid().log().mean() - (1 - torch.stack(negatives).sigmoid()).log().mean()
        target, ranking = relevance(x[q, :n], own), []
        for i in range(n):
            listed = target[i] > 0
            ranking.append(-(target[i, listed] * torch.log_softmax(z[q, :n][listed] @ z[q, i], 0)).sum())
        close(found[q], classes + pairs + torch.stack(ranking).mean())


def test_negatives_are_no_positives(monkeypatch):
    data = blocks(each=3, labelled=2, validated=1)
    encoders = encoders_of(data, problems=2)
    assert encoders.loss.num_positives == [9, 9]
    pairs, negative = encoders.sample_pairs()
    left, right = pairs.chunk(2, dim=1)
    assert pairs.shape == (2, 18)
    assert not torch.equal(left[0], left[1])
    train = encoders.train
    for q in range(2):
        for i, j, counts in zip(left[q].tolist(), right[q].tolist(), negative[q].tolist(), strict=True):
            assert counts == (not (i <= j and train[q, i] >= 0 and train[q, i] == train[q, j]))
    monkeypatch.setattr(complement_graph, "MAX_SAMPLED_PAIRS", 5)
    assert encoders.sample_pairs()[0].shape == (2, 10)


def test_edges_lead_to_the_least_similar_candidates():
    z, candidates = torch.randn(20, 4, generator=random()), torch.tensor([3, 17, 5, 11])
    edges = least_similar(z, candidates, k=2)
    for i in range(20):
        chosen = edges[1][edges[0] == i].tolist()
        assert chosen == sorted(candidates.tolist(), key=lambda c: float(z[i] @ z[c]))[:2]
    assert least_similar(z, candidates, k=100).shape == (2, 80)


def test_complement_is_less_homophilic_than_the_graph():
    data = blocks(each=60, labelled=8, inside=0.1, outside=0.02, noise=0.05)
    train = torch.where(data.train_mask, data.y, -1).unsqueeze(0)
    (edges,) = complement_graphs(Complement(), 5, data.x, data.x, train, [0], None)
    assert edges.shape == (2, 5 * 180)
    assert edges[1].unique().numel() <= 18
    assert homophily(edges, data.y) < 0.15 < 0.5 < homophily(data.edge_index, data.y)


def test_complements_of_several_problems_are_those_of_each():
    """Also with different numbers of training nodes, and more than are compared."""
    data = blocks(each=20)
    draws = torch.rand(3, 60, generator=random(3))
    train = torch.where(draws < torch.tensor([[0.2], [0.5], [0.9]]), data.y, -1)
    for inputs in (data.x, torch.stack([data.x, data.x.flip(1), data.x + 1])):
        together = complement_graphs(Complement(epochs=30), 3, inputs, data.x, train, [5, 6, 7], None)
        for q in range(3):
            own = inputs if inputs.dim() == 2 else inputs[q : q + 1]
            (alone,) = complement_graphs(Complement(epochs=30), 3, own, data.x, train[q : q + 1], [5 + q], None)
            assert torch.equal(alone, together[q])


def test_lists_are_ranked_by_node_features_whatever_the_inputs():
    data = blocks(each=20)
    encoders = encoders_of(data, inputs=torch.randn(1, 60, CLASSES, generator=random()))
    assert encoders.weights[0].shape[2] == CLASSES
    nodes = encoders.nodes[0]
    close(encoders.loss.relevance[0], relevance(data.x[nodes], data.y[nodes]))


def test_a_limited_number_of_training_nodes_is_compared(monkeypatch):
    monkeypatch.setattr(complement_graph, "MAX_COMPARED", 10)
    data = blocks(each=20)
    encoders = encoders_of(data, train=data.y.unsqueeze(0))
    assert encoders.loss.positive.shape == (1, 10, 10)
    assert encoders.loss.classes.shape == (1, 60, CLASSES)
    assert sorted(encoders.nodes[0].tolist()) == list(range(60))
    assert encoders.nodes[0].tolist() != list(range(60))
    assert encoders.train_embeddings(None).isfinite().all()


@pytest.mark.parametrize(
    "settings",
    [{"hidden": 0}, {"layers": 1.5}, {"epochs": True}, {"lr": 0.0}, {"lr": math.nan}, {"candidates": 0.0}],
)
def test_invalid_settings_raise(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"`{name}` must"):
        Complement(**settings)
