"""The graph autoencoder and sampled graphs against dense autograd."""

import gc
import weakref

import pytest
import torch
from torch.nn import functional
from torch_geometric.utils import to_dense_adj

from reproduction.baselines import edge_prediction, gaug
from reproduction.baselines.edge_prediction import (
    ReconstructionLoss,
    SampledGraphs,
    VariationalGraphAutoencoder,
    undirected_edges,
)
from support.baseline_cases import CASES
from support.small_data import blocks, random

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


@pytest.fixture
def entries(request, monkeypatch):
    """Of a block."""
    monkeypatch.setattr(edge_prediction, "BLOCK_ENTRIES", {"cpu": request.param})


@pytest.mark.parametrize("entries", [36, 200, 2**20], indirect=True)
def test_loss_and_gradient_are_those_of_torch(entries):
    check_reconstruction(ReconstructionLoss)


@pytest.mark.parametrize("attribute", ["positive_weight", "scale"])
def test_check_finds_a_wrong_loss(attribute):
    class Wrong(ReconstructionLoss):
        def __init__(self, *given):
            super().__init__(*given)
            setattr(self, attribute, getattr(self, attribute) * 1.01)

    with pytest.raises(AssertionError):
        check_reconstruction(Wrong)


@pytest.mark.parametrize("entries", [200], indirect=True)
def test_check_finds_a_wrong_gradient(entries, monkeypatch):
    all_pairs = edge_prediction.all_pairs

    def planted(z):
        total, grad = all_pairs(z)
        return total, grad * torch.linspace(1, 0.9, z.shape[1], dtype=z.dtype).view(1, -1, 1)

    monkeypatch.setattr(edge_prediction, "all_pairs", planted)
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


ALPHA, TEMPERATURE = 0.6, 0.7


def given_adjacency():
    return to_dense_adj(blocks(lonely=1).edge_index, max_num_nodes=36)[0]


def make_graphs(dtype=torch.float32):
    """Graphs of two problems, their embeddings and their edge probabilities."""
    pairs = undirected_edges(blocks(lonely=1).edge_index, 36)
    z = gaug.scaled_to_unit(torch.rand(2, 36, 4, generator=random(9)))
    graphs = SampledGraphs(pairs, 36, [random(0), random(1)], ALPHA, TEMPERATURE)
    if dtype == F64:
        z, graphs.adjacency = z.double(), graphs.adjacency.double()
        graphs.slopes = [slope.double() for slope in graphs.slopes]
    return graphs, z, ALPHA * z @ z.transpose(1, 2) + (1 - ALPHA) * given_adjacency()


@pytest.mark.parametrize("entries", [300, 2**20], indirect=True)
def test_samples_are_graphs_of_the_given_probabilities(entries):
    graphs, z, probability = make_graphs()
    total = torch.zeros(2, 36, 36)
    for _ in range(600):
        graphs.sample(z)
        total += graphs.adjacency
    last, eye = graphs.adjacency, torch.eye(36, dtype=torch.bool)
    assert torch.equal(last, last.transpose(1, 2))
    assert torch.equal(last, last.square())
    assert (last[:, eye] == 1).all()
    deviation = (probability * (1 - probability) / 600).clamp(min=0).sqrt()
    error = (total / 600 - probability)[:, ~eye].abs()
    assert (error <= 5 * deviation[:, ~eye] + 1e-3).all()


def dense_product(z, given, uniform, values):
    """D'^-½ A' D'^-½ applied twice, dense and by autograd."""
    results = []
    for q in range(len(z)):
        probability = ALPHA * z[q] @ z[q].t() + (1 - ALPHA) * given
        probability = probability.clamp(edge_prediction.EPSILON, 1 - edge_prediction.EPSILON)
        soft = torch.sigmoid((probability.logit() + uniform[q].logit()) / TEMPERATURE)
        straight_through = (soft > 0.5).to(z.dtype) - soft.detach() + soft
        upper = straight_through.triu(1)
        adjacency = upper + upper.t() + torch.eye(len(soft), dtype=z.dtype)
        scale = adjacency.sum(1).rsqrt()
        normalized = scale[:, None] * adjacency * scale[None, :]
        results.append(normalized @ torch.tanh(normalized @ values[q]))
    return torch.stack(results)


def check_gradient(make, monkeypatch, entries=300):
    """For the same random numbers, products and gradients are those of dense autograd."""
    monkeypatch.setattr(edge_prediction, "BLOCK_ENTRIES", {"cpu": entries})
    graphs, z, _ = make(dtype=F64)
    states = [generator.get_state() for generator in graphs.generators]
    values = torch.randn(2, 36, 3, dtype=F64, generator=random(4), requires_grad=True)
    graphs.sample(z)
    product = graphs(torch.tanh(graphs(values)))
    weights = torch.randn(product.shape, dtype=F64, generator=random(5))
    (product * weights).sum().backward()
    values_grad, values.grad = values.grad, None
    uniform = torch.full((2, 36, 36), 0.5, dtype=F64)
    for q, (generator, state) in enumerate(zip(graphs.generators, states, strict=True)):
        generator.set_state(state)
        for start, end in graphs.blocks:
            uniform[q, start:end, start:].uniform_(generator=generator)
    free = z.clone().requires_grad_()
    expected = dense_product(free, given_adjacency().double(), uniform, values)
    (expected * weights).sum().backward()
    torch.testing.assert_close(product, expected)
    torch.testing.assert_close(values_grad, values.grad)
    torch.testing.assert_close(graphs.gradient(), free.grad)


@pytest.mark.parametrize("entries", [36, 300, 2**20])
def test_gradients_are_those_of_dense_matrices(entries, monkeypatch):
    check_gradient(make_graphs, monkeypatch, entries)


def without_degree_gradient(graphs):
    sample = graphs.sample

    def planted(z):
        sample(z)
        graphs.scale = (graphs.degree.detach() + 0 * graphs.degree).rsqrt()

    graphs.sample = planted


def without_temperature(graphs):
    graphs.temperature = 1.0


@pytest.mark.parametrize("bug", [without_degree_gradient, without_temperature])
def test_check_finds_wrong_gradients(bug, monkeypatch):
    def planted(**settings):
        graphs, z, probability = make_graphs(**settings)
        bug(graphs)
        return graphs, z, probability

    with pytest.raises(AssertionError):
        check_gradient(planted, monkeypatch)


def test_gradient_before_a_backward_pass_raises():
    graphs, z, _ = make_graphs()
    graphs.sample(z)
    with pytest.raises(RuntimeError, match="must follow a backward pass"):
        graphs.gradient()


def test_sampled_graphs_are_freed_with_their_model(monkeypatch):
    made = []
    init = SampledGraphs.__init__
    monkeypatch.setattr(
        SampledGraphs, "__init__", lambda self, *given: made.append(weakref.ref(self)) or init(self, *given)
    )
    CASES["GAugO"].make().fit(blocks())
    gc.collect()
    assert [one() for one in made] == [None]
