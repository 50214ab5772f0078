"""The graphs of a closed-form model after its graph has changed: new features, edge weights and filtered features.

Edges that stay keep their weights on every graph. A new edge weighs as much as its ends agree, by the rule that weighed
the others (`EdgeAgreement`): on "agreement 0" by node features, relative to the mean agreement of the edges that the
settings were chosen with; on "agreement k" from 1 also by classes, with the predictions before the change. Those of new
nodes are from a first solution, in which new edges weigh by node features alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lggd.closed_form.arrival import Before, UpdatedPropagation
from lggd.closed_form.filters import Filter, Propagation
from lggd.closed_form.kernels import MixtureKernel
from lggd.closed_form.ridge import ExactSystem, class_targets, ridge_coefficients
from lggd.closed_form.ridge_inputs import class_agreement
from lggd.closed_form.selection import BY_FEATURES
from lggd.estimator.graph_change import GraphChange
from lggd.graph.sparse import SparsePattern

if TYPE_CHECKING:
    from lggd.closed_form.kernel_ridge import KernelRidge


def update_graphs(before: KernelRidge, after: KernelRidge, change: GraphChange) -> None:
    """Sets the graphs and edge weights of `after`, whose inputs are already those after the change."""
    update = GraphUpdate(before, after, change)
    new = change.new_edges
    by_classes = [name for name in before._edge_weights if name != BY_FEATURES]
    if before._edge_weights and new.shape[1]:
        alike = after._inputs.new_feature_agreement(new.shape[1])
    else:
        alike = torch.empty(0, device=new.device)
    after._edge_weights = {name: change.carry(weight, alike) for name, weight in before._edge_weights.items()}
    used = {member.graph for member in before.members_}
    drafts = {name: update.graph(name) for name in before._graphs if name in used}
    after._graphs = dict(drafts)
    if "x" not in used:
        x = after._inputs.changed_graph(before._graphs["x"], change, topology=False)
        after._graphs["x"] = Propagation(x, after._inputs.edge_index, after._inputs.edge_weight, ())
    if by_classes and new.shape[1]:
        probabilities = update.probabilities()
        weight = alike * class_agreement(probabilities, new)
        for name in by_classes:
            after._edge_weights[name] = change.carry(before._edge_weights[name], weight)
            after._graphs[name] = update.graph(name, drafts[name])


class GraphUpdate:
    """The graphs of a model `after` a change, computed from those before."""

    def __init__(self, before: KernelRidge, after: KernelRidge, change: GraphChange) -> None:
        self.before, self.after, self.change = before, after, change
        self._patterns: dict[bool, SparsePattern] = {}

    def graph(self, name: str, draft: UpdatedPropagation | None = None) -> UpdatedPropagation:
        """The graph of this name, filtered by the filters that the members use."""
        old, inputs = self.before._graphs[name], self.after._inputs
        x = inputs.changed_graph(old, self.change, name == "topology")
        weight = self.after._edge_weights.get(name, inputs.edge_weight)
        filters = list[Filter](
            dict.fromkeys(f for m in self.before.members_ if m.graph == name for f in m.kernel.filters)
        )
        return UpdatedPropagation(
            x, inputs.edge_index, weight, filters, Before(old, self.change.touched), self._patterns, draft
        )

    def probabilities(self) -> Tensor:
        """The predictions before the change, and for new nodes those of the graphs so far, `[N, K]`."""
        known = self.before._probabilities(self.before.data_)
        if not self.change.num_new_nodes:
            return known
        scores = self._new_scores()
        return torch.cat([known, torch.softmax(self.before.inverse_temperature_ * scores, dim=1)])

    def _new_scores(self) -> Tensor:
        """The scores of new nodes `[M, K]`; only what these need is computed."""
        labelled, after = self.before._system.nodes, self.after
        classes = self.before.labels_[labelled]
        new = torch.arange(len(self.before.labels_), self.change.num_nodes, device=labelled.device)
        if not isinstance(self.before._system, ExactSystem):
            after._assemble(labelled)
            targets = class_targets(classes, self.before.num_classes_)
            return after._system.scores(targets, self.before.ridge_)[new]
        kernel = MixtureKernel(after._graphs, self.before.members_)
        points = kernel.points(torch.cat([labelled, new]))
        columns = kernel.between(points, [block[: len(labelled)] for block in points])
        targets = class_targets(classes, self.before.num_classes_)
        coefficients = ridge_coefficients(columns[: len(labelled)].double(), targets, self.before.ridge_)
        return columns[len(labelled) :] @ coefficients.float()
