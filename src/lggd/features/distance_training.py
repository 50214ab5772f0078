"""Learning distances (the paper's Pipeline 1): the problems of one training pass, of one model or of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from lggd._system.memory import Cache, content_key, explaining_shortage
from lggd.errors import InputError, InputTypeError
from lggd.estimator import FitTask, Labels, TrainingRequest, curves_of, input_tensors
from lggd.features.training_memory import REMEDY, fitting_problems, training_memory
from lggd.graph import Graph
from lggd.learning.flow import BoundarySolver, Equation, Flow, boundary_mask
from lggd.learning.networks import MLP, FromModule, ModuleCopies, Networks, PropagatedMLP
from lggd.progress import Callback
from lggd.solvers.scheme import check_times
from lggd.training.engine import Checkpoint, Engine, History, train
from lggd.training.problems import StackedParameter, Targets

if TYPE_CHECKING:
    from lggd.features.lggd import LGGD

# Enough for ten splits of four settings with three networks each.
CAPACITY = 120
_active: ContextVar[Cache[Any] | None] = ContextVar("learned distances", default=None)


@contextmanager
def reuse_distances() -> Iterator[None]:
    """Inside, distances with the same data, labels, settings and seed are learned only once."""
    token = _active.set(Cache(CAPACITY))
    try:
        yield
    finally:
        _active.reset(token)


def read_initial(initial: object) -> MLP | PropagatedMLP | FromModule:
    """Returns the networks behind φ₀; a user's module is wrapped."""
    if isinstance(initial, nn.Module):
        return FromModule(initial)
    if isinstance(initial, (MLP, PropagatedMLP)):
        return initial
    remedy = "LGGD.solved() starts at a KernelRidge()."
    raise InputTypeError("initial", "be MLP(), PropagatedMLP() or a torch module", repr(initial), remedy)


def horizons(model: LGGD) -> list[list[int]]:
    """The times at which each problem of a model is read, as indices into its `times`."""
    times = range(len(check_times(model.times)))
    return [[k] for k in times] if model.per_time else [list(times)]


