"""Kernel ridge regression on propagated node features: a classifier that is solved, not trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lggd.closed_form.edge_agreement import EdgeAgreement, class_agreement, feature_agreement
from lggd.closed_form.filters import HighPass, Hops, Propagation, principal_subspace
from lggd.closed_form.kernels import ArcCosine, FilterKernel, Gaussian, Linear, Member, MixtureKernel
from lggd.closed_form.ridge import INTERCEPT, class_targets, leave_one_out_path
from lggd.closed_form.systems import ExactSystem, InducedSystem, RidgeSolution, RidgeSystem
from lggd.closed_form.temperature import fit_temperature
from lggd.diffusion import PPR
from lggd.errors import InputError
from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask, same_inputs
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps
from lggd.graph.edge_index import check_symmetric, read_edges
from lggd.graph.sparse import without_sparse_warnings
from lggd.learning.node_features import check_node_features
from lggd.training.randomness import read_seed
from lggd.validation import check_instance, check_int

_X, _NEAR, _FAR = Hops(0), (Hops(1), Hops(2)), (PPR(0.1), PPR(0.05), PPR(0.02), Hops(16))
_FILTERS = (
    (_X,), (Hops(2),), *((far,) for far in _FAR), (Hops(2), PPR(0.1)), (_X, *_NEAR, PPR(0.1)),
    (_X, Hops(1, self_loops=False), Hops(2, self_loops=False)), (_X, HighPass(), Hops(2, self_loops=False)),
)  # fmt: skip
KERNELS = tuple(FilterKernel(f, k) for f in _FILTERS for k in (Linear(), ArcCosine(), Gaussian(0.3)))
# On graphs with changed edge weights: filters that average over many neighbours.
_SMOOTH = ((Hops(2),), (PPR(0.1),), (PPR(0.05),), (_X, *_NEAR, PPR(0.1)))
REWEIGHTED_KERNELS = tuple(FilterKernel(f, k) for f in _SMOOTH for k in (Linear(), ArcCosine()))
RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Kernels are compared on at most this many labels: an eigendecomposition takes n³ operations.
MOST_COMPARED = 512
# Beyond this many labels or nodes, inducing points take the place of labelled nodes.
MOST_EXACT_LABELS, MOST_EXACT_NODES = 1024, 10_000
# Settings are chosen again when there are this many times as many labels.
GROWTH = 1.25


@dataclass(eq=False, repr=False)
class KernelRidge(NodeClassifier):
    """Classify nodes by kernel ridge regression on propagated node features; solved in closed form.

    Node features are compressed, averaged over neighbourhoods by several filters, and compared by several kernels.
    The kernels, the ridge and the temperature of the probabilities are those with the best exact leave-one-out
    predictions of the given labels: no validation labels are needed, and nothing is trained. New labels are solved for
    at once.

    Parameters
    ----------
    kernels : tuple of FilterKernel
        The kernels to choose from.
    members : int
        Number of kernels to average: those with the best leave-one-out predictions.
    width : int
        Node features are projected to this many principal directions.
    agreement : EdgeAgreement or None
        Also try edges weighed by the agreement of their ends; None uses the given weights only.
    inducing : int
        Number of inducing points on graphs with many nodes or labels; the others are solved exactly.
    seed : int or torch.Generator
        Random seed of the projection and of the inducing points.

    Attributes
    ----------
    members_ : tuple of Member
        The chosen kernels.
    ridge_, temperature_ : float
        The chosen ridge, and the inverse temperature.
    loss_ : float
        The mean leave-one-out −log p of the labels.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> lggd.KernelRidge().fit(data).predict().shape
    torch.Size([34])
    """

    kernels: tuple[FilterKernel, ...] = KERNELS
    members: int = 5
    width: int = 256
    agreement: EdgeAgreement | None = EdgeAgreement()
    inducing: int = 512
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
        for kernel in self.kernels:
            check_instance("kernels", kernel, FilterKernel, "kernels such as FilterKernel((Hops(2),), Linear())")
        for name in ("members", "width", "inducing"):
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
        self._read(task.data)
        self._choose(labels.train)
        self.labels_ = labels.train.clone()

    def _read(self, data: Any) -> None:
        """Reads edges and node features; the features are projected to their principal directions."""
        edge_index, edge_weight = read_edges(data, data.num_nodes)
        check_symmetric(edge_index, edge_weight, data.num_nodes)
        x = _unit_rows(data, edge_index, edge_weight)
        generator = torch.Generator().manual_seed(self._generator_seed)
        self._basis = principal_subspace(x, self.width, generator)
        x = (x.to_dense() if x.layout != torch.strided else x) if self._basis is None else x @ self._basis
        self._edges, self._graphs = (edge_index, edge_weight), [Propagation(x, edge_index, edge_weight)]

    def _choose(self, labels: Tensor) -> None:
        """Chooses kernels, edge weights, ridge and temperature by the leave-one-out predictions of these labels."""
        self._chosen_with = int((labels >= 0).sum())
        del self._graphs[1:]
        losses = self._compare(labels, [Member(0, kernel) for kernel in self.kernels])
        self._use(losses, labels)
        if self.agreement is None or not self._edges[0].shape[1]:
            return
        base = self._graphs[0]
        alike = feature_agreement(base.x, self._edges[0])
        if self._edges[1] is not None:
            alike = alike * self._edges[1]
        for round in range(1 + self.agreement.rounds):
            weight = alike if round == 0 else alike * class_agreement(self._left_out_probabilities(), self._edges[0])
            self._graphs.append(Propagation(base.x, self._edges[0], weight))
            losses |= self._compare(labels, [Member(len(self._graphs) - 1, kernel) for kernel in REWEIGHTED_KERNELS])
            self._use(losses, labels)

    def _compare(self, labels: Tensor, members: list[Member]) -> dict[Member, float]:
        """The leave-one-out loss of each kernel, with its best ridge."""
        nodes = self._compared_nodes(labels)
        classes = labels[nodes]
        targets, losses = class_targets(classes, self.num_classes_), {}
        for member in members:
            kernel = MixtureKernel(self._graphs, [member])
            points = kernel.points(nodes)
            path = leave_one_out_path(kernel.between(points, points).double(), targets, RIDGES)
            losses[member] = min(fit_temperature(scores, classes)[1] for scores in path)
        return losses

    def _compared_nodes(self, labels: Tensor) -> Tensor:
        nodes = (labels >= 0).nonzero().squeeze(1)
        if len(nodes) <= MOST_COMPARED:
            return nodes
        generator = torch.Generator().manual_seed(self._generator_seed)
        return nodes[torch.randperm(len(nodes), generator=generator)[:MOST_COMPARED].to(nodes.device)].sort().values

    def _use(self, losses: Mapping[Member, float], labels: Tensor) -> None:
        """Averages the best kernels, and chooses ridge and temperature for them."""
        self.members_ = tuple(sorted(losses, key=losses.__getitem__)[: self.members])
        kernel, nodes = MixtureKernel(self._graphs, self.members_), (labels >= 0).nonzero().squeeze(1)
        self._system: RidgeSystem
        if len(nodes) > MOST_EXACT_LABELS or kernel.num_nodes > MOST_EXACT_NODES:
            self._system = InducedSystem(kernel, kernel.points(self._inducing_nodes(nodes)))
        else:
            self._system = ExactSystem(kernel)
        self._system.set_nodes(nodes)
        self._choose_ridge(labels)

    def _inducing_nodes(self, labelled: Tensor) -> Tensor:
        """The labelled nodes, and others at random."""
        generator = torch.Generator().manual_seed(self._generator_seed)
        count = self._graphs[0].x.shape[0]
        order = torch.randperm(count, generator=generator).to(labelled.device)
        known = torch.isin(order, labelled)
        return torch.cat([order[known], order[~known]])[: max(self.inducing, min(len(labelled), 1024))]

    def _choose_ridge(self, labels: Tensor) -> None:
        classes = labels[self._system.nodes]
        targets = class_targets(classes, self.num_classes_)
        found = []
        for scores, ridge in zip(self._system.path(targets, RIDGES), RIDGES, strict=True):
            temperature, loss = fit_temperature(scores, classes)
            found.append((loss, ridge, temperature))
        self.loss_, self.ridge_, self.temperature_ = min(found)
        self._solution = self._system.solve(targets, self.ridge_)

    # -- predictions ----------------------------------------------------------------------------------------------

    def _left_out_probabilities(self) -> Tensor:
        """Probabilities of all nodes, where labelled ones are predicted without their own label, `[N, K]`."""
        scores = self._solution.scores.clone()
        scores[self._system.nodes] = self._solution.leave_one_out.float()
        return torch.softmax(self.temperature_ * scores, dim=1)

    def _probabilities(self, data: Any) -> Tensor:
        return torch.softmax(self.temperature_ * self._solution.scores, dim=1)

    def _set_labels(self, labels: Tensor) -> None:
        count = int((labels >= 0).sum())
        if count >= GROWTH * self._chosen_with:
            self._choose(labels)
        elif not torch.equal(labels, self.labels_):
            self._system.set_nodes((labels >= 0).nonzero().squeeze(1))
            self._solution = self._system.solve(class_targets(labels[self._system.nodes], self.num_classes_), self.ridge_)
        self.labels_ = labels

    def _state(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        raise NotImplementedError


def _unit_rows(data: Any, edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    """Node features with rows of unit length, dense or sparse; rows of the adjacency where there are none."""
    if getattr(data, "x", None) is None:
        count = data.num_nodes
        weight = torch.ones(edge_index.shape[1], device=edge_index.device) if edge_weight is None else edge_weight.float()
        x = torch.sparse_coo_tensor(edge_index, weight, (count, count)).coalesce()
    else:
        x = check_node_features(data)
        if x.layout == torch.strided:
            return normalize(x)
        x = x.to_sparse_coo().coalesce()
    rows, values = x.indices()[0], x.values()
    norm = torch.zeros(x.shape[0], device=values.device).index_add_(0, rows, values.square()).sqrt()
    return torch.sparse_coo_tensor(x.indices(), values / norm.clamp(min=1e-12)[rows], x.shape).coalesce()
