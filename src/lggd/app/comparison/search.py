"""Searches for the settings of any model on one split, by validation accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any

import torch

from lggd import baselines
from lggd._system.memory import release_memory
from lggd.app.comparison.candidates import GraphLabelSpreading
from lggd.backbones import APPNP, GAT, GCN, GPR, SGC, ChebNet, JKNet, Perceptron
from lggd.filters import PPR, Heat
from lggd.models.plus import SelfTraining
from lggd.training.problems import Optimization

# Errors that count as a failed trial: the method cannot be run with these settings on this machine.
FAILURES = (
    MemoryError,
    torch.OutOfMemoryError,
    FloatingPointError,
    torch.linalg.LinAlgError,  # type: ignore[attr-defined]  # torch's stubs lack it
)
DROPOUT, HIDDEN, RESTART, SPREAD = (0.2, 0.5, 0.8), (16, 32, 64), (0.05, 0.1, 0.2), (0.5, 0.8, 0.9, 0.99)
_NETWORK: Mapping[str, tuple[float, ...]] = {"hidden": HIDDEN, "dropout": DROPOUT}
# The same for every method that has such a part, the caller's models included. Methods without any, such as kernel
# ridge regression, choose their settings themselves, by leaving one label out.
SPACES: Mapping[type, Mapping[str, tuple[float, ...]]] = {
    Optimization: {"weight_decay": (1e-6, 5e-4, 5e-3), "lr": (0.003, 0.01, 0.03)},
    **dict.fromkeys((GCN, GAT, ChebNet, JKNet, Perceptron), _NETWORK),
    **{kind: {**_NETWORK, "alpha": RESTART, "hops": (5, 10)} for kind in (APPNP, GPR)},
    SGC: {"hops": (1, 2, 3, 5)},
    PPR: {"alpha": RESTART},
    Heat: {"t": (1.0, 3.0, 5.0)},
    baselines.GDC: {"k": (32, 64, 128)},
    baselines.DropEdge: {"p": (0.2, 0.5, 0.8)},
    baselines.LabelPropagation: {"alpha": SPREAD},
    GraphLabelSpreading: {"alpha": SPREAD},
    SelfTraining: {"fraction": (0.0, 0.3, 0.5)},
}


def search_space(model: Any) -> dict[str, tuple[Any, ...]]:
    """Returns the values of each setting that can be searched, the model's own first.

    >>> import lggd
    >>> search_space(lggd.LGGDClassifier(None, SGC()))["backbone__hops"]
    (2, 1, 3, 5)
    """
    if not is_dataclass(model) or not hasattr(model, "get_params"):
        return {}
    params: dict[str, Any] = model.get_params()
    space: dict[str, tuple[Any, ...]] = {}
    for path, value in params.items():
        if any(part.isdigit() for part in path.split("__")):
            continue  # of several objects that take part together, such as kernels
        owner, _, field = path.rpartition("__")
        choices = SPACES.get(type(params[owner] if owner else model), {}).get(field, ())
        others = [type(value)(each) for each in choices if each != value]
        if others:
            space[path] = (value, *others)
    return space


def choose_settings(
    model: Any, evaluate: Callable[[dict[str, Any]], float], trials: int, seed: int
) -> tuple[dict[str, Any], float | None]:
    """Returns the settings of a model with the highest validation accuracy of `trials` evaluations, and that accuracy.

    The first trial has the settings of the model. Settings that come again are not evaluated again.
    """
    space = search_space(model)
    if not space:
        return {}, None
    import optuna

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        study.enqueue_trial({path: values[0] for path, values in space.items()})
        known: dict[tuple[Any, ...], float] = {}
        reason = ""
        for _ in range(trials):
            trial = study.ask()
            settings = {path: trial.suggest_categorical(path, values) for path, values in space.items()}
            key = tuple(settings.values())
            try:
                known[key] = known[key] if key in known else evaluate(settings)
                study.tell(trial, known[key])
            except FAILURES as error:
                reason = reason or f"{type(error).__name__}: {error}"
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            if key not in known:
                release_memory()  # after the except clause, so that the traceback keeps no tensors alive
    finally:
        optuna.logging.set_verbosity(level)
    if not known:
        raise MemoryError(f"none of {trials} trials succeeded: {reason}")
    return dict(study.best_params), study.best_value
