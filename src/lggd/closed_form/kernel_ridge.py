"""Kernel ridge regression on propagated node features: a classifier that is solved, not trained."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from lggd.closed_form.filters import Propagation
from lggd.closed_form.graph_update import GraphUpdate
from lggd.closed_form.kernels import (
    FAR_KERNELS,
    FAR_REWEIGHTED_KERNELS,
    KERNELS,
    LARGE,
    REWEIGHTED_KERNELS,
    TOPOLOGY_KERNELS,
    WIDE_KERNELS,
    FilterKernel,
    Member,
    MixtureKernel,
)
from lggd.closed_form.pseudo_labels import PseudoLabels, self_trained
from lggd.closed_form.ridge import ExactSystem, class_targets, draw_inducing, is_exact, ridge_coefficients
from lggd.closed_form.ridge_inputs import EdgeAgreement, RidgeInputs
from lggd.closed_form.selection import KernelSelection, choose_settings
from lggd.closed_form.stored_inputs import StoredInputs
from lggd.closed_form.uncertainty import RidgeUncertainty
from lggd.errors import InputError
from lggd.inputs import Labels, NodeData
from lggd.inputs.graph_change import GraphChange
from lggd.progress import Callback
from lggd.training.engine import without_prefix
from lggd.validation import check_instance, check_int, check_real

# Graphs on disk with fewer edges are read into memory: the closed form takes about a hundred bytes per edge there.
MOST_EDGES_IN_MEMORY = 2**22


@dataclass(eq=False, repr=False)
class KernelRidge(RidgeUncertainty):
    """Classify nodes by kernel ridge regression on propagated node features; solved in closed form.

    Node features are projected to their principal directions, averaged over neighbourhoods by several filters, and
    compared by several kernels. Kernels, ridge and temperature are those with the best exact leave-one-out predictions
    of the given labels: no validation labels are needed, and nothing is trained. New labels are solved for at once.

    Parameters
    ----------
    kernels : tuple of FilterKernel
        The kernels of node features to choose from. Graphs without node features use rows of the adjacency instead.
    far : tuple of FilterKernel
        More of them. With `x`, tried unless features four hops away predict clearly worse than those two hops away.
    wide : tuple of FilterKernel
        Kernels of node features in more principal directions.
    topology : tuple of FilterKernel
        The kernels of rows of the adjacency to choose from, tried where those of `far` are.
    agreement : EdgeAgreement or None
        Also try edges weighed by the agreement of their ends; None uses the given weights only.
    members : int
        The highest number of kernels to average: those with the best leave-one-out predictions, weighted by them.
    widths : tuple of int
        Numbers of principal directions: the largest for the kernels of `wide`, the smallest for all others.
    inducing : int
        Number of inducing points on graphs with many nodes or labels; others are solved exactly.
    growth : float
        Settings are chosen again when there are this many times as many labels, or as few; `math.inf` for never.
    pseudo_labels : PseudoLabels or None
        Self-training; None for none.
    seed : int or torch.Generator
        Random seed of the projection and of the inducing points.

    Attributes
    ----------
    members_ : tuple of Member
        The chosen kernels and their weights.
    ridge_, inverse_temperature_ : float
        The chosen ridge λ, and β of the probabilities softmax(β · scores).
    pseudo_fraction_ : float
        The fraction of the predictions that are pseudo-labels.
    loss_ : float
        The mean leave-one-out −log p of the labels that settings were chosen with, and the prior of the temperature.

    Examples
    --------
    >>> import lggd
    >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
    >>> model.predict_proba().shape
    torch.Size([34, 2])
    """

    kernels: tuple[FilterKernel, ...] = KERNELS
    far: tuple[FilterKernel, ...] = FAR_KERNELS
    wide: tuple[FilterKernel, ...] = WIDE_KERNELS
    topology: tuple[FilterKernel, ...] = TOPOLOGY_KERNELS
    agreement: EdgeAgreement | None = EdgeAgreement()
    members: int = 10
    widths: tuple[int, ...] = (128, 512)
    inducing: int = 512
    growth: float = 1.25
    pseudo_labels: PseudoLabels | None = None
    seed: int | torch.Generator = 0

    @classmethod
    def large(cls, **changes: Any) -> Self:
        """Settings for graphs of many millions of edges: few kernels of near neighbourhoods, few inducing points."""
        return cls(**{**LARGE, **changes})

    def check_settings(self) -> None:
        """Checks the settings, without data; raises an `InputError` if one is invalid."""
        for name in ("kernels", "widths"):
            if not getattr(self, name):
                raise InputError(name, "not be empty", getattr(self, name))
        for name in ("kernels", "far", "wide", "topology"):
            for kernel in getattr(self, name):
                check_instance(name, kernel, FilterKernel, "kernels such as FilterKernel((Hops(2),), Linear())")
        for width in self.widths:
            check_int("widths", width, minimum=1)
        for name in ("members", "inducing"):
            check_int(name, getattr(self, name), minimum=1)
        check_real(
            "growth", self.growth, 1, math.inf, closed="right", rule="exceed 1", remedy="Use math.inf for never."
        )
        if self.pseudo_labels is not None:
            check_instance("pseudo_labels", self.pseudo_labels, PseudoLabels, "PseudoLabels() or None")
        if self.agreement is not None:
            check_instance("agreement", self.agreement, EdgeAgreement, "an EdgeAgreement() or None")

    @property
    def _held_out(self) -> float:
        return 0.0  # settings are chosen by leave-one-out

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        self._start(nodes, labels.num_classes)
        self._drawn_seed = seed
        self._inputs = self._read_inputs(self.data_)
        self._choose(labels.train)
        self.labels_ = labels.train.clone()

    def _read_inputs(self, data: NodeData, axes: Mapping[str, Tensor] | None = None) -> RidgeInputs | StoredInputs:
        if data.graph is None or data.graph.num_edges <= MOST_EDGES_IN_MEMORY:
            return RidgeInputs(data, self.widths, self._drawn_seed, axes)
        return StoredInputs(data.undirected_graph, data.x, self.widths, self._drawn_seed, axes)

    def _choose(self, labels: Tensor) -> None:
        """Chooses kernels, edge weights, ridge and temperature by the leave-one-out predictions of these labels."""
        nodes = (labels >= 0).nonzero().squeeze(1)
        self._chosen_with = len(nodes)
        self._inputs = copy.copy(self._inputs)  # the mean agreement of its edges belongs to this choice
        selection = KernelSelection(self, self._inputs, labels, self.num_classes_, self._drawn_seed)
        self._graphs, self.members_ = selection.graphs, selection.best()
        used = {member.graph for member in self.members_}
        self._edge_weights = {name: weight for name, weight in selection.edge_weights.items() if name in used}
        self._exact = is_exact(len(nodes), len(labels))
        count = max(self.inducing, min(len(nodes), self._inputs.most_inducing))
        self._inducing_nodes = draw_inducing(nodes, len(labels), count, self._drawn_seed)
        self._assemble(nodes)
        classes = labels[nodes]
        self.loss_, self.ridge_, self.inverse_temperature_ = choose_settings(self._system, classes, self.num_classes_)
        self.pseudo_fraction_ = 0.0
        if self.pseudo_labels is not None:
            settings = self.num_classes_, self.ridge_, self.inverse_temperature_
            self.pseudo_fraction_ = self.pseudo_labels.choose(self._pseudo_system, labels, *settings)
        self._solve(labels)

    def _assemble(self, nodes: Tensor) -> None:
        """A system for these labelled nodes, exact or with inducing points."""
        kernel = MixtureKernel(self._graphs, self.members_)
        self._system = ExactSystem(kernel) if self._exact else self._inputs.induced_system(kernel, self._inducing_nodes)
        self._system.set_nodes(nodes)
        if self.pseudo_labels is not None:
            # Pseudo-labels come and go by thousands: inducing points are enough for them.
            self._pseudo_system = self._inputs.induced_system(kernel, self._inducing_nodes)

    def _solve(self, labels: Tensor) -> None:
        settings = self.ridge_, self.inverse_temperature_
        self._proba = self._system.probabilities(labels, self.num_classes_, *settings)
        if self.pseudo_fraction_:
            self._proba = self_trained(self._pseudo_system, labels, self._proba, self.pseudo_fraction_, *settings)

    def _fork(self) -> Self:
        """A copy that can be solved for other labels on its own."""
        after = copy.copy(self)
        after._system = self._system.fork()
        if self.pseudo_fraction_:
            after._pseudo_system = self._pseudo_system.fork()
        return after

    def _probabilities(self, nodes: NodeData) -> Tensor:
        self._check_data(nodes)
        return self._proba

    def proba_from(self, labels: Tensor) -> Tensor:
        """Return the probabilities from other labels, int64 `[N]` with -1 elsewhere, with the same settings.

        The model itself keeps its labels.
        """
        self._check_fitted()
        after = self._fork()
        after._solve(labels)
        return after._proba

    def _check_data(self, nodes: NodeData) -> None:
        if not nodes.equals(self.data_):
            raise InputError("data", "be the graph that the model was fitted to", "another one", "Fit it again.")

    def leave_one_out_proba(self) -> Tensor:
        """Return the probability of each class at the labelled nodes without their own label, float32 `[n, K]`.

        Rows are in ascending order of nodes, as `labels_[labels_ >= 0]`.
        """
        self._check_fitted()
        targets = class_targets(self.labels_[self._system.nodes], self.num_classes_)
        return torch.softmax(self.inverse_temperature_ * self._system.left_out(targets, self.ridge_), dim=1).float()

    def left_out_proba(self, data: Any = None) -> Tensor:
        """Return the probabilities of all nodes, those of labelled ones without their own label, float32 `[N, K]`."""
        left_out = self.leave_one_out_proba()
        self._check_data(self.data_ if data is None else NodeData.read(data))
        return self._proba.index_copy(0, self._system.nodes, left_out)

    def _set_labels(self, labels: Tensor) -> None:
        count = int((labels >= 0).sum())
        if count >= self.growth * self._chosen_with or count * self.growth <= self._chosen_with:
            after = copy.copy(self)  # a choice that fails changes nothing
            after._choose(labels)
            self.__dict__.update(after.__dict__)
        elif not torch.equal(labels, self.labels_):
            self._solve(labels)
        self.labels_ = labels

    @property
    def accepts_nodes(self) -> bool:
        return True

    def _change_graph(self, change: GraphChange) -> None:
        after = copy.copy(self)  # a change that fails changes nothing
        after._inputs = self._inputs.changed(change)
        after.data_, after.labels_ = change.nodes, change.grow_labels(self.labels_)
        update = GraphUpdate(self._graphs, self._edge_weights, self.members_, after._inputs, change)
        after._graphs, after._edge_weights = update.graphs, update.edge_weights
        if update.by_classes:
            update.weigh_by_classes(after._extended_proba(change.num_new_nodes))
        after._assemble(self._system.nodes)
        after._solve(after.labels_)
        self.__dict__.update(after.__dict__)

    def _extended_proba(self, num_new_nodes: int) -> Tensor:
        """The probabilities before a change, and those of the new nodes on the graphs so far, `[N, K]`."""
        if not num_new_nodes:
            return self._proba
        num_nodes, labelled = len(self.labels_), self._system.nodes
        new = torch.arange(num_nodes - num_new_nodes, num_nodes, device=labelled.device)
        targets = class_targets(self.labels_[labelled], self.num_classes_)
        if self._exact:  # only what the scores of new nodes need is computed
            kernel, count = MixtureKernel(self._graphs, self.members_), len(labelled)
            points = kernel.points(torch.cat([labelled, new]))
            columns = kernel.between(points, [block[:count] for block in points])
            coefficients = ridge_coefficients(columns[:count].double(), targets, self.ridge_)
            scores = columns[count:] @ coefficients.float()
        else:
            self._assemble(labelled)
            scores = self._system.scores(targets, self.ridge_)[new]
        return torch.cat([self._proba, torch.softmax(self.inverse_temperature_ * scores, dim=1)])

    def _state(self) -> dict[str, Tensor]:
        numbers = [self._chosen_with, self._drawn_seed, int(self._exact)]
        members = [self._graph_names.index(m.graph) for m in self.members_]
        kernels = [self._all_kernels.index(m.kernel) for m in self.members_]
        state = {
            "numbers": torch.tensor(numbers),
            "settings": torch.tensor(
                [self.ridge_, self.inverse_temperature_, self.loss_, self.pseudo_fraction_], dtype=torch.float64
            ),
            "members": torch.tensor([members, kernels]),
            "weights": torch.tensor([m.weight for m in self.members_], dtype=torch.float64),
            "inducing": self._inducing_nodes,
        }
        state |= {f"axes.{name}": axes for name, axes in self._inputs.axes.items()}
        if self._inputs.mean_cosine is not None:
            state["mean_cosine"] = torch.tensor(self._inputs.mean_cosine, dtype=torch.float64)
        return state | {f"edge_weight.{name}": weight for name, weight in self._edge_weights.items()}

    @property
    def _graph_names(self) -> list[str]:
        """The names of all graphs, also of those that no kernel was chosen on."""
        rounds = 0 if self.agreement is None else 1 + self.agreement.rounds
        return ["x", "wide", "topology", *(f"agreement {k}" for k in range(rounds))]

    @property
    def _all_kernels(self) -> list[FilterKernel]:
        """The kernels to choose from on any graph, each once."""
        reweighted = (*REWEIGHTED_KERNELS, *FAR_REWEIGHTED_KERNELS)
        return list(dict.fromkeys((*self.kernels, *self.far, *self.wide, *self.topology, *reweighted)))

    def _graph(self, name: str) -> Propagation:
        """The graph of this name, with the filters of the members."""
        kernels = [member.kernel for member in self.members_ if member.graph == name]
        inputs, width = self._inputs, self._inputs.widths[-1 if name == "wide" else 0]
        weight, is_topology = self._edge_weights.get(name), name == "topology"
        graph: Propagation = inputs.topology(kernels) if is_topology else inputs.graph(kernels, width, weight)
        return graph

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        self._chosen_with, self._drawn_seed, exact = state["numbers"].tolist()
        self._exact, self._inducing_nodes = bool(exact), state["inducing"]
        self.ridge_, self.inverse_temperature_, self.loss_, self.pseudo_fraction_ = state["settings"].tolist()
        axes, self._edge_weights = without_prefix("axes.", state), without_prefix("edge_weight.", state)
        self._inputs = self._read_inputs(nodes, axes)
        self._inputs.mean_cosine = float(state["mean_cosine"]) if "mean_cosine" in state else None
        names, kernels, weights = self._graph_names, self._all_kernels, state["weights"].tolist()
        members = zip(*state["members"].tolist(), weights, strict=True)
        self.members_ = tuple(Member(names[graph], kernels[k], weight) for graph, k, weight in members)
        self._graphs = {name: self._graph(name) for name in ("x", *(member.graph for member in self.members_))}
        self._assemble((self.labels_ >= 0).nonzero().squeeze(1))
        self._solve(self.labels_)


def relabelled(model: KernelRidge, labels: Tensor) -> KernelRidge:
    """The model with other labels, int64 `[N]` with -1 elsewhere, and the same settings; there may be other classes.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> model = lggd.KernelRidge().fit(data)
    >>> labels = model.labels_.clone()
    >>> labels[16] = 2  # a class that was not there
    >>> relabelled(model, labels).predict_proba().shape, model.predict_proba().shape
    (torch.Size([34, 3]), torch.Size([34, 2]))
    """
    after = _copy_for(model, labels)
    after._solve(labels)
    return after


def rechosen(model: KernelRidge, labels: Tensor) -> KernelRidge:
    """The model with other labels, and settings that are chosen again for them; principal directions and Â are shared.

    >>> import lggd
    >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
    >>> torch.equal(rechosen(model, model.labels_).predict_proba(), model.predict_proba())
    True
    """
    after = _copy_for(model, labels)
    after._choose(labels)
    return after


def _copy_for(model: KernelRidge, labels: Tensor) -> KernelRidge:
    checked = Labels.checked(labels, torch.full_like(labels, -1))
    after = model._fork()
    after.labels_, after.num_classes_ = checked.train.clone(), checked.num_classes
    after.additions_, after.metadata_ = list(model.additions_), dict(model.metadata_)
    return after
