"""Graphs: how they are built, how they lie in memory, and what is computed from them alone."""

from lggd.graph.graph import Graph, read_weight

__all__ = ["Graph", "read_weight"]
