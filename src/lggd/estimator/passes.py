"""Training in passes: problems of many models as columns of one computation.

A model's fit is a generator: it yields the training that it needs as requests, and is sent the results. The
requests of a single model are trained as they come. Models that are fitted together advance side by side, and requests
with equal `key` share a pass. No model knows about the others.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from lggd._system.memory import equal
from lggd.errors import InputError
from lggd.estimator.inputs import Labels, check_data, read_graph
from lggd.graph import Graph
from lggd.progress import Callback
from lggd.training.engine import Checkpoint, History
from lggd.validation import check_instance

if TYPE_CHECKING:
    from lggd.estimator.estimator import NodeClassifier

# Maximum number of problems per pass: beyond some hundred, more of them save no time and take memory.
MOST_PROBLEMS = 256
UNLIMITED = 2**62


@dataclass(frozen=True, eq=False)
class FitTask:
    """The inputs of the fit of one model.

    `inputs` builds the graph once, when needed: tasks whose data differ in labels alone share it. `seed` is set where
    an ensemble has chosen it. `name` identifies the model in errors and curves, "" for the only one, and `prefix`
    begins the names of its training stages.
    """

    data: Any
    inputs: Callable[[], Graph]
    seed: int | torch.Generator | None = None
    name: str = ""
    prefix: str = ""

    @classmethod
    def read(cls, data: Any, name: str = "") -> FitTask:
        """The task of a model that is fitted on its own."""
        check_data(data)
        return cls(data, cache(lambda: read_graph(data)), name=name)

    @property
    def graph(self) -> Graph:
        return self.inputs()

    def member(self, number: int, seed: int) -> FitTask:
        """The task of one member of an ensemble."""
        return replace(self, seed=seed, name=f"{self.name} member {number}".strip().replace(" ", "-"))


class TrainingRequest(ABC):
    """Training that one model needs; requests of one class with equal keys can share a pass."""

    # Where several models wait for different training, the lowest order is trained first.
    order: ClassVar[int]
    # The name of this training in progress reports and checkpoints.
    kind: ClassVar[str]
    task: FitTask

    @property
    def stage(self) -> str:
        """The name of the stage in progress reports, history and checkpoints."""
        return f"{self.task.prefix}{self.kind}"

    @property
    def num_problems(self) -> int:
        """The number of problems that it adds to a pass."""
        return 1

    def capacity(self) -> int:
        """The number of such problems that fit into memory."""
        return UNLIMITED

    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """Everything in which the requests of one pass must agree."""

    @classmethod
    @abstractmethod
    def train(
        cls, requests: Sequence[Any], stage: str, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> list[Any]:
        """Trains all requests in one pass; returns one result per request."""


# A fit in progress: yields requests, is sent one result per request.
FitSteps = Generator[Sequence[TrainingRequest], list[Any], None]


def fit_tasks(
    models: Sequence[NodeClassifier], tasks: Sequence[FitTask], callback: Callback | None,
    checkpoint: Checkpoint | None = None,
) -> None:  # fmt: skip
    """Fits every model to its task; all of them, or none where one fails."""
    if checkpoint is not None:
        check_instance("checkpoint", checkpoint, Checkpoint, "a Checkpoint()")
    with torch.inference_mode(False), torch.enable_grad():  # the caller may have disabled gradients
        try:
            fits = [model._fit(task) for model, task in zip(models, tasks, strict=True)]
            steps = fits[0] if len(fits) == 1 else in_parallel(fits, [task.name for task in tasks])
            results: list[Any] | None = None
            while True:
                try:
                    requests = steps.send(results)  # type: ignore[arg-type]
                except StopIteration:
                    return
                results = _train(requests, callback, checkpoint)
        except BaseException:
            for model in models:
                model._unfit()
            raise


def fit_inner(model: NodeClassifier, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
    """Fits a copy of the inner model, and adds its curves to those of the outer one; None stays None."""
    inner = copy.copy(model._inner_model)
    setattr(model, f"{model._inner}_", inner)
    if inner is not None:
        yield from inner._fit_to(task, labels, seed)
        model.history_ |= inner.history_


def in_parallel(fits: Sequence[FitSteps], names: Sequence[str] | None = None) -> FitSteps:
    """Several fits as one: all advance, then requests of the lowest order are yielded together; errors name the fit."""
    pending: dict[int, Sequence[TrainingRequest]] = {}

    def advance(k: int, results: list[Any] | None) -> None:
        pending.pop(k, None)
        with error_context(names[k] if names else ""):
            try:
                pending[k] = fits[k].send(results)  # type: ignore[arg-type]
            except StopIteration:
                return

    for k in range(len(fits)):
        advance(k, None)
    while pending:
        order = min(requests[0].order for requests in pending.values())
        chosen = [k for k in sorted(pending) if pending[k][0].order == order]
        results = yield [request for k in chosen for request in pending[k]]
        for k in chosen:
            count = len(pending[k])
            advance(k, results[:count])
            results = results[count:]


def _train(requests: Sequence[TrainingRequest], callback: Callback | None, checkpoint: Checkpoint | None) -> list[Any]:
    """Trains requests of one order in as few passes as possible; returns one result per request."""
    results: dict[int, Any] = {}
    keys = [(type(request), *request.key()) for request in requests]

    def capacity(k: int) -> int:
        with error_context(requests[k].task.name):
            return requests[k].capacity()

    passes = in_passes(keys, [request.num_problems for request in requests], capacity)
    for number, indices in enumerate(passes):
        members = [requests[k] for k in indices]
        first = members[0]
        stage = first.stage if len(passes) == 1 else f"{first.stage} {number + 1}/{len(passes)}"
        with error_context(first.task.name if len(members) == 1 else ""):
            trained = type(first).train(members, stage, callback, checkpoint)
        results |= dict(zip(indices, trained, strict=True))
    return [results[k] for k in range(len(requests))]


def in_passes(
    keys: Sequence[tuple[Any, ...]], problems: Sequence[int], capacity: Callable[[int], int] = lambda index: UNLIMITED
) -> list[list[int]]:
    """Groups requests with equal keys into passes; returns the indices of the requests of each pass.

    Request k has `problems[k]` problems, the same number for equal keys. Groups with more than `MOST_PROBLEMS`, or
    than the `capacity` of their first request, are divided evenly. Passes are in the order of their first request.
    """
    groups: dict[int, list[int]] = {}
    for index, first in enumerate(first_equal(keys, equal)):
        groups.setdefault(first, []).append(index)
    passes = []
    for first, members in groups.items():
        limit = MOST_PROBLEMS if len(members) == 1 else min(MOST_PROBLEMS, capacity(first))
        count = -(-len(members) // max(1, limit // problems[first]))
        bounds = [len(members) * k // count for k in range(count + 1)]
        passes += [members[start:end] for start, end in pairwise(bounds)]
    return sorted(passes)


def first_equal(values: Sequence[Any], same: Callable[[Any, Any], bool]) -> list[int]:
    """For each value, the index of the first value that is the same."""
    indices: list[int] = []
    for index, value in enumerate(values):
        earlier = (first for first in sorted(set(indices)) if same(values[first], value))
        indices.append(next(earlier, index))
    return indices


def curves_of(history: History, model: str) -> History:
    """The curves of one model of a pass, under the names that they have when it is trained alone."""
    if not model:
        return history
    curves = {}
    for name, values in history.items():
        metric, _, owner = name.partition(" ")
        if owner == model or owner.startswith(f"{model} "):
            curves[" ".join([metric, *owner.split()[1:]])] = values
    return curves


@contextmanager
def error_context(name: str) -> Iterator[None]:
    """Prefixes errors with the name of the model or table row that they concern; "" leaves them unchanged."""
    try:
        yield
    except Exception as error:
        if name and isinstance(error, InputError):
            raise error.replace(context=f"{name}: {error.context}" if error.context else name) from error
        if name:  # for example torch's errors from inside a user's module
            error.add_note(f"This happened in {name}.")
        raise
