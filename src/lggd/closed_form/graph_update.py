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

from lggd.closed_form.arrival import UpdatedPropagation
from lggd.closed_form.filters import Propagation
from lggd.closed_form.kernels import MixtureKernel
from lggd.closed_form.ridge import ExactSystem, class_targets, ridge_coefficients
from lggd.closed_form.ridge_inputs import class_agreement, filters_of
from lggd.closed_form.selection import BY_FEATURES
from lggd.estimator.graph_change import GraphChange
from lggd.graph.sparse import SparsePattern

if TYPE_CHECKING:
    from lggd.closed_form.kernel_ridge import KernelRidge


def update_graphs(before: KernelRidge, after: KernelRidge, change: GraphChange) -> None:
    """Sets the graphs and edge weights of `after`, whose inputs are already those after the change."""
    update, new, weights = GraphUpdate(before, after, change), change.new_edges, before._edge_weights
    has_new_weights = bool(weights and new.shape[1])
    alike = after._inputs.new_feature_agreement(new.shape[1]) if has_new_weights else torch.empty(0, device=new.device)
    after._edge_weights = {name: change.carry(weight, alike) for name, weight in weights.items()}
    used = {member.graph for member in before.members_}
    drafts = {name: update.graph(name) for name in before._graphs if name in used}
    after._graphs = dict(drafts)
    if "x" not in drafts:
        x = after._inputs.changed_graph(before._graphs["x"], change, topology=False)
        after._graphs["x"] = Propagation(x, after._inputs.edge_index, after._inputs.edge_weight, ())
    by_classes = [name for name in weights if name != BY_FEATURES]
    if by_classes and has_new_weights:
        weight = alike * class_agreement(update.probabilities(), new)
        for name in by_classes:
            after._edge_weights[name] = change.carry(weights[name], weight)
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
        filters = filters_of([member.kernel for member in self.before.members_ if member.graph == name])
        return UpdatedPropagation(
            x, inputs.edge_index, weight, filters, old, self.change.touched, self._patterns, draft
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
        before, after, labelled = self.before, self.after, self.before._system.nodes
        targets = class_targets(before.labels_[labelled], before.num_classes_)
        new = torch.arange(len(before.labels_), self.change.num_nodes, device=labelled.device)
        if not isinstance(before._system, ExactSystem):
            after._assemble(labelled)
            return after._system.scores(targets, before.ridge_)[new]
        kernel = MixtureKernel(after._graphs, before.members_)
        points = kernel.points(torch.cat([labelled, new]))
        columns = kernel.between(points, [block[: len(labelled)] for block in points])
        coefficients = ridge_coefficients(columns[: len(labelled)].double(), targets, before.ridge_)
        return columns[len(labelled) :] @ coefficients.float()
