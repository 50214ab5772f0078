"""The inputs of the closed form for a graph on disk: a pass over the edges for each hop, and no array of their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

from lggd.closed_form.filters import Filter, Propagation, chebyshev_sums, unit_or_zero
from lggd.closed_form.kernels import FilterKernel, MixtureKernel
from lggd.closed_form.ridge import InducedSystem
from lggd.closed_form.ridge_inputs import (
    SUBSPACE_ITERATIONS,
    TOPOLOGY_WIDTH,
    Moments,
    eigenvectors,
    filters_of,
    principal_axes,
    unit_rows,
)
from lggd.errors import InputError
from lggd.estimator.graph_change import GraphChange
from lggd.graph import Graph
from lggd.graph.csr import CSR
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.system.memory import Scratch
from lggd.validation import check_finite

# Rows of node features, and of those of inducing points, that are in memory at a time.
ROWS_PER_BLOCK, NODES_PER_BLOCK = 2**16, 2**15


class StoredInputs:
    """A graph on disk with its node features, or without: `RidgeInputs` without weights of single edges.

    Projected and filtered features lie in temporary files.
    """

    weighs_edges = False
    mean_cosine: float | None = None
    most_inducing = 0  # with so many nodes, each inducing point takes a lot of space

    def __init__(
        self, graph: Graph, x: Tensor | None, widths: Sequence[int], seed: int, axes: Mapping[str, Tensor] | None
    ) -> None:
        self._csr, self.has_features = graph.csr, x is not None
        self.axes, self._seed, self.scratch = dict(axes or {}), seed, Scratch()
        self._matrices: dict[bool, StreamedMatrix] = {}
        self._x = self._topology if x is None else self._projected(x, max(widths))
        self.widths = sorted({min(width, self._x.shape[1]) for width in widths})

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
            moments = SummedMoments(lambda name, *of: (getattr(Moments(b), name)(*of) for b in blocks()), x.shape)
            self.axes["x"] = principal_axes(moments, width, generator)
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

    def induced_system(self, kernel: MixtureKernel, nodes: Tensor) -> StreamedSystem:
        """The system of a kernel with these nodes as inducing points."""
        return StreamedSystem(kernel, kernel.points(nodes), self.scratch)

    def changed(self, change: GraphChange) -> StoredInputs:
        raise InputError("graph", "be in memory to accept nodes and edges", "a graph on disk", "Build it again.")


class StreamedPropagation(Propagation):
    """Node features on a graph on disk, filtered by products with blocks of its rows, in temporary files."""

    def __init__(
        self, x: Tensor, csr: CSR, filters: Sequence[Filter], scratch: Scratch, matrices: dict[bool, StreamedMatrix]
    ) -> None:
        super().__init__(x, torch.empty(2, 0, dtype=torch.int64), None, filters, matrices)
        self.csr, self.scratch = csr, scratch

    def matrix(self, self_loops: bool) -> StreamedMatrix:
        if self_loops not in self._matrices:
            self._matrices[self_loops] = StreamedMatrix.normalized_adjacency(self.csr, self_loops)
        matrix: StreamedMatrix = self._matrices[self_loops]
        return matrix

    def rows(self, filter: Filter, nodes: Tensor, unit: bool = True) -> Tensor:
        found = super().rows(filter, nodes, unit)
        self.scratch.release()
        return found

    def _sums(self, self_loops: bool, series: Sequence[Sequence[float]]) -> list[Tensor]:
        return chebyshev_sums(self.matrix(self_loops), self.x, series, self.scratch)

    def _scale_to_unit(self, x: Tensor) -> tuple[Tensor, Tensor]:
        length = x.new_empty(len(x), 1)
        for part in _parts(len(x)):
            x[part], length[part] = unit_or_zero(x[part], self.negligible)
        self.scratch.release()
        return x, length

    def _multiply(self, rows: Tensor, factor: Tensor) -> Tensor:
        scaled = self.scratch.empty(*rows.shape)
        for part in _parts(len(rows)):
            scaled[part] = rows[part] * factor[part]
        self.scratch.release()
        return scaled


class StreamedSystem(InducedSystem):
    """`InducedSystem` with Φ in a temporary file, computed and read in blocks of nodes."""

    def __init__(self, kernel: MixtureKernel, inducing: Sequence[Tensor], scratch: Scratch) -> None:
        self._scratch = scratch
        super().__init__(kernel, inducing)

    def _compute_features(self, factor: Tensor) -> Tensor:
        points, features = self.kernel.points(), self._scratch.empty(self.kernel.num_nodes, len(factor))
        for part in self._parts(features):
            features[part] = self._features_of([block[part] for block in points], factor)
        return features

    def _predicted(self, weights: Tensor) -> Tensor:
        weights = weights.float()
        predicted = torch.empty(len(self.features), weights.shape[1])
        for part in self._parts(predicted):
            torch.mm(self.features[part], weights, out=predicted[part])
        return predicted

    def variance(self, ridge: float) -> Tensor:
        points, variance = self.kernel.points(), torch.empty(len(self.features), dtype=torch.float64)
        for part in self._parts(variance):
            variance[part] = self._variance_at([block[part] for block in points], self.features[part], ridge)
        return variance

    def _parts(self, values: Tensor) -> Iterator[slice]:
        for start in range(0, len(values), NODES_PER_BLOCK):
            yield slice(start, start + NODES_PER_BLOCK)
            self._scratch.release()


class SummedMoments:
    """`Moments` of a matrix in blocks of rows; `parts` calls a method of the moments of each block."""

    device = torch.device("cpu")

    def __init__(self, parts: Callable[..., Iterable[Tensor]], shape: Sequence[int]) -> None:
        self._parts, self.shape = parts, shape

    def gram(self) -> Tensor:
        return self._total("gram")

    def product(self, basis: Tensor) -> Tensor:
        return self._total("product", basis)

    def projected_gram(self, basis: Tensor) -> Tensor:
        return self._total("projected_gram", basis)

    def _total(self, name: str, *arguments: Tensor) -> Tensor:
        return sum((part.double() for part in self._parts(name, *arguments)), torch.zeros(())).float()


def _parts(rows: int) -> list[slice]:
    return [slice(start, min(rows, start + ROWS_PER_BLOCK)) for start in range(0, rows, ROWS_PER_BLOCK)]
