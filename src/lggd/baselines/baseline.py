"""What LGGD is compared with: one contract for all, and one training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from lggd.errors import InputTypeError, error_context
from lggd.estimator.fit_task import first_equal, same_inputs
from lggd.estimator.labels import Labels, accuracy
from lggd.graph.edge_index import read_edges
from lggd.learning.node_features import check_node_features
from lggd.models.passes import history_of, in_passes, stage_name
from lggd.training.engine import Engine, Trainable, train
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback, History
from lggd.training.randomness import read_seed

# The share of labels to hold out for validation where none are given.
VALIDATION = 0.2


class Answering(Trainable, Protocol):
    """Networks that can be asked about every node."""

    def logits(self) -> Tensor:
        """The logits of all nodes, `[Q, N, K]`, as they answer when trained."""


@dataclass(frozen=True, eq=False)
class BaselineProblem:
    """What one model is fitted to: the nodes it may learn from and validate on, and a seed of its own.

    `train` and `validation` are int64 `[N]`, a class or -1; no other label is to be had.
    """

    train: Tensor
    validation: Tensor
    seed: int
    name: str


@dataclass(frozen=True, eq=False)
class BaselineData:
    """What all problems of one pass have in common: contents float32 `[N, F]`, edges, their weights or None, and K."""

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None
    num_classes: int

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.x)


@dataclass(eq=False)
class Baseline(ABC):
    """A method that classifies the nodes of the graph it is fitted to. Used as `LGGDClassifier` is.

    `fit(data)` reads labels as `LGGD.fit` does and returns self. After it: `probabilities_` float32 `[N, K]`,
    `num_classes_`, `labels_` (the labels learned from and those that `fit` itself held out to validate on, int64 `[N]`,
    -1 elsewhere) and `history_` (training curves).
    `lggd.fit_together` fits several at once; those that differ in nothing but labels and seed share a pass.
    """

    _: KW_ONLY
    optimization: Optimization = Optimization()
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        # Declared here, set by fit: a fitted model has them, an unfitted one has not.
        self.probabilities_: Tensor
        self.labels_: Tensor
        self.num_classes_: int
        self.history_: dict[str, History]

    # -- what a method must say ---------------------------------------------------------------------------------

    @abstractmethod
    def _check(self) -> None:
        """Refuses wrong settings."""

    @abstractmethod
    def _networks(
        self, data: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> Answering:
        """Networks on their way, one a problem, that `Engine` trains.

        Called once for all problems of a pass, on the first of its models. Whatever comes before that training, as
        preprocessing or pretraining, happens here.
        """

    def _problems_at_once(self, data: BaselineData) -> int:
        """How many problems may share a pass on such data, where memory or the method sets a limit."""
        return 2**62

    # -- scikit-learn's verbs -----------------------------------------------------------------------------------

    def fit(self, data: Any, *, callback: Callback | None = None) -> Self:
        """Learns from the labels that the data show; a fit that fails leaves the model as it was."""
        fit_baselines([self], [data], [""], callback)
        return self

    def predict(self) -> Tensor:
        """The most probable class of each node of the graph that it was fitted to, int64 `[N]`."""
        return self.predict_proba().argmax(1)

    def predict_proba(self) -> Tensor:
        """The probability of each class, float32 `[N, K]`."""
        if not hasattr(self, "probabilities_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} must be fitted first. Call fit(data).")
        return self.probabilities_

    def score(self, data: Any, mask: Tensor | None = None) -> float:
        """The share of right answers over `mask`, or `data.test_mask`, or all labels that it does not know."""
        return accuracy(self.predict(), data, mask, self.labels_)


def train_problems(
    networks: Answering,
    problems: Sequence[BaselineProblem],
    optimization: Optimization,
    stage: str,
    callback: Callback | None,
) -> tuple[Tensor, History]:
    """Trains networks on the problems of a pass; returns their logits `[Q, N, K]` at their best, and the curves."""
    targets, validation = (torch.stack([getattr(one, of) for one in problems]) for of in ("train", "validation"))
    engine = Engine(networks, targets, validation, optimization, [one.name for one in problems])
    history = train(engine, stage, callback)
    engine.load_best()
    return networks.logits(), history


def fit_baselines(
    models: Sequence[Baseline], data: Sequence[Any], names: Sequence[str], callback: Callback | None
) -> None:
    """Fits each model to its data as `fit` says; all of them, or none where something is wrong with one.

    `names` are what errors and curves call the models.
    """
    subjects, problems, labels = [], [], []
    for model, one, name in zip(models, data, names, strict=True):
        with error_context(name):
            if not isinstance(model.optimization, Optimization):
                raise InputTypeError("optimization", "be an Optimization()", repr(model.optimization))
            model._check()
            subject, problem, shown = _read(model, one, name)
        subjects.append(subject)
        problems.append(problem)
        labels.append(shown)
    keys = [
        (first, subject.num_classes, type(model), *_settings(model))
        for first, subject, model in zip(first_equal(data, same_inputs), subjects, models, strict=True)
    ]
    passes = in_passes(keys, [1] * len(models), lambda place: models[place]._problems_at_once(subjects[place]))
    learned: list[tuple[Tensor, History]] = [None] * len(models)  # type: ignore[list-item]
    for number, places in enumerate(passes):
        stage, first = stage_name("training", number, len(passes)), places[0]
        mine = [problems[place] for place in places]
        with error_context(mine[0].name if len(mine) == 1 else ""):
            found = _train_pass(models[first], subjects[first], mine, stage, callback)
        for place, one in zip(places, found, strict=True):
            learned[place] = one
    for model, shown, (probabilities, history) in zip(models, labels, learned, strict=True):
        model.probabilities_, model.history_ = probabilities, {"training": history}
        model.num_classes_, model.labels_ = shown.num_classes, shown.known


def _settings(model: Baseline) -> list[Any]:
    """All in which models must agree to share a pass."""
    return [getattr(model, field.name) for field in fields(model) if field.name != "seed"]


def _train_pass(
    model: Baseline, data: BaselineData, problems: Sequence[BaselineProblem], stage: str, callback: Callback | None
) -> list[tuple[Tensor, History]]:
    networks = model._networks(data, problems, callback)
    answers, history = train_problems(networks, problems, model.optimization, stage, callback)
    return [
        (torch.softmax(logits, dim=1).float(), history_of(history, one.name))
        for logits, one in zip(answers, problems, strict=True)
    ]


def _read(model: Baseline, data: Any, name: str) -> tuple[BaselineData, BaselineProblem, Labels]:
    seed = read_seed(model.seed)
    labels = Labels.read(data).hold_out(VALIDATION, torch.Generator().manual_seed(seed))
    x = check_node_features(data)
    x = x if x.layout == torch.strided else x.to_dense()
    subject = BaselineData(x.float(), *read_edges(data, len(x)), labels.num_classes)
    return subject, BaselineProblem(labels.train, labels.validation, seed, name), labels
