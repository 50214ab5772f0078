"""Learned generalized geodesic distances on graphs.

Importing `lggd` is cheap and has no side effects: each public name loads its module, and torch, when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lggd import baselines as baselines
    from lggd import cluster as cluster
    from lggd import diffusion as diffusion
    from lggd import filters as filters
    from lggd import kernels as kernels
    from lggd import results as results
    from lggd import scales as scales
    from lggd import sklearn as sklearn
    from lggd.app import studio as studio
    from lggd.app.comparison.comparison import Comparison, compare
    from lggd.backbones import GAT, GCN, GPR, ChebNet, JKNet
    from lggd.closed_form import EdgeAgreement, KernelRidge, PseudoLabels
    from lggd.datasets.by_name import load
    from lggd.distances import depth, distance, shortest_path
    from lggd.equation import DegreePotential
    from lggd.errors import InputError
    from lggd.estimator import Member
    from lggd.features import GGD, LGGD, EvolvedKernelRidge
    from lggd.graph import Graph, Symmetrize
    from lggd.learning.flow import LearnedEdgeWeights, LearnedPotential
    from lggd.learning.networks import MLP, PropagatedMLP
    from lggd.models import (
        BackboneReadout,
        Ensemble,
        LGGDClassifier,
        LGGDPlus,
        MeanReadout,
        NearestClass,
        SelfTraining,
        WeightedReadout,
        load_model,
    )
    from lggd.progress import Progress
    from lggd.solvers.dijkstra import Dijkstra
    from lggd.solvers.evolution import Evolution, evolve
    from lggd.solvers.iterative import FastIterative
    from lggd.solvers.marching import FastMarching
    from lggd.solvers.scheme import RK4, SSPRK3, Euler
    from lggd.training.problems import Optimization

# Module → the public names that it defines. Type checkers read the imports above instead; a test compares the two.
_EXPORTS = {
    "backbones": ("GAT", "GCN", "GPR", "ChebNet", "JKNet"),
    "closed_form": ("EdgeAgreement", "KernelRidge", "PseudoLabels"),
    "app.comparison.comparison": ("Comparison", "compare"),
    "datasets.by_name": ("load",),
    "distances": ("depth", "distance", "shortest_path"),
    "equation": ("DegreePotential",),
    "errors": ("InputError",),
    "estimator": ("Member",),
    "features": ("GGD", "LGGD", "EvolvedKernelRidge"),
    "graph": ("Graph", "Symmetrize"),
    "learning.flow": ("LearnedEdgeWeights", "LearnedPotential"),
    "learning.networks": ("MLP", "PropagatedMLP"),
    "models": (
        "BackboneReadout", "Ensemble", "LGGDClassifier", "LGGDPlus", "MeanReadout", "NearestClass", "SelfTraining",
        "WeightedReadout", "load_model",
    ),
    "solvers.dijkstra": ("Dijkstra",),
    "solvers.evolution": ("Evolution", "evolve"),
    "solvers.iterative": ("FastIterative",),
    "solvers.marching": ("FastMarching",),
    "solvers.scheme": ("RK4", "SSPRK3", "Euler"),
    "progress": ("Progress",),
    "training.problems": ("Optimization",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}
_SUBMODULES = {
    "baselines": "baselines", "cluster": "cluster", "diffusion": "diffusion", "filters": "filters",
    "kernels": "kernels", "results": "results", "scales": "scales", "sklearn": "sklearn", "studio": "app.studio",
}  # fmt: skip

try:
    __version__ = version("lggd")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = [
    "GAT", "GCN", "GGD", "GPR", "LGGD", "MLP", "RK4", "SSPRK3", "BackboneReadout", "ChebNet", "Comparison",
    "DegreePotential", "Dijkstra", "EdgeAgreement", "Ensemble", "Euler", "Evolution", "EvolvedKernelRidge",
    "FastIterative", "FastMarching", "Graph", "InputError", "JKNet", "KernelRidge", "LGGDClassifier", "LGGDPlus",
    "LearnedEdgeWeights", "LearnedPotential", "MeanReadout", "Member", "NearestClass", "Optimization", "Progress",
    "PropagatedMLP", "PseudoLabels", "SelfTraining", "Symmetrize", "WeightedReadout", "compare", "depth", "distance",
    "evolve", "load", "load_model", "shortest_path",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name on first use (PEP 562)."""
    if name in _SUBMODULES:
        return import_module(f"lggd.{_SUBMODULES[name]}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'lggd' has no attribute {name!r}")
    value = getattr(import_module(f"lggd.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
