"""Learned generalized geodesic distances on graphs."""

from importlib.metadata import PackageNotFoundError, version

from lggd.distances import Depth, depth, distance, shortest_path
from lggd.graph import Graph
from lggd.potential import DegreePotential
from lggd.solvers.dijkstra import Dijkstra
from lggd.solvers.evolution import Evolution, evolve
from lggd.solvers.iterative import FastIterative
from lggd.solvers.marching import FastMarching
from lggd.solvers.scheme import RK4, SSPRK3, Euler, TorchDiffEq
from lggd.solvers.solution import Solution, Statistics, Status

try:
    __version__ = version("lggd")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "RK4",
    "SSPRK3",
    "DegreePotential",
    "Depth",
    "Dijkstra",
    "Euler",
    "Evolution",
    "FastIterative",
    "FastMarching",
    "Graph",
    "Solution",
    "Statistics",
    "Status",
    "TorchDiffEq",
    "depth",
    "distance",
    "evolve",
    "shortest_path",
]
