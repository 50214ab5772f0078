"""Many models fitted together: splits, seeds and settings in as few passes as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from lggd.errors import InputError, InputTypeError, error_context
from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask, check_data, same_inputs
from lggd.estimator.passes import first_equal, fit_tasks
from lggd.training.progress import Callback

Model = TypeVar("Model", bound=NodeClassifier)


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


def _check_models(models: Any) -> list[Any]:
    """Models of the contract, no object twice."""
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
