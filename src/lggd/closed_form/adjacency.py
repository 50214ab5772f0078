"""The normalized adjacency of a graph, and node features averaged over neighbourhoods by graph filters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from lggd._system.memory import InMemory
from lggd.filters import Filter
from lggd.graph.csr import CSR
from lggd.graph.sparse import SparseMatrix, SparsePattern, normalized_adjacency
from lggd.graph.streamed_matrix import StreamedMatrix

# Truncation error of series by which node features are averaged.
FEATURE_TOLERANCE = 1e-5
# Filtered features shorter than this, relative to x, are rounding errors of zero: with unit length they would be noise.
NEGLIGIBLE = 1e-5
# Rows of node features that are in memory at a time, where the others are in files.
ROWS_PER_BLOCK = 2**16


class Adjacency:
    """The normalized adjacency Â of a graph, with self-loops and without, each computed when it is first used.

    Parameters
    ----------
    edge_index, edge_weight : Tensor
        The edges of an undirected graph, in PyG's format; None weighs all edges equally.
    num_nodes : int
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        self.edge_index, self.edge_weight, self.num_nodes = edge_index, edge_weight, num_nodes
        self._matrices: dict[bool, SparseMatrix] = {}
        self._patterns: dict[bool, SparsePattern] = {}

    @property
    def num_edges(self) -> int:
        return int(self.edge_index.shape[1])

    def reweighted(self, edge_weight: Tensor) -> Adjacency:
        """The adjacency of the same edges with other weights; it shares the positions of the entries."""
        other = Adjacency(self.edge_index, edge_weight, self.num_nodes)
        other._patterns = self._patterns
        return other

    def matrix(self, self_loops: bool) -> SparseMatrix:
        """Â with or without self-loops."""
        if self_loops not in self._matrices:
            known = self._patterns.get(self_loops)
            edges = self.edge_index, self.edge_weight, self.num_nodes
            matrix = normalized_adjacency(*edges, self_loops=self_loops, pattern=known)
            self._matrices[self_loops], self._patterns[self_loops] = matrix, matrix.pattern
        return self._matrices[self_loops]


class StoredAdjacency:
    """The normalized adjacency Â of a graph on disk, with self-loops and without."""

    def __init__(self, csr: CSR) -> None:
        self._csr = csr
        self._matrices: dict[bool, StreamedMatrix] = {}

    def matrix(self, self_loops: bool) -> StreamedMatrix:
        """Â with or without self-loops, as products with blocks of its rows."""
        if self_loops not in self._matrices:
            self._matrices[self_loops] = StreamedMatrix.normalized_adjacency(self._csr, self_loops)
        return self._matrices[self_loops]


