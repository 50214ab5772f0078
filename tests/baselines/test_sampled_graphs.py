"""Sampled graphs: their distribution, and their gradients against dense autograd."""

import gc
import weakref

import pytest
import torch
from torch_geometric.utils import to_dense_adj

from baseline_cases import CASES
from lggd.baselines import gaug, graph_autoencoder, sampled_graphs
from lggd.baselines.graph_autoencoder import undirected_edges
from lggd.baselines.sampled_graphs import SampledGraphs
from small_data import blocks, random

F64 = torch.float64
ALPHA, TEMPERATURE = 0.6, 0.7


def given_adjacency():
    return to_dense_adj(blocks(lonely=1).edge_index, max_num_nodes=36)[0]


def make_graphs(dtype=torch.float32):
    """Graphs of two problems, their embeddings and their edge probabilities."""
    pairs = undirected_edges(blocks(lonely=1).edge_index, 36)
    z = gaug._scaled_to_unit(torch.rand(2, 36, 4, generator=random(9)))
    graphs = SampledGraphs(pairs, 36, [random(0), random(1)], ALPHA, TEMPERATURE)
    if dtype == F64:
        z, graphs.adjacency = z.double(), graphs.adjacency.double()
        graphs.slopes = [slope.double() for slope in graphs.slopes]
    return graphs, z, ALPHA * z @ z.transpose(1, 2) + (1 - ALPHA) * given_adjacency()


@pytest.mark.parametrize("entries", [300, 2**20])
def test_samples_are_graphs_of_the_given_probabilities(entries, monkeypatch):
    monkeypatch.setattr(graph_autoencoder, "BLOCK_ENTRIES", {"cpu": entries})
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
        probability = probability.clamp(sampled_graphs.EPSILON, 1 - sampled_graphs.EPSILON)
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
    monkeypatch.setattr(graph_autoencoder, "BLOCK_ENTRIES", {"cpu": entries})
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
