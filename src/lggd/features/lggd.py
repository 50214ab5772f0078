"""LGGD: learned generalized geodesic distances as features (paper, Sec. 3.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from lggd.equation import DegreePotential
from lggd.estimator import check_shape
from lggd.features.distance_features import DistanceFeatures
from lggd.features.distance_training import DistanceProblems, read_initial, train_distances
from lggd.graph import Graph
from lggd.inputs import Labels, NodeData
from lggd.learning.flow import BoundarySolver, LearnedEdgeWeights
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.progress import Callback
from lggd.scales import MaxScale
from lggd.solvers.scheme import RK4
from lggd.training.problems import Optimization
from lggd.validation import check_fraction, check_instance


@dataclass(eq=False, repr=False)
class LGGD(DistanceFeatures):
    """Learned generalized geodesic distances to the labelled nodes of each class (paper, Sec. 3.2).

    The features of a node are f^k(·, t) for every class k and every time t, where the evolution starts at
    φ₀ = |network(x)|, trained so that labelled nodes end up nearest to their own class. The defaults performed
    best on validation nodes; `LGGD.paper()` and `LGGD.release()` have the settings of the paper and of the authors'
    code. `EvolvedKernelRidge` trains nothing.

    Parameters
    ----------
    times : sequence of float
        Output times of the evolution; T times and K classes give T·K features.
    p : float
        Exponent of the gradient norm, in [1, inf].
    potential : DegreePotential, LearnedPotential, LearnedEdgeWeights, Tensor, callable or None
        The potential ρ, and the learned coefficients; None is 1.
    initial : MLP, PropagatedMLP or torch.nn.Module
        The network behind φ₀; a custom module maps `x`, or `x` and `edge_index`, to K values per node.
    per_time : bool
        Train one model per time; False trains one for all times.
    cross_fit : int
        Number of folds: the features of a labelled node are solved without the labels of its own fold, because its own
        label would make one of them 0. 0 uses all labels.
    scale : MaxScale, Standardize, SoftmaxScale or Unscaled
        How distances become features; fitted by `fit`, not by `transform`.
    reachable : bool
        Append a column that is 1 where a label is reachable. Elsewhere distances only grow with time, from φ₀.
    cap : float
        Upper bound of the distances.
    concat : bool
        `transform` appends the features to `x` instead of replacing it.
    attr_name : str, optional
        The attribute that `transform` writes the features to, instead of `x`.
    scheme : Euler, SSPRK3 or RK4
    optimization : Optimization
    validation : float
        The fraction of labels to hold out for validation where there is no `val_mask`.
    seed : int or torch.Generator

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> features = lggd.LGGD(times=(1, 2), optimization=lggd.Optimization(epochs=10)).fit(data)
    >>> features.transform(data).x.shape  # 2 times, 2 classes, and whether a label is reachable
    torch.Size([34, 5])
    """

    initial: MLP | PropagatedMLP | nn.Module = PropagatedMLP()
    per_time: bool = True
    optimization: Optimization = Optimization(lr=0.01, weight_decay=0.002, epochs=150, patience=None)
    validation: float = 0.2

    needs_edge_index = True

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """LGGD as the paper describes it: φ₀ = |MLP(x)|, one model for all times.

        The paper chooses α, the step, the sizes of the MLP, dropout and weight decay by validation; here they are those
        of the authors' code. On graphs with large degrees the step may exceed the stable limit, as theirs does.
        """
        paper: dict[str, Any] = {
            "potential": DegreePotential(-0.5),
            "initial": MLP(hidden=(512, 128), dropout=0.5),
            "per_time": False,
            "scale": MaxScale(),
            "reachable": False,
            "cap": math.inf,
            "scheme": RK4(step=0.1, force=True),
            "optimization": Optimization(lr=0.01, weight_decay=0.005, epochs=150, patience=None),
        }
        return cls(**{**paper, **changes})

    @classmethod
    def release(cls, **changes: Any) -> Self:
        """LGGD as the authors' code computes it: one model per time, and one learned weight per edge."""
        release = {"potential": LearnedEdgeWeights(DegreePotential(-0.5)), "per_time": True}
        return cls.paper(**{**release, **changes})

    def check_settings(self) -> None:
        super().check_settings()
        read_initial(self.initial)
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")
        check_fraction("validation", self.validation)

    @property
    def _held_out(self) -> float:
        return self.validation

    def _learn(self, nodes: NodeData, graph: Graph, labels: Labels, seed: int, callback: Callback | None) -> None:
        self._problems = DistanceProblems.of_model(self, nodes, graph, labels.num_classes, seed)
        self.history_["distances"] = train_distances(self._problems, self, labels, callback)

    def _solver(self, nodes: NodeData, graph: Graph) -> BoundarySolver:
        return self._problems.solver(nodes, graph)

    def _state(self) -> dict[str, Tensor]:
        learned = {parameter.name: parameter.value.detach() for parameter in self._problems.parameters()}
        return {**super()._state(), **learned}

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        super()._restore(nodes, state)
        self._problems = DistanceProblems.of_model(self, nodes, nodes.undirected_graph, self.num_classes_, seed=0)
        with torch.no_grad():
            for parameter in self._problems.parameters():
                parameter.value.copy_(check_shape(parameter.name, state[parameter.name], parameter.value))
        self._cached_solver(nodes)
