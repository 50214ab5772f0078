"""Changes of the graph that a model was fitted to: nodes that arrive, edges that come and go."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.errors import InputError
from lggd.graph.edge_list import check_weights, numbers, whole_numbers
from lggd.inputs.labels import UNLABELLED
from lggd.inputs.node_data import NodeData
from lggd.validation import check_entries


@dataclass(frozen=True, eq=False)
class GraphChange:
    """A graph before and after a change.

    Parameters
    ----------
    nodes : NodeData
        The graph afterwards: the kept edges in their order, then the new ones in both directions.
    num_new_nodes : int
        New nodes have the highest numbers.
    kept : Tensor
        The edges that stay, bool `[E]`.
    touched : Tensor
        The nodes that are new or whose edges changed, in ascending order.
    new_x : Tensor
        Node features of the new nodes, dense `[M, F]`; F is 0 without node features.
    """

    nodes: NodeData
    num_new_nodes: int
    kept: Tensor
    touched: Tensor
    new_x: Tensor

    @property
    def num_nodes(self) -> int:
        return self.nodes.num_nodes

    @property
    def new_edges(self) -> Tensor:
        """The new edges in both directions, int64 `[2, E]`."""
        return self.nodes.edges[0][:, int(self.kept.sum()) :]

    def grow_labels(self, labels: Tensor) -> Tensor:
        """The labels `[N]` of all nodes afterwards: new ones have none."""
        return pad(labels, (0, self.num_new_nodes), value=UNLABELLED)

    def carry(self, values: Tensor, new: Tensor) -> Tensor:
        """Values of the edges `[E]` afterwards, from those before and those of the new edges."""
        return torch.cat([values[self.kept], new.to(values.dtype)])


def new_nodes(nodes: NodeData, x: Any, edge_index: Any, edge_weight: Any = None) -> GraphChange:
    """The arrival of nodes with node features `x [M, F]`, and of edges.

    Without node features F is 0, or x is None: then the edges name the new nodes.
    """
    edges = _read_edges(edge_index, nodes.edges[0].device)
    if nodes.x is not None:
        x = _read_rows(x, nodes.x)
        return _added(nodes, x, len(x), edges, edge_weight)
    if x is None:
        count = int(edges.max()) + 1 - nodes.num_nodes if edges.numel() else 0
        if count <= 0:
            rule = f"name a new node, {nodes.num_nodes} or above, because there are no node features"
            raise InputError("edge_index", rule, "none", "Use add_edges for edges between known nodes.")
    elif tuple(np.shape(x))[1:] == (0,) and len(x):
        count = len(x)
    else:
        remedy = "Pass None: the edges name the new nodes."
        raise InputError("x", "be None, because the graph has no node features", type(x).__name__, remedy)
    return _added(nodes, None, count, edges, edge_weight)


def new_edges(nodes: NodeData, edge_index: Any, edge_weight: Any = None) -> GraphChange:
    """The arrival of edges between known nodes."""
    return _added(nodes, None, 0, _read_edges(edge_index, nodes.edges[0].device), edge_weight)


def removed_edges(nodes: NodeData, edge_index: Any) -> GraphChange:
    """The removal of edges, each named in one direction or in both."""
    (known, weight), count = nodes.edges, nodes.num_nodes
    edges = _read_edges(edge_index, known.device)
    _check_range(edges, count, "Only edges between known nodes can be removed.")
    _check_once(edges, count)
    missing = ~torch.isin(_keys(edges, count), _keys(known, count))
    if bool(missing.any()):
        i, j = edges[:, missing][:, 0].tolist()
        clause = "there is none between the nodes {0} and {1}"
        raise InputError("edge_index", "contain edges of the graph", but=clause, nodes=[i, j])
    kept = ~torch.isin(_keys(known, count), _keys(edges, count))
    changed = replace(nodes, edge_index=known[:, kept], edge_weight=None if weight is None else weight[kept])
    return GraphChange(changed, 0, kept, torch.unique(edges), _no_rows(nodes))


def _added(nodes: NodeData, x: Tensor | None, count: int, edges: Tensor, edge_weight: Any) -> GraphChange:
    num_nodes, (known, known_weight) = nodes.num_nodes + count, nodes.edges
    _check_range(edges, num_nodes, f"The graph has {nodes.num_nodes} nodes and gets {count} new ones.")
    weight = _read_weights(edge_weight, edges, known_weight)
    _check_new(edges, known, num_nodes)
    edges, weight = _both_directions(edges, weight, num_nodes)
    if weight is not None:
        before = torch.ones(known.shape[1], device=known.device) if known_weight is None else known_weight
        weight = torch.cat([before, weight.to(before.dtype)])
    elif known_weight is not None:  # no edge is new
        weight = known_weight.clone()
    changed = replace(
        nodes, num_nodes=num_nodes, edge_index=torch.cat([known, edges], 1), edge_weight=weight,
        x=nodes.x if x is None or nodes.x is None else appended_rows(nodes.x, x),
    )  # fmt: skip
    new = torch.arange(nodes.num_nodes, num_nodes, device=known.device)
    kept = torch.ones(known.shape[1], dtype=torch.bool, device=known.device)
    touched = torch.unique(torch.cat([edges.flatten(), new]))
    return GraphChange(changed, count, kept, touched, _no_rows(nodes) if x is None else x)


def _no_rows(nodes: NodeData) -> Tensor:
    """Node features of no node."""
    return torch.empty(0, 0 if nodes.x is None else nodes.x.shape[1], device=nodes.edges[0].device)


def _read_rows(x: Any, features: Tensor) -> Tensor:
    """The rows of new nodes as features of the same kind as those of the others."""
    x = numbers("x", x)
    if x.dim() != 2 or x.shape[1] != features.shape[1]:
        rule = f"have shape [M, {features.shape[1]}], one row of node features for each new node"
        raise InputError("x", rule, list(x.shape))
    if not len(x):
        raise InputError("x", "have a row for each new node", "none", "Use add_edges for edges between known nodes.")
    rows: Tensor = x.to_dense().to(features.device, features.dtype)
    check_entries("x", rows, rows.isfinite(), "be finite", "row", "Fill or drop those entries first.")
    return rows


def _read_edges(edge_index: Any, device: torch.device) -> Tensor:
    """Edges as int64 `[2, E]`, from a tensor or an array."""
    edges = whole_numbers("edge_index", edge_index, device)
    if not edges.numel():
        return edges.new_empty(2, 0)
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise InputError("edge_index", "have shape [2, E]", list(edges.shape), "Pass two rows of node ids.")
    return edges


def _read_weights(edge_weight: Any, edges: Tensor, known: Tensor | None) -> Tensor | None:
    """The weight of each new edge; None if neither the new edges nor the others have weights."""
    if edge_weight is None:
        if known is not None and edges.shape[1]:
            rule = "contain one weight per edge, because the edges of the graph have weights"
            raise InputError("edge_weight", rule, "None")
        return None
    weight = numbers("edge_weight", edge_weight).to(edges.device).float()
    if list(weight.shape) != [edges.shape[1]]:
        raise InputError("edge_weight", f"have shape [{edges.shape[1]}], one weight per edge", list(weight.shape))
    check_weights(edges, weight)
    return weight


def _check_range(edges: Tensor, num_nodes: int, remedy: str) -> None:
    outside = (edges < 0) | (edges >= num_nodes)
    if bool(outside.any()):
        raise InputError("edge_index", f"contain node ids from 0 to {num_nodes - 1}", int(edges[outside][0]), remedy)


def _check_once(edges: Tensor, num_nodes: int) -> None:
    """Raises an error if an edge is named twice in the same direction."""
    ids, counts = torch.unique(edges[0] * num_nodes + edges[1], return_counts=True)
    if bool((counts > 1).any()):
        i, j = divmod(int(ids[counts > 1][0]), num_nodes)
        raise InputError("edge_index", "name each edge once", but="({0}, {1}) is in it twice", nodes=[i, j])


def _check_new(edges: Tensor, known: Tensor, num_nodes: int) -> None:
    loops = edges[0] == edges[1]
    if bool(loops.any()):
        raise InputError("edge_index", "join different nodes", f"a self-loop at node {int(edges[0, loops][0])}")
    _check_once(edges, num_nodes)
    # Few edges among many: in this order nothing is sorted.
    present = torch.isin(_keys(known, num_nodes), _keys(edges, num_nodes))
    if bool(present.any()):
        keys = _keys(known, num_nodes)[present]
        i, j = edges[:, torch.isin(_keys(edges, num_nodes), keys)][:, 0].tolist()
        clause, remedy = "the graph has one between the nodes {0} and {1}", "To change its weight, remove it first."
        raise InputError("edge_index", "contain new edges", but=clause, remedy=remedy, nodes=[i, j])


def _both_directions(edges: Tensor, weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    """Each edge once in either direction; the two directions may both be given if their weights are equal."""
    keys, order = _keys(edges, num_nodes).sort(stable=True)
    again = keys[1:] == keys[:-1]
    first, second = order[:-1][again], order[1:][again]
    if weight is not None and not torch.equal(weight[first], weight[second]):
        i, j = edges[:, second[weight[first] != weight[second]][0]].tolist()
        clause = "those of the edges ({0}, {1}) and ({1}, {0}) differ"
        raise InputError("edge_weight", "be equal in both directions", but=clause, nodes=[i, j])
    kept = torch.ones_like(order, dtype=torch.bool).index_fill_(0, second, False)
    edges = torch.cat([edges[:, kept], edges[:, kept].flip(0)], 1)
    return edges, None if weight is None else weight[kept].repeat(2)


def _keys(edges: Tensor, num_nodes: int) -> Tensor:
    """One number for each edge, the same in both directions, `[E]`."""
    return torch.minimum(*edges) * num_nodes + torch.maximum(*edges)


def appended_rows(x: Tensor, new: Tensor) -> Tensor:
    """The rows of x, dense or sparse, then the new ones."""
    if x.layout == torch.strided:
        return torch.cat([x, new])
    return torch.cat([x.to_sparse_coo(), new.to_sparse_coo()]).coalesce()  # type: ignore[no-untyped-call]  # torch
