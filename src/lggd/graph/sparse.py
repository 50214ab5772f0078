"""Sparse matrices in compressed rows, their products, and the normalised adjacency Â of a graph.

PyG gathers one message per edge and scatters them into sums. A product with compressed rows gives the same numbers up
to rounding, several times faster on a CPU, and the same bits in every run. Its gradient needs the transposed matrix,
which is stored too: autograd would transpose in every backward pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from numba import njit, prange
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize, pad

from lggd.graph.csr import run_parallel_if_worthwhile

Array = NDArray[Any]
# Below this fraction of non-zero entries, a sparse product is faster than a dense one.
SPARSE_BELOW = 0.05


class SparsePattern:
    """The positions of the entries of a sparse matrix, sorted by row and within a row by column.

    `rows` and `columns` are int64 `[E]`; equal positions stay apart, and products add them up. `order [E]` is the index
    of each sorted entry among them, and `row_starts [R + 1]` is where each row begins among the sorted entries.
    """

    def __init__(self, rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> None:
        self.shape = shape
        self.order: Tensor = (rows * shape[1] + columns).argsort(stable=True)
        self.row_starts = pad(torch.bincount(rows, minlength=shape[0]).cumsum(0), (1, 0))
        self._csr = _compact(self.row_starts, columns[self.order], shape[1])
        self._repeated: dict[int, SparsePattern] = {}
        self._sum_matrices: dict[torch.dtype, tuple[Tensor, Tensor]] = {}

    @classmethod
    def from_edges(cls, edge_index: Tensor, num_nodes: int) -> SparsePattern:
        """The pattern `[N, N]` with an entry (i, j) for every edge j → i, `edge_index` being [j, i] as in PyG."""
        return cls(edge_index[1], edge_index[0], (num_nodes, num_nodes))

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry, int64 `[E]`: the target of each edge."""
        rows = torch.arange(self.shape[0], device=self.order.device)
        return rows.repeat_interleave(self.row_starts.diff(), output_size=len(self.order))

    @cached_property
    def columns(self) -> Tensor:
        """The column of each entry, int64 `[E]`: the source of each edge."""
        return self._csr[1].long()

    @cached_property
    def transposed(self) -> SparsePattern:
        """The pattern of the transposed matrix, `[C, R]`; its `order` is that of these entries by column."""
        return SparsePattern(self.columns, self.rows, self.shape[::-1])

    @cached_property
    def arrays(self) -> tuple[Array, Array]:
        """Where each row begins, and the column of each entry, for compiled loops; only on the CPU."""
        starts, indices = self._csr
        return starts.numpy(), indices.numpy()

    def repeat(self, times: int) -> SparsePattern:
        """The block-diagonal pattern of `times` copies; cached."""
        if times not in self._repeated:
            copy = torch.arange(times, device=self.rows.device).unsqueeze(1)
            rows, columns = self.rows + copy * self.shape[0], self.columns + copy * self.shape[1]
            shape = (times * self.shape[0], times * self.shape[1])
            self._repeated[times] = SparsePattern(rows.flatten(), columns.flatten(), shape)
        return self._repeated[times]

    def row_max(self, values: Tensor) -> Tensor:
        """The largest value of each row, `[R, B]`; every row must have an entry."""
        return _segment_reduce(values, "max", self.row_starts)

    def row_sum(self, values: Tensor) -> Tensor:
        """The sum of each row, `[R, B]`."""
        if values.is_cuda:
            return _segment_reduce(values, "sum", self.row_starts)
        # A product is several times faster than a reduction on a CPU.
        return self._sums_as_products(values.dtype)[0] @ values

    def column_sum(self, values: Tensor) -> Tensor:
        """The sum of each column, `[C, B]`."""
        if values.is_cuda:
            return _segment_reduce(values.index_select(0, self.transposed.order), "sum", self.transposed.row_starts)
        return self._sums_as_products(values.dtype)[1] @ values

    def _sums_as_products(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The matrices `[R, E]` and `[C, E]` of ones that sum up rows and columns."""
        if dtype not in self._sum_matrices:
            count = len(self.order)
            ones = torch.ones(count, dtype=dtype)
            by_row = _compact(self.row_starts, torch.arange(count), count)
            by_column = _compact(self.transposed.row_starts, self.transposed.order, count)
            row_matrix = _csr_tensor(by_row, ones, (self.shape[0], count))
            self._sum_matrices[dtype] = row_matrix, _csr_tensor(by_column, ones, (self.shape[1], count))
        return self._sum_matrices[dtype]


class SparseMatrix:
    """A sparse matrix M `[R, C]` with `values [E]` in the order of the pattern.

    `matrix(x)` is the product M x, differentiable in x and in the entries.
    """

    def __init__(self, pattern: SparsePattern, values: Tensor) -> None:
        self.pattern, self.values = pattern, values

    @classmethod
    def from_edges(cls, edge_index: Tensor, values: Tensor, num_nodes: int) -> SparseMatrix:
        """The matrix `[N, N]` with `values[e]` at (i, j) for the e-th edge j → i, of PyG's `edge_index`."""
        return cls.from_entries(edge_index[1], edge_index[0], values, (num_nodes, num_nodes))

    @classmethod
    def from_entries(cls, rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> SparseMatrix:
        """The matrix with `values[e]` at `(rows[e], columns[e])`."""
        pattern = SparsePattern(rows, columns, shape)
        return cls(pattern, values[pattern.order])

    @property
    def shape(self) -> tuple[int, int]:
        return self.pattern.shape

    @cached_property
    def csr(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        return _csr_tensor(self.pattern._csr, self.values.detach(), self.shape)

    @cached_property
    def transposed(self) -> SparseMatrix:
        """The transposed matrix `[C, R]`, without autograd."""
        return SparseMatrix(self.pattern.transposed, self.values.detach()[self.pattern.transposed.order])

    def with_values(self, values: Tensor) -> SparseMatrix:
        """The matrix with other entries `[E]` at the same positions."""
        return SparseMatrix(self.pattern, values)

    def scaled(self, factor: float) -> SparseMatrix:
        """The matrix times a number."""
        return self.with_values(factor * self.values)

    def scale_rows(self, factor: Tensor) -> SparseMatrix:
        """The matrix with each row multiplied by its factor, `[R]`."""
        return self.with_values(self.values * factor[self.pattern.rows])

    def __call__(self, x: Tensor) -> Tensor:
        """M x for `[C, B]`, or M x[q] for each q of `[Q, C, B]`."""
        return _Product.apply(self.values, x, self)  # type: ignore[no-any-return]  # not typed in torch

    def add_product(self, x: Tensor, out: Tensor) -> None:
        """out ← out + M x for `[C, B]`, in place, without autograd."""
        if x.is_cuda:
            out.add_(self.csr @ x)
            return
        arrays = (tensor.detach().numpy() for tensor in (self.values, x, out))
        run_parallel_if_worthwhile(self.values.numel() * x.shape[1], _add_product_loop, *self.pattern.arrays, *arrays)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseMatrix:
        # Matrices are immutable, and torch cannot copy CSR tensors.
        return self


def multiply_each(x: Tensor, values: Tensor, pattern: SparsePattern) -> Tensor:
    """M[b] x[b] for matrices of one pattern with entries `values [B, E]`: `[B, N, C]` → `[B, N, C]`, differentiable."""
    if x.is_cuda:
        # One product with the block-diagonal matrix.
        product = SparseMatrix(pattern.repeat(len(x)), values.flatten())(x.reshape(1, -1, x.shape[2]))
        return product.view(len(x), -1, x.shape[2])
    pairs = zip(values, x.unsqueeze(1), strict=True)
    return torch.cat([SparseMatrix(pattern, entries)(features) for entries, features in pairs])


def normalized_adjacency(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    dtype: torch.dtype = torch.float32,
    self_loops: bool = True,
    pattern: SparsePattern | None = None,
) -> SparseMatrix:
    """Â = D̃^-½ (A + I) D̃^-½ with D̃ the degrees of A + I, as PyG's GCNConv: an existing self-loop keeps its weight.

    Without `self_loops`, D^-½ A D^-½. `pattern` is that of another such matrix with the same edges, which saves time.
    """
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.shape[1], device=edge_index.device)
    index, weight = edge_index, edge_weight.to(dtype)
    if self_loops:
        index, weight = with_self_loops(index, weight, num_nodes)
    source, target = index
    root = torch.zeros(num_nodes, dtype=dtype, device=index.device).scatter_add(0, target, weight).pow(-0.5)
    root = root.masked_fill(root == torch.inf, 0)
    values = root[source] * weight * root[target]
    if pattern is None:
        return SparseMatrix.from_edges(index, values, num_nodes)
    return SparseMatrix(pattern, values[pattern.order])


def with_self_loops(edge_index: Tensor, edge_weight: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The edges and a self-loop of weight 1 at each node, unless it has one."""
    from torch_geometric.utils import add_remaining_self_loops

    if bool((edge_index[0] == edge_index[1]).any()):
        index, weight = add_remaining_self_loops(edge_index, edge_weight, 1.0, num_nodes)
        return index, weight
    loops = torch.arange(num_nodes, device=edge_index.device)
    return torch.cat([edge_index, loops.expand(2, -1)], 1), torch.cat([edge_weight, edge_weight.new_ones(num_nodes)])


def mostly_zeros(x: Tensor) -> bool:
    """Whether products with x are faster as those of a sparse matrix; x may be sparse already."""
    return x.layout != torch.strided or int(x.count_nonzero()) < SPARSE_BELOW * x.numel()


def unit_rows(x: Tensor) -> Tensor:
    """Rows of unit length; x may be sparse."""
    if x.layout == torch.strided:
        return normalize(x)
    x = x.to_sparse_coo().coalesce()
    rows, values = x.indices()[0], x.values()
    norm = torch.zeros(x.shape[0], device=values.device).index_add_(0, rows, values.square()).sqrt()
    values = values / norm.clamp(min=1e-12)[rows]
    return torch.sparse_coo_tensor(x.indices(), values, x.shape, check_invariants=False).coalesce()


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(x)
        return _product(matrix, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        matrix: SparseMatrix = ctx.matrix
        grad_values = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_values = _sampled_product(matrix.csr, grad, ctx.saved_tensors[0])
        if ctx.needs_input_grad[1]:
            grad_x = _product(matrix.transposed, grad)
        return grad_values, grad_x, None


def _product(matrix: SparseMatrix, x: Tensor) -> Tensor:
    """M x for `[C, B]`, or M x[q] for each q of `[Q, C, B]`."""
    if x.dim() == 2 and not x.is_cuda:
        product = x.new_zeros(matrix.shape[0], x.shape[1])
        matrix.add_product(x.contiguous(), product)
        return product
    if x.dim() == 2 or len(x) == 1 or x.is_cuda:
        # One pass over the entries serves all problems: narrow products would leave most of a GPU idle.
        wide = _side_by_side(x)
        product = _add_product(matrix.csr, wide, wide.new_zeros(matrix.shape[0], wide.shape[1]))
        return product if x.dim() == 2 else product.view(-1, len(x), x.shape[2]).transpose(0, 1)
    # One by one on a CPU: the rows that a narrow product gathers stay in the cache.
    products = x.new_zeros(len(x), matrix.shape[0], x.shape[2])
    for out, features in zip(products, x.contiguous(), strict=True):
        _add_product(matrix.csr, features, out)
    return products


def _add_product(matrix: Tensor, x: Tensor, zeros: Tensor) -> Tensor:
    """The product, written into `zeros`: a plain product would write it twice."""
    return torch.addmm(zeros, matrix, x, beta=0, out=zeros)


def _sampled_product(matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Σ_q ⟨left[q, i], right[q, j]⟩ for each entry (i, j) of the matrix, `[E]`."""
    left, right = _side_by_side(left), _side_by_side(right)
    missing = -left.shape[1] % 8
    if missing and not left.is_cuda:
        # Zeros up to the width of a vector register: without them MKL takes ten times as long.
        left, right = pad(left, (0, missing)), pad(right, (0, missing))
    return torch.sparse.sampled_addmm(matrix, left, right.t(), beta=0.0).values()  # type: ignore[no-any-return]  # not typed in torch


def _side_by_side(x: Tensor) -> Tensor:
    """`[Q, N, C]` → `[N, Q·C]`; `[N, C]` stays."""
    return x.contiguous() if x.dim() == 2 else x.transpose(0, 1).reshape(x.shape[1], -1).contiguous()


def _compact(starts: Tensor, indices: Tensor, num_columns: int) -> tuple[Tensor, Tensor]:
    """Both as int32 where they fit: products on a CPU would convert them each time."""
    fits = max(len(starts), len(indices), num_columns) < 2**31
    return (starts.int(), indices.int()) if fits else (starts, indices)


def _csr_tensor(rows: tuple[Tensor, Tensor], values: Tensor, shape: tuple[int, int]) -> Tensor:
    with without_sparse_warnings():
        return torch.sparse_csr_tensor(*rows, values, shape)


def _segment_reduce(values: Tensor, reduction: str, starts: Tensor) -> Tensor:
    # `unsafe` skips a check that would wait for the device.
    return torch.segment_reduce(values, reduction, offsets=starts, axis=0, unsafe=True)


@contextmanager
def without_sparse_warnings() -> Iterator[None]:
    """Suppresses torch's warnings about CSR tensors, and its checks of them, which duplicate positions would fail."""
    with warnings.catch_warnings():
        for notice in ("Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly disabled"):
            warnings.filterwarnings("ignore", message=notice)
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            yield


@njit(parallel=True, fastmath={"contract", "reassoc", "nsz"}, cache=True)
def _add_product_loop(indptr, indices, values, x, out):
    # Four entries at a time: a quarter of the loads and stores of the sum, and half the time of torch's product.
    columns = x.shape[1]
    for i in prange(indptr.size - 1):
        total = out[i]
        e, end = indptr[i], indptr[i + 1]
        while e + 4 <= end:
            a, b, c, d = x[indices[e]], x[indices[e + 1]], x[indices[e + 2]], x[indices[e + 3]]
            s, t, u, v = values[e], values[e + 1], values[e + 2], values[e + 3]
            for k in range(columns):
                total[k] += (s * a[k] + t * b[k]) + (u * c[k] + v * d[k])
            e += 4
        while e < end:
            a, s = x[indices[e]], values[e]
            for k in range(columns):
                total[k] += s * a[k]
            e += 1
