"""Kernel ridge regression on propagated node features: a classifier that is solved, not trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lggd.closed_form.edge_agreement import EdgeAgreement, class_agreement, feature_agreement
from lggd.closed_form.filters import HighPass, Hops, Propagation, principal_subspace, unit_rows
from lggd.closed_form.kernels import ArcCosine, FilterKernel, Gaussian, Linear, Member, MixtureKernel, filter_kernels
from lggd.closed_form.ridge import class_targets, solve_dual
from lggd.closed_form.systems import ExactSystem, InducedSystem, RidgeSystem
from lggd.closed_form.temperature import fit_temperature
from lggd.diffusion import PPR
from lggd.errors import InputError
from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps
from lggd.graph.edge_index import check_symmetric, read_edges
from lggd.learning.node_features import check_node_features
from lggd.training.randomness import read_seed
from lggd.validation import check_instance, check_int

_X, _FAR, _LOOPLESS = Hops(0), (PPR(0.1), PPR(0.05), PPR(0.02), Hops(16)), (Hops(1, False), Hops(2, False))
_SMOOTH = ((Hops(2),), (PPR(0.1),), (PPR(0.05),), (_X, Hops(1), Hops(2), PPR(0.1)))
# Of node features: near and far neighbourhoods, together with x or not, and differences from the neighbourhood.
KERNELS = filter_kernels(
    ((_X,), *_SMOOTH, (PPR(0.02),), (Hops(16),), (Hops(2), PPR(0.1)), (_X, *_LOOPLESS), (_X, HighPass(), _LOOPLESS[1])),
    (Linear(), ArcCosine(), Gaussian(0.3)),
)
# Of node features on graphs with changed edge weights: averages over many neighbours.
REWEIGHTED_KERNELS = filter_kernels(_SMOOTH, (Linear(), ArcCosine()))
# Of rows of the adjacency: the wider, the better.
TOPOLOGY_KERNELS = filter_kernels(((PPR(0.1),), (PPR(0.02),), (Hops(32),)), (Linear(), ArcCosine(), Gaussian(0.3)))
RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Kernels are compared on at most this many labels, with these ridges; solving takes n³ operations.
MOST_COMPARED, COMPARED_RIDGES = 384, (0.01, 0.1, 1.0)
# Beyond this many labels or nodes, inducing points take the place of labelled nodes.
MOST_EXACT_LABELS, MOST_EXACT_NODES = 1024, 10_000
# Settings are chosen again when there are this many times as many labels.
GROWTH = 1.25


@dataclass(eq=False, repr=False)
class KernelRidge(NodeClassifier):
    """Classify nodes by kernel ridge regression on propagated node features; solved in closed form.

    Node features are projected to their principal directions, averaged over neighbourhoods by several filters, and
    compared by several kernels. Kernels, ridge and temperature are those with the best exact leave-one-out predictions
    of the given labels: no validation labels are needed, and nothing is trained. New labels are solved for at once.

    Parameters
    ----------
    kernels : tuple of FilterKernel
        The kernels of node features to choose from. Graphs without node features use rows of the adjacency instead.
    topology : tuple of FilterKernel
        The kernels of rows of the adjacency to choose from.
    agreement : EdgeAgreement or None
        Also try edges weighed by the agreement of their ends; None uses the given weights only.
    members : int
        Number of kernels to average: those with the best leave-one-out predictions.
    widths : tuple of int
        Numbers of principal directions to choose from.
    inducing : int
        Number of inducing points on graphs with many nodes or labels; others are solved exactly.
    seed : int or torch.Generator
        Random seed of the projection and of the inducing points.

    Attributes
    ----------
    members_ : tuple of Member
        The chosen kernels.
    ridge_, temperature_ : float
        The chosen ridge, and the inverse temperature of the probabilities.
    loss_ : float
        The mean leave-one-out −log p of the labels that the settings were chosen with.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
    >>> model.predict_proba().shape
    torch.Size([34, 2])
    """

    kernels: tuple[FilterKernel, ...] = KERNELS
    topology: tuple[FilterKernel, ...] = TOPOLOGY_KERNELS
    agreement: EdgeAgreement | None = EdgeAgreement()
    members: int = 5
    widths: tuple[int, ...] = (128, 512)
    inducing: int = 1024
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self.members_: tuple[Member, ...]  # set by fit
        self.ridge_: float
        self.temperature_: float
        self.loss_: float

    def check_settings(self) -> None:
        """Checks the settings, without data; raises an `InputError` if one is invalid."""
        if not self.kernels:
            raise InputError("kernels", "contain at least one kernel", "none")
        for name in ("kernels", "topology"):
            for kernel in getattr(self, name):
                check_instance(name, kernel, FilterKernel, "kernels such as FilterKernel((Hops(2),), Linear())")
        for width in self.widths:
            check_int("widths", width, minimum=1)
        if not self.widths:
            raise InputError("widths", "contain at least one width", "none")
        for name in ("members", "inducing"):
            check_int(name, getattr(self, name), minimum=1)
        if self.agreement is not None:
            check_instance("agreement", self.agreement, EdgeAgreement, "an EdgeAgreement() or None")

    @property
    def _held_out(self) -> float:
        return 0.0  # settings are chosen by leave-one-out

    # -- fitting --------------------------------------------------------------------------------------------------

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        yield from ()
        self._start(task.data, labels.num_classes)
        self._generator_seed = read_seed(seed)
        self._inputs = RidgeInputs.read(self.data_, self.widths, self._generator_seed)
        self._choose(labels.train)
        self.labels_ = labels.train.clone()

    def _choose(self, labels: Tensor) -> None:
        """Chooses kernels, edge weights, ridge and temperature by the leave-one-out predictions of these labels."""
        self._chosen_with = int((labels >= 0).sum())
        losses: dict[Member, float] = {}
        candidates = [self._inputs.propagation(width, None, self.kernels) for width in self._inputs.widths]
        if len(candidates) > 1:
            preview = [self._compare(labels, [graph], 0, REWEIGHTED_KERNELS) for graph in candidates]
            best = min(range(len(candidates)), key=lambda k: min(preview[k].values()))
            candidates = [candidates[best]]
        self._graphs = [candidates[0], self._inputs.topology(self.topology)]
        losses = self._compare(labels, self._graphs, 0, self.kernels)
        if self._inputs.has_features:
            losses |= self._compare(labels, self._graphs, 1, self.topology)
        self._use(losses, labels)
        if self.agreement is None or not self._inputs.edge_index.shape[1]:
            return
        alike = self._inputs.feature_agreement()
        for round in range(1 + self.agreement.rounds):
            weight = alike
            if round:
                weight = alike * class_agreement(self._left_out_probabilities(), self._inputs.edge_index)
            self._graphs.append(candidates[0].with_weights(weight, REWEIGHTED_KERNELS))
            losses |= self._compare(labels, self._graphs, len(self._graphs) - 1, REWEIGHTED_KERNELS)
            self._use(losses, labels)
