"""Graphs: construction, storage, and quantities that depend on a graph alone."""

from lggd.graph.edge_list import Symmetrize, read_weight
from lggd.graph.graph import Graph, check_graph

__all__ = ["Graph", "Symmetrize", "check_graph", "read_weight"]
