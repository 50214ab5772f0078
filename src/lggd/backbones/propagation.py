"""Sums over neighbours, the one thing that the layers of every backbone have in common, as sparse matrix products.

PyG gathers a message an edge and scatters them into sums. A product with compressed rows gives the same numbers to
rounding, several times faster on a CPU, and the same bits every time. Its gradient needs the transposed rows: they are
kept too, because autograd would transpose anew in every backward pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

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

    @cached_property
    def transposing(self) -> Tensor:
        """The positions of the entries, column by column."""
        return _sorting(self.source, self.target, self.num_nodes)

    def matrix(self, value: Tensor) -> Tensor:
        """Compressed rows `[N, N]` of the given entries `[E]`."""
        return _compressed(self.starts, self.source, value, self.num_nodes)

    def transposed(self, value: Tensor) -> Tensor:
        """Compressed rows of the transposed matrix of the same entries."""
        starts, columns = self._transposed_rows
        return _compressed(starts, columns, value[self.transposing], self.num_nodes)

    @cached_property
    def _transposed_rows(self) -> tuple[Tensor, Tensor]:
        return _starts(self.source, self.num_nodes), self.target[self.transposing]


class Propagation:
    """The linear map x ↦ M x, `[N, C]` → `[N, C]`, where edge e of `edges` has the entry `value[e]` in M.

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


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, x: Tensor, propagation: Propagation) -> Tensor:
        ctx.propagation = propagation
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(x)
        return propagation.matrix @ x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        propagation, grad = ctx.propagation, grad.contiguous()
        by_value = by_x = None
        if ctx.needs_input_grad[0]:
            (x,) = ctx.saved_tensors
            # ⟨grad of row i, row j of x⟩ where M has an entry (i, j), and nowhere else.
            by_value = torch.sparse.sampled_addmm(propagation.matrix, grad, x.t(), beta=0.0).values()
        if ctx.needs_input_grad[1]:
            by_x = propagation.transposed @ grad
        return by_value, by_x, None


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
        check_edges(edge_index, edge_weight, x.shape[0])
        if not sight.lasts:
            return self._read(edge_index, edge_weight, x.shape[0], x.dtype)
        with torch.inference_mode(False):
            made = self._read(edge_index, edge_weight, x.shape[0], x.dtype)
        self._kept = ((sight, made), *self._kept)[:KEPT]
        return made

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


def check_edges(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Refuses what is no graph of `num_nodes` nodes. Wrong numbers would read memory that is not theirs."""
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        raise ValueError(
            f"`edge_index` must be int64 [2, E], got {edge_index.dtype} {list(edge_index.shape)}. "
            "Give edges as two rows of node numbers."
        )
    if edge_index.numel():
        low, high = (int(end) for end in edge_index.aminmax())
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"`edge_index` must hold node numbers from 0 to {num_nodes - 1}, got {low if low < 0 else high}. "
                "Give `x` a row for every node."
            )
    if edge_weight is not None and list(edge_weight.shape) != [edge_index.shape[1]]:
        raise ValueError(
            f"`edge_weight` must have shape [{edge_index.shape[1]}], a number an edge, got {list(edge_weight.shape)}."
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


def _compressed(starts: Tensor, columns: Tensor, value: Tensor, num_nodes: int) -> Tensor:
    _hear_that_compressed_rows_are_new()
    # Unchecked, because equal edges stand side by side. A product adds them up, as it should.
    return torch.sparse_csr_tensor(starts, columns, value, (num_nodes, num_nodes), check_invariants=False)


@cache
def _hear_that_compressed_rows_are_new() -> None:
    """Takes the warning that torch gives once a process, at its first compressed rows. Products with them are sound."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        starts, columns = torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64)
        torch.sparse_csr_tensor(starts, columns, torch.tensor([]), (1, 1), check_invariants=False)
