"""Outputs and gradients of MLPs against autograd, network after network and at once."""

import pytest
import torch

from lggd.learning.networks import Activation
from lggd.learning.node_features import DenseFeatures, PropagatedFeatures
from lggd.learning.stacked_mlps import StackedMLPs
from support import zoo
from support.distance_cases import (
    adjacency_of,
    both_ways,
    by_autograd,
    dense_features,
    generators,
    gradients,
    graph_of,
    pageranked,
    sparse_features,
)
from support.small_data import CLASSES, random

SIZES = {"no hidden layer": (), "one": (20,), "two": (20, 5)}


def exact_stack(sizes, dropout, activation, problems=3):
    """In float64, with its answer on `features` and all its gradients by plain autograd: layer after layer."""
    stack = StackedMLPs(sizes, dropout, Activation(activation).function, generators(problems))
    for values in (stack.weights, stack.biases):
        values[:] = [value.detach().double().requires_grad_() for value in values]
    return stack


@both_ways
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("hidden", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    "dropout", [0.0, 0.4, (0.5, 0.0, 0.25)], ids=["nothing dropped", "dropout", "rates of their own"]
)
@pytest.mark.parametrize("classes", [3, 17])
def test_outputs_and_gradients_equal_autograd(activation, hidden, dropout, classes):
    x = torch.randn(37, 7, generator=random(50), dtype=zoo.F64)
    stack = exact_stack((7, *hidden, classes), dropout, activation)
    answer, expected = stack(DenseFeatures(x), training=True), by_autograd(stack, x, dropout, activation)
    torch.testing.assert_close(answer, expected)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


@both_ways
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_outputs_and_gradients_with_sparse_features():
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(50)).masked_fill(
        torch.rand(graph.num_nodes, 7, generator=random(51)) < 0.6, 0
    )
    sparse = PropagatedFeatures(sparse_features(x), adjacency_of(graph), 2, True)
    stack = StackedMLPs((21, 8, 5, CLASSES), 0.5, torch.relu, generators(3))
    answer = stack(sparse, training=True)
    expected = by_autograd(stack, dense_features(x, graph, 2, True), 0.5, "relu")
    torch.testing.assert_close(answer, expected, rtol=1e-4, atol=1e-5)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@both_ways
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_outputs_and_gradients_with_a_pagerank_of_sparse_features():
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(50)).masked_fill(
        torch.rand(graph.num_nodes, 7, generator=random(51)) < 0.6, 0
    )
    sparse = PropagatedFeatures(sparse_features(x), adjacency_of(graph), 2, True, 0.1)
    stack = StackedMLPs((28, 8, 5, CLASSES), 0.5, torch.relu, generators(3))
    answer = stack(sparse, training=True)
    far = torch.nn.functional.normalize(pageranked(x, graph, 0.1))
    expected = by_autograd(stack, torch.cat([dense_features(x, graph, 2, True), far], 1), 0.5, "relu")
    torch.testing.assert_close(answer, expected, rtol=1e-4, atol=1e-5)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
