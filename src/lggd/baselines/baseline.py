"""The base class of all baselines, and the training that they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from lggd.errors import InputError
from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask, same_inputs
from lggd.estimator.labels import Labels
from lggd.estimator.passes import UNLIMITED, FitSteps, TrainingRequest, curves_of
from lggd.graph.edge_index import read_edges
from lggd.learning.node_features import check_node_features
from lggd.training.checkpoint import Checkpoint
from lggd.training.engine import Engine, Trainable, train
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback, History
from lggd.training.randomness import read_seed
from lggd.validation import check_instance


class BaselineNetworks(Trainable, Protocol):
    """The networks of many problems, trained side by side."""

    def logits(self) -> Tensor:
        """The logits of all nodes, `[Q, N, K]`, without dropout."""


@dataclass(frozen=True, eq=False)
class BaselineProblem:
    """The training and validation labels of one model, int64 `[N]` with -1 elsewhere, and its seed."""

    train: Tensor
    validation: Tensor
    seed: int
    name: str


Problems = Sequence[BaselineProblem]


@dataclass(frozen=True, eq=False)
class BaselineData:
    """The data shared by all problems of a pass: node features float32 `[N, F]`, edges, edge weights or None, and K."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    num_classes: int

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.x)


@dataclass(eq=False, repr=False)
class Baseline(NodeClassifier):
    """Base class of the methods that LGGD is compared with, with the interface of `LGGDClassifier`.

    Baselines are transductive: they predict only for the graph they were fitted to. Their predictions are
    `probabilities_`, float32 `[N, K]`; see `NodeClassifier` for the other attributes. With `lggd.fit_together`,
    baselines that differ only in labels and seed are trained in one pass.
    """

    _: KW_ONLY
    optimization: Optimization = Optimization()
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self.probabilities_: Tensor  # set by fit

    # -- to be implemented by subclasses --------------------------------------------------------------------------

    @abstractmethod
    def _check(self) -> None:
        """Raises an `InputError` if a setting of the method is invalid."""

    @abstractmethod
    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        """Returns the untrained networks, one per problem.

        Called once for all problems of a pass, on the first of its models. Preprocessing and pretraining happen here.
        """

    def _capacity(self, data: BaselineData) -> int:
        """Returns the maximum number of problems per pass; override it if memory or the method sets a limit."""
        return UNLIMITED

    # -- the interface of NodeClassifier --------------------------------------------------------------------------

    @property
    def accepts_labels(self) -> bool:
        """Whether `add_labels` is supported: baselines must be trained again."""
        return False

    def check_settings(self) -> None:
        """Raises an `InputError` if a setting is invalid for any data."""
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")
        self._check()

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        x = check_node_features(task.data)
        x = x if x.layout == torch.strided else x.to_dense()
        data = BaselineData(x, *read_edges(task.data, len(x)), labels.num_classes)
        problem = BaselineProblem(labels.train, labels.validation, read_seed(seed), task.name)
        self._start(task.data, labels.num_classes)
        request = BaselineRequest(self, data, problem, task)
        ((self.probabilities_, self.history_[request.stage]),) = yield [request]

    def _probabilities(self, data: Any) -> Tensor:
        if data is not self.data_ and not same_inputs(data, self.data_):
            raise InputError("data", "be the graph that the baseline was fitted to", "another one", "Fit it again.")
        return self.probabilities_

    def _state(self) -> dict[str, Tensor]:
        return {"probabilities": self.probabilities_}

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        self.probabilities_ = state["probabilities"]
        shape = [data.num_nodes, self.num_classes_]
        if list(self.probabilities_.shape) != shape:
            raise InputError("probabilities", f"have shape {shape}", list(self.probabilities_.shape))


@dataclass(frozen=True, eq=False)
class BaselineRequest(TrainingRequest):
    """The request of one baseline to be trained."""

    order: ClassVar[int] = 1
    kind: ClassVar[str] = "training"

    model: Baseline
    data: BaselineData
    problem: BaselineProblem
    task: FitTask

    def key(self) -> tuple[Any, ...]:
        """Requests with equal keys share a pass: everything but the seed."""
        settings = [getattr(self.model, field.name) for field in fields(self.model) if field.name != "seed"]
        return (self.task.inputs, self.data.num_classes, type(self.model), *settings)

    def capacity(self) -> int:
        return self.model._capacity(self.data)

    @classmethod
    def train(
        cls,
        requests: Sequence[BaselineRequest],
        stage: str,
        callback: Callback | None,
        checkpoint: Checkpoint | None,
    ) -> list[tuple[Tensor, History]]:
        """Trains the networks of all requests; returns the probabilities and curves of each."""
        model, problems = requests[0].model, [request.problem for request in requests]
        networks = model._networks(requests[0].data, problems, callback)
        logits, history = train_problems(networks, problems, model.optimization, stage, callback, checkpoint)
        return [
            (torch.softmax(own, dim=1).float(), curves_of(history, problem.name))
            for own, problem in zip(logits, problems, strict=True)
        ]


def train_problems(
    networks: BaselineNetworks,
    problems: Problems,
    optimization: Optimization,
    stage: str,
    callback: Callback | None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Tensor, History]:
    """Trains the networks of a pass; returns their logits `[Q, N, K]` in the best states, and the training curves."""
    targets, validation = (torch.stack([getattr(each, name) for each in problems]) for name in ("train", "validation"))
    engine = Engine(networks, targets, validation, optimization, [each.name for each in problems])
    history = train(engine, stage, callback, checkpoint)
    engine.load_best()
    return networks.logits(), history
