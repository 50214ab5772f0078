"""Tiny models of every kind, for tests of what models have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.exceptions import NotFittedError

from lggd import (
    GCN,
    GGD,
    LGGD,
    MLP,
    BackboneReadout,
    Ensemble,
    EvolvedKernelRidge,
    KernelRidge,
    LGGDClassifier,
    LGGDPlus,
    MeanReadout,
    NearestClass,
    Optimization,
    SelfTraining,
)
from lggd.baselines import Baseline, LabelPropagation
from lggd.estimator import Member
from lggd.progress import Progress
from support.baseline_cases import CASES
from support.small_data import CLASSES

TIMES = (1.0, 2.0)
# Features of an LGGD with these times: distances, and whether a label is reachable.
WIDTH = len(TIMES) * CLASSES + 1
FEW = Optimization(lr=0.02, weight_decay=0.002, epochs=4, patience=None)
SOME = Optimization(epochs=6, patience=None)


def distances(**settings: Any) -> LGGD:
    return LGGD(**{"times": TIMES, "optimization": FEW, "initial": MLP((8,)), **settings})


def classifier(features: Any, **settings: Any) -> LGGDClassifier:
    return LGGDClassifier(features, **{"backbone": GCN(hidden=8), "optimization": SOME, **settings})


def readout(**settings: Any) -> BackboneReadout:
    return BackboneReadout(**{"backbone": GCN(hidden=8), "members": 2, "optimization": SOME, **settings})


def plus(features: Any = None, reads: Any = None, seed: Any = 0) -> LGGDPlus:
    """All parts of LGGD+: two networks, one round of self-training, two backbones beside the nearest class."""
    if features is None:
        features = SelfTraining(Ensemble(distances(reachable=False), members=2), fraction=0.5)
    return LGGDPlus(features, reads or MeanReadout((readout(), NearestClass())), seed)


BASELINES = {case.kind.__name__: case for case in CASES.values()}


def baseline(name: str, **settings: Any) -> Baseline:
    return BASELINES[name].make(**{"optimization": SOME, **settings})


# One of each kind, by the seed that all randomness comes from.
MODELS: dict[str, Callable[[Any], Member]] = {
    "GGD": lambda seed: GGD(TIMES, seed=seed),
    "LGGD": lambda seed: distances(seed=seed),
    "LGGD, one model for all times": lambda seed: distances(per_time=False, cross_fit=2, seed=seed),
    "KernelRidge": lambda seed: KernelRidge(seed=seed),
    "EvolvedKernelRidge": lambda seed: EvolvedKernelRidge(times=TIMES, seed=seed),
    "LGGDPlus, solved": lambda seed: LGGDPlus(readout=BackboneReadout(members=2, optimization=FEW), seed=seed),
    "LGGDClassifier": lambda seed: classifier(distances(seed=seed), seed=seed),
    "LGGDClassifier on GGD": lambda seed: classifier(GGD(TIMES, seed=seed), seed=seed),
    "LGGDClassifier on an ensemble": lambda seed: classifier(Ensemble(distances(), 2, seed=seed), seed=seed),
    "LGGDClassifier without features": lambda seed: classifier(None, seed=seed),
    "LGGDClassifier without a backbone": lambda seed: classifier(distances(seed=seed), backbone=None, seed=seed),
    "Ensemble": lambda seed: Ensemble(distances(), members=2, seed=seed),
    "Ensemble of classifiers": lambda seed: Ensemble(classifier(distances()), members=2, seed=seed),
    "Ensemble of baselines": lambda seed: Ensemble(baseline("DropEdge"), members=2, seed=seed),
    "SelfTraining": lambda seed: SelfTraining(distances(), fraction=0.5, rounds=2, seed=seed),
    "SelfTraining of classifiers": lambda seed: SelfTraining(Ensemble(classifier(distances()), 2), 0.5, seed=seed),
    "LGGDPlus": lambda seed: plus(seed=seed),
    "LGGDPlus, nearest class": lambda seed: plus(Ensemble(distances(), members=2), NearestClass(), seed=seed),
    **{name: lambda seed, name=name: baseline(name, seed=seed) for name in BASELINES},  # type: ignore[misc]
    # Baselines that use new labels without training.
    "LabelPropagation": lambda seed: LabelPropagation(iterations=10, seed=seed),
}


# Models whose predictions depend, by rounding, on the order in which labels came.
ROUNDED = ["KernelRidge", "EvolvedKernelRidge", "LGGDPlus, solved"]


def stop_at(stage: str, epoch: int, time: int = 1) -> Callable[[Progress], None]:
    """A callback that interrupts training at an epoch of a stage, when it comes for the given time."""
    times = 0

    def callback(progress: Progress) -> None:
        nonlocal times
        times += (progress.stage, progress.done) == (stage, epoch)
        if times == time:
            raise KeyboardInterrupt

    return callback


def learned(model: Member) -> dict[str, torch.Tensor]:
    """Copies of everything that a fitted model has learned, by name."""
    return {name: value.detach().clone() for name, value in model._state().items()}


def is_fitted(model: Member) -> bool:
    try:
        model.predict()
    except NotFittedError:
        return False
    return True


def agree(name: str, one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a model gave the same probabilities on two ways to the same labels: to the bit, or up to rounding.

    Products of matrices round differently when the columns of labels are computed one by one.
    """
    if name in ROUNDED:
        return bool(torch.allclose(one, other, rtol=0, atol=1e-5))
    return torch.equal(one, other)
