"""Node features as the first layer of a network uses them: a matrix X that is only ever multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize as normalize_rows
from torch.nn.functional import pad

from lggd.errors import InputError, InputTypeError
from lggd.graph.sparse import SparseMatrix
from lggd.learning.workspace import Workspace
from lggd.validation import check_finite

# Below this fraction of non-zero entries, a sparse product is faster than a dense one.
SPARSE_BELOW = 0.05


class NodeFeatures(Protocol):
    """A matrix X `[N, F]`. `multiply` and `vjp` serve one network on a CPU, without autograd."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def matmul(self, weight: Tensor) -> Tensor:
        """X · weight: `[F, M]` → `[N, M]` or `[Q, F, M]` → `[Q, N, M]`, differentiable in the weight."""

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, workspace: Workspace) -> None:
        """out ← X · weight + bias, from `[F, M]` and `[M]`."""

    def vjp(self, grad: Tensor, out: Tensor, workspace: Workspace) -> None:
        """out ← Xᵀ · grad: the gradient for the weight from that for the product, `[N, M]`."""


@dataclass(frozen=True, eq=False)
class DenseFeatures:
    """X as a dense tensor."""

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
        if weight.dim() == 2:
            return self.x @ weight
        return torch.bmm(self.x.expand(len(weight), -1, -1), weight)

    def matmul_each(self, values: Tensor, weight: Tensor) -> Tensor:
        """The product of each network, with separate entries `[Q, E]`: `[Q, F, M]` → `[Q, N, M]`."""
        return torch.bmm(values.view(-1, *self.x.shape), weight)

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, workspace: Workspace) -> None:
        torch.addmm(bias, self.x, weight, out=out)

    def vjp(self, grad: Tensor, out: Tensor, workspace: Workspace) -> None:
        torch.mm(self.x.t(), grad, out=out)


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """X as a sparse matrix."""

    matrix: SparseMatrix

    @property
    def shape(self) -> tuple[int, ...]:
        return self.matrix.shape

    @property
    def values(self) -> Tensor:
        """The entries that input dropout applies to, `[E]`: zeros stay zeros."""
        return self.matrix.values

    def with_values(self, values: Tensor) -> SparseFeatures:
        """X with other entries `[E]`."""
        return SparseFeatures(self.matrix.with_values(values))

    def scale_rows(self, factor: Tensor) -> SparseFeatures:
        """X with each row multiplied by its factor, `[N]`."""
        return SparseFeatures(self.matrix.scale_rows(factor))

    def matmul(self, weight: Tensor) -> Tensor:
        return self.matrix(weight) if weight.dim() == 2 else matmul_side_by_side(self, weight)

    def matmul_each(self, values: Tensor, weight: Tensor) -> Tensor:
        """The product of each network, with separate entries `[Q, E]`: `[Q, F, M]` → `[Q, N, M]`."""
        return torch.stack([self.matrix.with_values(entries)(w) for entries, w in zip(values, weight, strict=True)])

    def multiply(self, weight: Tensor, bias: Tensor, out: Tensor, workspace: Workspace) -> None:
        self.matrix.multiply(weight, bias, out)

    def vjp(self, grad: Tensor, out: Tensor, workspace: Workspace) -> None:
        self.matrix.multiply_transposed(grad, out)


StoredFeatures = DenseFeatures | SparseFeatures


def matmul_side_by_side(features: NodeFeatures, weight: Tensor) -> Tensor:
    """`[Q, F, M]` → `[Q, N, M]` by one wide product: faster than many narrow ones on a GPU."""
    problems, num_features, width = weight.shape
    wide = weight.transpose(0, 1).reshape(num_features, problems * width)
    return features.matmul(wide).view(-1, problems, width).transpose(0, 1)


def check_node_features(data: Any) -> Tensor:
    """Returns `data.x` as float32, dense or sparse, if it is finite and has one row per node."""
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor):
        raise InputTypeError(
            "data.x",
            "be a tensor of node features [N, F]",
            type(x).__name__,
            "GGD() works without node features; or use an identity matrix.",
        )
    if x.dim() != 2 or x.shape[0] != data.num_nodes or x.shape[1] == 0:
        raise InputError("data.x", f"have shape [{data.num_nodes}, F], one row per node", list(x.shape))
    if x.dtype.is_complex:
        raise InputTypeError("data.x", "be real numbers", x.dtype)
    x = x.float()
    check_finite("data.x", x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values())  # type: ignore[no-untyped-call]
    return x


def read_node_features(data: Any, normalize: bool, zeros: int = 0) -> StoredFeatures:
    """`data.x`, stored as sparse where most entries are 0; `normalize` scales rows to unit length.

    `zeros` appends that many columns of 0.
    """
    x = check_node_features(data)
    if x.layout == torch.strided and int(x.count_nonzero()) >= SPARSE_BELOW * x.numel():
        if normalize:
            x = normalize_rows(x)
        return DenseFeatures(pad(x, (0, zeros)))
    coo = x.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
    (rows, columns), values = coo.indices(), coo.values()
    if normalize:
        squares = torch.zeros(x.shape[0], device=values.device).index_add_(0, rows, values.square())
        values = values / squares.sqrt().clamp(min=torch.finfo(x.dtype).tiny)[rows]
    return SparseFeatures(SparseMatrix.from_entries(rows, columns, values, (x.shape[0], x.shape[1] + zeros)))


def stored(features: NodeFeatures) -> StoredFeatures:
    """Returns the features if they are stored entry by entry, so that entries can be dropped."""
    if not isinstance(features, StoredFeatures):
        raise TypeError(f"Input dropout needs features that are stored, got {type(features).__name__}.")
    return features
