"""Graphs beyond one machine: rows in blocks on the nodes of a Ray cluster, which exchange boundary values only."""

from lggd.cluster.closed_form import solve
from lggd.cluster.connection import connect
from lggd.cluster.evolution import ClusterStatistics, evolve
from lggd.cluster.propagation import propagate

__all__ = ["ClusterStatistics", "connect", "evolve", "propagate", "solve"]
