"""The problems of one pass: what Pipeline 1 learns for one model, or for many that can share the work."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lggd.estimator.fit_task import FitTask
from lggd.features.settings import Settings
from lggd.graph import Graph
from lggd.learning.distance_training import DistanceTraining
from lggd.learning.flow import Flow
from lggd.learning.networks import FromModule, Networks
from lggd.learning.parameters import Equation
from lggd.models.passes import history_of
from lggd.training.checkpoint import Checkpoint
from lggd.training.engine import Engine, LowestLoss, train
from lggd.training.progress import Callback, History


def sharing_key(settings: Settings, given: FitTask) -> tuple[Any, ...]:
    """All in which the models of a pass must agree. A module of the user's must be the very same object."""
    initial = settings.initial if isinstance(settings.initial, FromModule) else replace(settings.initial, dropout=0.0)
    equation = (settings.times, settings.p, settings.potential, settings.horizons, settings.scheme)
    return (given.graph, given.labels.num_classes, initial, *equation)


def horizons_of(settings: Settings) -> list[list[int]]:
    """The times that each problem of a model is read off at, as places in `settings.times`."""
    times = range(len(settings.times))
    return [list(times)] if settings.horizons == "shared" else [[k] for k in times]


class Problems:
    """Contents, networks, equation and flow for all problems of some models, which agree in their `sharing_key`.

    The problems of a model are neighbours, equally many for every model. Each draws from a generator of its own.
    """

    def __init__(
        self, settings: Sequence[Settings], data: Any, graph: Graph, num_classes: int, seeds: Sequence[int]
    ) -> None:
        self.settings, self.num_classes = list(settings), num_classes
        self.each = len(horizons_of(settings[0]))
        generators = [generator for seed in seeds for generator in _generators(seed, self.each, graph.device)]
        self.contents = settings[0].initial.node_features(data, graph)
        self.networks = self._networks(generators)
        self.equation = Equation(graph, settings[0].potential, generators)
        self.flow = self._flow()

    def _networks(self, generators: Sequence[torch.Generator]) -> Networks:
        initial = self.settings[0].initial
        if isinstance(initial, FromModule):
            return initial.networks(self.contents, self.num_classes, generators)  # type: ignore[arg-type]
        rates = [one.initial.dropout for one in self.settings for _ in range(self.each)]  # type: ignore[union-attr]
        return initial.networks(self.contents, self.num_classes, generators, rates)  # type: ignore[arg-type]

    def _flow(self) -> Flow:
        first, horizons = self.settings[0], horizons_of(self.settings[0]) * len(self.settings)
        return Flow(self.equation.graph, self.equation, first.times, horizons, first.p, first.scheme)

    def learn(
        self, given: Sequence[FitTask], stage: str, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> list[History]:
        """Learns from what is given to each model; what it leaves is the best state of every problem."""
        first = self.settings[0]
        problems = ["all times"] if first.horizons == "shared" else [f"t={t:g}" for t in first.times]
        engine = Engine(
            DistanceTraining(self.networks, self.contents, self.equation, self.flow, self.num_classes),
            self._by_problem([one.labels.train for one in given]),
            self._by_problem([one.labels.validation for one in given]),
            [one.optimization for one in self.settings for _ in range(self.each)],
            [f"{one.name} {problem}".strip() for one in given for problem in problems],
            LowestLoss(),
        )
        history = train(engine, stage, callback, checkpoint)
        engine.load_best()
        return [history_of(history, one.name) for one in given]

    def _by_problem(self, labels: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(labels)).repeat_interleave(self.each, 0)

    def part(self, place: int) -> Problems:
        """The problems of one of the models; they share nothing that learning changes with those of the others."""
        mine = slice(place * self.each, (place + 1) * self.each)
        part = copy.copy(self)
        part.settings = [self.settings[place]]
        part.networks, part.equation = self.networks.part(mine), self.equation.part(mine)
        part.flow = part._flow()
        return part


def _generators(seed: int, count: int, device: torch.device) -> list[torch.Generator]:
    draws = torch.Generator().manual_seed(seed)
    seeds = torch.randint(2**62, (count,), generator=draws).tolist()
    return [torch.Generator(device=device).manual_seed(one) for one in seeds]
