"""LGGD+: learned distances, self-training and readouts; and its parts `Ensemble` and `SelfTraining`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from lggd.backbones import GPR
from lggd.closed_form import KernelRidge, PseudoLabels
from lggd.diffusion import DiffusionGraph
from lggd.errors import InputError
from lggd.estimator import Member, with_prefix, without_prefix
from lggd.features import LGGD, DistanceFeatures, EvolvedKernelRidge
from lggd.filters import Heat
from lggd.inputs import Labels, NodeData
from lggd.learning.networks import PropagatedMLP
from lggd.models.readout import BackboneReadout, MeanReadout, NearestClass, Readout, WeightedReadout
from lggd.progress import Callback, Progress
from lggd.training.problems import Optimization
from lggd.validation import check_instance, check_int, check_real, read_seed

if TYPE_CHECKING:
    from torch_geometric.data import Data

DECAY = Optimization(weight_decay=5e-4)  # of the networks of `LGGDPlus`


def _fit_part(
    model: Member, nodes: NodeData, labels: Labels, seed: int | torch.Generator, callback: Callback | None
) -> None:
    """Fits a part; ensembles and self-training may draw several seeds from the generator of the whole."""
    if isinstance(model, (Ensemble, SelfTraining)):
        model._fit_to(nodes, labels, seed, callback)
    else:
        model._fit_to(nodes, labels, read_seed(seed), callback)


def _in_stage(callback: Callback | None, prefix: str) -> Callback | None:
    """A callback whose stages begin with the prefix."""
    if callback is None or not prefix:
        return callback

    def prefixed(progress: Progress) -> None:
        callback(replace(progress, stage=prefix + progress.stage))

    return prefixed


class _MetaModel(Member):
    """Base class of models that fit copies of another `model`: the means over the copies, and their parts."""

    model: Member
    _inner = "model"  # of which an `Ensemble` fits several copies

    def check_settings(self) -> None:
        check_instance("model", self.model, Member, "a model such as LGGD()")
        self.model.check_settings()

    def input_width(self, nodes: NodeData, num_classes: int) -> tuple[int, str]:
        """Return the number of columns of `inputs`, known before the fit, and what they are."""
        width: tuple[int, str] = self._providing("input_width").input_width(nodes, num_classes)
        return width

    def features(self, data: Data | NodeData) -> Tensor:
        """Return the features of the copies, averaged, float32 `[N, F]`."""
        return self._average("features", data)

    def inputs(self, data: Data | NodeData) -> Tensor:
        """Return the inputs of a backbone, averaged over the copies, float32 `[N, F]`."""
        return self._average("inputs", data)

    def _probabilities(self, nodes: NodeData) -> Tensor:
        return self._average("_probabilities", nodes)

    def _average(self, method: str, data: Data | NodeData) -> Tensor:
        self._check_fitted()
        self._providing(method)
        return torch.stack([getattr(part, method)(data) for part in self._parts().values()]).mean(0)

    def _providing(self, method: str) -> Any:
        """The model, if it has a method that only features of distances have."""
        if not hasattr(self.model, method):
            raise InputError("model", "provide distances as features", repr(self.model), "Use LGGD() or GGD().")
        return self.model


@dataclass(eq=False, repr=False)
class Ensemble(_MetaModel):
    """Fit several copies of a model with different seeds and average their probabilities.

    An ensemble of distance features such as `LGGD` provides features itself, the averages over its members. Its
    probabilities are then softmax(−f(t)) averaged over members and times.

    Parameters
    ----------
    model : Member
        The model to copy; its own seed is not used.
    members : int
    seed : int or torch.Generator
        Random seed, from which the seeds of the members are drawn.

    Attributes
    ----------
    members_ : list
        The fitted copies. See `Member` for the others.

    Examples
    --------
    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=10)
    >>> lggd.Ensemble(lggd.LGGD(times=(1, 2), optimization=few), members=2).fit(data).predict_proba().shape
    torch.Size([34, 2])
    """

    model: Member = field(default_factory=LGGD)
    members: int = 3
    seed: int | torch.Generator = 0

    def check_settings(self) -> None:
        check_int("members", self.members, minimum=1)
        super().check_settings()

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int | torch.Generator, callback: Callback | None) -> None:
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        self._start(nodes, labels.num_classes)
        self.members_: list[Any] = []
        for k in range(self.members):
            member, own = self.model._reseeded(read_seed(generator))
            member._fit_to(nodes, labels, own, callback)
            self.members_.append(member)
            for stage, curves in member.history_.items():
                named = {f"{name} member={k}": values for name, values in curves.items()}
                self.history_.setdefault(stage, {}).update(named if self.members > 1 else curves)
        self._set_labels(labels.train.clone())

    def _reseeded(self, seed: int) -> tuple[Self, int]:
        return copy.copy(self), seed  # the members draw theirs

    def _parts(self) -> dict[str, Member]:
        return {f"members.{k}.": member for k, member in enumerate(self.members_)}

    def nearness(self, data: Data | NodeData) -> Tensor:
        """Return softmax(−f) over the classes at each time, averaged over the members, `[N, T, K]`."""
        return self._average("nearness", data)

    def _probabilities(self, nodes: NodeData) -> Tensor:
        if isinstance(self.model, DistanceFeatures):
            return self.nearness(nodes).mean(1)
        return super()._probabilities(nodes)

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        parts = [without_prefix(f"members.{k}.", state) for k in range(self.members)]
        self.members_ = [self._restored(self.model, nodes, part) for part in parts]


@dataclass(eq=False, repr=False)
class SelfTraining(_MetaModel):
    """Fit a model, add its most confident predictions to the labels, and fit it again.

    Predictions are used as training targets only: distances are still measured from the nodes with true labels.

    Parameters
    ----------
    model : Member
    fraction : float
        Fraction of the nodes predicted as each class whose predictions are added; 0 adds none.
    rounds : int
        Number of times that predictions are added and the model is fitted again.
    seed : int or torch.Generator
        Random seed, the same for every round.

    Attributes
    ----------
    model_ : Member
        The model fitted in the last round. See `Member` for the others.

    Examples
    --------
    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=10)
    >>> model = lggd.SelfTraining(lggd.LGGD(times=(1, 2), optimization=few), fraction=0.2).fit(data)
    >>> sorted(model.history_)
    ['distances', 'self-training 1 distances']
    """

    model: Member = field(default_factory=LGGD)
    fraction: float = 0.3
    rounds: int = 1
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self.model_: Any  # set by fit

    def check_settings(self) -> None:
        check_real("fraction", self.fraction, 0, 1, remedy="0 adds no predictions.")
        check_int("rounds", self.rounds, minimum=1)
        super().check_settings()

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int | torch.Generator, callback: Callback | None) -> None:
        self._start(nodes, labels.num_classes)
        rounds = self.rounds if self.fraction else 0
        for number in range(1 + rounds):
            targets, prefix, model = labels, "", copy.copy(self.model)
            if number:
                targets = labels.with_confident(self.model_._probabilities(self.data_), self.fraction)
                prefix = f"self-training {number} "
            # Every round draws the same numbers; what follows the last one continues from there.
            own = seed.clone_state() if isinstance(seed, torch.Generator) and number < rounds else seed
            _fit_part(model, nodes, targets, own, _in_stage(callback, prefix))
            self.model_ = model
            self.history_ |= {prefix + stage: curves for stage, curves in model.history_.items()}
            self._set_labels(labels.train.clone())


def _self_trained_ridge() -> EvolvedKernelRidge:
    return EvolvedKernelRidge(initial=KernelRidge(pseudo_labels=PseudoLabels()))


def _weighted_readout() -> WeightedReadout:
    few, many = (BackboneReadout(GPR(), use_features=False, optimization=DECAY, confident=part) for part in (0.3, 0.6))
    # Two hops suffice on a graph that reaches far already, and are cheaper.
    far = replace(few, backbone=GPR(hops=2), diffusion=DiffusionGraph(Heat(3.0)), confident=0.0)
    alone = replace(few, backbone=GPR(hops=0))
    return WeightedReadout((NearestClass(), few, many, far, alone), prior=(2.0, 0.5, 0.5, 0.5, 0.5), fade=True)


@dataclass(eq=False, repr=False)
class LGGDPlus(Member):
    """Classify nodes by learned distances, more accurately than `LGGDClassifier` but at a higher cost.

    The default starts in closed form, with self-training, and adds networks where they pay: twelve networks (`GPR`) in
    four groups. Two are trained with the most confident 30 % and 60 % of the predictions of the closed form as
    additional labels, one on the graph of a heat diffusion without them, and one without any edges. Validation labels
    decide how much each group and the closed form count. Without any, the closed form counts as much as all groups
    together.

    Parameters
    ----------
    features : EvolvedKernelRidge, SelfTraining, Ensemble, LGGD or GGD
    readout : MeanReadout, WeightedReadout, NearestClass or BackboneReadout
        How to predict classes from the distances.
    seed : int or torch.Generator
        Random seed, from which all other seeds are drawn.

    Attributes
    ----------
    features_, readout_ :
        The fitted features and readout. See `Member` for the others.

    Examples
    --------
    >>> import lggd
    >>> data, few = lggd.load("karate"), lggd.Optimization(epochs=10)
    >>> distances = lggd.Ensemble(lggd.LGGD(times=(1, 2), optimization=few), members=2)
    >>> lggd.LGGDPlus(distances, lggd.NearestClass()).fit(data).predict_proba().shape
    torch.Size([34, 2])
    """

    features: Member = field(default_factory=_self_trained_ridge)
    readout: Readout = field(default_factory=_weighted_readout)
    seed: int | torch.Generator = 0

    _inner = "features"

    @classmethod
    def trained(cls, **changes: Any) -> Self:
        """LGGD+ without a closed form: an ensemble of three networks for φ₀, self-training, and three GCNs.

        The networks use the node features of near and far neighbours. The nearest class by distance and the GCNs,
        trained on distances and node features, count equally.
        """
        initial = PropagatedMLP(hidden=(256, 64), pagerank=0.1)
        distances = LGGD(times=(0.2, 0.4, 0.6, 0.8, 1.0), initial=initial, reachable=False)
        features = SelfTraining(Ensemble(distances, members=3), fraction=0.3, rounds=1)
        return cls(**{"features": features, "readout": MeanReadout(), **changes})

    def __post_init__(self) -> None:
        self.features_: Any  # set by fit

    def check_settings(self) -> None:
        kinds = (SelfTraining, Ensemble, DistanceFeatures)
        check_instance("features", self.features, kinds, "SelfTraining(), Ensemble(), LGGD() or GGD()")
        check_instance("readout", self.readout, Readout, "a readout such as NearestClass()")
        self.features.check_settings()
        self.readout.check_settings()

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._start(nodes, labels.num_classes)
        self.features_, self.readout_ = copy.copy(self.features), copy.copy(self.readout)
        _fit_part(self.features_, nodes, labels, generator, callback)
        self.history_ |= self.features_.history_
        self.readout_.fit(self.features_, labels, generator, self.history_, callback)
        self.labels_ = labels.train.clone()

    def _probabilities(self, nodes: NodeData) -> Tensor:
        return self.readout_.predict_proba(self.features_, nodes)

    def _state(self) -> dict[str, Tensor]:
        return {**super()._state(), **with_prefix("readout.", self.readout_.state())}

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        super()._restore(nodes, state)
        self.readout_ = copy.copy(self.readout)
        self.readout_.restore(self.features_, nodes, without_prefix("readout.", state))
