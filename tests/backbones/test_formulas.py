"""The formulas of the backbones, and where they apply dropout."""

import math

import pytest
import torch
from torch.nn import functional

from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.training import problems as dropout
from lggd.training.problems import LEVELS, draw_keep_mask
from support.backbone_cases import (
    CLASSES,
    FEATURES,
    backbones_of_the_paper,
    block_model,
    dense,
    features,
    initialised,
    normalised,
    random,
    sbm_learner,
    undirected,
    untidy,
)


def test_defaults_are_those_of_the_paper():
    assert GCN() == GCN(hidden=32, dropout=0.5)
    assert GAT() == GAT(hidden=32, heads=8, dropout=0.5)
    assert ChebNet() == ChebNet(hidden=32, terms=2, dropout=0.5)
    assert JKNet() == JKNet(hidden=16, lstm_layers=3, dropout=0.5)


def test_gcn_equals_its_formula():
    module, x, edge_index = initialised(GCN(hidden=8)).double().eval(), features(dtype=torch.float64), undirected()
    a = normalised(dense(edge_index, 20) + torch.eye(20, dtype=torch.float64))
    first, second = module.first, module.second
    hidden = torch.relu(a @ (x @ first.lin.weight.T) + first.bias)
    expected = a @ (hidden @ second.lin.weight.T) + second.bias
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-14, rtol=1e-14)


@pytest.mark.parametrize("terms", [1, 2, 3, 5])
def test_chebnet_equals_its_formula(terms):
    module = initialised(ChebNet(hidden=8, terms=terms)).double().eval()
    x, edge_index = features(dtype=torch.float64), undirected()
    moved = -normalised(dense(edge_index, 20))

    def layer(x, conv):
        chebyshev = [x, moved @ x]
        while len(chebyshev) < terms:
            chebyshev.append(2 * moved @ chebyshev[-1] - chebyshev[-2])
        return sum(t @ lin.weight.T for t, lin in zip(chebyshev, conv.lins, strict=False)) + conv.bias

    expected = layer(torch.relu(layer(x, module.first)), module.second)
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-12, rtol=1e-12)


def test_gat_equals_its_formula():
    module = initialised(GAT(hidden=4, heads=3)).double().eval()
    x, edge_index = features(dtype=torch.float64), undirected()
    absent = dense(edge_index, 20) + torch.eye(20, dtype=torch.float64) == 0

    def head(x, conv, number):
        width = conv.out_channels
        value = x @ conv.lin.weight[number * width : (number + 1) * width].T
        score = (value @ conv.att_dst[0, number])[:, None] + (value @ conv.att_src[0, number])[None, :]
        return functional.leaky_relu(score, 0.2).masked_fill(absent, -math.inf).softmax(1) @ value

    hidden = torch.cat([head(x, module.first, number) for number in range(3)], dim=1) + module.first.bias
    expected = head(functional.elu(hidden), module.second, 0) + module.second.bias
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-13, rtol=1e-13)


def test_gat_widths():
    module = initialised(GAT())
    assert module.first.lin.weight.shape == (8 * 32, FEATURES)
    assert module.second.lin.weight.shape == (CLASSES, 8 * 32)
    assert module.first.att_src.shape == (1, 8, 32)
    assert module.second.att_src.shape == (1, 1, CLASSES)


def test_jknet_equals_its_formula():
    module = initialised(JKNet(hidden=6)).double().eval()
    x, edge_index = features(dtype=torch.float64), undirected()
    a = normalised(dense(edge_index, 20) + torch.eye(20, dtype=torch.float64))
    near = torch.relu(a @ (x @ module.first.lin.weight.T) + module.first.bias)
    far = torch.relu(a @ (near @ module.second.lin.weight.T) + module.second.bias)
    both = torch.stack([near, far], dim=1)
    share = module.jump.att(module.jump.lstm(both)[0]).softmax(1)
    expected = a @ (both * share).sum(1) @ module.last.weight.T + module.last.bias
    torch.testing.assert_close(module(x, edge_index), expected, atol=1e-13, rtol=1e-13)


