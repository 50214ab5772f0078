"""The inputs of the closed form for a graph on disk: a pass over the edges for each hop, and no array of their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

from lggd._system.memory import Scratch
from lggd.closed_form.adjacency import ROWS_PER_BLOCK, StoredAdjacency
from lggd.closed_form.ridge_inputs import (
    SUBSPACE_ITERATIONS,
    TOPOLOGY_WIDTH,
    LocalInputs,
    Moments,
    eigenvectors,
    principal_axes,
)
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.sparse import unit_rows
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.validation import check_finite


class StoredInputs(LocalInputs):
    """A graph on disk with its node features, or without; its edges have their given weights.

    Projected and filtered features lie in temporary files. Where principal directions are known, nothing is read
    before features are asked for.
    """

    max_inducing = 0  # with so many nodes, each inducing point takes a lot of space

    def __init__(
        self, graph: Graph, x: Tensor | None, widths: Sequence[int], seed: int,
        axes: Mapping[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(axes, seed, Scratch())
        self._csr, self._given, self.has_features = graph.csr, x, x is not None
        self._stored = StoredAdjacency(graph.csr)
        if x is not None and (x.dim() != 2 or x.shape[0] != self._csr.num_nodes or x.shape[1] == 0):
            raise InputError("data.x", f"have shape [{self._csr.num_nodes}, F], one row per node", list(x.shape))
        if x is not None and "x" not in self.axes:
            generator = torch.Generator().manual_seed(seed)
            moments = SummedMoments(self._moments, x.shape)
            self.axes["x"] = principal_axes(moments, max(widths), generator)
        columns = (self._topology if x is None else self.axes["x"]).shape[1]
        self.widths = sorted({min(width, columns) for width in widths})

    def _moments(self, name: str, *arguments: Tensor) -> Iterator[Tensor]:
        return (getattr(Moments(block), name)(*arguments) for block in self._blocks())

    def _blocks(self) -> Iterator[Tensor]:
        """The rows of the node features with unit length, block by block."""
        if self._given is None:
            return
        for part in self._parts(len(self._given)):
            rows = self._given[part].float()
            check_finite("data.x", rows)
            yield unit_rows(rows)
            if self._csr.mapped is not None:
                self._csr.mapped.release()

    def _parts(self, rows: int) -> Iterator[slice]:
        return self._storage.parts(rows, ROWS_PER_BLOCK)

    @cached_property
    def _x(self) -> Tensor:
        if self._given is None:
            return self._topology
        projected = self._storage.empty(len(self._given), self.axes["x"].shape[1])
        for part, rows in zip(self._parts(len(projected)), self._blocks(), strict=True):
            projected[part] = rows @ self.axes["x"]
        return projected

    @cached_property
    def _topology(self) -> Tensor:
        """By subspace iteration."""
        rows = StreamedMatrix.unit_rows(self._csr)
        if "topology" not in self.axes:
            nodes, width = self._csr.num_nodes, min(TOPOLOGY_WIDTH, self._csr.num_nodes)
            basis = torch.randn(nodes, width, generator=torch.Generator().manual_seed(self._seed))
            for _ in range(SUBSPACE_ITERATIONS):
                basis = torch.linalg.qr(rows.transposed(rows(basis))).Q.contiguous()
            projected = rows(basis)
            self.axes["topology"] = (basis @ eigenvectors(projected.t() @ projected)).contiguous()
        return rows(self.axes["topology"])

    def _adjacency(self, edge_weight: Tensor | None) -> StoredAdjacency:
        if edge_weight is not None:
            raise InputError("agreement", "be None on a graph on disk", "edge weights", "Use KernelRidge.large().")
        return self._stored


class SummedMoments(Moments):
    """`Moments` of a matrix in blocks of rows; `parts` calls a method of the moments of each block."""

    def __init__(self, parts: Callable[..., Iterable[Tensor]], shape: Sequence[int]) -> None:
        self._parts, self.shape, self.device = parts, shape, torch.device("cpu")

    def gram(self) -> Tensor:
        return self._total("gram")

    def product(self, basis: Tensor) -> Tensor:
        return self._total("product", basis)

    def projected_gram(self, basis: Tensor) -> Tensor:
        return self._total("projected_gram", basis)

    def _total(self, name: str, *arguments: Tensor) -> Tensor:
        return sum((part.double() for part in self._parts(name, *arguments)), torch.zeros(())).float()
