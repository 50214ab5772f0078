"""Backbones: graph neural networks of one signature, and their training."""

from lggd.backbones.networks import GAT, GCN, Backbone, ChebNet, JKNet, build_backbone
from lggd.backbones.training import build_seeded, trainable_backbones

__all__ = ["GAT", "GCN", "Backbone", "ChebNet", "JKNet", "build_backbone", "build_seeded", "trainable_backbones"]
