"""The inputs of the closed form for a graph on disk: a pass over the edges for each hop, and no array of their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

from lggd._system.memory import Scratch
from lggd.closed_form.filters import ROWS_PER_BLOCK, Propagation, StoredAdjacency
from lggd.closed_form.kernels import FilterKernel, MixtureKernel
from lggd.closed_form.ridge import InducedSystem
from lggd.closed_form.ridge_inputs import (
    SUBSPACE_ITERATIONS,
    TOPOLOGY_WIDTH,
    Moments,
    eigenvectors,
    filters_of,
    principal_axes,
)
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.sparse import unit_rows
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.validation import check_finite


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
        self._adjacency = StoredAdjacency(graph.csr)
        self._x = self._topology if x is None else self._projected(x, max(widths))
        self.widths = sorted({min(width, self._x.shape[1]) for width in widths})

    def _projected(self, x: Tensor, width: int) -> Tensor:
        """Node features in their principal directions."""
        if x.dim() != 2 or x.shape[0] != self._csr.num_nodes or x.shape[1] == 0:
            raise InputError("data.x", f"have shape [{self._csr.num_nodes}, F], one row per node", list(x.shape))

        def blocks() -> Iterator[Tensor]:
            for part in self._parts(len(x)):
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
        for part, rows in zip(self._parts(len(x)), blocks(), strict=True):
            projected[part] = rows @ self.axes["x"]
        return projected

    def _parts(self, rows: int) -> Iterator[slice]:
        return self.scratch.parts(rows, ROWS_PER_BLOCK)

    @cached_property
    def _topology(self) -> Tensor:
        """The rows of the adjacency in their principal directions, by subspace iteration."""
        rows = StreamedMatrix.unit_rows(self._csr)
        if "topology" not in self.axes:
            nodes, width = self._csr.num_nodes, min(TOPOLOGY_WIDTH, self._csr.num_nodes)
            basis = torch.randn(nodes, width, generator=torch.Generator().manual_seed(self._seed))
            for _ in range(SUBSPACE_ITERATIONS):
                basis = torch.linalg.qr(rows.transposed(rows(basis))).Q.contiguous()
            projected = rows(basis)
            self.axes["topology"] = (basis @ eigenvectors(projected.t() @ projected)).contiguous()
        return rows(self.axes["topology"])

    def graph(self, kernels: Sequence[FilterKernel], width: int, edge_weight: Tensor | None = None) -> Propagation:
        """The node features in their first principal directions, ready for these kernels."""
        x = self._x
        if width < x.shape[1]:
            x = self.scratch.empty(len(x), width)
            for part in self._parts(len(x)):
                x[part] = self._x[part, :width]
        return Propagation(x, self._adjacency, filters_of(kernels), self.scratch)

    def topology(self, kernels: Sequence[FilterKernel]) -> Propagation:
        """The rows of the adjacency in their principal directions, ready for these kernels."""
        return Propagation(self._topology, self._adjacency, filters_of(kernels), self.scratch)

    def induced_system(self, kernel: MixtureKernel, nodes: Tensor) -> InducedSystem:
        """The system of a kernel with these nodes as inducing points."""
        return InducedSystem(kernel, kernel.points(nodes), self.scratch)


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
