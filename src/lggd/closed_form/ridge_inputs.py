"""The inputs of the closed form: edges, and node features and rows of the adjacency in their principal directions."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.closed_form.edge_agreement import edge_cosines, relative_agreement
from lggd.closed_form.filters import Propagation, compressed, principal_axes, unit_rows
from lggd.closed_form.kernels import FilterKernel
from lggd.estimator.graph_change import GraphChange, appended_rows
from lggd.graph.edge_index import check_symmetric, read_edges, read_weight
from lggd.graph.sparse import SparseMatrix, SparsePattern
from lggd.learning.node_features import check_node_features

# Principal directions of the rows of the adjacency: more would describe single edges.
TOPOLOGY_WIDTH = 128
# Node features of which fewer than this fraction are not 0 are multiplied as sparse ones on a CPU.
SPARSE_BELOW = 0.05


class RidgeInputs:
    """A graph with its node features, or without.

    Parameters
    ----------
    data : torch_geometric.data.Data
        An undirected graph; without `x`, rows of the adjacency are the node features.
    widths : sequence of int
        Numbers of principal directions that will be asked for, the fewest first.
    seed : int
        Random seed of the principal directions.
    axes : mapping
        Principal directions to use again, by "x" and "topology"; None computes them.
    """

    def __init__(self, data: Any, widths: Sequence[int], seed: int, axes: Mapping[str, Tensor] | None = None) -> None:
        self.edge_index, self.edge_weight = read_edges(data, data.num_nodes)
        check_symmetric(self.edge_index, self.edge_weight, data.num_nodes)
        self.mean_cosine: float | None = None  # set by feature_agreement
        self.weighs_edges = self.edge_index.shape[1] > 0  # edges can have other weights
        self.has_features = getattr(data, "x", None) is not None
        self.axes, self._seed, self._num_nodes = dict(axes or {}), seed, int(data.num_nodes)
        self._matrices: dict[bool, SparseMatrix] = {}
        self._patterns: dict[bool, SparsePattern] = {}
        self._rows: Tensor | None = None  # of the adjacency in their principal directions, once they are asked for
        if self.has_features:
            self._x = self._projected("x", unit_rows(_sparse_if_faster(check_node_features(data))), max(widths))
        else:
            self._x = self._topology
        self.widths = sorted({min(width, self._x.shape[1]) for width in widths})

    @property
    def _topology(self) -> Tensor:
        """The rows of the adjacency in their principal directions."""
        if self._rows is None:
            self._rows = self._projected("topology", unit_rows(self._adjacency(self._num_nodes)), TOPOLOGY_WIDTH)
        return self._rows

    def _projected(self, name: str, rows: Tensor, width: int) -> Tensor:
        """Rows, which may be sparse, in their principal directions."""
        if name not in self.axes:
            self.axes[name] = principal_axes(rows, width, torch.Generator().manual_seed(self._seed))
        return (rows if rows.layout == torch.strided else compressed(rows)) @ self.axes[name]

    def _adjacency(self, num_nodes: int) -> Tensor:
        """The adjacency matrix as a sparse tensor `[N, N]`."""
        weight = self.edge_weight
        if weight is None:
            weight = torch.ones(self.edge_index.shape[1], device=self.edge_index.device)
        shape = (num_nodes, num_nodes)
        return torch.sparse_coo_tensor(self.edge_index, weight.float(), shape, check_invariants=False).coalesce()

    def graph(self, kernels: Sequence[FilterKernel], width: int, edge_weight: Tensor | None = None) -> Propagation:
        """The node features in their first principal directions, ready for these kernels; None: the given weights."""
        weight = self.edge_weight if edge_weight is None else edge_weight
        graph = Propagation(self._x[:, :width].contiguous(), self.edge_index, weight, filters_of(kernels))
        return graph.share(self._matrices if edge_weight is None else None, self._patterns)

    def topology(self, kernels: Sequence[FilterKernel]) -> Propagation:
        """The rows of the adjacency in their principal directions, ready for these kernels."""
        graph = Propagation(self._topology, self.edge_index, self.edge_weight, filters_of(kernels))
        return graph.share(self._matrices, self._patterns)

    def feature_agreement(self) -> Tensor:
        """Edge weights by the agreement of node features, `[E]`."""
        cosine = edge_cosines(self._x[:, : self.widths[0]], self.edge_index)
        self.mean_cosine = float(cosine.mean())
        weight = relative_agreement(cosine, self.mean_cosine)
        return weight if self.edge_weight is None else weight * self.edge_weight

    def new_feature_agreement(self, count: int) -> Tensor:
        """The weights of the last `count` edges, relative to the mean of those of `feature_agreement`."""
        first, mean = self.edge_index.shape[1] - count, self.mean_cosine
        cosine = edge_cosines(self._x[:, : self.widths[0]], self.edge_index[:, first:])
        weight = relative_agreement(cosine, 0.0 if mean is None else mean)
        return weight if self.edge_weight is None else weight * self.edge_weight[first:]

    def changed(self, change: GraphChange) -> RidgeInputs:
        """The inputs after a change of the graph.

        Principal directions stay. To those of the rows of the adjacency, new nodes contribute nothing as neighbours.
        """
        after = copy.copy(self)
        after.edge_index, after.edge_weight = change.data.edge_index, read_weight(change.data)
        after._matrices, after._patterns, after._num_nodes = {}, {}, change.num_nodes
        after.axes = dict(self.axes)  # copies of a model grow apart
        if "topology" in self.axes:  # also where no member uses them: they may be asked for when settings are chosen
            after.axes["topology"] = pad(self.axes["topology"], (0, 0, 0, change.num_new_nodes))
        if self._rows is not None:
            after._rows = replaced_rows(self._rows, change.touched, after._topology_rows(change.touched))
        if self.has_features:
            after._x = appended_rows(self._x, unit_rows(change.new_x.float()) @ self.axes["x"])
        else:
            after._x = after._topology
        return after

    def _topology_rows(self, nodes: Tensor) -> Tensor:
        """The rows of these nodes, in ascending order, in the principal directions of the adjacency."""
        chosen = torch.isin(self.edge_index[0], nodes)
        sources, targets = self.edge_index[:, chosen]
        weight = torch.ones(len(sources), device=nodes.device) if self.edge_weight is None else self.edge_weight[chosen]
        index = torch.stack([torch.searchsorted(nodes, sources), targets])
        shape = len(nodes), len(self.axes["topology"])
        rows = torch.sparse_coo_tensor(index, weight.float(), shape, check_invariants=False).coalesce()
        return unit_rows(rows) @ self.axes["topology"]

    def changed_graph(self, before: Propagation, change: GraphChange, topology: bool) -> Tensor:
        """The node features of a graph after a change, from those before."""
        width, rows = before.x.shape[1], self._topology if topology else self._x
        if self.has_features and not topology:
            return appended_rows(before.x, rows[len(before.x) :, :width])
        return replaced_rows(before.x, change.touched, rows[change.touched, :width])


def replaced_rows(x: Tensor, nodes: Tensor, rows: Tensor) -> Tensor:
    """x with other rows at these nodes, some of which may be new."""
    after = pad(x, (0, 0, 0, max(0, int(nodes.max()) + 1 - len(x)))) if len(nodes) else x.clone()
    after[nodes] = rows
    return after


def _sparse_if_faster(x: Tensor) -> Tensor:
    if x.layout != torch.strided or x.is_cuda or int(x.count_nonzero()) >= SPARSE_BELOW * x.numel():
        return x
    return x.to_sparse_coo()  # type: ignore[no-untyped-call, no-any-return]


def filters_of(kernels: Sequence[FilterKernel]) -> list[Any]:
    """All filters of these kernels, each once."""
    return list(dict.fromkeys(filter for kernel in kernels for filter in kernel.filters))
