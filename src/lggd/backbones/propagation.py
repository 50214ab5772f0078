"""Sums over neighbours, the one thing that the layers of every backbone have in common, as sparse matrix products.

PyG gathers a message an edge and scatters them into sums. A product with compressed rows gives the same numbers to
rounding, several times faster on a CPU, and the same bits every time. Its gradient needs the transposed rows: they are
kept too, because autograd would transpose anew in every backward pass.

Values are `[Q, N, C]`, those of Q problems on one graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from lggd.graph.edge_index import check_edges
from lggd.learning.contents import no_notice

T = TypeVar("T")
# One graph to train on and one to evaluate on.
KEPT = 2


class SortedEdges:
    """The edges j → i of `edge_index` (rows j and i) as the entries (i, j) of a matrix, row by row.

    Args:
        edge_index: int64 `[2, E]`; equal edges stay apart.
        num_nodes: N, of which some may have no edges.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        source, target = edge_index
        self.num_nodes = num_nodes
        self.order = _sorting(target, source, num_nodes)
        self.source, self.target = source[self.order], target[self.order]
        self.starts = _starts(self.target, num_nodes)
        self._repeated: dict[int, SortedEdges] = {}
        self._matrices: dict[torch.dtype, tuple[Tensor, Tensor]] = {}

    @cached_property
    def transposing(self) -> Tensor:
        """The positions of the entries, column by column."""
        return _sorting(self.source, self.target, self.num_nodes)

    def matrix(self, value: Tensor) -> Tensor:
        """Compressed rows `[N, N]` of the given entries `[E]`."""
        return _compressed(self._rows, value, self.num_nodes)

    def transposed(self, value: Tensor) -> Tensor:
        """Compressed rows of the transposed matrix of the same entries."""
        return _compressed(self._transposed_rows, value[self.transposing], self.num_nodes)

    @cached_property
    def _rows(self) -> tuple[Tensor, Tensor]:
        return _short(self.starts, self.source)

    @cached_property
    def _transposed_rows(self) -> tuple[Tensor, Tensor]:
        return _short(self.starts_by_source, self.target[self.transposing])

    @cached_property
    def starts_by_source(self) -> Tensor:
        """Where the entries of each column begin, in the order of `transposing`: `[N + 1]`."""
        return _starts(self.source, self.num_nodes)

    def repeated(self, times: int) -> SortedEdges:
        """The edges of that many copies of the graph beside each other, copy by copy; made once."""
        if times not in self._repeated:
            offset = torch.arange(times, device=self.source.device).view(-1, 1) * self.num_nodes
            edge_index = torch.stack([(self.source + offset).flatten(), (self.target + offset).flatten()])
            self._repeated[times] = SortedEdges(edge_index, times * self.num_nodes)
        return self._repeated[times]

    # -- Reductions of values of edges, `[E, B]` → `[N, B]`: without atomics, so the same bits every time ------------

    def maxima(self, value: Tensor) -> Tensor:
        """The largest value among the edges into each node; every node must have one."""
        return _reduced(value, "max", self.starts)

    def sums(self, value: Tensor) -> Tensor:
        """The sum over the edges into each node."""
        if value.is_cuda:
            return _reduced(value, "sum", self.starts)
        # Several times faster than a reduction on a CPU.
        return self._adding(value.dtype)[0] @ value

    def sums_by_source(self, value: Tensor) -> Tensor:
        """The sum over the edges out of each node."""
        if value.is_cuda:
            return _reduced(value.index_select(0, self.transposing), "sum", self.starts_by_source)
        return self._adding(value.dtype)[1] @ value

    def _adding(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The matrices `[N, E]` of both sums."""
        if dtype not in self._matrices:
            every, ones = torch.arange(len(self.source)), torch.ones(len(self.source), dtype=dtype)
            self._matrices[dtype] = (
                _compressed(_short(self.starts, every), ones, len(ones)),
                _compressed(_short(self.starts_by_source, self.transposing), ones, len(ones)),
            )
        return self._matrices[dtype]


class Propagation:
    """The linear map x[q] ↦ M x[q], `[Q, N, C]` → `[Q, N, C]`, where edge e of `edges` has the entry `value[e]` in M.

    Differentiable in x and, where the entries ask for it, in them.
    """

    def __init__(self, edges: SortedEdges, value: Tensor) -> None:
        self.edges, self.value = edges, value

    @cached_property
    def matrix(self) -> Tensor:
        return self.edges.matrix(self.value.detach())

    @cached_property
    def transposed(self) -> Tensor:
        return self.edges.transposed(self.value.detach())

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = _Product.apply(self.value, x, self)  # type: ignore[no-untyped-call]
        return product


def spread_each(x: Tensor, value: Tensor, edges: SortedEdges) -> Tensor:
    """M[b] x[b] for each b, where the matrices have the same edges but entries `value [B, E]` of their own.

    `[B, N, C]` → `[B, N, C]`, differentiable in both.
    """
    if x.is_cuda:
        # One product over B copies of the graph.
        spread = Propagation(edges.repeated(len(x)), value.flatten())
        return spread(x.reshape(1, -1, x.shape[2])).view(x.shape)
    pairs = zip(value, x.unsqueeze(1), strict=True)
    return torch.cat([Propagation(edges, one)(x_of_one) for one, x_of_one in pairs])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, x: Tensor, propagation: Propagation) -> Tensor:
        ctx.propagation = propagation
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(x)
        return _times(propagation.matrix, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        propagation = ctx.propagation
        by_value = by_x = None
        if ctx.needs_input_grad[0]:
            (x,) = ctx.saved_tensors
            by_value = _sampled(propagation.matrix, grad, x)
        if ctx.needs_input_grad[1]:
            by_x = _times(propagation.transposed, grad)
        return by_value, by_x, None


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    """The matrix `[N, N]` times each x[q] `[N, C]`."""
    if len(x) == 1 or x.is_cuda:
        # One pass over the edges serves all problems: on a GPU, where narrow products leave most of it idle.
        wide = _wide(x)
        product = _add_product(matrix, wide, torch.zeros_like(wide))
        return product.view(-1, len(x), x.shape[2]).transpose(0, 1)
    # One after the other on a CPU: what a narrow product gathers from stays in the cache.
    product = torch.zeros_like(x, memory_format=torch.contiguous_format)
    for out, one in zip(product, x.contiguous(), strict=True):
        _add_product(matrix, one, out)
    return product


def _add_product(matrix: Tensor, x: Tensor, zeros: Tensor) -> Tensor:
    """The product, in the place of the zeros. A plain product would write it twice."""
    return torch.addmm(zeros, matrix, x, beta=0, out=zeros)


def _sampled(matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Σ_q ⟨left[q, i], right[q, j]⟩ where the matrix has an entry (i, j), `[E]`, and nothing elsewhere."""
    left, right = _wide(left), _wide(right)
    lacking = -left.shape[1] % 8
    if lacking and not left.is_cuda:
        # Zeros up to the width of a vector: MKL takes ten times as long without.
        left, right = functional.pad(left, (0, lacking)), functional.pad(right, (0, lacking))
    product: Tensor = torch.sparse.sampled_addmm(matrix, left, right.t(), beta=0.0).values()
    return product


def _wide(x: Tensor) -> Tensor:
    """The channels of all problems side by side, `[N, Q·C]`."""
    return x.transpose(0, 1).reshape(x.shape[1], -1).contiguous()


class Remembered(Generic[T]):
    """What `read(edge_index, edge_weight, num_nodes, dtype)` makes of a graph, kept for the last graphs seen.

    A graph is known again by the identity of its tensors and by their versions, which every change in place raises.
    It is part of neither a copy nor a saved state of the module that holds it.
    """

    def __init__(self, read: Callable[[Tensor, Tensor | None, int, torch.dtype], T]) -> None:
        self._read = read
        self._kept: tuple[tuple[_Sight, T], ...] = ()

    def __call__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> T:
        """What is made of the graph below the features x `[N, F]`."""
        sight = _Sight(x, edge_index, edge_weight)
        for seen, made in self._kept:
            if seen.shows_the_same_as(sight):
                return made
        if not sight.lasts:
            return self.anew(x, edge_index, edge_weight)
        with torch.inference_mode(False):
            made = self.anew(x, edge_index, edge_weight)
        self._kept = ((sight, made), *self._kept)[:KEPT]
        return made

    def anew(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> T:
        """The same, for one who keeps it himself."""
        check_edges(edge_index, edge_weight, x.shape[0])
        return self._read(edge_index, edge_weight, x.shape[0], x.dtype)

    def __reduce__(self) -> tuple[type[Remembered[T]], tuple[Any]]:
        return type(self), (self._read,)


class _Sight:
    """How a graph looked when it was given. Holding its tensors keeps their identity from being used again."""

    def __init__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> None:
        self.tensors = (edge_index,) if edge_weight is None else (edge_index, edge_weight)
        # Tensors of inference mode have no versions, and weights that are learned change: such a graph is not kept.
        self.lasts = not any(tensor.is_inference() or tensor.requires_grad for tensor in self.tensors)
        self.versions = [tensor._version for tensor in self.tensors] if self.lasts else []
        self.places = [tensor.data_ptr() for tensor in self.tensors]
        self.size_and_type = x.shape[0], x.dtype

    def shows_the_same_as(self, other: _Sight) -> bool:
        return (
            self.lasts
            and other.lasts
            and len(self.tensors) == len(other.tensors)
            and all(mine is its for mine, its in zip(self.tensors, other.tensors, strict=True))
            and (self.versions, self.places, self.size_and_type) == (other.versions, other.places, other.size_and_type)
        )


def _sorting(rows: Tensor, columns: Tensor, num_nodes: int) -> Tensor:
    """The positions of entries in the order of their rows, and of their columns within a row."""
    order: Tensor = (rows * num_nodes + columns).argsort(stable=True)
    return order


def _starts(rows: Tensor, num_nodes: int) -> Tensor:
    """Where each row begins among entries with these row numbers, `[N + 1]`."""
    starts = torch.zeros(num_nodes + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = torch.bincount(rows, minlength=num_nodes).cumsum(0)
    return starts


def _short(starts: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Both in 32 bits where they fit: products on a CPU would convert them anew each time."""
    fits = max(len(starts), len(columns)) < 2**31
    return (starts.int(), columns.int()) if fits else (starts, columns)


def _compressed(rows: tuple[Tensor, Tensor], value: Tensor, width: int) -> Tensor:
    """A matrix of this width from the starts of its rows, the columns of its entries, and these."""
    starts, columns = rows
    # Unchecked, because equal edges stand side by side. A product adds them up, as it should.
    with no_notice():
        return torch.sparse_csr_tensor(starts, columns, value, (len(starts) - 1, width))


def _reduced(value: Tensor, how: str, starts: Tensor) -> Tensor:
    """The sum or the largest of the rows from `starts[i]` to `starts[i + 1]`, for each i."""
    # Unsafe means unchecked: a check would wait for the device, and the starts are ours.
    result: Tensor = torch.segment_reduce(value, how, offsets=starts, axis=0, unsafe=True)
    return result
