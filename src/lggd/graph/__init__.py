"""Graphs: how they are built, how they are stored, and what is computed from them alone."""

from lggd.graph.edge_list import Symmetrize
from lggd.graph.graph import Graph, check_graph, read_weight

__all__ = ["Graph", "Symmetrize", "check_graph", "read_weight"]
