"""Graphs on disk from tables larger than memory: see `build_graph`."""

from lggd.app.graph_build.build import build_graph

__all__ = ["build_graph"]
