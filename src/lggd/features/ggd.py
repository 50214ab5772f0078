"""GGD: generalized geodesic distances as features; nothing is learned (the paper's Pipeline 0)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from lggd.equation.potential import DegreePotential, Potential
from lggd.errors import InputError
from lggd.estimator.fit_task import FitTask
from lggd.features.estimator import DistanceFeatures
from lggd.features.pipeline import Pipeline
from lggd.features.scaling import Scale, Standardize
from lggd.features.settings import Mode, Settings
from lggd.graph import Graph
from lggd.learning.flow import Flow
from lggd.learning.parameters import Equation
from lggd.solvers.cauchy import FAR
from lggd.solvers.plan import check_times
from lggd.solvers.scheme import RK4, FixedStep
from lggd.training.checkpoint import Checkpoint
from lggd.training.progress import Callback


@dataclass(eq=False)
class GGD(DistanceFeatures):
    """Distances f^k(·, t) to the labelled nodes of each class k at `times`, from topology alone (paper, Sec. 3.1).

    They start at 0 on the boundary and at `far` elsewhere. `cross_fit=5` gives each labelled node the features of a
    solve without its own fifth of the labels (0: with all, as in the paper). The other arguments are as for `LGGD`.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> lggd.GGD(times=(1, 2)).fit_transform(data).x.shape  # 2 times, 2 classes, and whether a label is in reach
    torch.Size([34, 5])
    """

    times: Sequence[float] = (1.0, 2.0, 3.0, 4.0, 5.0)
    p: float = 1.0
    potential: Potential | None = DegreePotential(-1.0)
    far: float = FAR
    cross_fit: int = 5
    scale: Scale = Standardize()
    reachable: bool = True
    cap: float = FAR
    mode: Mode = "replace"
    attr_name: str | None = None
    scheme: FixedStep = RK4()
    seed: int | torch.Generator = 0

    @property
    def settings(self) -> Settings:
        """All settings, checked."""
        if not 0 <= self.far < math.inf:
            raise InputError("far", "be non-negative and finite", self.far)
        return Settings(
            times=check_times(self.times),
            p=self.p,
            potential=self.potential,
            cross_fit=self.cross_fit,
            scale=self.scale,
            reachable=self.reachable,
            cap=self.cap,
            mode=self.mode,
            scheme=self.scheme,
            validation=0.0,
        )

    def __call__(self, data: Any) -> Any:
        """`transform`; or, as there is nothing to learn, with the labels of the data where it was never fitted."""
        if hasattr(self, "labels_"):
            return self.transform(data)
        unfitted = GGD(**{name: getattr(self, name) for name in self.__dataclass_fields__})
        return unfitted.fit_transform(data)

    @classmethod
    def _learn(
        cls,
        models: Sequence[Self],
        given: Sequence[FitTask],
        callback: Callback | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        for model in models:
            model.history_ = {}

    def _pipeline(self, data: Any, graph: Graph) -> Pipeline:
        settings = self.settings
        one = [torch.Generator(device=graph.device)]
        equation = Equation(graph, settings.potential, one)
        every_time = [range(len(settings.times))]
        flow = Flow(graph, equation, settings.times, every_time, settings.p, settings.scheme)
        start = torch.full((graph.num_nodes, 1, self.num_classes_), float(self.far), device=graph.device)
        return Pipeline(graph, equation, flow, start)

    def _learned(self) -> dict[str, Tensor]:
        return {}

    def _restore_learned(self, data: Any, graph: Graph, state: Mapping[str, Tensor]) -> None:
        pass
