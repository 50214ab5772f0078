"""Many models in one pass: splits, seeds and settings as columns of one computation.

A model's fit is a generator: it yields the training that it needs as requests, and is sent the results. A model alone
has its requests trained as they come. Models that are fitted together advance side by side, and requests that agree in
their `key` share a pass. No model knows of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from lggd.errors import InputError, InputTypeError, error_context
from lggd.estimator.fit_task import FitTask, check_data, equal, same_inputs
from lggd.training.checkpoint import Checkpoint
from lggd.training.progress import Callback, History

if TYPE_CHECKING:
    from lggd.estimator.estimator import NodeClassifier

Model = TypeVar("Model", bound="NodeClassifier")
# The most problems of one pass: beyond some hundred, more of them gain nothing and take memory.
MOST_PROBLEMS = 256
UNLIMITED = 2**62


class TrainingRequest(Protocol):
    """Training that one model needs; requests of one class with equal keys can share a pass."""

    # Where several models wait for different training, the lowest order comes first.
    order: ClassVar[int]
    # What progress and checkpoints call it, and what errors call the model.
    stage: str
    name: str

    @property
    def num_problems(self) -> int:
        """How many problems it adds to a pass."""

    def key(self) -> tuple[Any, ...]:
        """Everything in which the requests of one pass must agree."""

    def capacity(self) -> int:
        """How many such problems fit into memory."""

    @classmethod
    def train(
        cls, requests: Sequence[Self], stage: str, callback: Callback | None, checkpoint: Checkpoint | None
    ) -> list[Any]:
        """Trains all of them in one pass; returns one result per request."""


# A fit on its way: yields requests, is sent one result per request.
FitSteps = Generator[list[TrainingRequest], list[Any], None]


def fit_together(models: Sequence[Model], data: Any, *, callback: Callback | None = None) -> list[Model]:
    """Fit many models in as few passes as possible.

    Every model is fitted as its own `fit` would, up to rounding. Models share a pass of training where they differ only
    in labels, `seed`, `optimization`, the dropout of φ₀ and what is done with the trained distances (`cross_fit`,
    `scale`, `cap`, `reachable`, `concat`). Backbones share a pass where they are equal, have equal `optimization` and
    equally many inputs; baselines where all their settings but the seed are equal.

    Parameters
    ----------
    models : sequence of models
        Different objects, each an `LGGDClassifier`, `LGGDPlus`, `LGGD`, `GGD`, a baseline or a model of your own.
    data : torch_geometric.data.Data or list of them
        The data of all models, or one for each: typically one graph with different masks.
    callback : callable, optional
        Called with a `Progress` after every epoch. Stages are named as in `fit`, or "distances 2/3" where a stage
        takes three passes; metrics carry the model's name, as in "train_loss models[4] t=1".

    Returns
    -------
    list of models
        The models, fitted. Each `history_` holds the model's own curves under their usual names.

    Raises
    ------
    InputError
        Where something is wrong with one model; the message names it, and none is fitted.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> models = [lggd.LGGD(times=(1, 2), seed=seed, optimization=lggd.Optimization(epochs=10)) for seed in range(3)]
    >>> [tuple(model.features(data).shape) for model in lggd.fit_together(models, data)]
    [(34, 5), (34, 5), (34, 5)]
    """
    models = _check_models(models)
    each = list(data) if isinstance(data, (list, tuple)) else [data] * len(models)
    if len(each) != len(models):
        rule = f"be one PyG Data, or a list with one for each of the {len(models)} models"
        raise InputError("data", rule, f"a list of {len(each)}")
    tasks: list[FitTask] = []
    for number, (one, first) in enumerate(zip(each, first_equal(each, same_inputs), strict=True)):
        with error_context(f"models[{number}]"):
            check_data(one)
        task = FitTask.read(one, f"models[{number}]")
        tasks.append(task if first == number else replace(task, inputs=tasks[first].inputs))
    fit_tasks(models, tasks, callback)
    return models


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
    pending: dict[int, list[TrainingRequest]] = {}

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


def _check_models(models: Any) -> list[Any]:
    """Models of the contract, no object twice."""
    from lggd.estimator.estimator import NodeClassifier

    if not isinstance(models, Sequence):
        raise InputTypeError("models", "be a list of models", type(models).__name__)
    places: dict[int, int] = {}
    for place, model in enumerate(models):
        if not isinstance(model, NodeClassifier):
            rule = "be an LGGDClassifier, LGGDPlus, LGGD, GGD, a baseline or another NodeClassifier"
            raise InputTypeError(f"models[{place}]", rule, type(model).__name__)
        if id(model) in places:
            clause = f"models[{places[id(model)]}] and models[{place}] are the same"
            raise InputError("models", "be different objects", but=clause, remedy="Use copy.copy to make another.")
        places[id(model)] = place
    return list(models)
