"""PyG data, parsed and checked once: the graph, the node features, the labels, and their changes."""

from lggd.inputs.labels import UNLABELLED, Labels
from lggd.inputs.node_data import NodeData

__all__ = ["UNLABELLED", "Labels", "NodeData"]
