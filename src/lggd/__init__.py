"""Learned generalized geodesic distances on graphs."""

from importlib.metadata import PackageNotFoundError, version

from lggd import _waiting as _waiting  # first: it must come before torch
from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.data.datasets import load
from lggd.distances import Depth, depth, distance, shortest_path
from lggd.equation.potential import DegreePotential
from lggd.estimator import fit_together
from lggd.features import GGD, LGGD
from lggd.features.scaling import MaxScale, SoftmaxScale, Standardize, Unscaled
from lggd.graph import Graph, Symmetrize
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.learning.parameters import LearnedEdgeWeights, LearnedPotential, LearnedTimeScale
from lggd.memory import Memory
from lggd.models import (
    BackboneReadout,
    Ensemble,
    LGGDClassifier,
    LGGDPlus,
    MeanReadout,
    NearestClass,
    SelfTraining,
    load_model,
)
from lggd.models.memory_estimate import estimate_memory
from lggd.solvers.dijkstra import Dijkstra
from lggd.solvers.evolution import Evolution, evolve
from lggd.solvers.iterative import FastIterative
from lggd.solvers.marching import FastMarching
from lggd.solvers.scheme import RK4, SSPRK3, Euler, TorchDiffEq
from lggd.solvers.solution import Solution, Statistics, Status
from lggd.solvers.steady_state import evolve_to_steady_state
from lggd.training.checkpoint import Checkpoint
from lggd.training.optimization import Optimization
from lggd.training.progress import Progress

try:
    __version__ = version("lggd")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "GAT",
    "GCN",
    "GGD",
    "LGGD",
    "MLP",
    "RK4",
    "SSPRK3",
    "BackboneReadout",
    "ChebNet",
    "Checkpoint",
    "DegreePotential",
    "Depth",
    "Dijkstra",
    "Ensemble",
    "Euler",
    "Evolution",
    "FastIterative",
    "FastMarching",
    "Graph",
    "JKNet",
    "LGGDClassifier",
    "LGGDPlus",
    "LearnedEdgeWeights",
    "LearnedPotential",
    "LearnedTimeScale",
    "MaxScale",
    "MeanReadout",
    "Memory",
    "NearestClass",
    "Optimization",
    "Progress",
    "PropagatedMLP",
    "SelfTraining",
    "SoftmaxScale",
    "Solution",
    "Standardize",
    "Statistics",
    "Status",
    "Symmetrize",
    "TorchDiffEq",
    "Unscaled",
    "depth",
    "distance",
    "estimate_memory",
    "evolve",
    "evolve_to_steady_state",
    "fit_together",
    "load",
    "load_model",
    "shortest_path",
]
