"""The inputs of the closed form: weighted edges, node features and rows of the adjacency in principal directions.

An edge may count as much as its two ends have in common: `EdgeAgreement`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lggd._system.memory import InMemory
from lggd.closed_form.adjacency import ROWS_PER_BLOCK, Adjacency, Propagation, StoredAdjacency
from lggd.closed_form.ridge import ExactSystem, InducedSystem, LocalSystem, RidgeSystem
from lggd.filters import Filter
from lggd.graph.sparse import mostly_zeros, unit_rows, without_sparse_warnings
from lggd.kernels import FilterKernel, MixtureKernel, NodeFeatures
from lggd.validation import check_int

# Principal directions of the rows of the adjacency: more would describe single edges.
TOPOLOGY_WIDTH = 128
# Each iteration for principal directions squares the ratios of singular values: two suffice where many of them matter.
SUBSPACE_ITERATIONS = 2
# Up to this many columns, all principal directions are computed exactly.
MAX_EXACT_COLUMNS = 1024
# Weights by features are relative to the mean, and within these bounds; weights by classes are at least
# MIN_AGREEMENT, so that a wrong prediction does not cut a node off.
FEATURE_BOUNDS = (0.1, 3.0)
MIN_AGREEMENT = 0.02
# Products are computed in parts of this many numbers, which stay in the cache of a CPU.
MAX_ENTRIES = 2**18


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


System = TypeVar("System", bound=RidgeSystem, covariant=True)


class FilteredFeatures(NodeFeatures, Protocol):
    """Features of nodes that further filters can be added to."""

    def extend(self, filters: Sequence[Filter]) -> None:
        """Adds filters to choose from."""


class RidgeInputs(ABC, Generic[System]):
    """A graph with node features to solve ridge regressions on: in memory, on disk, or on the blocks of a cluster.

    Attributes
    ----------
    has_features : bool
        Whether the graph has node features; if not, rows of the adjacency take their place.
    widths : list of int
        Numbers of principal directions of the node features, the fewest first.
    max_inducing : int
        Where there are more labels than a model's `inducing`, they are inducing points themselves, up to this many.
    """

    has_features: bool
    widths: list[int]
    max_inducing = 2048

    @abstractmethod
    def graph(self, name: str, kernels: Sequence[FilterKernel], edge_weight: Tensor | None = None) -> FilteredFeatures:
        """The features that this graph is about, ready for these kernels; None as edge weights are the given ones.

        "wide" has the node features in the most principal directions, "topology" the rows of the adjacency, and any
        other graph the node features in the fewest directions.
        """

    @abstractmethod
    def system(self, kernel: MixtureKernel, nodes: Tensor, inducing: Tensor | None = None) -> System:
        """The ridge regression with this kernel for labelled nodes: exact, or with inducing points."""


class LocalInputs(RidgeInputs[LocalSystem]):
    """Inputs on this machine.

    Parameters
    ----------
    axes : mapping
        Principal directions that are known, by "x" and "topology"; others are computed once they are needed.
    storage : InMemory
        Where filtered features are kept.
    """

    def __init__(self, axes: Mapping[str, Tensor] | None, seed: int, storage: InMemory) -> None:
        self.axes, self._seed, self._storage = dict(axes or {}), seed, storage

    @property
    @abstractmethod
    def _x(self) -> Tensor:
        """The node features, or else the rows of the adjacency, in their principal directions `[N, D]`."""

    @property
    @abstractmethod
    def _topology(self) -> Tensor:
        """The rows of the adjacency in their principal directions."""

    @abstractmethod
    def _adjacency(self, edge_weight: Tensor | None) -> Adjacency | StoredAdjacency:
        """The adjacency with these edge weights."""

    def graph(self, name: str, kernels: Sequence[FilterKernel], edge_weight: Tensor | None = None) -> Propagation:
        x, width = self._topology if name == "topology" else self._x, self.widths[-1 if name == "wide" else 0]
        if name != "topology" and width < x.shape[1]:
            columns = self._storage.empty(len(x), width)
            for part in self._storage.parts(len(x), ROWS_PER_BLOCK):
                columns[part] = x[part, :width]
            x = columns
        return Propagation(x, self._adjacency(edge_weight), filters_of(kernels), self._storage)

    def system(self, kernel: MixtureKernel, nodes: Tensor, inducing: Tensor | None = None) -> LocalSystem:
        if inducing is None:
            return ExactSystem(kernel).with_nodes(nodes)
        return InducedSystem(kernel, kernel.points(inducing), self._storage).with_nodes(nodes)


class MemoryInputs(LocalInputs):
    """A graph in memory, whose edges can have other weights.

    Parameters
    ----------
    adjacency : Adjacency
        An undirected graph.
    x : Tensor or None
        Node features `[N, F]`, which may be sparse; None takes rows of the adjacency instead.
    widths : sequence of int
        Numbers of principal directions to compute.
    seed : int
        Random seed of the principal directions.
    axes : mapping
        As of `LocalInputs`.
    """

    def __init__(
        self, adjacency: Adjacency, x: Tensor | None, widths: Sequence[int], seed: int,
        axes: Mapping[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(axes, seed, InMemory(torch.empty(0, device=adjacency.edge_index.device)))
        self.adjacency, self.has_features = adjacency, x is not None
        if x is not None:
            rows = x.to_sparse_coo() if mostly_zeros(x) and not x.is_cuda else x  # type: ignore[no-untyped-call]  # of torch
            self._projected_x = self._projected("x", unit_rows(rows), max(widths))
        self.widths = sorted({min(width, self._x.shape[1]) for width in widths})

    @property
    def _x(self) -> Tensor:
        return self._projected_x if self.has_features else self._topology

    @cached_property
    def _topology(self) -> Tensor:
        return self._projected("topology", unit_rows(self._neighbours()), TOPOLOGY_WIDTH)

    def _neighbours(self) -> Tensor:
        """The adjacency as a sparse tensor."""
        edges, weight, nodes = self.adjacency.edge_index, self.adjacency.edge_weight, self.adjacency.num_nodes
        weight = torch.ones(edges.shape[1], device=edges.device) if weight is None else weight.float()
        return torch.sparse_coo_tensor(edges, weight, (nodes, nodes), check_invariants=False).coalesce()

    def _projected(self, name: str, rows: Tensor, width: int) -> Tensor:
        """Rows, which may be sparse, in their principal directions."""
        if name not in self.axes:
            self.axes[name] = principal_axes(Moments(rows), width, torch.Generator().manual_seed(self._seed))
        return (rows if rows.layout == torch.strided else compressed(rows)) @ self.axes[name]

    def _adjacency(self, edge_weight: Tensor | None) -> Adjacency:
        return self.adjacency if edge_weight is None else self.adjacency.reweighted(edge_weight)

    def feature_agreement(self, mean: float | None = None, first: int = 0) -> tuple[Tensor, float]:
        """The weights of the edges from `first` on by the agreement of node features `[E]`, and their mean cosine.

        Agreement is relative to the `mean` cosine; None takes that of these edges.
        """
        cosine = edge_cosines(self._x[:, : self.widths[0]], self.adjacency.edge_index[:, first:])
        mean = float(cosine.mean()) if mean is None else mean
        agreement, given = relative_agreement(cosine, mean), self.adjacency.edge_weight
        return agreement if given is None else agreement * given[first:], mean


def filters_of(kernels: Sequence[FilterKernel]) -> list[Filter]:
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
    """The probability that both ends have the same class, at least `MIN_AGREEMENT`, `[E]`."""
    return edge_products(probabilities, edge_index).clamp(min=MIN_AGREEMENT)


def edge_products(values: Tensor, edge_index: Tensor) -> Tensor:
    """⟨values[i], values[j]⟩ for each edge (i, j), `[E]`; in parts, as there may be many more edges than nodes."""
    size = max(1, MAX_ENTRIES // values.shape[1])
    parts = [(values[i] * values[j]).sum(1) for i, j in (part.unbind(0) for part in torch.split(edge_index, size, 1))]
    return torch.cat(parts) if parts else values.new_empty(0)


class Moments:
    """Products of x `[N, D]` with itself, for its principal directions; x may be sparse."""

    def __init__(self, x: Tensor) -> None:
        self._x, self.device = x, x.device
        self.shape: Sequence[int] = x.shape

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


def principal_axes(moments: Moments, width: int, generator: torch.Generator) -> Tensor:
    """The directions in which the rows of x vary most, in descending order, orthonormal `[D, at most width]`.

    From its `Moments`, in memory, on disk or on a cluster. Where x is wide, by subspace iteration (Halko et al., 2011)
    from a random start.
    """
    rows, columns = moments.shape
    if columns <= max(width, MAX_EXACT_COLUMNS):
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
        return x.to_sparse_csr()
