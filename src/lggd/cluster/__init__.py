"""Graphs beyond one machine: rows in blocks on the nodes of a Ray cluster, which exchange boundary values only."""

from lggd.cluster.connection import connect
from lggd.cluster.evolution import ClusterStatistics, evolve

__all__ = ["ClusterStatistics", "connect", "evolve"]
