"""The graphs of a closed-form model after its graph has changed: new features, edge weights and filtered features.

Edges that stay keep their weights on every graph. A new edge weighs as much as its ends agree, by the rule that weighed
the others (`EdgeAgreement`): on "agreement 0" by node features, relative to the mean agreement of the edges that the
settings were chosen with; on "agreement k" from 1 also by classes, with the predictions before the change. Those of new
nodes are from a first solution, in which new edges weigh by node features alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from lggd.closed_form.arrival import UpdatedPropagation
from lggd.closed_form.filters import Propagation
from lggd.closed_form.kernels import Member
from lggd.closed_form.ridge_inputs import RidgeInputs, class_agreement, filters_of
from lggd.closed_form.selection import BY_FEATURES
from lggd.inputs.graph_change import GraphChange


class GraphUpdate:
    """The `graphs` and `edge_weights` of a closed-form model after a change, by name, from those before.

    Until `weigh_by_classes` is called, new edges weigh by node features alone, also on the graphs `by_classes`. The
    `inputs` are those after the change.
    """

    def __init__(
        self, graphs: Mapping[str, Propagation], edge_weights: Mapping[str, Tensor], members: Sequence[Member],
        inputs: RidgeInputs, change: GraphChange,
    ) -> None:  # fmt: skip
        self._graphs_before, self._weights_before, self._members = graphs, edge_weights, members
        self._inputs, self._change, count = inputs, change, change.new_edges.shape[1]
        has_new_weights = bool(edge_weights and count)
        self._alike = inputs.new_feature_agreement(count) if has_new_weights else change.new_x.new_empty(0)
        self.edge_weights = {name: change.carry(weight, self._alike) for name, weight in edge_weights.items()}
        self.by_classes = [name for name in edge_weights if name != BY_FEATURES] if has_new_weights else []
        used = {member.graph for member in members}
        self._drafts = {name: self._update(name) for name in graphs if name in used}
        self.graphs: dict[str, Propagation] = dict(self._drafts)
        if "x" not in used:
            x = inputs.changed_graph(graphs["x"], change, topology=False)
            self.graphs["x"] = Propagation(x, inputs.adjacency, ())

    def _update(self, name: str, draft: UpdatedPropagation | None = None) -> UpdatedPropagation:
        """The graph of this name, filtered by the filters that the members use."""
        before, weight, adjacency = self._graphs_before[name], self.edge_weights.get(name), self._inputs.adjacency
        x = self._inputs.changed_graph(before, self._change, name == "topology")
        adjacency = adjacency if weight is None else adjacency.reweighted(weight)
        filters = filters_of([member.kernel for member in self._members if member.graph == name])
        return UpdatedPropagation(x, adjacency, filters, before, self._change.touched, draft)

    def weigh_by_classes(self, probabilities: Tensor) -> None:
        """Weighs the new edges of `by_classes` by the agreement of these probabilities of all nodes, `[N, K]`."""
        weight = self._alike * class_agreement(probabilities, self._change.new_edges)
        for name in self.by_classes:
            self.edge_weights[name] = self._change.carry(self._weights_before[name], weight)
            self.graphs[name] = self._update(name, self._drafts[name])
