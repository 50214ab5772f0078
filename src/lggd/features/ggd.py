"""GGD: generalized geodesic distances as features; nothing is learned (the paper's Pipeline 0)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from lggd.features.distance_features import DistanceFeatures, check_fixed, fixed_solver
from lggd.graph import Graph
from lggd.inputs import NodeData
from lggd.learning.flow import BoundarySolver
from lggd.scales import Scale, Standardize
from lggd.solvers.cauchy import INITIAL_VALUE
from lggd.validation import check_real

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(eq=False, repr=False)
class GGD(DistanceFeatures):
    """Generalized geodesic distances to the labelled nodes of each class (paper, Sec. 3.1).

    The features of a node are f^k(·, t) for every class k and every time t, from the topology alone: f starts at 0 on
    the labelled nodes of class k and at `initial_value` elsewhere.

    Parameters
    ----------
    potential : DegreePotential, Tensor, callable or None
        The potential ρ; None is 1.
    initial_value : float
        Initial value of the distances off the labelled nodes.
    times, p, cross_fit, scale, reachable, cap, concat, attr_name, scheme, seed
        As for `LGGD`; the paper uses all labels, `cross_fit=0`.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> lggd.GGD(times=(1, 2)).fit_transform(data).x.shape  # 2 times, 2 classes, and whether a label is reachable
    torch.Size([34, 5])
    """

    cross_fit: int = 5
    scale: Scale = Standardize()
    initial_value: float = INITIAL_VALUE

    def check_settings(self) -> None:
        super().check_settings()
        check_real("initial_value", self.initial_value, 0, math.inf, closed="left", rule="be non-negative and finite")
        check_fixed(self.potential)

    def __call__(self, data: Data) -> Data:
        """`transform`; as there is nothing to learn, an unfitted model is first fitted to the data."""
        return self.transform(data) if hasattr(self, "labels_") else replace(self).fit_transform(data)

    def _solver(self, nodes: NodeData, graph: Graph) -> BoundarySolver:
        start = torch.full((graph.num_nodes, self.num_classes_), float(self.initial_value), device=graph.device)
        return fixed_solver(self, graph, start)
