"""The inputs of the closed form for a graph on disk: a pass over the edges for each hop, and no array of their size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from lggd.closed_form.filters import (
    MOST_EXACT_COLUMNS,
    SUBSPACE_ITERATIONS,
    Filter,
    Propagation,
    chebyshev_sums,
    eigenvectors,
    series_of,
    unit_or_zero,
    unit_rows,
)
from lggd.closed_form.kernels import FilterKernel
from lggd.closed_form.ridge_inputs import TOPOLOGY_WIDTH, RidgeInputs, filters_of
from lggd.errors import InputError
from lggd.estimator.graph_change import GraphChange
from lggd.estimator.inputs import read_graph, stored_graph
from lggd.graph import Graph
from lggd.graph.csr import CSR
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.system.memory import Scratch
from lggd.validation import check_finite

# Graphs on disk with fewer edges are read into memory: the closed form takes about a hundred bytes per edge there.
MOST_EDGES_IN_MEMORY = 2**22
# Rows of node features that are in memory at a time.
ROWS_PER_BLOCK = 2**16


def read_inputs(
    data: Any, widths: Sequence[int], seed: int, axes: Mapping[str, Tensor] | None = None
) -> RidgeInputs | StoredInputs:
    """The inputs of the closed form, in memory or on disk."""
    graph = stored_graph(data)
    if graph is None or graph.num_edges <= MOST_EDGES_IN_MEMORY:
        return RidgeInputs(data, widths, seed, axes)
    return StoredInputs(read_graph(data), getattr(data, "x", None), widths, seed, axes)


class StoredInputs:
    """A graph on disk with its node features, or without: `RidgeInputs` without weights of single edges.

    Projected and filtered features lie in temporary files.
    """

    weighs_edges = False
    mean_cosine: float | None = None

    def __init__(
        self, graph: Graph, x: Tensor | None, widths: Sequence[int], seed: int, axes: Mapping[str, Tensor] | None
    ) -> None:
        self._csr, self.has_features = graph.csr, x is not None
        self.axes, self._seed, self.scratch = dict(axes or {}), seed, Scratch()
        self._matrices: dict[bool, StreamedMatrix] = {}
        if x is None:
            self._x = self._topology
        else:
            self._x = self._projected(x, max(widths))
        self.widths = sorted({min(width, self._x.shape[1]) for width in widths})

    @property
    def num_edges(self) -> int:
        return self._csr.num_edges

    def _projected(self, x: Tensor, width: int) -> Tensor:
        """Node features in their principal directions."""
        if x.dim() != 2 or x.shape[0] != self._csr.num_nodes or x.shape[1] == 0:
            raise InputError("data.x", f"have shape [{self._csr.num_nodes}, F], one row per node", list(x.shape))

        def blocks() -> Iterator[Tensor]:
            for part in _parts(len(x)):
                rows = x[part].float()
                check_finite("data.x", rows)
                yield unit_rows(rows)
                if self._csr.mapped is not None:
                    self._csr.mapped.release()

        if "x" not in self.axes:
            generator = torch.Generator().manual_seed(self._seed)
            self.axes["x"] = block_axes(blocks, x.shape, width, generator)
        projected = self.scratch.empty(len(x), self.axes["x"].shape[1])
        for part, rows in zip(_parts(len(x)), blocks(), strict=True):
            projected[part] = rows @ self.axes["x"]
        self.scratch.release()
        return projected

    @cached_property
    def _topology(self) -> Tensor:
        """The rows of the adjacency in their principal directions, by subspace iteration."""
        rows = StreamedMatrix.unit_rows(self._csr)
        if "topology" not in self.axes:
            nodes, width = self._csr.num_nodes, min(TOPOLOGY_WIDTH, self._csr.num_nodes)
            basis = torch.randn(nodes, width, generator=torch.Generator().manual_seed(self._seed))
            for _ in range(SUBSPACE_ITERATIONS):
                basis = torch.linalg.qr(rows.transposed()(rows(basis))).Q.contiguous()
            projected = rows(basis)
            self.axes["topology"] = (basis @ eigenvectors(projected.t() @ projected)).contiguous()
        return rows(self.axes["topology"])

    def graph(
        self, kernels: Sequence[FilterKernel], width: int, edge_weight: Tensor | None = None
    ) -> StreamedPropagation:
        """The node features in their first principal directions, ready for these kernels."""
        x = self._x
        if width < x.shape[1]:
            x = self.scratch.empty(len(x), width)
            for part in _parts(len(x)):
                x[part] = self._x[part, :width]
        return StreamedPropagation(x, self._csr, filters_of(kernels), self.scratch, self._matrices)

    def topology(self, kernels: Sequence[FilterKernel]) -> StreamedPropagation:
        """The rows of the adjacency in their principal directions, ready for these kernels."""
        return StreamedPropagation(self._topology, self._csr, filters_of(kernels), self.scratch, self._matrices)

    def changed(self, change: GraphChange) -> StoredInputs:
        raise InputError("graph", "be in memory to accept nodes and edges", "a graph on disk", "Build it again.")


class StreamedPropagation(Propagation):
    """Node features on a graph on disk, filtered by products with blocks of its rows, in temporary files."""

    def __init__(
        self, x: Tensor, csr: CSR, filters: Sequence[Filter], scratch: Scratch, matrices: dict[bool, StreamedMatrix]
    ) -> None:
        super().__init__(x, torch.empty(2, 0, dtype=torch.int64), None, filters)
        self.csr, self.scratch, self._streamed = csr, scratch, matrices

    def _with_filters(self, filters: Sequence[Filter]) -> StreamedPropagation:
        return StreamedPropagation(self.x, self.csr, filters, self.scratch, self._streamed)

    def matrix(self, self_loops: bool) -> StreamedMatrix:  # type: ignore[override]
        if self_loops not in self._streamed:
            self._streamed[self_loops] = StreamedMatrix.normalized_adjacency(self.csr, self_loops)
        return self._streamed[self_loops]

    def rows(self, filter: Filter, nodes: Tensor, unit: bool = True) -> Tensor:
        found = super().rows(filter, nodes, unit)
        self.scratch.release()
        return found

    def block(self, filter: Filter, unit: bool = True) -> Tensor:
        if unit:
            return self._blocks[filter][0]
        if filter not in self._scaled:
            rows, length = self._blocks[filter]
            scale, scaled = length.square().mean().sqrt(), self.scratch.empty(*rows.shape)
            for part in _parts(len(rows)):
                scaled[part] = rows[part] * (length[part] / scale)
            self._scaled[filter] = scaled
            self.scratch.release()
        return self._scaled[filter]

    @cached_property
    def _blocks(self) -> dict[Filter, tuple[Tensor, Tensor]]:
        found: dict[Filter, tuple[Tensor, Tensor]] = {}
        for self_loops in (True, False):
            series = series_of(self.filters, self_loops)
            if not series:
                continue
            sums = chebyshev_sums(self.matrix(self_loops), self.x, list(series.values()), self.scratch)
            for filter, total in zip(series, sums, strict=True):
                length = total.new_empty(len(total), 1)
                for part in _parts(len(total)):
                    total[part], length[part] = unit_or_zero(total[part], self.negligible)
                found[filter] = total, length
                self.scratch.release()
        return found


def block_axes(
    blocks: Callable[[], Iterator[Tensor]], shape: Sequence[int], width: int, generator: torch.Generator
) -> Tensor:
    """`filters.principal_axes` of a matrix that comes in blocks of rows."""
    rows, columns = shape
    if columns <= max(width, MOST_EXACT_COLUMNS):
        gram = sum(((block.t() @ block).double() for block in blocks()), torch.zeros(columns, columns).double())
        return eigenvectors(gram.float())[:, : min(width, rows)].contiguous()
    basis = torch.randn(columns, width, generator=generator)
    for _ in range(SUBSPACE_ITERATIONS):
        product = sum(((block.t() @ (block @ basis)).double() for block in blocks()), torch.zeros(columns, width))
        basis = torch.linalg.qr(product.float()).Q
    projected = (block @ basis for block in blocks())
    gram = sum(((block.t() @ block).double() for block in projected), torch.zeros(basis.shape[1], basis.shape[1]))
    return basis @ eigenvectors(gram.float())[:, :rows]


def _parts(rows: int) -> list[slice]:
    return [slice(start, min(rows, start + ROWS_PER_BLOCK)) for start in range(0, rows, ROWS_PER_BLOCK)]
