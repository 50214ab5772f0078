"""Kernel ridge regression on propagated node features: a classifier that is solved, not trained."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from lggd.closed_form.default_kernels import (
    FAR_KERNELS,
    FAR_REWEIGHTED_KERNELS,
    FARTHER,
    KERNELS,
    LARGE,
    NEARER,
    REWEIGHTED_KERNELS,
    TOPOLOGY_KERNELS,
    WIDE_KERNELS,
)
from lggd.closed_form.edge_agreement import EdgeAgreement, class_agreement
from lggd.closed_form.filters import Propagation
from lggd.closed_form.graph_update import update_graphs
from lggd.closed_form.kernels import FilterKernel, Member, MixtureKernel
from lggd.closed_form.leave_one_out import (
    MOST_COMPARED,
    best_kernels,
    choose_ridge,
    choose_settings,
    compared_nodes,
    kernel_loss,
)
from lggd.closed_form.pseudo_labels import PseudoLabels, probabilities, self_trained
from lggd.closed_form.ridge import class_targets
from lggd.closed_form.ridge_inputs import filters_of
from lggd.closed_form.stored_inputs import StoredInputs, read_inputs
from lggd.closed_form.systems import ExactSystem, InducedSystem, StreamedSystem, draw_inducing
from lggd.closed_form.uncertainty import RidgeUncertainty
from lggd.errors import InputError
from lggd.estimator.graph_change import GraphChange
from lggd.estimator.inputs import same_inputs
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps, FitTask
from lggd.training.engine import without_prefix
from lggd.training.randomness import read_seed
from lggd.validation import check_instance, check_int, check_real

# Far neighbourhoods are tried unless −log p of the compared labels by the best of FARTHER exceeds that by the best of
# NEARER by more than this in all: then looking farther is clearly worse, and takes time.
CLEARLY = 5.0
# Beyond this many labels or nodes, inducing points take the place of labelled nodes.
MOST_EXACT_LABELS, MOST_EXACT_NODES, MOST_INDUCING = 2048, 10_000, 2048
# Edge weights by predicted classes have seen the labels, which makes their losses too low by a few percent.
OPTIMISM = 1.1
# Where there are more labels, at least this many of the best kernels are compared once more, on this many labels.
FINALISTS, MOST_COMPARED_FINALLY = 10, 1536


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
        The mean leave-one-out −log p of the labels that settings were chosen with, and of the temperature then.

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

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        yield from ()
        self._start(task.data, labels.num_classes)
        self._drawn_seed = read_seed(seed)
        self._inputs = read_inputs(self.data_, self.widths, self._drawn_seed)
        self._choose(labels.train)
        self.labels_ = labels.train.clone()

    def _choose(self, labels: Tensor) -> None:
        """Chooses kernels, edge weights, ridge and temperature by the leave-one-out predictions of these labels."""
        self._chosen_with = int((labels >= 0).sum())
        self._inputs = copy.copy(self._inputs)  # the mean agreement of its edges belongs to this choice
        self._edge_weights = {}
        self._graphs: dict[str, Propagation] = {}
        losses: dict[Member, float] = {}
        narrow, *wide = self._inputs.widths
        kernels = self.kernels if wide else tuple(dict.fromkeys((*self.kernels, *self.wide)))
        self._compare("x", self._inputs.graph((*kernels, *self._hop_kernels), narrow), kernels, labels, losses)
        if wide and self.wide:
            self._compare("wide", self._inputs.graph(self.wide, wide[-1]), self.wide, labels, losses)
        far = self._far_may_pay(labels, losses)
        if far or not self._inputs.has_features:
            # Without node features, x are the rows of the adjacency.
            kernels = self.far if self._inputs.has_features else (*self.topology, *self.far)
            self._graphs["x"].extend(filters_of(kernels))
            losses |= self._losses(labels, [Member("x", kernel) for kernel in kernels])
        if far and self.topology and self._inputs.has_features:
            self._compare("topology", self._inputs.topology(self.topology), self.topology, labels, losses)
        if self.agreement is not None and self._inputs.weighs_edges:
            kernels = (*REWEIGHTED_KERNELS, *FAR_REWEIGHTED_KERNELS) if far else REWEIGHTED_KERNELS
            self._weigh_edges(self._inputs, self.agreement.rounds, kernels, losses, labels)
        self._use_best(losses, labels)
        used = {member.graph for member in self.members_}
        self._edge_weights = {name: weight for name, weight in self._edge_weights.items() if name in used}

    def _compare(
        self,
        name: str,
        graph: Propagation,
        kernels: Sequence[FilterKernel],
        labels: Tensor,
        losses: dict[Member, float],
    ) -> None:
        """Adds a graph, and the losses of these kernels on it."""
        self._graphs[name] = graph
        losses |= self._losses(labels, [Member(name, kernel) for kernel in kernels])

    @property
    def _hop_kernels(self) -> tuple[FilterKernel, ...]:
        """The kernels that tell whether to look far."""
        return (*FARTHER, *NEARER) if self.far or self.topology else ()

    def _far_may_pay(self, labels: Tensor, losses: dict[Member, float]) -> bool:
        """Whether features four hops away do not predict labels clearly worse than those two hops away."""
        if not self._hop_kernels:
            return False
        members = [[Member("x", kernel) for kernel in kernels] for kernels in (FARTHER, NEARER)]
        known = losses | self._losses(labels, [member for each in members for member in each if member not in losses])
        farther, nearer = (min(known[member] for member in each) for each in members)
        return len(compared_nodes(labels, self._drawn_seed)) * (farther - nearer) <= CLEARLY

    def _weigh_edges(
        self, inputs: Any, rounds: int, kernels: Sequence[FilterKernel], losses: dict[Member, float], labels: Tensor
    ) -> None:
        """Adds graphs whose edges are weighed by the agreement of features and of predictions, and their losses."""
        weight = alike = inputs.feature_agreement()
        for round in range(1 + rounds):
            if round:
                weight = alike * class_agreement(self._preliminary(losses, labels), inputs.edge_index)
            name = f"agreement {round}"
            self._edge_weights[name] = weight
            self._compare(name, inputs.graph(kernels, inputs.widths[0], weight), kernels, labels, losses)

    def _preliminary(self, losses: Mapping[Member, float], labels: Tensor) -> Tensor:
        """The probabilities by the best kernels so far; labelled nodes are predicted without their own label."""
        nodes = compared_nodes(labels, self._drawn_seed)
        members = self.members if labels.numel() <= MOST_EXACT_NODES else 1
        narrow = {member: loss for member, loss in losses.items() if member.graph != "wide"}  # faster
        system = ExactSystem(MixtureKernel(self._graphs, best_kernels(narrow, members, len(nodes))))
        system.set_nodes(nodes)
        _, ridge, beta = choose_ridge(system, labels[nodes], self.num_classes_)
        solution = system.solve(class_targets(labels[nodes], self.num_classes_), ridge)
        solution.scores[nodes] = solution.leave_one_out.float()
        return torch.softmax(beta * solution.scores, dim=1)

    def _losses(self, labels: Tensor, members: Sequence[Member], most: int = MOST_COMPARED) -> dict[Member, float]:
        """The leave-one-out loss of each kernel."""
        nodes, losses = compared_nodes(labels, self._drawn_seed, most), {}
        for member in members:
            loss = kernel_loss(MixtureKernel(self._graphs, [member]), nodes, labels[nodes], self.num_classes_)
            seen = member.graph in self._edge_weights and member.graph != "agreement 0"
            losses[member] = loss * (OPTIMISM if seen else 1)
        return losses

    def _use_best(self, losses: Mapping[Member, float], labels: Tensor) -> None:
        """Averages the best kernels, and chooses ridge and temperature for their mean."""
        if int((labels >= 0).sum()) > MOST_COMPARED:
            finalists = sorted(losses, key=losses.__getitem__)[: max(FINALISTS, self.members)]
            losses = self._losses(labels, finalists, MOST_COMPARED_FINALLY)
        compared = len(compared_nodes(labels, self._drawn_seed, MOST_COMPARED_FINALLY))
        self.members_ = best_kernels(losses, self.members, compared)
        self._build_system((labels >= 0).nonzero().squeeze(1))
        classes = labels[self._system.nodes]
        self.loss_, self.ridge_, self.inverse_temperature_ = choose_settings(self._system, classes, self.num_classes_)
        self.pseudo_fraction_ = 0.0
        if self.pseudo_labels is not None:
            settings = self.num_classes_, self.ridge_, self.inverse_temperature_
            self.pseudo_fraction_ = self.pseudo_labels.choose(self._pseudo_system, labels, *settings)
        self._solve(classes)

    def _build_system(self, nodes: Tensor) -> None:
        """A system for these labelled nodes, exact or with inducing points."""
        num_nodes = len(self._graphs["x"].x)
        self._exact = len(nodes) <= MOST_EXACT_LABELS and num_nodes <= MOST_EXACT_NODES
        # With the many nodes of a graph on disk, each inducing point takes a lot of space.
        most = 0 if isinstance(self._inputs, StoredInputs) else MOST_INDUCING
        self._inducing_nodes = draw_inducing(
            nodes, num_nodes, max(self.inducing, min(len(nodes), most)), self._drawn_seed
        )
        self._assemble(nodes)

    def _assemble(self, nodes: Tensor) -> None:
        kernel = MixtureKernel(self._graphs, self.members_)
        self._system = ExactSystem(kernel) if self._exact else self._induced_system(kernel)
        self._system.set_nodes(nodes)
        if self.pseudo_labels is not None:
            # Pseudo-labels come and go by thousands: inducing points are enough for them.
            self._pseudo_system = self._induced_system(kernel)

    def _induced_system(self, kernel: MixtureKernel) -> InducedSystem:
        points = kernel.points(self._inducing_nodes)
        is_stored = isinstance(self._inputs, StoredInputs)
        return StreamedSystem(kernel, points, self._inputs.scratch) if is_stored else InducedSystem(kernel, points)

    def _solve(self, classes: Tensor) -> None:
        scores = self._system.scores(class_targets(classes, self.num_classes_), self.ridge_)
        self._proba = torch.softmax(self.inverse_temperature_ * scores, dim=1)
        if self.pseudo_fraction_:
            labels = torch.full((len(self._proba),), -1, device=classes.device)
            labels[self._system.nodes] = classes
            settings = self.pseudo_fraction_, self.ridge_, self.inverse_temperature_
            self._proba = self_trained(self._pseudo_system, labels, self._proba, *settings)

    def _probabilities(self, data: Any) -> Tensor:
        self._check_data(data)
        return self._proba

    def proba_from(self, labels: Tensor) -> Tensor:
        """Return the probabilities from other labels, int64 `[N]` with -1 elsewhere, with the same settings.

        The model itself keeps its labels.
        """
        self._check_fitted()
        settings = self.ridge_, self.inverse_temperature_
        first = probabilities(self._system.fork(), labels, self.num_classes_, *settings)
        if not self.pseudo_fraction_:
            return first
        return self_trained(self._pseudo_system.fork(), labels, first, self.pseudo_fraction_, *settings)

    def _check_data(self, data: Any) -> None:
        if data is not self.data_ and not same_inputs(data, self.data_):
            raise InputError("data", "be the graph that the model was fitted to", "another one", "Fit it again.")

    def left_out_proba(self, data: Any = None) -> Tensor:
        """Return the probabilities of all nodes, those of labelled ones without their own label, float32 `[N, K]`."""
        left_out = self.leave_one_out_proba()
        self._check_data(self.data_ if data is None else data)
        return self._proba.index_copy(0, self._system.nodes, left_out)

    def _set_labels(self, labels: Tensor) -> None:
        nodes = (labels >= 0).nonzero().squeeze(1)
        if len(nodes) >= self.growth * self._chosen_with or len(nodes) * self.growth <= self._chosen_with:
            after = copy.copy(self)  # a choice that fails changes nothing
            after._choose(labels)
            self.__dict__.update(after.__dict__)
        elif not torch.equal(labels, self.labels_):
            self._system.set_nodes(nodes)
            self._solve(labels[nodes])
        self.labels_ = labels

    @property
    def accepts_nodes(self) -> bool:
        return True

    def _change_graph(self, change: GraphChange) -> None:
        after = copy.copy(self)  # a change that fails changes nothing
        after._inputs = self._inputs.changed(change)
        after.data_, after.labels_ = change.data, change.grow_labels(self.labels_)
        update_graphs(self, after, change)
        after._assemble(self._system.nodes)
        after._solve(self.labels_[self._system.nodes])
        self.__dict__.update(after.__dict__)

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

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        self._chosen_with, self._drawn_seed, exact = state["numbers"].tolist()
        self._exact, self._inducing_nodes = bool(exact), state["inducing"]
        self.ridge_, self.inverse_temperature_, self.loss_, self.pseudo_fraction_ = state["settings"].tolist()
        axes, self._edge_weights = without_prefix("axes.", state), without_prefix("edge_weight.", state)
        self._inputs = read_inputs(data, self.widths, self._drawn_seed, axes)
        self._inputs.mean_cosine = float(state["mean_cosine"]) if "mean_cosine" in state else None
        names, kernels, weights = self._graph_names, self._all_kernels, state["weights"].tolist()
        members = zip(*state["members"].tolist(), weights, strict=True)
        self.members_ = tuple(Member(names[graph], kernels[k], weight) for graph, k, weight in members)
        self._graphs = {name: self._graph(name) for name in ("x", *(member.graph for member in self.members_))}
        self._assemble((self.labels_ >= 0).nonzero().squeeze(1))
        self._solve(self.labels_[self._system.nodes])
