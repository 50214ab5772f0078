"""LGGD+: the combination of learned distances, self-training and readouts with the best validation accuracy."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps
from lggd.estimator.storage import with_prefix, without_prefix
from lggd.features.distance_features import DistanceFeatures
from lggd.features.lggd import LGGD
from lggd.learning.networks import PropagatedMLP
from lggd.models.ensemble import Ensemble
from lggd.models.readout import MeanReadout, Readout
from lggd.models.self_training import SelfTraining
from lggd.validation import check_instance


def _default_features() -> SelfTraining:
    initial = PropagatedMLP(hidden=(256, 64), pagerank=0.1)
    distances = LGGD(times=(0.2, 0.4, 0.6, 0.8, 1.0), initial=initial, reachable=False)
    return SelfTraining(Ensemble(distances, members=3), fraction=0.3, rounds=1)


@dataclass(eq=False, repr=False)
class LGGDPlus(NodeClassifier):
    """Classify nodes by learned distances, more accurately than `LGGDClassifier` but at a higher cost.

    The default combines an ensemble of three networks for φ₀ that use the node features of near and far neighbours,
    self-training, and the mean of two predictions: the nearest class by distance, and three GCNs trained on distances
    and node features.

    Parameters
    ----------
    features : SelfTraining, Ensemble, LGGD or GGD
        The distances to learn.
    readout : MeanReadout, NearestClass or BackboneReadout
        How to predict classes from the distances.
    seed : int or torch.Generator
        Random seed, from which all other seeds are drawn.

    Attributes
    ----------
    features_, readout_ :
        The fitted features and readout. See `NodeClassifier` for the others.

    Examples
    --------
    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=10)
    >>> distances = lggd.Ensemble(lggd.LGGD(times=(1, 2), optimization=few), members=2)
    >>> lggd.LGGDPlus(distances, lggd.NearestClass()).fit(data).predict_proba().shape
    torch.Size([34, 2])
    """

    features: NodeClassifier = field(default_factory=_default_features)
    readout: Readout = field(default_factory=MeanReadout)
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self.features_: Any  # set by fit
        self.readout_: Any

    def check_settings(self) -> None:
        """Raises an `InputError` if a setting is invalid for any data."""
        kinds = (SelfTraining, Ensemble, DistanceFeatures)
        check_instance("features", self.features, kinds, "SelfTraining(), Ensemble(), LGGD() or GGD()")
        check_instance("readout", self.readout, Readout, "a readout such as NearestClass()")
        self.features.check_settings()
        self.readout.check_settings()

    @property
    def _held_out(self) -> float:
        return self.features._held_out

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        self._start(task.data, labels.num_classes)
        self.features_, self.readout_ = copy.copy(self.features), copy.copy(self.readout)
        yield from self.features_._fit_to(task, labels, generator)
        self.history_ |= self.features_.history_
        yield from self.readout_.fit(self.features_, task, labels, generator, self.history_)
        self.labels_ = labels.train.clone()

    def _set_labels(self, labels: Tensor) -> None:
        self.labels_ = labels
        self.features_._set_labels(labels)

    def _probabilities(self, data: Any) -> Tensor:
        probabilities: Tensor = self.readout_.predict_proba(self.features_, data)
        return probabilities

    def _state(self) -> dict[str, Tensor]:
        features = with_prefix("features.", self.features_._state())
        return {**features, **with_prefix("readout.", self.readout_.state())}

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        self.features_ = self._restored(self.features, data, without_prefix("features.", state))
        self.readout_ = copy.copy(self.readout)
        self.readout_.restore(self.features_, data, without_prefix("readout.", state))
