"""Training in passes: problems of many models as columns of one computation.

A model's fit is a generator: it yields the training that it needs as requests, and is sent the results. A model alone
has its requests trained as they come. Models that are fitted together advance side by side, and requests that agree in
their `key` share a pass. No model knows of the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from lggd.errors import error_context
from lggd.estimator.fit_task import FitTask, equal
from lggd.training.checkpoint import Checkpoint
from lggd.training.progress import Callback, History

if TYPE_CHECKING:
    from lggd.estimator.estimator import NodeClassifier

# The most problems of one pass: beyond some hundred, more of them gain nothing and take memory.
MOST_PROBLEMS = 256
UNLIMITED = 2**62


class TrainingRequest(ABC):
    """Training that one model needs; requests of one class with equal keys can share a pass."""

    # Where several models wait for different training, the lowest order comes first.
    order: ClassVar[int]
    # What progress and checkpoints call this training.
    kind: ClassVar[str]
    task: FitTask

    @property
    def stage(self) -> str:
        """The name of the stage in progress, history and checkpoints."""
        return f"{self.task.prefix}{self.kind}"

    @property
    def name(self) -> str:
        """What errors and curves call the model."""
        return self.task.name

    @property
    def num_problems(self) -> int:
        """How many problems it adds to a pass."""
        return 1

    def capacity(self) -> int:
        """How many such problems fit into memory."""
        return UNLIMITED

    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """Everything in which the requests of one pass must agree."""

    @classmethod
    @abstractmethod
    def train(
        cls, requests: Sequence[Any], stage: str, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> list[Any]:
        """Trains all of them in one pass; returns one result per request."""


# A fit on its way: yields requests, is sent one result per request.
FitSteps = Generator[Sequence[TrainingRequest], list[Any], None]


def fit_tasks(
    models: Sequence[NodeClassifier],
    tasks: Sequence[FitTask],
    callback: Callback | None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Fits every model to its task; all of them, or none where one fails."""
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


def in_parallel(fits: Sequence[FitSteps], names: Sequence[str] | None = None) -> FitSteps:
    """Several fits as one: all advance to their next requests, and those of the lowest order are yielded together.

    `names` stand before the errors of each.
    """
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
    """Trains requests of one order in as few passes as they need; one result per request."""
    results: list[Any] = [None] * len(requests)
    keys = [(type(request), *request.key()) for request in requests]
    passes = in_passes(keys, [request.num_problems for request in requests], lambda k: _capacity(requests[k]))
    for number, places in enumerate(passes):
        members = [requests[k] for k in places]
        first = members[0]
        with error_context(first.name if len(members) == 1 else ""):
            found = type(first).train(members, stage_name(first.stage, number, len(passes)), callback, checkpoint)
        for k, result in zip(places, found, strict=True):
            results[k] = result
    return results


def _capacity(request: TrainingRequest) -> int:
    with error_context(request.name):
        return request.capacity()


def in_passes(
    keys: Sequence[tuple[Any, ...]], problems: Sequence[int], capacity: Callable[[int], int] = lambda place: UNLIMITED
) -> list[list[int]]:
    """Groups requests into passes: the places of those with equal keys, in their order.

    Request k has `problems[k]` problems, as many as all with its key. Too many for one pass are divided evenly: more
    than `MOST_PROBLEMS`, or than the `capacity` of the first. Passes come in the order of their first request.

    >>> in_passes([("a",), ("b",), ("a",)], [5, 5, 5])
    [[0, 2], [1]]
    """
    groups: dict[int, list[int]] = {}
    for place, first in enumerate(first_equal(keys, equal)):
        groups.setdefault(first, []).append(place)
    passes = []
    for first, members in groups.items():
        most = MOST_PROBLEMS if len(members) == 1 else min(MOST_PROBLEMS, capacity(first))
        count = -(-len(members) // max(1, most // problems[first]))
        bounds = [len(members) * k // count for k in range(count + 1)]
        passes += [members[start:end] for start, end in pairwise(bounds)]
    return sorted(passes)


def first_equal(values: Sequence[Any], same: Callable[[Any, Any], bool]) -> list[int]:
    """For each value the place of the first one that is the same."""
    found: list[int] = []
    for place, value in enumerate(values):
        earlier = (first for first in sorted(set(found)) if same(values[first], value))
        found.append(next(earlier, place))
    return found


def stage_name(stage: str, number: int, count: int) -> str:
    """What a pass is called: "distances", or "distances 2/3" where there are several.

    >>> stage_name("distances", 1, 3)
    'distances 2/3'
    """
    return stage if count == 1 else f"{stage} {number + 1}/{count}"


def curves_of(history: History, model: str) -> History:
    """The curves of one model of a pass, under the names that they have when it is trained alone.

    >>> curves_of({"train_loss models[1] t=2": [0.5], "train_loss models[2] t=2": [0.7]}, "models[1]")
    {'train_loss t=2': [0.5]}
    """
    if not model:
        return history
    curves = {}
    for name, values in history.items():
        metric, _, about = name.partition(" ")
        if about == model or about.startswith(f"{model} "):
            curves[" ".join([metric, *about.split()[1:]])] = values
    return curves
