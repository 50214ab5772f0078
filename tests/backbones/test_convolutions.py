"""Stacked layers against PyG's."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import ChebConv, GATConv, GCNConv, JumpingKnowledge
from torch_geometric.utils import softmax

from lggd.backbones import convolutions, jknet
from lggd.graph.sparse import normalized_adjacency
from support.small_data import random
from support.stacked_cases import (
    FEATURES,
)

Q, NODES = 3, 14


def untidy():
    """One-way edges among all nodes but the last, some of them twice, some of them loops, with weights."""
    edge_index = torch.randint(NODES - 1, (2, 50), generator=random(1))
    edge_index[1, :3] = edge_index[0, :3]
    edge_index[:, 3] = edge_index[:, 4]
    return edge_index, torch.rand(50, generator=random(2), dtype=torch.float64) + 0.1


def values(*shape, seed=3):
    return torch.randn(*shape, generator=random(seed), dtype=torch.float64)


def stacked(modules):
    """Their parameters by name, `[Q, …]`."""
    each = [dict(module.named_parameters()) for module in modules]
    return {name: torch.stack([one[name] for one in each]) for name in each[0]}


def some(kind, *sizes, **settings):
    """Q layers of a kind of PyG's, with parameters that are nowhere 0."""
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        made = [kind(*sizes, **settings).double() for _ in range(Q)]
        for module in made:
            for parameter in module.parameters():
                nn.init.normal_(parameter)
    return made


def gcn():
    modules, (edge_index, weight) = some(GCNConv, FEATURES, 4), untidy()
    spread = normalized_adjacency(edge_index, weight, NODES, torch.float64)

    def ours(x, p):
        return convolutions.gcn_conv(x, p, spread)

    return modules, lambda module, x: module(x, edge_index, weight), ours


def chebyshev(terms):
    modules, (edge_index, weight) = some(ChebConv, FEATURES, 4, K=terms), untidy()
    spread = convolutions.scaled_laplacian(edge_index, weight, NODES, torch.float64)

    def ours(x, p):
        return convolutions.cheb_conv(x, p, spread)

    return modules, lambda module, x: module(x, edge_index, weight), ours


def attentive(heads):
    modules, (edge_index, _) = some(GATConv, FEATURES, 4, heads=heads), untidy()
    edges = convolutions.edges_with_loops(edge_index, None, NODES, torch.float64)

    def ours(x, p):
        each = convolutions.gat_conv(x, p, edges, lambda share: share)
        return each.transpose(1, 2).flatten(2) + p["bias"][:, None]

    return modules, lambda module, x: module(x, edge_index), ours


LAYERS = {
    "GCNConv": gcn,
    **{f"ChebConv {terms}": lambda terms=terms: chebyshev(terms) for terms in (1, 2, 3, 4, 6)},
    **{f"GATConv {heads}": lambda heads=heads: attentive(heads) for heads in (1, 3)},
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("own", [True, False], ids=["own features", "shared features"])
def test_stacked_layers_equal_pyg(layer, own):
    modules, theirs, ours = layer()
    x = (values(Q, NODES, FEATURES) if own else values(NODES, FEATURES)).requires_grad_()
    expected = torch.stack([theirs(module, x[q] if own else x) for q, module in enumerate(modules)])
    found = ours(x, stacked(modules))
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    parameters = [x, *(one for module in modules for one in module.parameters())]
    slope = values(*found.shape, seed=4)
    gradients = (torch.autograd.grad(logits, parameters, slope) for logits in (found, expected))
    torch.testing.assert_close(*gradients, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_lstm_equals_torchs(length):
    modules = some(nn.LSTM, FEATURES, 5, bidirectional=True, batch_first=True)
    sequence = [values(Q, NODES, FEATURES, seed=k).requires_grad_() for k in range(length)]
    found = torch.stack(jknet.bidirectional_lstm(sequence, stacked(modules)), dim=2)
    expected = torch.stack([module(torch.stack(sequence, dim=2)[q])[0] for q, module in enumerate(modules)])
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    parameters = [*sequence, *(one for module in modules for one in module.parameters())]
    slope = values(*found.shape, seed=4)
    # A sequence of one never gets to use its recurrent weights.
    gradients = (torch.autograd.grad(states, parameters, slope, allow_unused=True) for states in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one if one is not None else torch.zeros_like(other), other, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("length", [2, 3])
def test_jumping_knowledge_equals_pyg(length):
    modules = some(JumpingKnowledge, "lstm", FEATURES, 3)
    near = [values(Q, NODES, FEATURES, seed=k) for k in range(length)]
    expected = torch.stack([module([one[q] for one in near]) for q, module in enumerate(modules)])
    torch.testing.assert_close(jknet.jumping_knowledge(near, stacked(modules)), expected, atol=1e-12, rtol=1e-12)


def edges_with_loops():
    return convolutions.edges_with_loops(untidy()[0], None, NODES, torch.float64)


def test_attention_is_a_softmax_with_exact_gradients():
    edges, ends = edges_with_loops(), [values(NODES, 4, seed=seed).requires_grad_() for seed in (3, 4)]
    score = nn.functional.leaky_relu(ends[0][edges.columns] + ends[1][edges.rows], 0.2)
    expected = softmax(score, edges.rows, num_nodes=NODES).t()
    torch.testing.assert_close(convolutions.attention(*ends, edges), expected, atol=1e-14, rtol=1e-14)
    assert torch.autograd.gradcheck(lambda sent, received: convolutions.attention(sent, received, edges), ends)


def test_attention_of_any_size_is_finite():
    edges = edges_with_loops()
    sent = values(NODES, 1) * 1e6
    share = convolutions.attention(sent, -2 * sent, edges)
    assert torch.isfinite(share).all()
    torch.testing.assert_close(edges.row_sum(share.t().contiguous()), torch.ones(NODES, 1, dtype=torch.float64))
