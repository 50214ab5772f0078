"""PyG data as models read them, parsed and checked once: graph, node features, labels, and their changes."""

from lggd.inputs.labels import UNLABELLED, Labels
from lggd.inputs.node_data import NodeData

__all__ = ["UNLABELLED", "Labels", "NodeData"]
