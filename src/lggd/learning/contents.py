"""Node contents as the first layer of a network sees them: a matrix that is multiplied from the right, never copied."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize as unit_rows
from torch.nn.functional import pad

from lggd.graph import Graph

# Below this share of entries that are not 0, a sparse product beats a dense one.
SPARSE_BELOW = 0.05
# How many numbers to work on at a time where a dense block of contents is needed.
ENTRIES_AT_ONCE = 2**24


class Contents(Protocol):
    """A matrix X `[N, D]` that is only ever multiplied."""

    @property
    def num_features(self) -> int: ...

    def times(self, weight: Tensor) -> Tensor:
        """X · weight: `[D, M]` → `[N, M]` or `[Q, D, M]` → `[Q, N, M]`, differentiable in the weight."""


@dataclass(frozen=True, eq=False)
class Dense:
    """X as it is."""

    x: Tensor

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    def times(self, weight: Tensor) -> Tensor:
        if weight.dim() == 2:
            return self.x @ weight
        # One after the other: a product over all would first write down a copy of X for each.
        return torch.stack([self.x @ one for one in weight.unbind(0)])


@dataclass(frozen=True, eq=False)
class Sparse:
    """X in compressed rows, with its transpose at hand for gradients."""

    rows: Tensor

    @property
    def num_features(self) -> int:
        return self.rows.shape[1]

    @cached_property
    def columns(self) -> Tensor:
        return compressed(self.rows.to_sparse_coo().t().coalesce())  # type: ignore[no-untyped-call]

    def __deepcopy__(self, memo: dict[int, Any]) -> Sparse:
        """Itself: it never changes, and torch cannot copy compressed rows."""
        return self

    def times(self, weight: Tensor) -> Tensor:
        product: Tensor = _Product.apply(self, weight)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Sparse, weight: Tensor) -> Tensor:
        ctx.matrix = matrix
        return _products(matrix.rows, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, _products(ctx.matrix.columns, grads[0].contiguous())


def _products(matrix: Tensor, dense: Tensor) -> Tensor:
    """The matrix times one dense one or Q of them, one after the other: narrow ones stay in the cache."""
    if dense.dim() == 2:
        return matrix @ dense
    product = dense.new_empty(dense.shape[0], matrix.shape[0], dense.shape[2])
    for out, one in zip(product, dense, strict=True):
        torch.mm(matrix, one, out=out)
    return product


@dataclass(frozen=True, eq=False)
class Propagated:
    """`[X, ÂX, Â²X, …]` without forming it: where X is sparse, Â^k (X W_k) is far cheaper than (Â^k X) W_k.

    Â is the adjacency with self-loops, normalised on both sides as in a GCN. With `normalize` the rows of every block
    have length 1.
    """

    base: Dense | Sparse
    adjacency: Sparse
    hops: int
    normalize: bool

    @property
    def num_features(self) -> int:
        return (self.hops + 1) * self.base.num_features

    @cached_property
    def lengths(self) -> list[Tensor]:
        """The length of each row of X, ÂX, …, each `[N, 1]`; some columns of X at a time, to spare memory."""
        nodes, features = self.adjacency.rows.shape[0], self.base.num_features
        total = [torch.zeros(nodes, 1, device=self.adjacency.rows.device) for _ in range(self.hops + 1)]
        for columns in torch.split(torch.arange(features), max(1, ENTRIES_AT_ONCE // nodes)):
            chosen = torch.zeros(features, len(columns), device=total[0].device)
            chosen[columns, torch.arange(len(columns))] = 1.0
            block = self.base.times(chosen)
            for hop in range(self.hops + 1):
                total[hop] += block.square().sum(1, keepdim=True)
                block = self.adjacency.rows @ block
        return [squares.sqrt().clamp(min=torch.finfo(squares.dtype).tiny) for squares in total]

    def times(self, weight: Tensor) -> Tensor:
        blocks = []
        for hop, part in enumerate(weight.chunk(self.hops + 1, dim=-2)):
            block = self.base.times(part)
            for _ in range(hop):
                block = self.adjacency.times(block)
            blocks.append(block / self.lengths[hop] if self.normalize else block)
        return functools.reduce(torch.add, blocks)


def check_contents(data: Any) -> Tensor:
    """`data.x` as float32, dense or sparse as it is: a row a node, and finite."""
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor):
        raise TypeError(
            f"`data.x` must be a tensor of node contents [N, F], got {type(x).__name__}. "
            "GGD() works without contents; or use an identity matrix."
        )
    if x.dim() != 2 or x.shape[0] != data.num_nodes or x.shape[1] == 0:
        raise ValueError(f"`data.x` must have shape [{data.num_nodes}, F], a row a node, got {list(x.shape)}.")
    if x.dtype.is_complex:
        raise TypeError(f"`data.x` must be real numbers, got {x.dtype}.")
    x = x.float()
    entries = x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values()  # type: ignore[no-untyped-call]
    if not bool(torch.isfinite(entries).all()):
        raise ValueError("`data.x` must be finite, got NaN or infinity. Fill or drop those entries first.")
    return x


def read_contents(data: Any, normalize: bool, zeros: int = 0) -> Dense | Sparse:
    """`data.x`, dense or a torch sparse tensor, checked. Mostly zeros become compressed rows; sparse stays sparse.

    `normalize` divides each row by its length. `zeros` appends that many columns of 0.
    """
    x = check_contents(data)
    if x.layout == torch.strided and int(x.count_nonzero()) >= SPARSE_BELOW * x.numel():
        if normalize:
            x = unit_rows(x)
        return Dense(pad(x, (0, zeros)))
    coo = x.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
    index, value = coo.indices(), coo.values()
    if normalize:
        squares = torch.zeros(x.shape[0], device=value.device).index_add_(0, index[0], value.square())
        value = value / squares.sqrt().clamp(min=torch.finfo(x.dtype).tiny)[index[0]]
    shape = (x.shape[0], x.shape[1] + zeros)
    return Sparse(compressed(sparse(index, value, shape)))


def propagated(base: Dense | Sparse, graph: Graph, hops: int, normalize: bool) -> Dense | Propagated:
    """`[X, ÂX, Â²X, …]`: computed once where X is dense, never where it is sparse."""
    adjacency = gcn_matrix(graph)
    if isinstance(base, Sparse):
        return Propagated(base, adjacency, hops, normalize)
    blocks = [base.x]
    for _ in range(hops):
        blocks.append(adjacency.rows @ blocks[-1])
    return Dense(torch.cat([unit_rows(block) if normalize else block for block in blocks], 1))


def gcn_matrix(graph: Graph) -> Sparse:
    """Â = D̃^-½ (A + I) D̃^-½, with D̃ the degrees of A + I."""
    rows, columns = graph.edge_index
    nodes = torch.arange(graph.num_nodes, device=graph.device)
    weight = torch.cat([graph.weight.float(), torch.ones(graph.num_nodes, device=graph.device)])
    root = (graph.degree.float() + 1).rsqrt()
    index = torch.stack([torch.cat([rows, nodes]), torch.cat([columns, nodes])])
    value = weight * root[index[0]] * root[index[1]]
    return Sparse(compressed(sparse(index, value, (graph.num_nodes, graph.num_nodes)).coalesce()))


def sparse(index: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    """A matrix from the places `[2, n]` and values `[n]` of its entries."""
    return torch.sparse_coo_tensor(index, value, shape, check_invariants=False)


def compressed(matrix: Tensor) -> Tensor:
    """The matrix in torch's compressed rows, without torch's notice that these are in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            return matrix.to_sparse_csr()