@dataclass(frozen=True, eq=False)
class DistanceRequest(TrainingRequest):
    """The distances that one model needs."""

    order: ClassVar[int] = 0
    kind: ClassVar[str] = "distances"

    model: LGGD
    task: FitTask
    labels: Labels
    seed: int

    @property
    def times(self) -> tuple[float, ...]:
        return check_times(self.model.times)

    @property
    def num_problems(self) -> int:
        return len(horizons(self.model))

    def key(self) -> tuple[Any, ...]:
        # Networks may differ in dropout; a user's module must be the same object.
        model, initial = self.model, self.model.initial
        networks = replace(initial, dropout=0.0) if isinstance(initial, (MLP, PropagatedMLP)) else initial
        equation = (self.times, model.p, model.potential, model.per_time, model.scheme)
        return (self.task.inputs, self.labels.num_classes, networks, *equation)

    def capacity(self) -> int:
        return fitting_problems(self.task.data, self.task.graph, self.model, self.labels.num_classes)

    def cached(self) -> tuple[Cache[Any], Any]:
        """The cache of `reuse_distances` and the key of this request, None where it cannot be reused."""
        cache, model, labels = _active.get(), self.model, self.labels
        if cache is None:
            return Cache(0), None
        tensors = [*input_tensors(self.task.data), labels.train, labels.validation]
        settings = (model.p, model.potential, model.initial, model.per_time, model.scheme, model.optimization)
        key = (content_key(*tensors), labels.num_classes, self.seed, self.times, *settings)
        try:
            hash(key)
        except TypeError:  # a user's tensor or function
            return cache, None
        return cache, key

    @classmethod
    def train(
        cls, requests: Sequence[DistanceRequest], stage: str, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> list[tuple[DistanceProblems, History]]:
        """Learns the distances of all requests; returns the problems and curves of each."""
        first, each = requests[0], requests[0].num_problems
        data, graph, classes = first.task.data, first.task.graph, first.labels.num_classes
        count = len(requests) * each
        title = f"Learning {count} problem{'s' * (count > 1)} in one pass"
        models, seeds = [request.model for request in requests], [request.seed for request in requests]
        labels = [request.labels for request in requests for _ in range(each)]
        names = [f"t={t:g}" for t in first.times] if first.model.per_time else ["all times"]
        with explaining_shortage(title, lambda: training_memory(data, graph, first.model, classes, count), REMEDY):
            problems = DistanceProblems.of_models(models, data, graph, classes, seeds)
            engine = Engine(
                problems,
                torch.stack([own.train for own in labels]),
                torch.stack([own.validation for own in labels]),
                [model.optimization for model in models for _ in range(each)],
                [f"{request.task.name} {name}".strip() for request in requests for name in names],
                lowest_loss=True,
            )
            history = train(engine, stage, callback, checkpoint)
        results = []
        for k, request in enumerate(requests):
            own = DistanceProblems.of_models([request.model], data, graph, classes, [request.seed], problems.x)
            own.load(problems, slice(k * each, (k + 1) * each))
            results.append((own, curves_of(history, request.task.name)))
        return results


class DistanceProblems:
    """Distances of Q problems: x, networks and flow. A Trainable with cross-entropy of logits −f, f(0) = |network(x)|.

    In training f evolves without a boundary, and the loss is smallest where training nodes are nearest to their class.
    In validation the training nodes are the boundary of their class, where f = 0 (Pipeline 2).
    """

    fused = True

    def __init__(self, initial: Any, x: Any, networks: Networks, flow: Flow, num_classes: int) -> None:
        self.initial, self.x, self.networks, self.flow, self.num_classes = initial, x, networks, flow, num_classes
        self.generators, self.random_state = networks.generators, networks.random_state
        self.load_random_state = networks.load_random_state
        self._boundary: tuple[Targets, Tensor] | None = None

    @classmethod
    def of_models(
        cls, models: Sequence[LGGD], data: Any, graph: Graph, num_classes: int, seeds: Sequence[int], x: Any = None
    ) -> DistanceProblems:
        """The problems of models with equal equations and networks; those of a model are adjacent, in equal numbers.

        `x` are the inputs of the networks, where they are known already.
        """
        first, each = models[0], len(horizons(models[0]))
        initial = read_initial(first.initial)
        generators = [generator for seed in seeds for generator in _generators(seed, each, graph.device)]
        x = initial.node_features(data, graph) if x is None else x
        rates: list[Any] = []
        if not isinstance(initial, FromModule):
            rates = [[model.initial.dropout for model in models for _ in range(each)]]  # type: ignore[union-attr]
        networks = initial.networks(x, num_classes, generators, *rates)  # type: ignore[arg-type]
        equation, by_problem = Equation(graph, first.potential, generators), horizons(first) * len(models)
        flow = Flow(equation, check_times(first.times), by_problem, first.p, first.scheme)
        return cls(initial, x, networks, flow, num_classes)

    def load(self, trained: DistanceProblems, problems: slice) -> None:
        """Copies the learned values of as many problems of a pass; takes over users' modules, whatever they hold."""
        if isinstance(self.networks, ModuleCopies) and isinstance(trained.networks, ModuleCopies):
            self.networks.take(trained.networks, problems)
        stacked = [[p for p in each.parameters() if p.owner is None] for each in (self, trained)]
        with torch.no_grad():
            for own, learned in zip(*stacked, strict=True):
                own.value.copy_(learned.value[problems])

    def parameters(self) -> list[StackedParameter]:
        return [*self.networks.parameters(), *self.flow.equation.parameters()]

    def training_step(self, targets: Targets) -> Tensor:
        if self._boundary is None or self._boundary[0] is not targets:
            self._boundary = targets, boundary_mask(targets.labels.t(), self.num_classes)
        start = self.networks(self.x, training=True).abs()
        losses = targets.losses(-self.flow(start), nodes_first=True)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def validate(self, targets: Targets) -> tuple[Tensor, None]:
        return targets.losses(-self.distances(), nodes_first=True), None

    def distances(self) -> Tensor:
        """The distances in the current state, `[M, N, Q, K]`, 0 on the nodes of the last training step."""
        start = self.networks(self.x, training=False, training_follows=True).abs()
        return self.flow(start, None if self._boundary is None else self._boundary[1])

    def solver(self, data: Any, graph: Graph) -> BoundarySolver:
        """The solver on these data, which may differ from the training data."""
        flow, x = self.flow, self.x
        if graph is not flow.graph:
            x = self.initial.node_features(data, graph)
            if x.shape[1] != self.x.shape[1]:
                rule = "have as many columns as the model was trained on"
                raise InputError("data.x", rule, data.x.shape[1], "Fit on the new data.")
            flow = flow.on(graph)
        with torch.no_grad():
            start = self.networks(x, training=False).abs().detach()
        return BoundarySolver(flow, start)


def _generators(seed: int, count: int, device: torch.device) -> list[torch.Generator]:
    seeds = torch.randint(2**62, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
    return [torch.Generator(device=device).manual_seed(drawn) for drawn in seeds]
