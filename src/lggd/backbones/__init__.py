"""Backbones: graph neural networks from node features to logits, all called as `module(x, edge_index, edge_weight)`."""

from lggd.backbones.convolutions import GAT, GCN, ChebNet
from lggd.backbones.jknet import JKNet
from lggd.backbones.polynomial import APPNP, GPR, SGC, Perceptron
from lggd.backbones.training import BACKBONES, Backbone, build_seeded, trainable_backbones

__all__ = [
    "APPNP", "BACKBONES", "GAT", "GCN", "GPR", "SGC", "Backbone", "ChebNet", "JKNet", "Perceptron", "build_seeded",
    "trainable_backbones",
]  # fmt: skip
