"""Backbones: graph neural networks of one signature, and the learner that trains any of them."""

from lggd.backbones.learner import BackboneLearner, initialised
from lggd.backbones.networks import GAT, GCN, Backbone, ChebNet, JKNet, build_backbone
from lggd.training.engine import EPOCHS_WITHOUT_VALIDATION, NetworkLearner, Networks

__all__ = [
    "EPOCHS_WITHOUT_VALIDATION",
    "GAT",
    "GCN",
    "Backbone",
    "BackboneLearner",
    "ChebNet",
    "JKNet",
    "NetworkLearner",
    "Networks",
    "build_backbone",
    "initialised",
]
