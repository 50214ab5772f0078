"""Node contents as the first layer of a network sees them: a matrix that is only ever multiplied from the right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize as unit_rows
from torch.nn.functional import pad

from lggd.errors import InputError, InputTypeError
from lggd.learning.loops import add_products
from lggd.learning.workspace import Workspace

Array = NDArray[Any]

# Below this share of entries that are not 0, a sparse product beats a dense one.
SPARSE_BELOW = 0.05


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

    def vjp(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
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

    def vjp(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
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
            return side_by_side(self, weight)
        product: Tensor = _Product.apply(self, weight)  # type: ignore[no-untyped-call]
        return product

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, space: Workspace) -> None:
        add_products(*self.by_row, weight.numpy(), bias.numpy(), out.numpy())

    def vjp(self, grad: Tensor, out: Tensor, space: Workspace) -> None:
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
        matrix.vjp(grad, for_weight, Workspace())
        return None, for_weight


def _arrays(matrix: Tensor) -> tuple[Array, Array, Array]:
    return matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy()


def side_by_side(contents: Contents, weight: Tensor) -> Tensor:
    """`[Q, D, M]` → `[Q, N, M]` in one product with all columns: on a GPU, wide ones are faster than many."""
    problems, features, width = weight.shape
    wide = weight.transpose(0, 1).reshape(features, problems * width)
    return contents.times(wide).view(-1, problems, width).transpose(0, 1)


def check_contents(data: Any) -> Tensor:
    """`data.x` as float32, dense or sparse as it is: a row a node, and finite."""
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor):
        raise InputTypeError(
            "data.x",
            "be a tensor of node contents [N, F]",
            type(x).__name__,
            "GGD() works without contents; or use an identity matrix.",
        )
    if x.dim() != 2 or x.shape[0] != data.num_nodes or x.shape[1] == 0:
        raise InputError("data.x", f"have shape [{data.num_nodes}, F], a row a node", list(x.shape))
    if x.dtype.is_complex:
        raise InputTypeError("data.x", "be real numbers", x.dtype)
    x = x.float()
    entries = x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values()  # type: ignore[no-untyped-call]
    if not bool(torch.isfinite(entries).all()):
        raise InputError("data.x", "be finite", "NaN or infinity", "Fill or drop those entries first.")
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


def of_entries(contents: Contents) -> Dense | Sparse:
    """The contents, if they are stored entry by entry, so that some can be dropped."""
    if not isinstance(contents, (Dense, Sparse)):
        raise TypeError(f"Entries can be dropped from contents that are stored, got {type(contents).__name__}.")
    return contents


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
