"""Self-training: fitting a model again with its most confident predictions as additional labels."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps
from lggd.estimator.storage import with_prefix, without_prefix
from lggd.features.lggd import LGGD
from lggd.validation import check_instance, check_int, check_real


@dataclass(eq=False, repr=False)
class SelfTraining(NodeClassifier):
    """Fit a model, add its most confident predictions to the labels, and fit it again.

    Predictions are used as training targets only: distances are still measured from the nodes with true labels.

    Parameters
    ----------
    model : NodeClassifier
        The model to fit.
    fraction : float
        Fraction of the nodes predicted as each class whose predictions are added; 0 adds none.
    rounds : int
        Number of times that predictions are added and the model is fitted again.
    seed : int or torch.Generator
        Random seed, the same for every round.

    Attributes
    ----------
    model_ : NodeClassifier
        The model fitted in the last round. See `NodeClassifier` for the others.

    Examples
    --------
    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=10)
    >>> model = lggd.SelfTraining(lggd.LGGD(times=(1, 2), optimization=few), fraction=0.2).fit(data)
    >>> sorted(model.history_)
    ['distances', 'self-training 1 distances']
    """

    model: NodeClassifier = field(default_factory=LGGD)
    fraction: float = 0.3
    rounds: int = 1
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self.model_: Any  # set by fit

    def check_settings(self) -> None:
        """Raises an `InputError` if a setting is invalid for any data."""
        check_instance("model", self.model, NodeClassifier, "a model such as LGGD()")
        check_real("fraction", self.fraction, 0, 1, remedy="0 adds no predictions.")
        check_int("rounds", self.rounds, minimum=1)
        self.model.check_settings()

    @property
    def accepts_labels(self) -> bool:
        """Whether `add_labels` is supported: if the fitted model supports it."""
        return self.model.accepts_labels

    @property
    def _held_out(self) -> float:
        return self.model._held_out

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        self._start(task.data, labels.num_classes)
        initial = seed.get_state() if isinstance(seed, torch.Generator) else None
        for number in range(1 + (self.rounds if self.fraction else 0)):
            targets, stage = labels, task
            if number:
                targets = self._with_confident(labels, self.model_._probabilities(self.data_))
                stage = replace(task, prefix=f"{task.prefix}self-training {number} ")
            if isinstance(seed, torch.Generator):
                seed.set_state(initial)  # type: ignore[arg-type]
            self.model_ = copy.copy(self.model)
            yield from self.model_._fit_to(stage, targets, seed)
            self.history_ |= self.model_.history_
            self._set_labels(labels.train.clone())

    def _with_confident(self, labels: Labels, probabilities: Tensor) -> Labels:
        """Returns the labels and, for each class, the most confident `fraction` of the predictions."""
        confidence, predicted = probabilities.max(1)
        train, free = labels.train.clone(), (labels.train < 0) & (labels.validation < 0)
        for k in range(labels.num_classes):
            nodes = ((predicted == k) & free).nonzero().squeeze(1)
            order = confidence[nodes].argsort(descending=True, stable=True)
            train[nodes[order[: int(self.fraction * len(nodes))]]] = k
        return replace(labels, train=train)

    def _set_labels(self, labels: Tensor) -> None:
        self.labels_ = labels
        self.model_._set_labels(labels)

    # -- predictions ----------------------------------------------------------------------------------------------

    def features(self, data: Any) -> Tensor:
        """Return the features of the fitted model, if it has any, float32 `[N, F]`."""
        self._check_fitted()
        features: Tensor = self.model_.features(data)
        return features

    def inputs(self, data: Any) -> Tensor:
        """Return the inputs of a backbone, float32 `[N, F]`."""
        self._check_fitted()
        inputs: Tensor = self.model_.inputs(data)
        return inputs

    def _probabilities(self, data: Any) -> Tensor:
        probabilities: Tensor = self.model_._probabilities(data)
        return probabilities

    # -- files ----------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Tensor]:
        return with_prefix("model.", self.model_._state())

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        self.model_ = self._restored(self.model, data, without_prefix("model.", state))
