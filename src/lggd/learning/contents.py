"""Node contents as the first layer of a network sees them: a matrix that is multiplied from the right, never copied."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize as unit_rows
from torch.nn.functional import pad

from lggd.graph import Graph
from lggd.learning.loops import add_products
from lggd.learning.workspace import Workspace

Array = NDArray[Any]

# Below this share of entries that are not 0, a sparse product beats a dense one.
SPARSE_BELOW = 0.05
# How many numbers to work on at a time where a dense block of contents is needed.
ENTRIES_AT_ONCE = 2**24
# Steps of a personalised PageRank: a walk that goes back with a chance of 0.1 has done so by then two times in three.
PAGERANK_STEPS = 10


class Contents(Protocol):
    """A matrix X `[N, D]` that is only ever multiplied."""

    @property
    def num_nodes(self) -> int: ...

    @property
    def num_features(self) -> int: ...

    def times(self, weight: Tensor) -> Tensor:
        """X · weight: `[D, M]` → `[N, M]` or `[Q, D, M]` → `[Q, N, M]`, differentiable in the weight."""

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, space: Workspace) -> None:
        """out ← X · weight + bias, for one `[D, M]` and `[M]` on a CPU; in between it works in `space`."""

    def pull_back(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
        """out ← Xᵀ · grad: what a gradient `[N, M]` of such a product is for the weight."""


@dataclass(frozen=True, eq=False)
class Dense:
    """X as it is."""

    x: Tensor

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def num_features(self) -> int:
        return self.x.shape[1]

    @property
    def entries(self) -> Tensor:
        """All that dropout may drop, `[E]`."""
        return self.x.reshape(-1)

    def with_entries(self, entries: Tensor) -> Dense:
        """The same with other entries, `[E]`."""
        return Dense(entries.view(self.x.shape))

    def times_by_network(self, entries: Tensor, weight: Tensor) -> Tensor:
        """The product of each network with entries of its own, `[Q, E]`: `[Q, D, M]` → `[Q, N, M]`."""
        return torch.bmm(entries.view(-1, *self.x.shape), weight)

    def scaled(self, factor: Tensor) -> Dense:
        """With each row times its factor, `[N]`."""
        return Dense(self.x * factor[:, None])

    def times(self, weight: Tensor) -> Tensor:
        if weight.dim() == 2:
            return self.x @ weight
        return torch.bmm(self.x.expand(len(weight), -1, -1), weight)

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, space: Workspace) -> None:
        torch.addmm(bias, self.x, weight, out=out)

    def pull_back(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
        torch.mm(self.x.t(), grad, out=out)


@dataclass(frozen=True, eq=False)
class Sparse:
    """X in compressed rows, with its transpose at hand for gradients."""

    rows: Tensor

    @property
    def num_nodes(self) -> int:
        return self.rows.shape[0]

    @property
    def num_features(self) -> int:
        return self.rows.shape[1]

    @cached_property
    def turned(self) -> tuple[Tensor, Tensor, Tensor]:
        """The transpose: where its rows begin, the columns of its entries, and which of our entries each of them is."""
        starts, columns = self.rows.crow_indices(), self.rows.col_indices()
        row_of = torch.arange(self.num_nodes, device=columns.device).repeat_interleave(starts.diff())
        which = columns.argsort(stable=True)
        ends = columns.bincount(minlength=self.num_features).cumsum(0)
        return pad(ends, (1, 0)), row_of[which], which

    @cached_property
    def columns(self) -> Tensor:
        starts, rows, which = self.turned
        return _compressed_rows(starts, rows, self.entries[which], (self.num_features, self.num_nodes))

    @property
    def entries(self) -> Tensor:
        """All that dropout may drop, `[E]`: what is 0 stays 0."""
        return self.rows.values()

    def with_entries(self, entries: Tensor) -> Sparse:
        """The same with other entries, `[E]`."""
        other = Sparse(_compressed_rows(self.rows.crow_indices(), self.rows.col_indices(), entries, self.rows.shape))
        vars(other)["turned"] = self.turned  # the places are the same
        return other

    def times_by_network(self, entries: Tensor, weight: Tensor) -> Tensor:
        """The product of each network with entries of its own, `[Q, E]`: `[Q, D, M]` → `[Q, N, M]`."""
        return torch.stack([self.with_entries(own).times(w) for own, w in zip(entries, weight, strict=True)])

    @cached_property
    def by_row(self) -> tuple[Array, Array, Array]:
        """Where rows begin, and the columns and values of their entries, for compiled loops."""
        return _arrays(self.rows)

    @cached_property
    def by_column(self) -> tuple[Array, Array, Array]:
        """The same of the transpose."""
        return _arrays(self.columns)

    def scaled(self, factor: Tensor) -> Sparse:
        """With each row times its factor, `[N]`."""
        return self.with_entries(self.entries * factor.repeat_interleave(self.rows.crow_indices().diff()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Sparse:
        """Itself: it never changes, and torch cannot copy compressed rows."""
        return self

    def times(self, weight: Tensor) -> Tensor:
        if weight.dim() == 3:
            return _side_by_side(self, weight)
        product: Tensor = _Product.apply(self, weight)  # type: ignore[no-untyped-call]
        return product

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, space: Workspace) -> None:
        add_products(*self.by_row, weight.numpy(), bias.numpy(), out.numpy())

    def pull_back(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
        add_products(*self.by_column, grad.numpy(), grad.new_zeros(grad.shape[1]).numpy(), out.numpy())

    def add(self, weight: Tensor, out: Tensor) -> None:
        """out ← out + X · weight, as `multiply` does."""
        add_products(*self.by_row, weight.numpy(), weight.new_empty(0).numpy(), out.numpy())


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Sparse, weight: Tensor) -> Tensor:
        ctx.matrix = matrix
        if weight.device.type != "cpu":
            return matrix.rows @ weight
        product = weight.new_zeros(matrix.num_nodes, weight.shape[1])
        matrix.add(weight.detach().contiguous(), product)
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        matrix, grad = ctx.matrix, grads[0].contiguous()
        if grad.device.type != "cpu":
            return None, matrix.columns @ grad
        for_weight = grad.new_empty(matrix.num_features, grad.shape[1])
        matrix.pull_back(grad, for_weight, Workspace())
        return None, for_weight


def _arrays(matrix: Tensor) -> tuple[Array, Array, Array]:
    return matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy()


def _side_by_side(contents: Sparse | Propagated, weight: Tensor) -> Tensor:
    """`[Q, D, M]` → `[Q, N, M]` in one product with all columns: on a GPU, wide ones are faster than many."""
    problems, features, width = weight.shape
    wide = weight.transpose(0, 1).reshape(features, problems * width)
    return contents.times(wide).view(-1, problems, width).transpose(0, 1)


@dataclass(frozen=True, eq=False)
class Propagated:
    """`[X, ÂX, Â²X, …, ΠX]` without forming it: where X is sparse, Â^k (X W_k) is far cheaper than (Â^k X) W_k.

    Â is the adjacency with self-loops, normalised on both sides as in a GCN. Π is the personalised PageRank that
    restarts with the chance `pagerank`, after `PAGERANK_STEPS` steps; None leaves it out. With `normalize` the rows of
    every block have length 1.
    """

    base: Dense | Sparse
    adjacency: Sparse
    hops: int
    normalize: bool
    pagerank: float | None = None

    @property
    def num_blocks(self) -> int:
        return self.hops + 1 + (self.pagerank is not None)

    @property
    def num_nodes(self) -> int:
        return self.base.num_nodes

    @property
    def num_features(self) -> int:
        return self.num_blocks * self.base.num_features

    @cached_property
    def lengths(self) -> list[Tensor]:
        """The length of each row of X, ÂX, …, each `[N, 1]`; some columns of X at a time, to spare memory."""
        nodes, features = self.adjacency.rows.shape[0], self.base.num_features
        total = [torch.zeros(nodes, 1, device=self.adjacency.rows.device) for _ in range(self.num_blocks)]
        for columns in torch.split(torch.arange(features), max(1, ENTRIES_AT_ONCE // nodes)):
            chosen = torch.zeros(features, len(columns), device=total[0].device)
            chosen[columns, torch.arange(len(columns))] = 1.0
            blocks = formed_blocks(self.base.times(chosen), self.adjacency, self.hops, self.pagerank)
            for squares, block in zip(total, blocks, strict=True):
                squares += block.square().sum(1, keepdim=True)
        return [squares.sqrt() for squares in total]

    @cached_property
    def unit_base(self) -> Dense | Sparse:
        """X with rows of length 1, where they are wanted so."""
        return self.base.scaled(_inverse(self.lengths[0])) if self.normalize else self.base

    @cached_property
    def unit_steps(self) -> list[Sparse]:
        """Â for the last step of 1, 2, … hops, which brings rows to length 1, where they are wanted so."""
        if not self.normalize:
            return [self.adjacency] * self.hops
        return [self.adjacency.scaled(_inverse(length)) for length in self.lengths[1 : self.hops + 1]]

    @cached_property
    def _row_scale(self) -> Tensor:
        """What brings the rows of ΠX to length 1, `[N, 1]`, where they are wanted so."""
        last = self.lengths[-1]
        return _inverse(last).unsqueeze(1) if self.normalize else torch.ones_like(last)

    def times(self, weight: Tensor) -> Tensor:
        if weight.dim() == 3:
            return _side_by_side(self, weight)
        first, *parts = weight.chunk(self.num_blocks)
        blocks = [self.unit_base.times(first)]
        for hop, (part, last) in enumerate(zip(parts, self.unit_steps, strict=False)):
            block = self.base.times(part)
            for _ in range(hop):
                block = self.adjacency.times(block)
            blocks.append(last.times(block))
        if self.pagerank is not None:
            start = self.base.times(parts[-1])
            blocks.append(self._row_scale * _pageranked(start, self.adjacency.times, self.pagerank))
        return functools.reduce(torch.add, blocks)

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, space: Workspace) -> None:
        first, *parts = weight.chunk(self.num_blocks)
        self.unit_base.multiply(first, bias, out, space)
        nothing = torch.zeros_like(bias)
        for hop, (part, last) in enumerate(zip(parts, self.unit_steps, strict=False)):
            block = space.empty(out.shape, out.dtype)
            self.base.multiply(part, nothing, block, space)
            for _ in range(hop):
                before, block = block, space.empty(out.shape, out.dtype)
                self.adjacency.multiply(before, nothing, block, space)
            last.add(block, out)
        if self.pagerank is not None:
            start = space.empty(out.shape, out.dtype)
            self.base.multiply(parts[-1], nothing, start, space)
            out.addcmul_(self._spread_in(start, space), self._row_scale)

    def pull_back(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
        first, *parts = out.chunk(self.num_blocks)
        self.unit_base.pull_back(grad, first, space)
        for hop, (part, last) in enumerate(zip(parts, self.unit_steps, strict=False)):
            block = space.empty(grad.shape, grad.dtype)
            last.pull_back(grad, block, space)
            for _ in range(hop):
                before, block = block, space.empty(grad.shape, grad.dtype)
                self.adjacency.pull_back(before, block, space)
            self.base.pull_back(block, part, space)
        if self.pagerank is not None:
            start = space.empty(grad.shape, grad.dtype)
            torch.mul(grad, self._row_scale, out=start)
            # Π is symmetric, as Â is.
            self.base.pull_back(self._spread_in(start, space), parts[-1], space)

    def _spread_in(self, start: Tensor, space: Workspace) -> Tensor:
        """Π · start, in memory of the workspace."""
        restart, nothing = self.pagerank or 0.0, start.new_zeros(start.shape[1])
        block, ahead, spare = start, *(space.empty(start.shape, start.dtype) for _ in range(2))
        for _ in range(PAGERANK_STEPS):
            self.adjacency.multiply(block, nothing, ahead, space)
            torch.add(start, ahead, alpha=(1 - restart) / restart, out=ahead).mul_(restart)
            block, ahead, spare = ahead, spare, ahead
        return block


def _pageranked(start: Tensor, step: Callable[[Tensor], Tensor], restart: float) -> Tensor:
    """h ← (1 − restart) Â h + restart · start, from h = start on; `step` multiplies with Â."""
    block = start
    for _ in range(PAGERANK_STEPS):
        block = (1 - restart) * step(block) + restart * start
    return block


def formed_blocks(x: Tensor, adjacency: Sparse, hops: int, pagerank: float | None) -> Iterator[Tensor]:
    """X, ÂX, …, ΠX, one after the other."""
    block = x
    yield block
    for _ in range(hops):
        block = adjacency.rows @ block
        yield block
    if pagerank is not None:
        yield _pageranked(x, adjacency.rows.matmul, pagerank)


def _inverse(length: Tensor) -> Tensor:
    """1 / length of each row, `[N]`; 0 for rows of nothing but 0."""
    return torch.where(length > 0, 1 / length, 0).squeeze(1)


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


def propagated(
    base: Dense | Sparse, graph: Graph, hops: int, normalize: bool, pagerank: float | None = None
) -> Dense | Propagated:
    """`[X, ÂX, Â²X, …, ΠX]`: computed once where X is dense; where it is sparse never, but for Π on a GPU.

    There one dense product is far faster than the many sparse ones that a PageRank takes.
    """
    adjacency = gcn_matrix(graph)
    if isinstance(base, Sparse) and (pagerank is None or not base.rows.is_cuda):
        return Propagated(base, adjacency, hops, normalize, pagerank)
    x = base.rows.to_dense() if isinstance(base, Sparse) else base.x
    blocks = formed_blocks(x, adjacency, hops, pagerank)
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
    with no_notice():
        return torch.sparse_coo_tensor(index, value, shape)


def compressed(matrix: Tensor) -> Tensor:
    """The matrix in torch's compressed rows."""
    with no_notice():
        return matrix.to_sparse_csr()


def _compressed_rows(starts: Tensor, columns: Tensor, values: Tensor, shape: Sequence[int]) -> Tensor:
    with no_notice():
        return torch.sparse_csr_tensor(starts, columns, values, tuple(shape))


@contextmanager
def no_notice() -> Iterator[None]:
    """Without torch's notices that sparse tensors are in beta and unchecked, and without its checks: ours are sound."""
    with warnings.catch_warnings():
        for notice in ("Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly disabled"):
            warnings.filterwarnings("ignore", message=notice)
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            yield
