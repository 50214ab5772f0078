"""Readouts: predictions from fitted features."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lggd.backbones import GCN, Backbone, build_seeded
from lggd.backbones.training import train_backbones
from lggd.diffusion import DiffusionGraph
from lggd.errors import InputError
from lggd.estimator import saveable, with_prefix, without_prefix
from lggd.features.evolved_kernel_ridge import mixture_weights
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.training.engine import History
from lggd.training.problems import Optimization
from lggd.validation import check_instance, check_int, check_positive, check_real, read_seed


class Readout(ABC):
    """Base class of readouts: class probabilities from fitted features, such as an `Ensemble` of `LGGD`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        saveable(cls)

    def check_settings(self) -> None:  # noqa: B027 (a readout may have no settings)
        """Raises an `InputError` if a setting is invalid for any data."""

    def fit(  # noqa: B027
        self, features: Any, labels: Labels, generator: torch.Generator, history: dict[str, History],
        callback: Callback | None,
    ) -> None:  # fmt: skip
        """Trains the networks of the readout, if any; their seeds are drawn from the generator."""

    @abstractmethod
    def predict_proba(self, features: Any, nodes: NodeData) -> Tensor:
        """Returns the probability of each class, float32 `[N, K]`."""

    def state(self) -> dict[str, Tensor]:
        """Returns the learned tensors by name."""
        return {}

    def restore(self, features: Any, nodes: NodeData, state: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Restores the tensors that `state` returned."""


@dataclass(frozen=True)
class NearestClass(Readout):
    """Predict the nearest class by distance: the probabilities of the features themselves.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.LGGDPlus(lggd.GGD(times=(1, 2)), NearestClass()).fit(lggd.load("karate"))
    >>> model.predict_proba().shape
    torch.Size([34, 2])
    """

    def predict_proba(self, features: Any, nodes: NodeData) -> Tensor:
        probabilities: Tensor = features._probabilities(nodes)
        return probabilities


@dataclass(eq=False)
class BackboneReadout(Readout):
    """Train graph neural networks on the features and average their probabilities.

    Parameters
    ----------
    backbone : GCN, GAT, ChebNet, JKNet or GPR
    members : int
        Number of networks to train, with different seeds.
    use_features, use_x : bool
        Inputs of the networks: the distance features, the node features `x` with normalized rows, or both, with `x`
        scaled to the mean norm of the features.
    diffusion : DiffusionGraph or None
        The graph on which the networks operate; None uses that of the data.
    optimization : Optimization
    confident : float
        The fraction of the most confident predictions of the features that the networks are trained on, besides the
        labels.

    Examples
    --------
    >>> import lggd
    >>> quick = lggd.Optimization(epochs=5)
    >>> model = lggd.LGGDPlus(lggd.GGD(times=(1, 2)), BackboneReadout(members=2, optimization=quick))
    >>> model.fit(lggd.load("karate")).predict_proba().shape
    torch.Size([34, 2])
    """

    backbone: Backbone = GCN()
    members: int = 3
    use_features: bool = True
    use_x: bool = True
    diffusion: DiffusionGraph | None = None
    optimization: Optimization = Optimization()
    confident: float = 0.0

    def check_settings(self) -> None:
        check_instance("backbone", self.backbone, Backbone, "GCN(), GAT(), ChebNet(), JKNet() or GPR()")
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")
        check_int("members", self.members, minimum=1)
        check_real("confident", self.confident, 0, 1, remedy="0 adds no predictions.")
        if self.diffusion is not None:
            check_instance("diffusion", self.diffusion, DiffusionGraph, "a DiffusionGraph() or None")
        if not (self.use_features or self.use_x):
            raise InputError("use_features", "be True if use_x is False", "False for both")

    def fit(
        self, features: Any, labels: Labels, generator: torch.Generator, history: dict[str, History],
        callback: Callback | None,
    ) -> None:  # fmt: skip
        seeds = [read_seed(generator) for _ in range(self.members)]
        nodes, earlier = features.data_, sum(stage.endswith("backbone") for stage in history)
        stage = f"readout {earlier + 1} backbone" if earlier else "backbone"  # curves need different names
        labels = labels.with_confident(features._probabilities(nodes), self.confident)
        both = self.use_features and self.use_x
        self.x_scale_ = float(features.features(nodes).norm(dim=1).mean()) if both else 1.0
        self.modules_, history[stage] = train_backbones(
            self.backbone, self._inputs(features, nodes), self._edges(nodes), labels, self.optimization, seeds, stage,
            callback,
        )  # fmt: skip

    def _inputs(self, features: Any, nodes: NodeData) -> Tensor:
        parts = [normalize(nodes.features.to_dense()) * self.x_scale_] if self.use_x else []
        parts += [features.features(nodes)] if self.use_features else []
        return torch.cat(parts, dim=1)

    def _edges(self, nodes: NodeData) -> tuple[Tensor, Tensor | None]:
        return nodes.edges if self.diffusion is None else self.diffusion.diffuse(*nodes.edges, nodes.num_nodes)

    def predict_proba(self, features: Any, nodes: NodeData) -> Tensor:
        inputs, edges = self._inputs(features, nodes), self._edges(nodes)
        with torch.no_grad():
            return torch.stack([torch.softmax(module(inputs, *edges), dim=1) for module in self.modules_]).mean(0)

    def state(self) -> dict[str, Tensor]:
        state = {"x_scale": torch.tensor(self.x_scale_, dtype=torch.float64)}
        for k, module in enumerate(self.modules_):
            state |= with_prefix(f"modules.{k}.", module.state_dict())
        return state

    def restore(self, features: Any, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        self.x_scale_, self.modules_ = float(state["x_scale"]), []
        width = self._inputs(features, nodes).shape[1]
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
        When labels are added, weigh trained networks by the square of the fraction of the labels that they have seen:
        old labels count less as new ones arrive.

    Examples
    --------
    >>> import lggd
    >>> both = MeanReadout((BackboneReadout(members=1, optimization=lggd.Optimization(epochs=5)), NearestClass()))
    >>> lggd.LGGDPlus(lggd.GGD(times=(1, 2)), both).fit(lggd.load("karate")).predict_proba().shape
    torch.Size([34, 2])
    """

    readouts: tuple[Readout, ...] = field(default_factory=lambda: (BackboneReadout(), NearestClass()))
    fade: bool = False

    def check_settings(self) -> None:
        if not isinstance(self.readouts, tuple | list) or not self.readouts:
            received = self.readouts if isinstance(self.readouts, Readout) else "none"
            raise InputError("readouts", "be a tuple of readouts such as (NearestClass(),)", received)
        for readout in self.readouts:
            check_instance("readouts", readout, Readout, "readouts such as NearestClass()")
            readout.check_settings()

    def fit(
        self, features: Any, labels: Labels, generator: torch.Generator, history: dict[str, History],
        callback: Callback | None,
    ) -> None:  # fmt: skip
        self.readouts_ = [copy.copy(readout) for readout in self.readouts]
        self.labels_seen_ = int((features.labels_ >= 0).sum())
        for readout in self.readouts_:
            readout.fit(features, labels, generator, history, callback)

    def predict_proba(self, features: Any, nodes: NodeData) -> Tensor:
        seen = min(1.0, self.labels_seen_ / int((features.labels_ >= 0).sum())) ** 2 if self.fade else 1.0
        trained = (isinstance(readout, BackboneReadout) for readout in self.readouts_)
        weights = [own * seen if fades else own for own, fades in zip(self._weights(), trained, strict=True)]
        parts = [readout.predict_proba(features, nodes) * w for readout, w in zip(self.readouts_, weights, strict=True)]
        return sum(parts[1:], start=parts[0]) / sum(weights)

    def _weights(self) -> list[float]:
        """The weight of each readout, before networks fade."""
        return [1.0] * len(self.readouts_)

    def state(self) -> dict[str, Tensor]:
        parts = {f"{k}.{name}": value for k, own in enumerate(self.readouts_) for name, value in own.state().items()}
        return {"labels_seen": torch.tensor(self.labels_seen_), **parts}

    def restore(self, features: Any, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        self.readouts_, self.labels_seen_ = [copy.copy(own) for own in self.readouts], int(state["labels_seen"])
        for k, readout in enumerate(self.readouts_):
            readout.restore(features, nodes, without_prefix(f"{k}.", state))


@dataclass(eq=False)
class WeightedReadout(MeanReadout):
    """Average the probabilities of several readouts, weighed by how well they predict the validation labels.

    The weights are the most probable ones of a mixture of the readouts, by the validation labels and `prior`; without
    validation labels those of `prior`.

    Parameters
    ----------
    readouts : tuple of readouts
    fade : bool
        As in `MeanReadout`.
    prior : tuple of float
        For each readout, the number of labels that it is taken to have predicted before; the fewer, the more the
        validation labels decide. Empty for 1 each.

    Attributes
    ----------
    weights_ : list of float
        The weight of each readout; they sum to 1.

    Examples
    --------
    >>> import lggd
    >>> networks = lggd.BackboneReadout(members=1, use_features=False, optimization=lggd.Optimization(epochs=5))
    >>> readout = lggd.WeightedReadout((lggd.NearestClass(), networks), prior=(3.0, 1.0))
    >>> model = lggd.LGGDPlus(lggd.EvolvedKernelRidge(), readout).fit(lggd.load("karate"))
    >>> model.readout_.weights_  # no validation labels
    [0.75, 0.25]
    """

    prior: tuple[float, ...] = ()

    def check_settings(self) -> None:
        super().check_settings()
        if self.prior and len(self.prior) != len(self.readouts):
            raise InputError("prior", f"contain a number for each of the {len(self.readouts)} readouts", self.prior)
        for count in self.prior:
            check_positive("prior", count)

    def fit(
        self, features: Any, labels: Labels, generator: torch.Generator, history: dict[str, History],
        callback: Callback | None,
    ) -> None:  # fmt: skip
        super().fit(features, labels, generator, history, callback)
        nodes = (labels.validation >= 0).nonzero()
        classes = labels.validation[nodes]
        own = [readout.predict_proba(features, features.data_)[nodes, classes] for readout in self.readouts_]
        self.weights_ = mixture_weights(torch.cat(own, dim=1).cpu().double(), self.prior or (1.0,) * len(own))

    def _weights(self) -> list[float]:
        return self.weights_

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "weights": torch.tensor(self.weights_, dtype=torch.float64)}

    def restore(self, features: Any, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        super().restore(features, nodes, state)
        self.weights_ = state["weights"].tolist()
