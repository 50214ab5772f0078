"""GOAL against its formulas, written out: pretraining, complement and convolution."""

import math

import pytest
import torch
from test_together import splits
from torch.nn import functional
from torch_geometric.nn import GATConv
from torch_geometric.utils import homophily

from lggd import Optimization, fit_together
from lggd.backbones.layers import gcn_adjacency
from lggd.baselines import GOAL, Complement, goal_complement
from lggd.baselines.goal import Convolutions, Shares, directions, drawn_weights
from lggd.baselines.goal_complement import (
    LikenessLoss,
    complement_graphs,
    normalised_blocks,
    relevance,
    unlike,
)
from lggd.baselines.goal_pretraining import AttentionStack
from small_data import CLASSES, blocks, changed, garbled, random

FEATURES, HIDDEN = 2 * CLASSES, 10
FEW = Optimization(lr=0.01, weight_decay=5e-4, epochs=12, patience=None)
CLOSE = {"rtol": 1e-3, "atol": 1e-4}
F64 = torch.float64


def model(**settings):
    tiny = {"k": 2, "hidden": 8, "pretraining": FEW, "complement": Complement(hidden=4, epochs=12), "optimization": FEW}
    return GOAL(**{**tiny, **settings})


def close(a, b, **tolerance):
    torch.testing.assert_close(a, b, **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))


# -- Pretraining -------------------------------------------------------------------------------------------------------


def test_the_pretraining_network_is_three_layers_of_pyg_without_activation():
    data = blocks(lonely=1)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = AttentionStack(FEATURES, CLASSES).eval()
    assert [(layer.heads, layer.out_channels) for layer in network.layers] == [(8, 16), (1, 128), (1, CLASSES)]
    x = data.x
    for layer in network.layers:
        x = layer(x, data.edge_index)
    close(network(data.x, data.edge_index), x)
    assert network.choice.dropout == 0.6


def test_stages_come_in_their_order():
    heard = []
    model().fit(blocks(), callback=lambda progress: heard.append(progress.stage))
    assert list(dict.fromkeys(heard)) == ["pretraining", "complement", "training"]
    assert heard.count("complement") == heard.count("pretraining") == heard.count("training") == 12
    heard.clear()
    model(pretrain=False).fit(blocks(), callback=lambda progress: heard.append(progress.stage))
    assert "pretraining" not in heard


# -- Complement --------------------------------------------------------------------------------------------------------


