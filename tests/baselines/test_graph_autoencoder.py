"""The graph autoencoder and its loss over all pairs, against dense torch."""

import pytest
import torch
from torch.nn import functional
from torch_geometric.utils import to_dense_adj

from lggd.baselines import graph_autoencoder
from lggd.baselines.graph_autoencoder import ReconstructionLoss, VariationalGraphAutoencoder, undirected_edges
from small_data import blocks, random

F64 = torch.float64


def dense_loss(z, pairs):
    """w · mean BCE with weighted positives, by torch, of z `[N, D]`."""
    n = len(z)
    target = torch.eye(n, dtype=z.dtype)
    target[pairs[0], pairs[1]] = target[pairs[1], pairs[0]] = 1
    negatives = n * n - target.sum()
    loss = functional.binary_cross_entropy_with_logits(z @ z.t(), target, pos_weight=negatives / target.sum())
    return n * n / (2 * negatives) * loss


def check_reconstruction(make):
    data = blocks(lonely=2)
    pairs = undirected_edges(data.edge_index, 36)
    z = torch.randn(2, 36, 4, dtype=F64, generator=random(), requires_grad=True)
    losses = make(pairs, 36)(z)
    (grad,) = torch.autograd.grad((losses * torch.tensor([1.0, 3.0])).sum(), z)
    expected = torch.stack([dense_loss(one, pairs) for one in z])
    (expected_grad,) = torch.autograd.grad((expected * torch.tensor([1.0, 3.0])).sum(), z)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(grad, expected_grad)


@pytest.mark.parametrize("entries", [36, 200, 2**20])
def test_loss_and_gradient_are_those_of_torch(entries, monkeypatch):
    monkeypatch.setattr(graph_autoencoder, "BLOCK_ENTRIES", {"cpu": entries})
    check_reconstruction(ReconstructionLoss)


@pytest.mark.parametrize("attribute", ["positive_weight", "scale"])
def test_check_finds_a_wrong_loss(attribute):
    class Wrong(ReconstructionLoss):
        def __init__(self, *given):
            super().__init__(*given)
            setattr(self, attribute, getattr(self, attribute) * 1.01)

    with pytest.raises(AssertionError):
        check_reconstruction(Wrong)


def test_check_finds_a_wrong_gradient(monkeypatch):
    monkeypatch.setattr(graph_autoencoder, "BLOCK_ENTRIES", {"cpu": 200})
    all_pairs = graph_autoencoder._all_pairs

    def planted(z):
        total, grad = all_pairs(z)
        return total, grad * torch.linspace(1, 0.9, z.shape[1], dtype=z.dtype).view(1, -1, 1)

    monkeypatch.setattr(graph_autoencoder, "_all_pairs", planted)
    with pytest.raises(AssertionError):
        check_reconstruction(ReconstructionLoss)


def test_variational_loss_is_its_definition():
    data = blocks(weighted=True)
    autoencoder = VariationalGraphAutoencoder(data.x.double(), data.edge_index, data.edge_weight, seed=3)
    state = autoencoder.generator.get_state()
    loss = autoencoder.loss()
    autoencoder.generator.set_state(state)
    adjacency = to_dense_adj(data.edge_index, edge_attr=data.edge_weight.double(), max_num_nodes=36)[0]
    adjacency += torch.eye(36, dtype=F64)
    scale = adjacency.sum(1).rsqrt()
    adjacency = scale[:, None] * adjacency * scale[None, :]
    x = data.x.double() / data.x.double().abs().sum(1, keepdim=True)
    first, second = (weight[0].t() for weight in autoencoder.weights)
    encoded = adjacency @ functional.elu(adjacency @ x @ first) @ second
    mean, log_std = encoded[:, :16], encoded[:, 16:]
    noise = torch.randn(1, 36, 16, dtype=F64, generator=autoencoder.generator)[0]
    divergence = -0.5 * (1 + 2 * log_std - mean**2 - log_std.exp() ** 2).sum(1).mean()
    reconstruction = dense_loss(mean + noise * log_std.exp(), undirected_edges(data.edge_index, 36))
    torch.testing.assert_close(loss, reconstruction + divergence / 36)


def test_trained_embeddings_rank_edges_above_other_pairs():
    data = blocks(each=20)
    z = VariationalGraphAutoencoder(data.x, data.edge_index, None).train(200)
    score, edge = z @ z.t(), to_dense_adj(data.edge_index, max_num_nodes=60)[0] > 0
    others = ~edge & ~torch.eye(60, dtype=torch.bool)
    assert (score[edge].view(-1, 1) > score[others].view(1, -1)).float().mean() > 0.85
