"""The choices of networks: invalid settings, and parts of networks of every kind."""

import math

import pytest
import torch

from distance_cases import (
    INITIALS,
    generators,
)
from lggd import (
    MLP,
    Graph,
    PropagatedMLP,
)
from small_data import CLASSES, same


def test_invalid_input_dropout_is_rejected():
    for wrong in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="`input_dropout`"):
            MLP(input_dropout=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden": [8]}, {"hidden": (0,)}, {"hidden": (2.5,)}, {"dropout": 1.0}, {"dropout": -0.1},
        {"dropout": math.nan}, {"activation": "sine"}, {"zeros": -1}, {"zeros": 1.5},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [MLP, PropagatedMLP])
def test_invalid_settings_are_rejected_by_name(kind, wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
        kind(**wrong)


@pytest.mark.parametrize("hops", [0, -1, 1.5, True])
def test_invalid_hops_are_rejected(hops):
    with pytest.raises(ValueError, match="`hops`"):
        PropagatedMLP(hops=hops)


@pytest.mark.parametrize("pagerank", [0, 1, -0.1, 2])
def test_invalid_restart_probabilities_are_rejected(pagerank):
    with pytest.raises(ValueError, match="`pagerank` must lie between 0 and 1"):
        PropagatedMLP(pagerank=pagerank)


@pytest.mark.parametrize("initial", ["MLP", "untidy", "edges"])
def test_part_holds_the_networks_of_some_problems(initial, data):
    choice, graph = INITIALS[initial], Graph.from_pyg(data, dtype=torch.float32)
    features = choice.node_features(data, graph)
    networks = choice.networks(features, CLASSES, generators(4))
    networks(features, training=True)
    part = networks.part(slice(1, 3))
    for training in (False, True, True):
        whole, some = networks(features, training=training), part(features, training=training)
        assert some.shape == (data.num_nodes, 2, CLASSES)
        torch.testing.assert_close(some, whole[:, 1:3])
    state = {name: value.clone() for name, value in part.random_state().items()}
    assert {int(name.split(".")[0]) for name in state} == {0, 1}
    assert {owned.owner for owned in part.parameters()} <= {None, 0, 1}
    first = part(features, training=True)
    part.load_random_state(state)
    torch.testing.assert_close(part(features, training=True), first)


@pytest.mark.parametrize("initial", ["MLP", "untidy", "edges"])
def test_part_shares_nothing_with_the_others(initial, data):
    choice, graph = INITIALS[initial], Graph.from_pyg(data, dtype=torch.float32)
    features = choice.node_features(data, graph)
    networks = choice.networks(features, CLASSES, generators(4))
    part = networks.part(slice(1, 3))
    before, state = networks(features, training=False).detach().clone(), networks.random_state()
    state = {name: value.clone() for name, value in state.items()}
    learned = [owned.value for owned in part.parameters() if owned.value.requires_grad]
    assert learned
    assert all(value.is_leaf for value in learned)
    part(features, training=True).sum().backward()
    with torch.no_grad():
        for owned in part.parameters():
            owned.value.zero_()
    assert all(owned.value.grad is None for owned in networks.parameters())
    torch.testing.assert_close(networks(features, training=False), before)
    assert same(state, networks.random_state())
