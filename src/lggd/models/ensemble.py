"""Ensembles: the averaged predictions of several copies of a model with different seeds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps, in_parallel
from lggd.estimator.storage import with_prefix, without_prefix
from lggd.features.distance_features import DistanceFeatures
from lggd.features.lggd import LGGD
from lggd.models.backbone_request import member_curves
from lggd.training.randomness import read_seed
from lggd.validation import check_instance, check_int


@dataclass(eq=False, repr=False)
class Ensemble(NodeClassifier):
    """Fit several copies of a model with different seeds and average their probabilities.

    An ensemble of distance features such as `LGGD` provides features itself, the averages over its members. Its
    probabilities are then softmax(−f(t)) averaged over members and times.

    Parameters
    ----------
    model : NodeClassifier
        The model to copy; its own seed is not used.
    members : int
        Number of copies.
    seed : int or torch.Generator
        Random seed, from which the seeds of the members are drawn.

    Attributes
    ----------
    members_ : list
        The fitted copies. See `NodeClassifier` for the others.

    Examples
    --------
    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=10)
    >>> lggd.Ensemble(lggd.LGGD(times=(1, 2), optimization=few), members=2).fit(data).predict_proba().shape
    torch.Size([34, 2])
    """

    model: NodeClassifier = field(default_factory=LGGD)
    members: int = 3
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self.members_: list[Any]  # set by fit

    def check_settings(self) -> None:
        """Raises an `InputError` if a setting is invalid for any data."""
        check_instance("model", self.model, NodeClassifier, "a model such as LGGD()")
        check_int("members", self.members, minimum=1)
        self.model.check_settings()

    @property
    def accepts_labels(self) -> bool:
        """Whether `add_labels` is supported: if the copied model supports it."""
        return self.model.accepts_labels

    @property
    def _held_out(self) -> float:
        return self.model._held_out

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        tasks = [task.member(k, read_seed(generator)) for k in range(self.members)]
        self._start(task.data, labels.num_classes)
        self.members_ = [copy.copy(self.model) for _ in tasks]
        yield from in_parallel(
            [member._fit_to(own, labels, own.seed) for member, own in zip(self.members_, tasks, strict=True)]
        )
        for stage in self.members_[0].history_:
            self.history_[stage] = member_curves([member.history_[stage] for member in self.members_])
        self._set_labels(labels.train.clone())

    def _set_labels(self, labels: Tensor) -> None:
        self.labels_ = labels
        for member in self.members_:
            member._set_labels(labels)

    # -- predictions ----------------------------------------------------------------------------------------------

    def features(self, data: Any) -> Tensor:
        """Return the features averaged over the members, float32 `[N, F]`."""
        return self._average(lambda member: member.features(data))

    def inputs(self, data: Any) -> Tensor:
        """Return the inputs of a backbone averaged over the members, float32 `[N, F]`."""
        return self._average(lambda member: member.inputs(data))

    def nearness(self, data: Any) -> Tensor:
        """Return softmax(−f) over the classes at each time, averaged over the members, `[N, T, K]`."""
        return self._average(lambda member: member.nearness(data))

    def _probabilities(self, data: Any) -> Tensor:
        if isinstance(self.model, DistanceFeatures):
            return self.nearness(data).mean(1)
        return self._average(lambda member: member._probabilities(data))

    def _average(self, values: Callable[[Any], Tensor]) -> Tensor:
        self._check_fitted()
        return torch.stack([values(member) for member in self.members_]).mean(0)

    # -- files ----------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Tensor]:
        parts = [with_prefix(f"members.{k}.", member._state()) for k, member in enumerate(self.members_)]
        return {name: value for part in parts for name, value in part.items()}

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        parts = [without_prefix(f"members.{k}.", state) for k in range(self.members)]
        self.members_ = [self._restored(self.model, data, part) for part in parts]
