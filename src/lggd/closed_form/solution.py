"""The solution of a kernel ridge regression: it never changes; other labels or another graph give another one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lggd.closed_form.pseudo_labels import self_trained
from lggd.closed_form.ridge import LocalSystem, class_targets
from lggd.closed_form.ridge_inputs import LocalInputs, MemoryInputs, class_agreement
from lggd.closed_form.selection import BY_FEATURES, RidgeChoice, choose
from lggd.inputs.graph_change import GraphChange
from lggd.kernels import MixtureKernel

if TYPE_CHECKING:
    from lggd.closed_form.kernel_ridge import KernelRidge


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """A kernel ridge regression, solved for some labels.

    Parameters
    ----------
    choice : RidgeChoice
        The chosen settings.
    inputs : LocalInputs
        The graph.
    labels : Tensor
        int64 `[N]`, -1 for unlabelled nodes.
    num_classes : int
    probabilities : Tensor
        Of each class, float32 `[N, K]`.
    assembled, pseudo_assembled : LocalSystem, optional
        The system for these labels, and one that other solutions add pseudo-labels to; None assembles them once they
        are needed.
    """

    choice: RidgeChoice
    inputs: LocalInputs
    labels: Tensor
    num_classes: int
    probabilities: Tensor
    assembled: LocalSystem | None = None
    pseudo_assembled: LocalSystem | None = None

    @classmethod
    def choose(
        cls, settings: KernelRidge, inputs: LocalInputs, labels: Tensor, num_classes: int, seed: int
    ) -> RidgeSolution:
        """The solution with the settings of the best leave-one-out predictions."""
        choice, system = choose(settings, inputs, labels, num_classes, seed)
        pseudo_system: LocalSystem | None = None
        if settings.pseudo_labels is not None:
            # Pseudo-labels come and go by thousands: inducing points are enough for them.
            pseudo_system = inputs.system(system.kernel, system.nodes, choice.inducing)
            scale = choice.ridge, choice.inverse_temperature
            fraction = settings.pseudo_labels.choose(pseudo_system, labels, num_classes, *scale)
            choice = replace(choice, pseudo_fraction=fraction)
        return cls.solve(choice, inputs, labels, num_classes, system, pseudo_system)

    @classmethod
    def solve(
        cls, choice: RidgeChoice, inputs: LocalInputs, labels: Tensor, num_classes: int,
        system: LocalSystem | None = None, pseudo_system: LocalSystem | None = None,
    ) -> RidgeSolution:  # fmt: skip
        """The solution with chosen settings; `system` and `pseudo_system` are for the same kernel and any labels."""
        nodes = (labels >= 0).nonzero().squeeze(1)
        system = _assemble(choice, inputs, nodes) if system is None else system.with_nodes(nodes)
        scale = choice.ridge, choice.inverse_temperature
        probabilities = system.probabilities(labels[nodes], num_classes, *scale)
        if choice.pseudo_fraction:
            pseudo_system = pseudo_system or inputs.system(system.kernel, nodes, choice.inducing)
            probabilities = self_trained(pseudo_system, labels, probabilities, choice.pseudo_fraction, *scale)
        return cls(choice, inputs, labels, num_classes, probabilities, system, pseudo_system)

    @cached_property
    def system(self) -> LocalSystem:
        """The system for these labels."""
        return self.assembled or _assemble(self.choice, self.inputs, (self.labels >= 0).nonzero().squeeze(1))

    def with_labels(self, labels: Tensor, num_classes: int | None = None) -> RidgeSolution:
        """The solution for other labels with the same settings."""
        count = self.num_classes if num_classes is None else num_classes
        return self.solve(self.choice, self.inputs, labels, count, self.system, self.pseudo_assembled)

    def reselected(self, settings: KernelRidge, labels: Tensor, num_classes: int | None = None) -> RidgeSolution:
        """The solution for other labels with settings that are chosen for them."""
        count = self.num_classes if num_classes is None else num_classes
        return self.choose(settings, self.inputs, labels, count, self.choice.seed)

    def with_graph(self, inputs: MemoryInputs, change: GraphChange) -> RidgeSolution:
        """The solution after a change of the graph, which `inputs` have, with the same settings.

        Edges that stay keep their weights. A new edge is weighted by `EdgeAgreement`: by node features, relative to
        the mean agreement of the edges that the settings were chosen with; where others are weighed by classes too,
        also by the predictions before the change. Those of new nodes are from a first solution, in which new edges
        weigh by node features alone.
        """
        labels, before, edges = change.grow_labels(self.labels), self.choice.edge_weights, change.new_edges
        alike = self.probabilities.new_empty(0)
        if before and edges.shape[1]:
            alike, _ = inputs.feature_agreement(self.choice.mean_cosine, inputs.adjacency.num_edges - edges.shape[1])

        def solved(by_classes: Tensor) -> RidgeSolution:
            new = {name: alike if name == BY_FEATURES else by_classes for name in before}
            weights = {name: change.carry(weight, new[name]) for name, weight in before.items()}
            return self.solve(replace(self.choice, edge_weights=weights), inputs, labels, self.num_classes)

        known = self.probabilities
        by_classes = bool(len(alike) and before.keys() - {BY_FEATURES})
        if not by_classes:
            return solved(alike)
        if change.num_new_nodes:
            known = torch.cat([known, solved(alike).probabilities[len(known) :]])
        return solved(alike * class_agreement(known, edges))

    def left_out(self) -> Tensor:
        """The probabilities of the labelled nodes without their own label, float32 `[n, K]`, in ascending order."""
        targets = class_targets(self.labels[self.system.nodes], self.num_classes)
        scores = self.system.left_out(targets, self.choice.ridge)
        return torch.softmax(self.choice.inverse_temperature * scores, dim=1).float()


def _assemble(choice: RidgeChoice, inputs: LocalInputs, nodes: Tensor) -> LocalSystem:
    """The system of the chosen kernels for these labelled nodes."""
    graphs = {}
    for name in dict.fromkeys(chosen.graph for chosen in choice.kernels):
        kernels = [chosen.kernel for chosen in choice.kernels if chosen.graph == name]
        graphs[name] = inputs.graph(name, kernels, choice.edge_weights.get(name))
    return inputs.system(MixtureKernel(graphs, choice.kernels), nodes, None if choice.exact else choice.inducing)