def test_attention_to_nobody_but_oneself_is_a_linear_map():
    """Why the encoder, published as an attention network on loops, is written as an MLP."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        layer = GATConv(4, 3)
        torch.nn.init.normal_(layer.bias)
    x = torch.randn(5, 4, generator=random())
    close(layer(x, torch.empty(2, 0, dtype=torch.int64)), layer.lin(x) + layer.bias)


def test_lists_have_the_most_alike_of_a_class_and_then_of_others():
    labels = torch.tensor([0] * 4 + [1] * 6)
    x = torch.randn(10, 3, generator=random())
    found = relevance(x, labels)
    expected = torch.zeros(10, 10)
    share = torch.softmax(torch.tensor([4.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 0)
    for i in range(10):
        by_likeness = sorted(range(10), key=lambda j: -float(x[i] @ x[j]) * (i != j))
        same = [j for j in by_likeness if labels[j] == labels[i]][:4]
        other = [j for j in by_likeness if labels[j] != labels[i]][:4]
        for place, j in enumerate(same + other):
            expected[i, j] = share[place]
    close(found, expected)


@pytest.mark.parametrize("half", range(1, 12))
def test_relevance_falls_in_three_blocks(half):
    points = goal_complement._points(half)
    block = int(0.4 * half)
    assert len(points) == 2 * half
    assert points == [4.0] * block + [3.0] * block + [2.0] * block + [1.0] * (2 * half - 3 * block)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (3,), (1,), (2, 2, 9)])
def test_lists_of_few_labels(sizes):
    labels = torch.tensor([k for k, size in enumerate(sizes) for _ in range(size)])
    found = relevance(torch.randn(len(labels), 3, generator=random()), labels)
    close(found.sum(1), torch.ones(len(labels)))
    of_others = 0 if len(sizes) == 1 else min(sizes)
    assert ((found > 0).sum(1) == min(sizes) + of_others).all()


def test_lists_are_no_longer_than_they_may(monkeypatch):
    monkeypatch.setattr(goal_complement, "LONGEST_HALF", 2)
    found = relevance(torch.randn(12, 3, generator=random()), torch.arange(12) % 2)
    assert ((found > 0).sum(1) == 4).all()


def test_the_order_loss_is_least_where_scores_are_relevances_up_to_a_constant():
    labels = torch.arange(8) % 2
    loss = LikenessLoss(torch.randn(1, 8, 3, generator=random(), dtype=F64), labels.unsqueeze(0))
    shift = torch.randn(8, 1, generator=random(1), dtype=F64)
    best = (loss.relevance.log() + shift).masked_fill(loss.unlisted, 0.0).requires_grad_()
    least = loss.of_order(best)
    (gradient,) = torch.autograd.grad(least.sum(), best)
    close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-6)
    for seed in range(5):
        other = best.detach() + 0.1 * torch.randn(best.shape, generator=random(seed), dtype=F64)
        assert float(loss.of_order(other)) > float(least.detach())


def test_the_losses_are_as_written():
    # Classes of one and of several nodes: of these some do not list themselves.
    labels = [torch.tensor([0, 0, 0, 2, 2, 1]), torch.tensor([0, 0, 1, 1])]
    padded = torch.stack([labels[0], functional.pad(labels[1], (0, 2), value=-1)])
    x, z = torch.rand(2, 6, 3, generator=random(3)), torch.randn(2, 6, 4, generator=random(4))
    left, right = torch.randn(2, 2, 7, 4, generator=random(9))
    apart = torch.rand(2, 7, generator=random(1)) < 0.6
    loss = LikenessLoss(x, padded)
    assert not loss.relevance.diagonal(dim1=1, dim2=2)[0].all()
    found = loss(z, left, right, apart)
    for q, own in enumerate(labels):
        n = len(own)
        of_classes = functional.cross_entropy(z[q, :n], own)
        like = [z[q, i] @ z[q, j] for i in range(n) for j in range(i, n) if own[i] == own[j]]
        others = [left[q, e] @ right[q, e] for e in range(7) if apart[q, e]]
        of_pairs = -torch.stack(like).sigmoid().log().mean() - (1 - torch.stack(others).sigmoid()).log().mean()
        given, of_order = relevance(x[q, :n], own), []
        for i in range(n):
            listed = given[i] > 0
            of_order.append(-(given[i, listed] * torch.log_softmax(z[q, :n][listed] @ z[q, i], 0)).sum())
        close(found[q], of_classes + of_pairs + torch.stack(of_order).mean())


def test_drawn_pairs_are_not_pairs_of_a_class(monkeypatch):
    data = blocks(each=3, labelled=2, validated=1)
    train = torch.where(data.train_mask, data.y, -1).repeat(2, 1)
    encoders = goal_complement._Encoders(Complement(hidden=4), data.x, data.x, train, [random(0), random(1)])
    assert encoders.loss.like_pairs == [9, 9]
    pairs, apart = encoders._drawn_pairs()
    left, right = pairs.chunk(2, dim=1)
    assert pairs.shape == (2, 18)
    assert not torch.equal(left[0], left[1])
    for q in range(2):
        for i, j, counts in zip(left[q].tolist(), right[q].tolist(), apart[q].tolist(), strict=True):
            assert counts == (not (i <= j and train[q, i] >= 0 and train[q, i] == train[q, j]))
    monkeypatch.setattr(goal_complement, "UNLIKE_PAIRS", 5)
    assert encoders._drawn_pairs()[0].shape == (2, 10)


def test_the_complement_joins_each_node_with_the_least_alike_candidates():
    z, candidates = torch.randn(20, 4, generator=random()), torch.tensor([3, 17, 5, 11])
    edges = unlike(z, candidates, k=2)
    for i in range(20):
        chosen = edges[1][edges[0] == i].tolist()
        assert chosen == sorted(candidates.tolist(), key=lambda c: float(z[i] @ z[c]))[:2]
    assert unlike(z, candidates, k=100).shape == (2, 80)


def test_complements_are_normalised_with_equal_edges_counted_and_without_loops_of_their_own():
    graphs = [torch.tensor([[0, 0, 1, 3], [1, 1, 2, 3]]), torch.tensor([[2], [0]])]
    far = normalised_blocks(graphs, num_nodes=5)
    expected = torch.zeros(10, 10)
    for q, edges in enumerate(graphs):
        dense = torch.zeros(5, 5)
        for i, j in edges.t().tolist():
            dense[i, j] += 1
            dense[j, i] += 1
        root = dense.sum(1).clamp(min=1).rsqrt()
        expected[5 * q : 5 * q + 5, 5 * q : 5 * q + 5] = root[:, None] * dense * root
    close(far.matrix.to_dense(), expected)
    assert expected[4].sum() == 0


def test_the_complement_is_less_homophilic_than_the_graph():
    data = blocks(each=60, labelled=8, inside=0.1, outside=0.02, noise=0.05)
    train = torch.where(data.train_mask, data.y, -1).unsqueeze(0)
    (edges,) = complement_graphs(Complement(), 5, data.x, data.x, train, [0], None)
    assert edges.shape == (2, 5 * 180)
    assert edges[1].unique().numel() <= 18
    assert homophily(edges, data.y) < 0.15 < 0.5 < homophily(data.edge_index, data.y)


def test_complements_of_several_problems_are_those_of_each():
    """Also where they have unlike numbers of training nodes, and more than are compared."""
    data = blocks(each=20)
    draws = torch.rand(3, 60, generator=random(3))
    train = torch.where(draws < torch.tensor([[0.2], [0.5], [0.9]]), data.y, -1)
    for features in (data.x, torch.stack([data.x, data.x.flip(1), data.x + 1])):
        together = complement_graphs(Complement(epochs=30), 3, features, data.x, train, [5, 6, 7], None)
        for q in range(3):
            x = features if features.dim() == 2 else features[q : q + 1]
            (alone,) = complement_graphs(Complement(epochs=30), 3, x, data.x, train[q : q + 1], [5 + q], None)
            assert torch.equal(alone, together[q])


def test_lists_are_ordered_by_contents_whatever_embeddings_are_made_of():
    data = blocks(each=20)
    train = torch.where(data.train_mask, data.y, -1).unsqueeze(0)
    scores = torch.randn(1, 60, CLASSES, generator=random())
    encoders = goal_complement._Encoders(Complement(hidden=4), scores, data.x, train, [random()])
    assert encoders.weights[0].shape[2] == CLASSES
    known = encoders.known[0]
    close(encoders.loss.relevance[0], relevance(data.x[known], data.y[known]))


def test_of_many_training_nodes_some_are_compared(monkeypatch):
    monkeypatch.setattr(goal_complement, "COMPARED", 10)
    data = blocks(each=20)
    encoders = goal_complement._Encoders(Complement(hidden=4), data.x, data.x, data.y.unsqueeze(0), [random()])
    assert encoders.loss.like.shape == (1, 10, 10)
    assert encoders.loss.classes.shape == (1, 60, CLASSES)
    assert sorted(encoders.known[0].tolist()) == list(range(60))
    assert encoders.known[0].tolist() != list(range(60))
    assert encoders.trained(None).isfinite().all()


# -- Convolution -------------------------------------------------------------------------------------------------------


def convolutions(alpha, beta, gamma, delta, x=None, graphs=None, problems=2):
    data = blocks(lonely=1)
    n = data.num_nodes
    x = data.x if x is None else x
    if graphs is None:
        graphs = [torch.randint(n, (2, 50), generator=random(q)) for q in range(problems)]
    near = gcn_adjacency(data.edge_index, None, n, torch.float32)
    weights = drawn_weights((FEATURES, HIDDEN, CLASSES), range(problems))
    return Convolutions(Shares(alpha, beta, gamma, delta), x, near, normalised_blocks(graphs, n), weights)


def dense_parts(made, q, n=3 * 12):
    far = made.far.matrix.to_dense()[q * n : q * n + n, q * n : q * n + n]
    return made.near.matrix.to_dense(), far, made.parameters["first"][q].t(), made.parameters["second"][q].t()


def literal(made, x, q):
    """The convolution as it is published, with the inner rn that changes nothing."""
    (near, far, first, second), s, rn = dense_parts(made, q), made.shares, functional.normalize
    h = rn(x)
    for weight in (first, second):
        p = near @ h @ weight
        h = s.alpha * h @ weight + s.beta * p - s.gamma * rn(rn(far @ h) @ weight) - s.delta * rn(far @ p)
    return h


@pytest.mark.parametrize("shares", [(1, 0.5, 1.5, 0.5), (2, 4, 0, 1), (2.5, 2.5, 0.5, 0), (0, 0, 1, 2)])
def test_the_convolution_is_as_published(shares):
    made, x = convolutions(*shares), blocks(lonely=1).x
    for q, logits in enumerate(made.answers()):
        close(logits, literal(made, x, q))


def test_beta_alone_is_a_simplified_graph_convolution():
    made, x = convolutions(0, 1, 0, 0), blocks(lonely=1).x
    for q, logits in enumerate(made.answers()):
        near, _, first, second = dense_parts(made, q)
        close(logits, near @ near @ functional.normalize(x) @ first @ second)


def test_alpha_alone_is_a_linear_model():
    made, x = convolutions(1, 0, 0, 0), blocks(lonely=1).x
    for q, logits in enumerate(made.answers()):
        _, _, first, second = dense_parts(made, q)
        close(logits, functional.normalize(x) @ first @ second)


def test_gamma_alone_gives_rows_of_that_length():
    ring = torch.stack([torch.arange(36), (torch.arange(36) + 5) % 36])
    made = convolutions(0, 0, 1.5, 0, graphs=[ring, ring.flip(1)])
    close(made.answers().norm(dim=2), torch.full((2, 36), 1.5))


def test_an_empty_complement_takes_nothing_off():
    empty = [torch.empty(2, 0, dtype=torch.int64)] * 2
    close(convolutions(1, 2, 3, 4, graphs=empty).answers(), convolutions(1, 2, 0, 0).answers())


def test_nodes_without_features_or_edges_leave_gradients_finite():
    x = blocks(lonely=1).x.clone()
    x[:5] = 0
    x[-3:] = 0
    made = convolutions(1, 0.5, 1.5, 0.5, x=x, graphs=[torch.tensor([[0, 1, 20], [2, 3, 35]])] * 2)
    logits = made._logits()
    torch.log_softmax(logits, 2)[:, :, 0].sum().backward()
    assert logits.isfinite().all()
    assert all(value.grad.isfinite().all() for value in made.parameters.values())


def test_directions():
    rows = torch.randn(4, 3, generator=random(), dtype=F64, requires_grad=True)
    close(directions(rows), functional.normalize(rows))
    assert torch.autograd.gradcheck(directions, (rows,))
    nothing = torch.zeros(2, 3, requires_grad=True)
    directions(nothing).sum().backward()
    assert directions(nothing).abs().max() == nothing.grad.abs().max() == 0


# -- The whole ---------------------------------------------------------------------------------------------------------


def accuracy_of(**settings):
    data = blocks(each=60, labelled=5, validated=10, inside=0.1, outside=0.02, noise=0.3)
    some = Optimization(weight_decay=5e-4, epochs=60)
    return (
        model(pretraining=some, complement=Complement(), hidden=32, optimization=some, **settings).fit(data).score(data)
    )


@pytest.mark.parametrize("settings", [{}, {"pretrain": False, "gamma": 0.5}, {"gamma": 0.0, "delta": 0.0}])
def test_it_learns(settings):
    assert accuracy_of(**settings) > 0.8


def test_pretraining_changes_the_complement_alone():
    data = blocks(lonely=2)
    found = {
        (gamma, pretrain): model(gamma=gamma, delta=0.0, pretrain=pretrain).fit(data).probabilities_
        for gamma in (0.0, 1.5)
        for pretrain in (False, True)
    }
    assert torch.equal(found[0.0, False], found[0.0, True])
    assert not torch.allclose(found[1.5, False], found[1.5, True])


@pytest.mark.parametrize("settings", [{}, {"pretrain": False}])
@pytest.mark.parametrize("lonely", [0, 2])
def test_together_as_alone(settings, lonely):
    data = splits(3, lonely=lonely)
    # Another number of training nodes.
    fewer = data[1].train_mask.clone()
    fewer[fewer.nonzero()[::4].squeeze(1)] = False
    data[1] = changed(data[1], train_mask=fewer)
    together = fit_together([model(seed=seed, **settings) for seed in range(3)], data)
    for seed, (one, own) in enumerate(zip(together, data, strict=True)):
        alone = model(seed=seed, **settings).fit(own)
        close(one.probabilities_, alone.probabilities_, **CLOSE)


@pytest.mark.parametrize("settings", [{}, {"pretrain": False}])
def test_hidden_labels_play_no_role(settings):
    data = blocks(lonely=2)
    assert torch.equal(model(**settings).fit(data).probabilities_, model(**settings).fit(garbled(data)).probabilities_)


def test_weights_are_entries_of_the_graph():
    data = blocks(weighted=True)
    assert not torch.equal(
        model(pretrain=False).fit(data).probabilities_,
        model(pretrain=False).fit(changed(data, edge_weight=None)).probabilities_,
    )


@pytest.mark.parametrize("edges", [torch.empty(2, 0, dtype=torch.int64), torch.tensor([[0, 1, 4, 4], [1, 0, 4, 5]])])
def test_hardly_any_edges(edges):
    assert model().fit(changed(blocks(), edge_index=edges)).probabilities_.isfinite().all()


def test_one_label_a_class_and_no_validation():
    data = blocks(labelled=1, validated=0)
    assert model().fit(data).probabilities_.isfinite().all()


def test_the_embedding_must_hold_all_classes():
    with pytest.raises(ValueError, match=r"`complement\.hidden` must be at least the number of classes, 3, got 2"):
        model(complement=Complement(hidden=2)).fit(blocks())


@pytest.mark.parametrize(
    "settings",
    [{"hidden": 0}, {"layers": 1.5}, {"epochs": True}, {"lr": 0.0}, {"lr": math.nan}, {"candidates": 0.0}],
)
def test_wrong_complements_are_refused(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        Complement(**settings)


def test_a_loss_that_is_not_finite_is_told():
    data = blocks()
    with pytest.raises(FloatingPointError, match="Lower its `lr`"):
        model(pretrain=False, complement=Complement(hidden=4, lr=1e30, epochs=5)).fit(data)


def test_memory_limits_how_many_share_a_pass():
    data = blocks()
    subject = type("Subject", (), {"x": data.x, "num_nodes": 36, "num_classes": 3})
    assert 1 <= model(hidden=10**9)._problems_at_once(subject) < model()._problems_at_once(subject)
