"""GOAL's attention network."""

import torch

from lggd.baselines.goal_pretraining import AttentionNetwork
from small_data import CLASSES, blocks


def test_network_is_three_pyg_layers_without_activation():
    data = blocks(lonely=1)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        network = AttentionNetwork(2 * CLASSES, CLASSES).eval()
    assert [(layer.heads, layer.out_channels) for layer in network.layers] == [(8, 16), (1, 128), (1, CLASSES)]
    x = data.x
    for layer in network.layers:
        x = layer(x, data.edge_index)
    torch.testing.assert_close(network(data.x, data.edge_index), x, rtol=1e-4, atol=1e-5)
    assert network.choice.dropout == 0.6
