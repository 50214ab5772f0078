"""Backbones: graph neural networks from node features to logits, all called as `module(x, edge_index, edge_weight)`."""

from lggd.backbones.chebnet import ChebNet
from lggd.backbones.gat import GAT
from lggd.backbones.gcn import GCN
from lggd.backbones.jknet import JKNet
from lggd.backbones.training import BACKBONES, Backbone, build_backbone, build_seeded, trainable_backbones

__all__ = [
    "BACKBONES",
    "GAT",
    "GCN",
    "Backbone",
    "ChebNet",
    "JKNet",
    "build_backbone",
    "build_seeded",
    "trainable_backbones",
]
