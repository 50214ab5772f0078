"""Fitting many models together: several splits, seeds and settings in as few training passes as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from lggd.errors import InputError, InputTypeError
from lggd.estimator import FitTask, NodeClassifier, first_equal, fit_tasks, same_inputs
from lggd.estimator.passes import error_context
from lggd.progress import Callback

Model = TypeVar("Model", bound=NodeClassifier)


def fit_together(models: Sequence[Model], data: Any, *, callback: Callback | None = None) -> list[Model]:
    """Fit many models in as few training passes as possible.

    The results are those of calling `fit` on each model, up to rounding. Distances of several models are trained in one
    pass if the models differ only in labels, `seed`, `optimization`, the dropout of φ₀ and settings applied after
    training (`cross_fit`, `scale`, `cap`, `reachable`, `concat`). Backbones share a pass if they have equal settings,
    `optimization` and numbers of inputs; baselines if all settings except `seed` are equal.

    Parameters
    ----------
    models : sequence of models
        Distinct objects: `LGGDClassifier`, `LGGDPlus`, `LGGD`, `GGD`, baselines or any other `NodeClassifier`.
    data : torch_geometric.data.Data or list of Data
        The data of all models, or one Data per model, typically one graph with different masks.
    callback : callable, optional
        Called with a `Progress` after every epoch. Stages are named as in `fit`, or "distances 2/3" if a stage takes
        three passes; names of metrics include the model, as in "train_loss models[4] t=1".

    Returns
    -------
    list of models
        The fitted models. Each `history_` has the curves of its model, named as after `fit`.

    Raises
    ------
    InputError
        If a model or its data is invalid. The message names the model, and no model is fitted.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> models = [lggd.LGGD(times=(1, 2), seed=seed, optimization=lggd.Optimization(epochs=10)) for seed in range(3)]
    >>> [tuple(model.features(data).shape) for model in lggd.fit_together(models, data)]
    [(34, 5), (34, 5), (34, 5)]
    """
    models = _check_models(models)
    datas = list(data) if isinstance(data, (list, tuple)) else [data] * len(models)
    if len(datas) != len(models):
        rule = f"be one PyG Data, or a list with one for each of the {len(models)} models"
        raise InputError("data", rule, f"a list of {len(datas)}")
    tasks: list[FitTask] = []
    for number, (own, first) in enumerate(zip(datas, first_equal(datas, same_inputs), strict=True)):
        with error_context(f"models[{number}]"):
            task = FitTask.read(own, f"models[{number}]")
        tasks.append(task if first == number else replace(task, inputs=tasks[first].inputs))
    fit_tasks(models, tasks, callback)
    return models


def _check_models(models: Any) -> list[Any]:
    """Returns the models as a list; raises unless they are distinct `NodeClassifier` objects."""
    if not isinstance(models, Sequence):
        raise InputTypeError("models", "be a list of models", type(models).__name__)
    positions: dict[int, int] = {}
    for position, model in enumerate(models):
        if not isinstance(model, NodeClassifier):
            rule = "be an LGGDClassifier, LGGDPlus, LGGD, GGD, a baseline or another NodeClassifier"
            raise InputTypeError(f"models[{position}]", rule, type(model).__name__)
        if id(model) in positions:
            clause = f"models[{positions[id(model)]}] and models[{position}] are the same"
            raise InputError("models", "be different objects", but=clause, remedy="Use copy.copy to make another.")
        positions[id(model)] = position
    return list(models)
