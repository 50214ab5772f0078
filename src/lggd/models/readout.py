"""Readouts: predictions from fitted features."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from lggd.backbones import GCN, Backbone, build_seeded
from lggd.diffusion import DiffusionGraph
from lggd.errors import InputError
from lggd.estimator import FitSteps, FitTask, Labels, saveable, with_prefix, without_prefix
from lggd.graph import read_weight
from lggd.learning.node_features import check_node_features
from lggd.models.backbone_request import BackboneRequest
from lggd.training.optimization import Optimization
from lggd.training.progress import History
from lggd.training.randomness import read_seed
from lggd.validation import check_instance, check_int


class Readout(ABC):
    """Base class of readouts: class probabilities from fitted features, such as an `Ensemble` of `LGGD`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        saveable(cls)

    def check_settings(self) -> None:  # noqa: B027 (a readout may have no settings)
        """Raises an `InputError` if a setting is invalid for any data."""

    def fit(
        self, features: Any, task: FitTask, labels: Labels, generator: torch.Generator, history: dict[str, History]
    ) -> FitSteps:
        """Trains the networks of the readout, if any; their seeds are drawn from the generator."""
        yield from ()

    @abstractmethod
    def predict_proba(self, features: Any, data: Any) -> Tensor:
        """Returns the probability of each class, float32 `[N, K]`."""

    def state(self) -> dict[str, Tensor]:
        """Returns the learned tensors by name."""
        return {}

    def restore(self, features: Any, data: Any, state: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Restores the tensors that `state` returned."""


@dataclass(frozen=True)
class NearestClass(Readout):
    """Predict the nearest class by distance: the probabilities of the features themselves."""

    def predict_proba(self, features: Any, data: Any) -> Tensor:
        return features._probabilities(data)  # type: ignore[no-any-return]


@dataclass(eq=False)
class BackboneReadout(Readout):
    """Train graph neural networks on the features and average their probabilities.

    Parameters
    ----------
    backbone : GCN, GAT, ChebNet or JKNet
    members : int
        Number of networks to train, with different seeds.
    use_features, use_x : bool
        Inputs of the networks: the distance features, the node features `x` with normalized rows, or both, with `x`
        scaled to the mean norm of the features.
    diffusion : DiffusionGraph or None
        The graph on which the networks operate; None uses that of the data.
    optimization : Optimization
    """

    backbone: Backbone = GCN()
    members: int = 3
    use_features: bool = True
    use_x: bool = True
    diffusion: DiffusionGraph | None = None
    optimization: Optimization = Optimization()

    def __post_init__(self) -> None:
        self.modules_: list[nn.Module]  # set by fit
        self.x_scale_: float

    def check_settings(self) -> None:
        check_instance("backbone", self.backbone, Backbone, "GCN(), GAT(), ChebNet() or JKNet()")
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")
        check_int("members", self.members, minimum=1)
        if self.diffusion is not None:
            check_instance("diffusion", self.diffusion, DiffusionGraph, "a DiffusionGraph() or None")
        if not (self.use_features or self.use_x):
            raise InputError("use_features", "be True if use_x is False", "False for both")

    def fit(
        self, features: Any, task: FitTask, labels: Labels, generator: torch.Generator, history: dict[str, History]
    ) -> FitSteps:
        seeds = [read_seed(generator) for _ in range(self.members)]
        data, earlier = features.data_, sum(stage.endswith("backbone") for stage in history)
        if earlier:  # curves and checkpoints of every readout need different names
            task = replace(task, prefix=f"{task.prefix}readout {earlier + 1} ")
        self.x_scale_ = float(features.features(data).norm(dim=1).mean())
        request = BackboneRequest(
            self.backbone, self._inputs(features, data), *self._edges(data), labels, self.optimization, seeds, task,
            graph_key=self.diffusion,
        )  # fmt: skip
        ((self.modules_, history[request.stage]),) = yield [request]

    def _inputs(self, features: Any, data: Any) -> Tensor:
        if not self.use_x:
            return features.features(data)  # type: ignore[no-any-return]
        x = normalize(check_node_features(data).to_dense())
        return torch.cat([x * self.x_scale_, features.features(data)], dim=1) if self.use_features else x

    def _edges(self, data: Any) -> tuple[Tensor, Tensor | None]:
        diffused = data if self.diffusion is None else self.diffusion.transform(data)
        return diffused.edge_index, read_weight(diffused)

    def predict_proba(self, features: Any, data: Any) -> Tensor:
        inputs, edges = self._inputs(features, data), self._edges(data)
        with torch.no_grad():
            return torch.stack([torch.softmax(module(inputs, *edges), dim=1) for module in self.modules_]).mean(0)

    def state(self) -> dict[str, Tensor]:
        state = {"x_scale": torch.tensor(self.x_scale_, dtype=torch.float64)}
        for k, module in enumerate(self.modules_):
            state |= with_prefix(f"modules.{k}.", module.state_dict())
        return state

    def restore(self, features: Any, data: Any, state: Mapping[str, Tensor]) -> None:
        self.x_scale_, self.modules_ = float(state["x_scale"]), []
        width = self._inputs(features, data).shape[1]
        for k in range(self.members):
            module = build_seeded(self.backbone, width, features.num_classes_, seed=0)
            module.load_state_dict(without_prefix(f"modules.{k}.", state))
            self.modules_.append(module.eval())


@dataclass(eq=False)
class MeanReadout(Readout):
    """Average the probabilities of several readouts.

    Parameters
    ----------
    readouts : tuple of readouts
    fade : bool
        When labels are added, weigh trained networks by the fraction of the labels that they have seen.
    """

    readouts: tuple[Readout, ...] = field(default_factory=lambda: (BackboneReadout(), NearestClass()))
    fade: bool = False

    def __post_init__(self) -> None:
        self.readouts_: list[Readout]  # set by fit
        self.labels_seen_: int

    def check_settings(self) -> None:
        if not self.readouts:
            raise InputError("readouts", "contain at least one readout", "none")
        for readout in self.readouts:
            check_instance("readouts", readout, Readout, "readouts such as NearestClass()")
            readout.check_settings()

    def fit(
        self, features: Any, task: FitTask, labels: Labels, generator: torch.Generator, history: dict[str, History]
    ) -> FitSteps:
        self.readouts_ = [copy.copy(readout) for readout in self.readouts]
        self.labels_seen_ = int((features.labels_ >= 0).sum())
        for readout in self.readouts_:
            yield from readout.fit(features, task, labels, generator, history)

    def predict_proba(self, features: Any, data: Any) -> Tensor:
        seen = min(1.0, self.labels_seen_ / int((features.labels_ >= 0).sum())) if self.fade else 1.0
        weights = [seen if isinstance(readout, BackboneReadout) else 1.0 for readout in self.readouts_]
        parts = [readout.predict_proba(features, data) * w for readout, w in zip(self.readouts_, weights, strict=True)]
        return sum(parts[1:], start=parts[0]) / sum(weights)

    def state(self) -> dict[str, Tensor]:
        parts = {f"{k}.{name}": value for k, own in enumerate(self.readouts_) for name, value in own.state().items()}
        return {"labels_seen": torch.tensor(self.labels_seen_), **parts}

    def restore(self, features: Any, data: Any, state: Mapping[str, Tensor]) -> None:
        self.readouts_, self.labels_seen_ = [copy.copy(own) for own in self.readouts], int(state["labels_seen"])
        for k, readout in enumerate(self.readouts_):
            readout.restore(features, data, without_prefix(f"{k}.", state))
