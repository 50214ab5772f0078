"""Node features as the first layer of a network uses them: a matrix X that is only ever multiplied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from lggd.graph import Graph
from lggd.graph.sparse import SparseMatrix, mostly_zeros, normalized_adjacency, unit_rows
from lggd.inputs import NodeData


@dataclass(frozen=True, eq=False)
class DenseFeatures:
    """X `[N, F]` as a dense tensor."""

    x: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape)

    @property
    def values(self) -> Tensor:
        """The entries that input dropout applies to, `[E]`."""
        return self.x.reshape(-1)

    def with_values(self, values: Tensor) -> DenseFeatures:
        """X with other entries `[E]`."""
        return DenseFeatures(values.view(self.x.shape))

    def scale_rows(self, factor: Tensor) -> DenseFeatures:
        """X with each row multiplied by its factor, `[N]`."""
        return DenseFeatures(self.x * factor[:, None])

    def matmul(self, weight: Tensor) -> Tensor:
        """X · weight: `[F, M]` → `[N, M]` or `[Q, F, M]` → `[Q, N, M]`, differentiable in the weight."""
        if weight.dim() == 2:
            return self.x @ weight
        return torch.bmm(self.x.expand(len(weight), -1, -1), weight)

    def matmul_each(self, values: Tensor, weight: Tensor) -> Tensor:
        """The product of each network, with separate entries `[Q, E]`: `[Q, F, M]` → `[Q, N, M]`."""
        return torch.bmm(values.view(-1, *self.x.shape), weight)


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """X as a sparse matrix; see `DenseFeatures`. Input dropout applies to the entries stored: zeros stay zeros."""

    matrix: SparseMatrix

    @property
    def shape(self) -> tuple[int, ...]:
        return self.matrix.shape

    @property
    def values(self) -> Tensor:
        return self.matrix.values

    def with_values(self, values: Tensor) -> SparseFeatures:
        return SparseFeatures(self.matrix.with_values(values))

    def scale_rows(self, factor: Tensor) -> SparseFeatures:
        return SparseFeatures(self.matrix.scale_rows(factor))

    def matmul(self, weight: Tensor) -> Tensor:
        return self.matrix(weight) if weight.dim() == 2 else matmul_side_by_side(self, weight)

    def matmul_each(self, values: Tensor, weight: Tensor) -> Tensor:
        return torch.stack([self.matrix.with_values(entries)(w) for entries, w in zip(values, weight, strict=True)])


StoredFeatures = DenseFeatures | SparseFeatures


def matmul_side_by_side(features: NodeFeatures, weight: Tensor) -> Tensor:
    """`[Q, F, M]` → `[Q, N, M]` by one wide product: faster than many narrow ones on a GPU."""
    problems, num_features, width = weight.shape
    wide = weight.transpose(0, 1).reshape(num_features, problems * width)
    return features.matmul(wide).view(-1, problems, width).transpose(0, 1)


def read_node_features(nodes: NodeData, normalize: bool, zeros: int = 0) -> StoredFeatures:
    """`data.x` with `zeros` columns of 0, sparse where most entries are 0; `normalize` scales rows to unit length."""
    x = nodes.features
    x = x.to_sparse_coo().coalesce() if mostly_zeros(x) else x  # type: ignore[no-untyped-call]  # not typed in torch
    x = unit_rows(x) if normalize else x
    if x.layout == torch.strided:
        return DenseFeatures(functional.pad(x, (0, zeros)))
    rows, columns = x.indices()
    return SparseFeatures(SparseMatrix.from_entries(rows, columns, x.values(), (x.shape[0], x.shape[1] + zeros)))


def stored(features: NodeFeatures) -> StoredFeatures:
    """The features, if they are stored entry by entry, so that entries can be dropped."""
    if not isinstance(features, StoredFeatures):
        raise TypeError(f"Input dropout needs features that are stored, got {type(features).__name__}.")
    return features


# Number of entries of dense blocks that are formed at a time.
BLOCK_ENTRIES = 2**24
# Steps of the personalized PageRank: at restart probability 0.1, two of three walks have restarted by then.
PAGERANK_STEPS = 10


@dataclass(frozen=True, eq=False)
class PropagatedFeatures:
    """`[X, ÂX, Â²X, …, ΠX]` without forming it: for sparse X, Âᵏ(X Wₖ) is far cheaper than (Âᵏ X) Wₖ.

    Â is the normalized adjacency of a GCN. Π is the personalized PageRank with restart probability `pagerank`, after
    `PAGERANK_STEPS` steps; None omits it. `normalize` scales the rows of each block to unit length.
    """

    base: StoredFeatures
    adjacency: SparseMatrix
    hops: int
    normalize: bool
    pagerank: float | None = None

    @property
    def num_blocks(self) -> int:
        return self.hops + 1 + (self.pagerank is not None)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.base.shape[0], self.num_blocks * self.base.shape[1]

    @cached_property
    def row_norms(self) -> list[Tensor]:
        """The norm of each row of X, ÂX, …, `[N, 1]` each; computed in blocks of columns to save memory."""
        (nodes, features), device = self.base.shape, self.adjacency.values.device
        total = [torch.zeros(nodes, 1, device=device) for _ in range(self.num_blocks)]
        for columns in torch.split(torch.arange(features), max(1, BLOCK_ENTRIES // nodes)):
            selection = torch.zeros(features, len(columns), device=device)
            selection[columns, torch.arange(len(columns))] = 1.0
            blocks = dense_blocks(self.base.matmul(selection), self.adjacency, self.hops, self.pagerank)
            for squares, block in zip(total, blocks, strict=True):
                squares += block.square().sum(1, keepdim=True)
        return [squares.sqrt() for squares in total]

    @cached_property
    def first_block(self) -> StoredFeatures:
        """X, with rows of unit length if `normalize`."""
        return self.base.scale_rows(_inverse(self.row_norms[0])) if self.normalize else self.base

    @cached_property
    def last_hops(self) -> list[SparseMatrix]:
        """Â for the last of 1, 2, … hops, which also scales rows to unit length if `normalize`."""
        norms = self.row_norms[1 : self.hops + 1] if self.normalize else []
        return [self.adjacency.scale_rows(_inverse(norm)) for norm in norms] or [self.adjacency] * self.hops

    @cached_property
    def _pagerank_scale(self) -> Tensor:
        """The factors of the rows of ΠX, `[N, 1]`."""
        last = self.row_norms[-1]
        return _inverse(last).unsqueeze(1) if self.normalize else torch.ones_like(last)

    def matmul(self, weight: Tensor) -> Tensor:
        if weight.dim() == 3:
            return matmul_side_by_side(self, weight)
        first, *parts = weight.chunk(self.num_blocks)
        total = self.first_block.matmul(first)
        for hop, (part, last_hop) in enumerate(zip(parts, self.last_hops, strict=False)):
            block = self.base.matmul(part)
            for _ in range(hop):
                block = self.adjacency(block)
            total = total + last_hop(block)
        if self.pagerank is None:
            return total
        start = self.base.matmul(parts[-1])
        return total + self._pagerank_scale * _personalized_pagerank(start, self.adjacency, self.pagerank)


NodeFeatures = StoredFeatures | PropagatedFeatures


def propagate(
    base: StoredFeatures, graph: Graph, hops: int, normalize: bool, pagerank: float | None = None
) -> DenseFeatures | PropagatedFeatures:
    """`[X, ÂX, Â²X, …, ΠX]`, formed where X is dense, or with Π on a GPU.

    On a GPU one dense product is far faster than the many sparse ones of a PageRank.
    """
    weight = graph.weight if graph.is_weighted else None
    # The graph's edges (i, j) are entries of A; PyG's edges point from j to i.
    adjacency = normalized_adjacency(graph.edge_index.flip(0), weight, graph.num_nodes)
    if isinstance(base, SparseFeatures) and (pagerank is None or graph.device.type != "cuda"):
        return PropagatedFeatures(base, adjacency, hops, normalize, pagerank)
    x = base.matrix.csr.to_dense() if isinstance(base, SparseFeatures) else base.x
    blocks = dense_blocks(x, adjacency, hops, pagerank)
    return DenseFeatures(torch.cat([unit_rows(block) if normalize else block for block in blocks], 1))


def dense_blocks(x: Tensor, adjacency: SparseMatrix, hops: int, pagerank: float | None) -> Iterator[Tensor]:
    """Yields X, ÂX, …, ΠX."""
    yield x
    block = x
    for _ in range(hops):
        block = adjacency.csr @ block
        yield block
    if pagerank is not None:
        yield _personalized_pagerank(x, adjacency.csr.matmul, pagerank)


def _personalized_pagerank(start: Tensor, adjacency: Callable[[Tensor], Tensor], restart: float) -> Tensor:
    """h ← (1 − restart) Â h + restart · start, from h = start; `adjacency` multiplies by Â."""
    block = start
    for _ in range(PAGERANK_STEPS):
        block = (1 - restart) * adjacency(block) + restart * start
    return block


def _inverse(norm: Tensor) -> Tensor:
    """1 / norm of each row, `[N]`; 0 for rows of zeros."""
    return torch.where(norm > 0, 1 / norm, 0).squeeze(1)