class Propagation:
    """Node features on a graph: filtered by any of `filters`, with rows of unit length or relative lengths.

    Parameters
    ----------
    x : Tensor
        Node features, float32 `[N, D]`.
    adjacency : Adjacency or StoredAdjacency
        The graph, which other features may share.
    filters : sequence of Filter
        The filters to choose from: they are computed together, as series in the same Chebyshev polynomials.
    storage : InMemory, optional
        Where filtered features are kept.
    """

    def __init__(
        self, x: Tensor, adjacency: Adjacency | StoredAdjacency, filters: Sequence[Filter],
        storage: InMemory | None = None,
    ) -> None:  # fmt: skip
        self.x, self.adjacency, self.filters = x, adjacency, tuple(filters)
        self.storage = InMemory(x) if storage is None else storage
        self._scaled: dict[Filter, Tensor] = {}

    def block(self, filter: Filter, unit: bool = True) -> Tensor:
        """The filtered features, float32 `[N, D]`: with rows of unit length, or with a mean square length of 1."""
        if unit:
            return self._blocks[filter][0]
        if filter not in self._scaled:
            rows, length = self._blocks[filter]
            factor, scaled = length / length.square().mean().sqrt(), self.storage.empty(*rows.shape)
            for part in self.storage.parts(len(rows), ROWS_PER_BLOCK):
                torch.mul(rows[part], factor[part], out=scaled[part])
            self._scaled[filter] = scaled
        return self._scaled[filter]

    @property
    def num_nodes(self) -> int:
        return len(self.x)

    def rows(self, filter: Filter, nodes: Tensor | None, unit: bool = True) -> Tensor:
        """The rows of these nodes in `block(filter, unit)`, or all of them, `[n, D]`."""
        if nodes is None:
            return self.block(filter, unit)
        rows = self.block(filter, unit)[nodes]
        self.storage.release()
        return rows

    def extend(self, filters: Sequence[Filter]) -> None:
        """Adds filters to choose from."""
        new = tuple(filter for filter in dict.fromkeys(filters) if filter not in self.filters)
        self._blocks.update(self._filter(new))
        self.filters += new

    @cached_property
    def _blocks(self) -> dict[Filter, tuple[Tensor, Tensor]]:
        return self._filter(self.filters)

    def _filter(self, filters: Sequence[Filter]) -> dict[Filter, tuple[Tensor, Tensor]]:
        """The features under each filter with rows of unit length, and their lengths before."""
        blocks: dict[Filter, tuple[Tensor, Tensor]] = {}
        for self_loops in (True, False):
            series = series_of(filters, self_loops)
            if series:
                sums = chebyshev_sums(self.adjacency.matrix(self_loops), self.x, list(series.values()), self.storage)
                blocks |= {filter: self._scale_to_unit(total) for filter, total in zip(series, sums, strict=True)}
        return blocks

    def _scale_to_unit(self, x: Tensor) -> tuple[Tensor, Tensor]:
        length = x.new_empty(len(x), 1)
        for part in self.storage.parts(len(x), ROWS_PER_BLOCK):
            x[part], length[part] = unit_or_zero(x[part], self._negligible)
        return x, length

    @cached_property
    def _negligible(self) -> float:
        """Filtered features that are shorter than this are 0."""
        return NEGLIGIBLE * float(self.x.norm(dim=1).mean())


def unit_or_zero(x: Tensor, negligible: float) -> tuple[Tensor, Tensor]:
    """Rows of unit length, and their lengths before, `[N, 1]`; rows that are negligibly short become zero."""
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12)
    return (x / length).masked_fill_(length <= negligible, 0), length


def series_of(filters: Sequence[Filter], self_loops: bool) -> dict[Filter, list[float]]:
    """The Chebyshev coefficients of those of the filters that are filters of Â with or without self-loops."""
    return {
        filter: filter.chebyshev_coefficients(FEATURE_TOLERANCE)
        for filter in filters
        if filter.self_loops == self_loops
    }


def chebyshev_sums(
    matrix: SparseMatrix | StreamedMatrix,
    x: Tensor,
    series: Sequence[Sequence[float]],
    storage: InMemory | None = None,
) -> list[Tensor]:
    """Σₖ c[k] · Tₖ(M) x for each series c, with the Chebyshev polynomials Tₖ₊₁ = 2M·Tₖ − Tₖ₋₁, `[N, D]` each.

    The sums are in `storage`, by default in memory.
    """
    storage = InMemory(x) if storage is None else storage
    sums = [storage.empty(*x.shape) for _ in series]
    for total, coefficients in zip(sums, series, strict=True):
        torch.mul(x, coefficients[0], out=total)
        storage.release()
    orders = max(map(len, series))
    if orders == 1:
        return sums
    previous, current, twice = x.clone(), matrix(x), matrix.scaled(2)
    for order in range(1, orders):
        if order > 1:
            # In place: allocating a new term each time would take longer than the product.
            twice.add_product(current, out=previous.neg_())
            previous, current = current, previous
        for total, coefficients in zip(sums, series, strict=True):
            if order < len(coefficients) and coefficients[order]:
                total.add_(current, alpha=coefficients[order])
                storage.release()
    return sums
