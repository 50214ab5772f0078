"""Stacked MLPs against linear layers: outputs, gradients and dropout."""

import itertools

import pytest
import torch

from lggd import (
    MLP,
)
from lggd.learning.networks import Activation
from lggd.learning.node_features import DenseFeatures, PropagatedFeatures
from lggd.learning.stacked_mlps import StackedMLPs
from lggd.training.problems import draw_random_bytes, num_words
from support.distance_cases import (
    MODULES,
    adjacency_of,
    both_ways,
    generators,
    gradients,
    graph_of,
    linear_stack,
    stored,
)
from support.small_data import CLASSES, random


@both_ways
@pytest.mark.parametrize("activation", list(MODULES))
@pytest.mark.parametrize("hidden", [(), (5,), (6, 4)])
def test_outputs_equal_linear_layers(activation, hidden):
    x = torch.randn(9, 7, generator=random())
    choice = MLP(hidden, dropout=0.0, activation=activation)
    stack = choice.networks(DenseFeatures(x), CLASSES, generators(3))
    for training in (False, True):
        answer = stack(DenseFeatures(x), training=training)
        assert answer.shape == (9, 3, CLASSES)
        for q in range(3):
            torch.testing.assert_close(answer[:, q], linear_stack(stack, q, MODULES[activation])(x))


def test_initialisation_is_that_of_linear_layers_and_of_each_network_alone():
    stack = MLP((200,)).networks(DenseFeatures(torch.ones(2, 100)), CLASSES, generators(3))
    for weight, bias, fan_in in zip(stack.weights, stack.biases, (100, 200), strict=True):
        for value in (weight, bias):
            assert bool((value.abs() <= fan_in**-0.5).all())
        assert bool((weight.abs() > 0.98 * fan_in**-0.5).any())
    alone = MLP((200,)).networks(DenseFeatures(torch.ones(2, 100)), CLASSES, generators(1, first=2))
    assert torch.equal(stack.weights[0][2], alone.weights[0][0])
    assert torch.equal(stack.biases[1][2], alone.biases[1][0])
    assert not torch.equal(stack.weights[0][1], stack.weights[0][2])


def dropping(dropout, activation="relu", problems=4, width=101):
    """Networks whose hidden values would all be the activation of 1, and that answer with what is left of them."""
    stack = StackedMLPs((1, width, width), dropout, Activation(activation).function, generators(problems))
    with torch.no_grad():
        for weight, value in zip(stack.weights, (torch.ones(1, width), torch.eye(width)), strict=True):
            weight.copy_(value.expand_as(weight))
        for bias in stack.biases:
            bias.zero_()
    return stack


@both_ways
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_dropout_rate_and_mean(dropout, activation):
    stack, x = dropping(dropout, activation), DenseFeatures(torch.ones(300, 1))
    one = float(Activation(activation).function(torch.tensor(1.0)))
    dropped = stack(x, training=True).detach().permute(1, 0, 2) / one
    kept = round((1 - dropout) * 256) / 256
    torch.testing.assert_close(dropped[dropped != 0], torch.full_like(dropped[dropped != 0], 1 / kept))
    for answer in dropped:
        assert float((answer != 0).float().mean()) == pytest.approx(kept, abs=0.01)
        assert float(answer.mean()) == pytest.approx(1, abs=0.05)
    for answer, other in itertools.pairwise(dropped):
        both = float(((answer != 0) & (other != 0)).float().mean())
        assert both == pytest.approx(kept**2, abs=0.015)
    assert not torch.equal(stack(x, training=True).permute(1, 0, 2) / one, dropped)


@both_ways
@pytest.mark.parametrize("activation", list(MODULES))
def test_gradients_pass_kept_entries_only(activation):
    x = torch.randn(40, 1, generator=random(7))
    kept = dropping(0.4, width=11)(DenseFeatures(torch.ones(40, 1)), training=True).detach().permute(1, 0, 2)
    stack = StackedMLPs((1, 11, 11), 0.4, Activation(activation).function, generators(4))
    for q, generator in enumerate(stack.generators):
        generator.set_state(dropping(0.4, width=11).generators[q].get_state())
    answer = stack(DenseFeatures(x), training=True)
    hidden = MODULES[activation](x @ stack.weights[0] + stack.biases[0]) * kept
    expected = (hidden @ stack.weights[1] + stack.biases[1]).permute(1, 0, 2)
    torch.testing.assert_close(answer, expected)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


@both_ways
@pytest.mark.parametrize("nodes", [7, 8])
def test_dropout_of_each_network_is_that_of_the_network_alone(nodes):
    x = DenseFeatures(torch.randn(nodes, 5, generator=random()))
    together = MLP((6, 3), 0.5).networks(x, CLASSES, generators(3))
    alone = [MLP((6, 3), 0.5).networks(x, CLASSES, [random(q)]) for q in range(3)]
    for _ in range(2):
        expected = torch.cat([network(x, training=True) for network in alone], 1)
        torch.testing.assert_close(together(x, training=True), expected)
    assert not torch.allclose(together(x, training=True), together(x, training=False))