def test_jumping_between_equal_layers_is_the_identity():
    x = torch.rand(20, 16, generator=random())
    jump = initialised(JKNet()).jump
    torch.testing.assert_close(jump([x, x]), x)
    assert jump.lstm.hidden_size == 3 * 16 // 2
    assert jump.lstm.bidirectional


def through_pyg(module, backbone, x, edge_index, edge_weight):
    """What PyG's own layers make of the same parameters, by gathering and scattering."""
    from torch_geometric.nn import APPNP

    first, second = module.first, module.second
    if isinstance(backbone, GAT):
        return second(functional.elu(first(x, edge_index)), edge_index)
    near = torch.relu(first(x, edge_index, edge_weight))
    far = second(near, edge_index, edge_weight)
    if not isinstance(backbone, JKNet):
        return far
    return module.last(APPNP(K=1, alpha=0.0)(module.jump([near, torch.relu(far)]), edge_index, edge_weight))


@backbones_of_the_paper
@pytest.mark.parametrize("weighted", [False, True])
def test_logits_and_gradients_equal_pyg(backbone, weighted):
    module, x = initialised(backbone).double().eval(), features(12, torch.float64).requires_grad_()
    edge_index, edge_weight = untidy()
    # An edge weight that is learned gets its gradient too.
    weight = edge_weight.double().requires_grad_() if weighted else None
    given = [x, *module.parameters(), *([weight] if weighted and not isinstance(backbone, GAT) else [])]
    ours, pygs = module(x, edge_index, weight), through_pyg(module, backbone, x, edge_index, weight)
    torch.testing.assert_close(ours, pygs, atol=1e-12, rtol=1e-12)
    slope = torch.rand(ours.shape, generator=random(7), dtype=torch.float64)
    gradients = (torch.autograd.grad(logits, given, slope) for logits in (ours, pygs))
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=1e-12)


def dropped(backbone, nodes, edges):
    """The shapes of what the paper drops values of, in the order in which it does; a graph has a loop a node."""
    attention = edges + nodes
    return {
        GCN: [(nodes, 8)],
        GAT: [(nodes, FEATURES), (2, attention), (nodes, 8), (1, attention)],
        ChebNet: [(nodes, 8)],
        JKNet: [(nodes, 6), (nodes, 6)],
    }[type(backbone)]


@backbones_of_the_paper
@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_applied_where_the_paper_applies_it(backbone, training, monkeypatch):
    module, edge_index, calls = initialised(backbone).train(training), undirected(), []

    def dropout(values, p, training):
        calls.append((tuple(values.shape[-2:]), p, training))
        return values

    monkeypatch.setattr(functional, "dropout", dropout)
    module(features(), edge_index)
    assert calls == [(shape, 0.5, training) for shape in dropped(backbone, 20, edge_index.shape[1])]


@backbones_of_the_paper
def test_stacked_backbones_apply_the_same_dropout(backbone, monkeypatch):
    calls = []

    def draw(generators, shape, levels):
        calls.append((len(generators), tuple(shape), levels))
        return draw_keep_mask(generators, shape, levels)

    monkeypatch.setattr(dropout, "draw_keep_mask", draw)
    sbm_learner(backbone)[0].step()
    edges = block_model()[1].shape[1]
    assert calls == [(1, shape, LEVELS // 2) for shape in dropped(backbone, 80, edges)]


def test_attention_dropout_has_an_effect():
    module, x, edge_index = initialised(GAT()), features(), undirected()
    own = {name: parameter[None] for name, parameter in module.named_parameters()}
    edges = module.read_graph(x, edge_index, None)

    def logits(drop):
        return module.logits(
            own, x, edges, lambda values: drop(values) if values.shape[-1] == len(edges.columns) else values
        )

    assert not torch.allclose(logits(torch.zeros_like), logits(lambda share: share))


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 0.9, 0.999])
def test_dropout_preserves_the_mean(rate):
    learner, _ = sbm_learner(GCN(dropout=rate))
    values = torch.ones(1, 1000, 50)
    kept = learner.trainable._dropout(values)
    assert kept.mean() == pytest.approx(1, abs=0.05 if rate < 0.99 else 0.3)
    assert (kept == 0).float().mean() == pytest.approx(rate, abs=0.01)
    assert len(kept.unique()) == (1 if rate == 0 else 2)
