"""Kernel ridge regression on propagated node features: a classifier that is solved, not trained."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.closed_form.adjacency import Adjacency
from lggd.closed_form.pseudo_labels import PseudoLabels
from lggd.closed_form.ridge_inputs import EdgeAgreement, LocalInputs, MemoryInputs
from lggd.closed_form.selection import RidgeChoice
from lggd.closed_form.solution import RidgeSolution
from lggd.closed_form.stored_inputs import StoredInputs
from lggd.closed_form.uncertainty import SuspiciousLabels, greedy_choice, margins
from lggd.errors import InputError
from lggd.estimator import Member
from lggd.graph.edge_list import check_symmetric
from lggd.inputs import Labels, NodeData
from lggd.inputs.graph_change import GraphChange
from lggd.kernels import (
    FAR_KERNELS,
    FAR_REWEIGHTED_KERNELS,
    KERNELS,
    LARGE,
    REWEIGHTED_KERNELS,
    TOPOLOGY_KERNELS,
    WIDE_KERNELS,
    ChosenKernel,
    FilterKernel,
)
from lggd.progress import Callback
from lggd.training.engine import without_prefix
from lggd.validation import check_instance, check_int, check_real

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Graphs on disk with fewer edges are read into memory: the closed form takes about a hundred bytes per edge there.
MAX_EDGES_IN_MEMORY = 2**22
# Nodes to suggest are chosen among this many of the least certain ones: each needs its covariance with all nodes.
MAX_CANDIDATES = 1024


def read_inputs(
    nodes: NodeData, widths: tuple[int, ...], seed: int, axes: Mapping[str, Tensor] | None = None
) -> LocalInputs:
    """The inputs of a graph: in memory, or where there are many edges on disk, from there."""
    if nodes.graph is not None and nodes.graph.num_edges > MAX_EDGES_IN_MEMORY:
        return StoredInputs(nodes.undirected_graph, nodes.x, widths, seed, axes)
    edges = *nodes.edges, nodes.num_nodes
    check_symmetric(*edges)
    return MemoryInputs(Adjacency(*edges), None if nodes.x is None else nodes.features, widths, seed, axes)


@dataclass(eq=False, repr=False)
class KernelRidge(Member):
    """Classify nodes by kernel ridge regression on propagated node features; solved in closed form.

    Node features are projected to their principal directions, averaged over neighbourhoods by several filters, and
    compared by several kernels. Kernels, ridge and temperature are those with the best exact leave-one-out predictions
    of the given labels: no validation labels are needed, and nothing is trained. New labels are solved for at once.

    Parameters
    ----------
    kernels : tuple of FilterKernel
        The kernels of node features to choose from. Graphs without node features use rows of the adjacency instead.
    far_kernels : tuple of FilterKernel
        More of them. With `x`, tried unless features four hops away predict clearly worse than those two hops away.
    wide_kernels : tuple of FilterKernel
        Kernels of node features in more principal directions.
    topology_kernels : tuple of FilterKernel
        The kernels of rows of the adjacency to choose from, tried where `far_kernels` are.
    agreement : EdgeAgreement or None
        Also try edges weighed by the agreement of their ends; None uses the given weights only.
    max_kernels : int
        The highest number of kernels to average: those with the best leave-one-out predictions, weighted by them.
    widths : tuple of int
        Numbers of principal directions: the largest for `wide_kernels`, the smallest for all others.
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
    solution_ : RidgeSolution
        The solution for the present labels and graph. It never changes: other labels or another graph replace it.
    kernels_ : tuple of ChosenKernel
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
    far_kernels: tuple[FilterKernel, ...] = FAR_KERNELS
    wide_kernels: tuple[FilterKernel, ...] = WIDE_KERNELS
    topology_kernels: tuple[FilterKernel, ...] = TOPOLOGY_KERNELS
    agreement: EdgeAgreement | None = EdgeAgreement()
    max_kernels: int = 10
    widths: tuple[int, ...] = (128, 512)
    inducing: int = 512
    growth: float = 1.25
    pseudo_labels: PseudoLabels | None = None
    seed: int | torch.Generator = 0

    needs_edge_index = False

    def __post_init__(self) -> None:
        self.solution_: RidgeSolution  # set by fit, and replaced as a whole ever after

    @classmethod
    def large(cls, **changes: Any) -> Self:
        """Settings for graphs of many millions of edges: few kernels of near neighbourhoods, few inducing points."""
        return cls(**{**LARGE, **changes})

    def check_settings(self) -> None:
        """Checks the settings, without data; raises an `InputError` if one is invalid."""
        for name in ("kernels", "widths"):
            if not getattr(self, name):
                raise InputError(name, "not be empty", getattr(self, name))
        for name in ("kernels", "far_kernels", "wide_kernels", "topology_kernels"):
            for kernel in getattr(self, name):
                check_instance(name, kernel, FilterKernel, "kernels such as FilterKernel((Hops(2),), Linear())")
        for width in self.widths:
            check_int("widths", width, minimum=1)
        for name in ("max_kernels", "inducing"):
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
        inputs = read_inputs(self.data_, self.widths, seed)
        self.adopt(RidgeSolution.choose(self, inputs, labels.train.clone(), labels.num_classes, seed))

    def adopt(self, solution: RidgeSolution) -> None:
        """Uses this solution, and its labels, from now on."""
        self.solution_, self.labels_, self.num_classes_ = solution, solution.labels, solution.num_classes

    def _solved(self) -> RidgeSolution:
        self._check_fitted()
        return self.solution_

    @property
    def kernels_(self) -> tuple[ChosenKernel, ...]:
        return self.solution_.choice.kernels

    @property
    def ridge_(self) -> float:
        return self.solution_.choice.ridge

    @property
    def inverse_temperature_(self) -> float:
        return self.solution_.choice.inverse_temperature

    @property
    def loss_(self) -> float:
        return self.solution_.choice.loss

    @property
    def pseudo_fraction_(self) -> float:
        return self.solution_.choice.pseudo_fraction

    def _probabilities(self, nodes: NodeData) -> Tensor:
        self._check_data(nodes)
        return self.solution_.probabilities

    def _check_data(self, nodes: NodeData) -> None:
        if not nodes.equals(self.data_):
            raise InputError("data", "be the graph that the model was fitted to", "another one", "Fit it again.")

    def leave_one_out_proba(self) -> Tensor:
        """Return the probability of each class at the labelled nodes without their own label, float32 `[n, K]`.

        Rows are in ascending order of nodes, as `labels_[labels_ >= 0]`.
        """
        return self._solved().left_out()

    def left_out_proba(self, data: Data | None = None) -> Tensor:
        """Return the probabilities of all nodes, those of labelled ones without their own label, float32 `[N, K]`."""
        solution = self._solved()
        self._check_data(self.data_ if data is None else NodeData.read(data))
        return solution.probabilities.index_copy(0, solution.system.nodes, solution.left_out())

    def variance(self) -> Tensor:
        """Return the posterior variance of each node, float32 `[N]`: how little the labels determine it.

        It depends on where labels are and not on their classes.
        """
        solution = self._solved()
        return solution.system.variance(solution.choice.ridge).float()

    def edge_weights(self) -> Tensor:
        """Return how much each edge counts, float32 `[E]` in (0, 1], in the order of `data_.edge_index`.

        The mean of the weights that the chosen kernels use, each relative to its own mean: of those on the graph as it
        is, and of those with edges weighed by the agreement of their ends. Leave-one-out has decided how much either
        counts. All edges of an unweighted graph count equally where agreement does not pay. Both directions of an edge
        have the same weight, so that `Graph.from_edges` takes them: the learned metric of `distance` and `evolve`.

        Examples
        --------
        >>> import lggd
        >>> data = lggd.load("karate")
        >>> weight = lggd.KernelRidge().fit(data).edge_weights()
        >>> graph = lggd.Graph.from_edges(data.edge_index, weight, num_nodes=data.num_nodes)
        >>> lggd.distance(graph, [0], p=1).value.shape
        torch.Size([34])
        """
        choice, inputs = self._solved().choice, self._solved().inputs
        if not isinstance(inputs, MemoryInputs):
            raise InputError("data", "have edges in memory", "a graph on disk", "Fit a part of the graph.")
        count, given = inputs.adjacency.num_edges, inputs.adjacency.edge_weight
        total = torch.zeros(count, device=inputs.adjacency.edge_index.device)
        for chosen in choice.kernels if count else ():
            weight = choice.edge_weights.get(chosen.graph, given)
            total += chosen.weight * (torch.ones_like(total) if weight is None else weight / weight.mean())
        return total / total.max() if count else total

    def suspicious_labels(self) -> SuspiciousLabels:
        """Return all labels, those first that the other labels contradict most.

        Returns
        -------
        The nodes, their labels, the probability of each label by all others, and the class that they suggest instead.

        Examples
        --------
        >>> import lggd
        >>> data = lggd.load("karate")
        >>> data.y[15] = 0  # wrong
        >>> suspicious = lggd.KernelRidge().fit(data).suspicious_labels()
        >>> suspicious.nodes[0].item(), suspicious.labels[0].item(), suspicious.suggested[0].item()
        (15, 0, 1)
        """
        probabilities, labels = self.leave_one_out_proba(), self.labels_[self.labels_ >= 0]
        own, nodes = probabilities.gather(1, labels[:, None]).squeeze(1), (self.labels_ >= 0).nonzero().squeeze(1)
        order, (highest, suggested) = own.argsort(stable=True), probabilities.max(1)
        return SuspiciousLabels(*(column[order] for column in (nodes, labels, own, suggested, highest)))

    def suggest(self, k: int = 1) -> Tensor:
        """Return the k unlabelled nodes most worth labelling next.

        Chosen one by one: the node whose label would reduce the posterior variance of uncertain nodes most, given that
        those chosen before are labelled too, so that they spread over the graph.

        Parameters
        ----------
        k : int
            Number of nodes; where fewer are unlabelled, those are returned.

        Returns
        -------
        Nodes, int64 `[k]`, the best first.

        Examples
        --------
        >>> import lggd
        >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
        >>> len(model.suggest(3))
        3
        """
        solution = self._solved()
        check_int("k", k, minimum=1)
        doubt = 1 - margins(self.predict_proba())
        unlabelled = (self.labels_ < 0).nonzero().squeeze(1)
        least_certain = doubt[unlabelled].argsort(descending=True, stable=True)[: max(k, MAX_CANDIDATES)]
        candidates = unlabelled[least_certain].sort().values
        covariance = solution.system.covariance(candidates, self.ridge_)
        return candidates[greedy_choice(covariance, candidates, doubt, self.ridge_, k)]

    def _set_labels(self, labels: Tensor) -> None:
        solution, count = self.solution_, int((labels >= 0).sum())
        chosen_with = solution.choice.num_labels
        if count >= self.growth * chosen_with or count * self.growth <= chosen_with:
            self.adopt(solution.reselected(self, labels))
        elif not torch.equal(labels, solution.labels):
            self.adopt(solution.with_labels(labels))

    def with_labels(self, labels: Tensor) -> Self:
        """Return a copy for other labels, int64 `[N]` with -1 elsewhere, and the same settings.

        There may be other classes.

        Examples
        --------
        >>> import lggd
        >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
        >>> labels = model.labels_.clone()
        >>> labels[16] = 2  # a class that was not there
        >>> model.with_labels(labels).predict_proba().shape, model.predict_proba().shape
        (torch.Size([34, 3]), torch.Size([34, 2]))
        """
        checked = Labels.checked(labels, torch.full_like(labels, -1))
        return self._copy(self._solved().with_labels(checked.train.clone(), checked.num_classes))

    def reselected(self, labels: Tensor) -> Self:
        """Return a copy for other labels, and settings that are chosen again for them.

        Examples
        --------
        >>> import lggd
        >>> model = lggd.KernelRidge().fit(lggd.load("karate"))
        >>> torch.equal(model.reselected(model.labels_).predict_proba(), model.predict_proba())
        True
        """
        checked = Labels.checked(labels, torch.full_like(labels, -1))
        return self._copy(self._solved().reselected(self, checked.train.clone(), checked.num_classes))

    def _copy(self, solution: RidgeSolution) -> Self:
        after = copy.copy(self)
        after.additions_, after.metadata_ = list(self.additions_), dict(self.metadata_)
        after.adopt(solution)
        return after

    @property
    def accepts_nodes(self) -> bool:
        return True

    def _change_graph(self, change: GraphChange) -> None:
        solution, axes = self.solution_, dict(self.solution_.inputs.axes)
        if "topology" in axes:  # new nodes contribute nothing as neighbours
            axes["topology"] = pad(axes["topology"], (0, 0, 0, change.num_new_nodes))
        inputs = read_inputs(change.nodes, self.widths, solution.choice.seed, axes)
        if not isinstance(inputs, MemoryInputs):
            raise InputError("model", "be fitted to a graph in memory", "one on disk", "Build the graph again.")
        after = solution.with_graph(inputs, change)
        self.data_ = change.nodes
        self.adopt(after)

    def _state(self) -> dict[str, Tensor]:
        choice, graphs, kernels = self.solution_.choice, self._graph_names, self._all_kernels
        places = [[graphs.index(k.graph) for k in choice.kernels], [kernels.index(k.kernel) for k in choice.kernels]]
        numbers = choice.ridge, choice.inverse_temperature, choice.loss, choice.pseudo_fraction
        state = {
            "numbers": torch.tensor([choice.num_labels, choice.seed, int(choice.exact)]),
            "settings": torch.tensor(numbers, dtype=torch.float64),
            "kernels": torch.tensor(places),
            "weights": torch.tensor([k.weight for k in choice.kernels], dtype=torch.float64),
            "inducing": choice.inducing,
        }
        state |= {f"axes.{name}": axes for name, axes in self.solution_.inputs.axes.items()}
        if choice.mean_cosine is not None:
            state["mean_cosine"] = torch.tensor(choice.mean_cosine, dtype=torch.float64)
        return state | {f"edge_weight.{name}": weight for name, weight in choice.edge_weights.items()}

    @property
    def _graph_names(self) -> list[str]:
        """The names of all graphs, also of those that no kernel was chosen on."""
        rounds = 0 if self.agreement is None else 1 + self.agreement.rounds
        return ["x", "wide", "topology", *(f"agreement {k}" for k in range(rounds))]

    @property
    def _all_kernels(self) -> list[FilterKernel]:
        """The kernels to choose from on any graph, each once."""
        given = *self.kernels, *self.far_kernels, *self.wide_kernels, *self.topology_kernels
        return list(dict.fromkeys((*given, *REWEIGHTED_KERNELS, *FAR_REWEIGHTED_KERNELS)))

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        num_labels, seed, exact = state["numbers"].tolist()
        ridge, inverse_temperature, loss, pseudo_fraction = state["settings"].tolist()
        names, kernels, weights = self._graph_names, self._all_kernels, state["weights"].tolist()
        places = zip(*state["kernels"].tolist(), weights, strict=True)
        choice = RidgeChoice(
            tuple(ChosenKernel(names[graph], kernels[k], weight) for graph, k, weight in places),
            without_prefix("edge_weight.", state), float(state["mean_cosine"]) if "mean_cosine" in state else None,
            ridge, inverse_temperature, loss, num_labels, seed, state["inducing"], bool(exact), pseudo_fraction,
        )  # fmt: skip
        inputs = read_inputs(nodes, self.widths, seed, without_prefix("axes.", state))
        self.adopt(RidgeSolution.solve(choice, inputs, self.labels_, self.num_classes_))
