"""The inputs of the closed form: weighted edges, node features and rows of the adjacency in principal directions.

An edge may count as much as its two ends have in common: `EdgeAgreement`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from lggd.closed_form.filters import Adjacency, Propagation
from lggd.closed_form.kernels import FilterKernel, MixtureKernel
from lggd.closed_form.ridge import InducedSystem
from lggd.graph.edge_list import check_node_features, check_symmetric, read_edges
from lggd.graph.sparse import mostly_zeros, unit_rows, without_sparse_warnings
from lggd.inputs.graph_change import GraphChange, appended_rows
from lggd.validation import check_int

# Principal directions of the rows of the adjacency: more would describe single edges.
TOPOLOGY_WIDTH = 128
# Each iteration for principal directions squares the ratios of singular values: two suffice where many of them matter.
SUBSPACE_ITERATIONS = 2
# Up to this many columns, all principal directions are computed exactly.
MOST_EXACT_COLUMNS = 1024
# Weights by features are relative to the mean, and within these bounds; weights by classes are at least
# LEAST_AGREEMENT, so that a wrong prediction does not cut a node off.
FEATURE_BOUNDS = (0.1, 3.0)
LEAST_AGREEMENT = 0.02
# Products are computed in parts of this many numbers, which stay in the cache of a CPU.
MOST_ENTRIES = 2**18


@dataclass(frozen=True)
class EdgeAgreement:
    """Weigh each edge by the agreement of its ends: of their node features, then of their predicted classes.

    Parameters
    ----------
    rounds : int
        How often the edges are weighed again by the predictions of the round before.

    Examples
    --------
    >>> import lggd
    >>> lggd.KernelRidge(agreement=lggd.EdgeAgreement(rounds=1)).agreement
    EdgeAgreement(rounds=1)
    """

    rounds: int = 2

    def __post_init__(self) -> None:
        check_int("rounds", self.rounds, minimum=0)


class RidgeInputs:
    """A graph with its node features, or without.

    Parameters
    ----------
    data : torch_geometric.data.Data
        An undirected graph; without `x`, rows of the adjacency are the node features.
    widths : sequence of int
        Numbers of principal directions to compute, the fewest first.
    seed : int
        Random seed of the principal directions.
    axes : mapping
        Principal directions to use again, by "x" and "topology"; None computes them.
    """

    # Where there are more labels than a model's `inducing`, they are inducing points themselves, up to this many.
    most_inducing = 2048

    def __init__(self, data: Any, widths: Sequence[int], seed: int, axes: Mapping[str, Tensor] | None = None) -> None:
        edges = *read_edges(data, data.num_nodes), int(data.num_nodes)
        check_symmetric(*edges)
        self.adjacency = Adjacency(*edges)
        self.mean_cosine: float | None = None  # set by feature_agreement
        self.weighs_edges = self.adjacency.num_edges > 0  # edges can have other weights
        self.has_features = getattr(data, "x", None) is not None
        self.axes, self._seed = dict(axes or {}), seed
        self._rows: Tensor | None = None  # of the adjacency in their principal directions, once they are used
        if self.has_features:
            x = check_node_features(data)
            rows = x.to_sparse_coo() if mostly_zeros(x) and not x.is_cuda else x  # type: ignore[no-untyped-call]
            self._x = self._projected("x", unit_rows(rows), max(widths))
        else:
            self._x = self._topology
        self.widths = sorted({min(width, self._x.shape[1]) for width in widths})

    @property
    def _topology(self) -> Tensor:
        """The rows of the adjacency in their principal directions."""
        if self._rows is None:
            self._rows = self._projected("topology", unit_rows(self._neighbours()), TOPOLOGY_WIDTH)
        return self._rows

    def _neighbours(self, nodes: Tensor | None = None) -> Tensor:
        """The rows of the adjacency of these nodes, in ascending order, or of all, as a sparse tensor."""
        (sources, targets), weight = self.adjacency.edge_index, self.adjacency.edge_weight
        columns = self.adjacency.num_nodes
        rows = columns if nodes is None else len(nodes)
        if nodes is not None:
            chosen = torch.isin(sources, nodes)
            sources, targets = torch.searchsorted(nodes, sources[chosen]), targets[chosen]
            weight = None if weight is None else weight[chosen]
        weight = torch.ones(len(sources), device=sources.device) if weight is None else weight.float()
        index = torch.stack([sources, targets])
        return torch.sparse_coo_tensor(index, weight, (rows, columns), check_invariants=False).coalesce()

    def _projected(self, name: str, rows: Tensor, width: int) -> Tensor:
        """Rows, which may be sparse, in their principal directions."""
        if name not in self.axes:
            self.axes[name] = principal_axes(Moments(rows), width, torch.Generator().manual_seed(self._seed))
        return (rows if rows.layout == torch.strided else compressed(rows)) @ self.axes[name]

    def graph(self, kernels: Sequence[FilterKernel], width: int, edge_weight: Tensor | None = None) -> Propagation:
        """The node features in their first principal directions, ready for these kernels; None: the given weights."""
        adjacency = self.adjacency if edge_weight is None else self.adjacency.reweighted(edge_weight)
        return Propagation(self._x[:, :width].contiguous(), adjacency, filters_of(kernels))

    def topology(self, kernels: Sequence[FilterKernel]) -> Propagation:
        """The rows of the adjacency in their principal directions, ready for these kernels."""
        return Propagation(self._topology, self.adjacency, filters_of(kernels))

    def induced_system(self, kernel: MixtureKernel, nodes: Tensor) -> InducedSystem:
        """The system of a kernel with these nodes as inducing points."""
        return InducedSystem(kernel, kernel.points(nodes))

    def feature_agreement(self) -> Tensor:
        """Edge weights by the agreement of node features, `[E]`."""
        cosine = self._edge_cosines()
        self.mean_cosine = float(cosine.mean())
        return self._weighted(relative_agreement(cosine, self.mean_cosine))

    def new_feature_agreement(self, count: int) -> Tensor:
        """The weights of the last `count` edges, relative to the mean of those of `feature_agreement`."""
        first = self.adjacency.num_edges - count
        return self._weighted(relative_agreement(self._edge_cosines(first), self.mean_cosine or 0.0), first)

    def _edge_cosines(self, first: int = 0) -> Tensor:
        return edge_cosines(self._x[:, : self.widths[0]], self.adjacency.edge_index[:, first:])

    def _weighted(self, agreement: Tensor, first: int = 0) -> Tensor:
        given = self.adjacency.edge_weight
        return agreement if given is None else agreement * given[first:]

    def changed(self, change: GraphChange) -> RidgeInputs:
        """The inputs after a change of the graph.

        Principal directions stay. To those of the rows of the adjacency, new nodes contribute nothing as neighbours.
        """
        after = copy.copy(self)
        after.adjacency = Adjacency(*change.nodes.edges, change.num_nodes)
        after.axes = dict(self.axes)  # copies of a model grow apart
        if "topology" in self.axes:  # also where no member uses them: the next choice of settings may
            after.axes["topology"] = pad(self.axes["topology"], (0, 0, 0, change.num_new_nodes))
        if self._rows is not None:
            rows = unit_rows(after._neighbours(change.touched)) @ after.axes["topology"]
            after._rows = replaced_rows(self._rows, change.touched, rows)
        if self.has_features:
            after._x = appended_rows(self._x, unit_rows(change.new_x.float()) @ self.axes["x"])
        else:
            after._x = after._topology
        return after

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


def filters_of(kernels: Sequence[FilterKernel]) -> list[Any]:
    """All filters of these kernels, each once."""
    return list(dict.fromkeys(filter for kernel in kernels for filter in kernel.filters))


def edge_cosines(x: Tensor, edge_index: Tensor) -> Tensor:
    """The cosine of the features at both ends, `[E]`."""
    ends, places = torch.unique(edge_index, return_inverse=True)
    return edge_products(normalize(x[ends]), places)


def relative_agreement(cosine: Tensor, mean: float) -> Tensor:
    """The cosine relative to the mean, within `FEATURE_BOUNDS`, `[E]`."""
    if not mean > 0:  # features without a common direction: none of them is more typical than another
        return torch.ones_like(cosine)
    return (cosine / mean).clamp(*FEATURE_BOUNDS)


def class_agreement(probabilities: Tensor, edge_index: Tensor) -> Tensor:
    """The probability that both ends have the same class, at least `LEAST_AGREEMENT`, `[E]`."""
    return edge_products(probabilities, edge_index).clamp(min=LEAST_AGREEMENT)


def edge_products(values: Tensor, edge_index: Tensor) -> Tensor:
    """⟨values[i], values[j]⟩ for each edge (i, j), `[E]`; in parts, as there may be many more edges than nodes."""
    size = max(1, MOST_ENTRIES // values.shape[1])
    parts = [(values[i] * values[j]).sum(1) for i, j in (part.unbind(0) for part in torch.split(edge_index, size, 1))]
    return torch.cat(parts) if parts else values.new_empty(0)


class Moments:
    """Products of x `[N, D]` with itself, which principal directions are found by; x may be sparse."""

    def __init__(self, x: Tensor) -> None:
        self._x, self.shape, self.device = x, x.shape, x.device

    @cached_property
    def _factors(self) -> tuple[Tensor, Tensor]:
        """x and its transpose."""
        x = self._x
        return (x, x.t()) if x.layout == torch.strided else (compressed(x), compressed(x.t()))

    def gram(self) -> Tensor:
        """xᵀx, `[D, D]`."""
        dense = self._x.to_dense() if self._x.layout != torch.strided else self._x
        return dense.t() @ dense

    def product(self, basis: Tensor) -> Tensor:
        """xᵀ(x B), `[D, W]`."""
        x, transposed = self._factors
        return transposed @ (x @ basis)

    def projected_gram(self, basis: Tensor) -> Tensor:
        """(x B)ᵀ x B, `[W, W]`."""
        projected = self._factors[0] @ basis
        return projected.t() @ projected


def principal_axes(moments: Any, width: int, generator: torch.Generator) -> Tensor:
    """The directions in which the rows of x vary most, in descending order, orthonormal `[D, at most width]`.

    From its `Moments`, in memory, on disk or on a cluster. Where x is wide, by subspace iteration (Halko et al., 2011)
    from a random start.
    """
    rows, columns = moments.shape
    if columns <= max(width, MOST_EXACT_COLUMNS):
        return eigenvectors(moments.gram())[:, : min(width, rows)].contiguous()
    basis = torch.randn(columns, width, generator=generator).to(moments.device)
    for _ in range(SUBSPACE_ITERATIONS):
        basis = torch.linalg.qr(moments.product(basis)).Q
    principal: Tensor = basis @ eigenvectors(moments.projected_gram(basis))[:, :rows]
    return principal


def eigenvectors(matrix: Tensor) -> Tensor:
    """The eigenvectors of a symmetric matrix as columns, those of the largest eigenvalues first."""
    # On a CPU: with many equal eigenvalues, the GPU's solver may not converge.
    vectors: Tensor = torch.linalg.eigh(matrix.cpu()).eigenvectors
    return vectors.flip(1).to(matrix.device)


def compressed(x: Tensor) -> Tensor:
    """A sparse matrix as CSR, whose products are faster than those of COO."""
    with without_sparse_warnings():
        return x.to_sparse_csr()  # type: ignore[no-untyped-call, no-any-return]