@both_ways
def test_no_dropout_in_evaluation_nor_of_inputs_and_outputs():
    x = DenseFeatures(torch.randn(50, 5, generator=random()))
    stack = MLP((), 0.9).networks(x, CLASSES, generators(2))
    assert torch.equal(stack(x, training=True), stack(x, training=False))


def thinning(features, share, width, problems=3):
    """Networks that answer with what is left of the features."""
    stack = StackedMLPs((width, width), 0.0, torch.relu, generators(problems), input_dropout=share)
    with torch.no_grad():
        stack.weights[0].copy_(torch.eye(width).expand_as(stack.weights[0]))
        stack.biases[0].zero_()
    return stack, stack(features, training=True).detach().permute(1, 0, 2)


kinds_of_features = pytest.mark.parametrize("kind", ["dense", "sparse"])


@both_ways
@kinds_of_features
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_input_dropout_rate_and_mean(share, kind):
    x = (torch.rand(300, 101, generator=random()) < 0.7).float()
    stack, seen = thinning(stored(x, kind), share, 101)
    kept = round((1 - share) * 256) / 256
    assert torch.equal(seen != 0, (seen != 0) & (x != 0))
    torch.testing.assert_close(seen[seen != 0], torch.full_like(seen[seen != 0], 1 / kept))
    for one in seen:
        assert float((one[x != 0] != 0).float().mean()) == pytest.approx(kept, abs=0.012)
    for one, other in itertools.pairwise(seen):
        both = (one[x != 0] != 0) & (other[x != 0] != 0)
        assert float(both.float().mean()) == pytest.approx(kept**2, abs=0.017)
    assert not torch.equal(stack(stored(x, kind), training=True).permute(1, 0, 2), seen)
    torch.testing.assert_close(stack(stored(x, kind), training=False), x[:, None].expand(-1, 3, -1))


@both_ways
@kinds_of_features
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_input_dropout_of_zeros(kind):
    assert not thinning(stored(torch.zeros(7, 5), kind), 0.5, 5)[1].any()


@both_ways
@kinds_of_features
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_with_input_dropout(kind, dropout):
    x = torch.randn(40, 9, generator=random(7)).masked_fill(torch.rand(40, 9, generator=random(8)) < 0.5, 0)
    _, seen = thinning(stored(torch.ones(40, 9), "dense") if kind == "dense" else stored(x, kind), 0.4, 9)
    seen = seen * x if kind == "dense" else seen
    after = StackedMLPs((9, 11, 5), dropout, torch.tanh, generators(3), input_dropout=0.4)
    given = after(stored(x, kind), training=True)
    # The same networks, given what is left of the features instead, once they have drawn as much.
    apart = [StackedMLPs((9, 11, 5), dropout, torch.tanh, [generator]) for generator in generators(3)]
    for thinned in apart:
        words = torch.empty(num_words(stored(x, kind).values.numel()), dtype=torch.int64)
        draw_random_bytes(words, thinned.generators[0])
    expected = torch.cat([one(DenseFeatures(left), training=True) for one, left in zip(apart, seen, strict=True)], 1)
    torch.testing.assert_close(given, expected)
    theirs = gradients(expected, [value for one in apart for value in (*one.weights, *one.biases)])
    for k, ours in enumerate(gradients(given, [*after.weights, *after.biases])):
        torch.testing.assert_close(ours, torch.cat(theirs[k::4]))


@both_ways
@kinds_of_features
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_input_dropout_of_each_network_is_that_of_the_network_alone(kind):
    x = stored(torch.randn(7, 5, generator=random()), kind)
    choice = MLP((6, 3), 0.5, input_dropout=0.5)
    together = choice.networks(x, CLASSES, generators(3))
    alone = [choice.networks(x, CLASSES, [random(q)]) for q in range(3)]
    for _ in range(2):
        expected = torch.cat([network(x, training=True) for network in alone], 1)
        torch.testing.assert_close(together(x, training=True), expected)


def test_input_dropout_needs_stored_features():
    graph = graph_of()
    features = PropagatedFeatures(DenseFeatures(torch.ones(graph.num_nodes, 3)), adjacency_of(graph), 1, True)
    with pytest.raises(TypeError, match="PropagatedFeatures"):
        MLP((4,), input_dropout=0.5).networks(features, CLASSES, generators(1))(features, training=True)


@both_ways
def test_dropout_rates_per_network():
    x, rates = DenseFeatures(torch.randn(11, 5, generator=random())), (0.5, 0.0, 0.9)
    together = MLP((6, 3), 0.1).networks(x, CLASSES, generators(3), rates)
    alone = [MLP((6, 3), rate).networks(x, CLASSES, [random(q)]) for q, rate in enumerate(rates)]
    for _ in range(2):
        expected = torch.cat([network(x, training=True) for network in alone], 1)
        torch.testing.assert_close(together(x, training=True), expected)
    for q, network in enumerate(alone):
        assert torch.equal(together.generators[q].get_state(), network.generators[0].get_state())
