"""Products with the adjacency of a graph whose edges may be on disk: no entry of the matrix is ever stored."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numba import njit, prange
from torch import Tensor

from lggd.graph.csr import CSR, run_parallel_if_worthwhile


@dataclass(frozen=True, eq=False)
class StreamedMatrix:
    """M = factor · diag(left) (A + diag(loops)) diag(right), for weights A of `csr`; all diagonals are float32 `[N]`.

    `matrix(x)` is the product M x, computed block by block of rows, without autograd. Where there are rows for only the
    first N of C nodes, `right` is `[C]`, and `add_product` takes x `[C, B]`.
    """

    csr: CSR
    left: Tensor
    right: Tensor
    loops: Tensor
    factor: float = 1.0

    @classmethod
    def normalized_adjacency(cls, csr: CSR, self_loops: bool = True, degree: Tensor | None = None) -> StreamedMatrix:
        """Â = D̃^-½ (A + I) D̃^-½ as `lggd.graph.sparse.normalized_adjacency`, or without `self_loops` D^-½ A D^-½.

        `degree` is that of every column, if the rows of some are missing.
        """
        degree = _row_sums(csr, power=1) if degree is None else degree.double()
        root = (degree + float(self_loops)).rsqrt().float()
        root.masked_fill_(root == torch.inf, 0)
        return cls(csr, root[: csr.num_nodes], root, torch.full((csr.num_nodes,), float(self_loops)))

    @classmethod
    def unit_rows(cls, csr: CSR) -> StreamedMatrix:
        """The adjacency with rows of unit length; A must be symmetric."""
        length = _row_sums(csr, power=2).sqrt().clamp(min=1e-12).float()
        return cls(csr, 1 / length, torch.ones_like(length), torch.zeros_like(length))

    def scaled(self, factor: float) -> StreamedMatrix:
        """The matrix times a number."""
        return replace(self, factor=factor * self.factor)

    @property
    def transposed(self) -> StreamedMatrix:
        """The transpose, for a symmetric A."""
        return replace(self, left=self.right, right=self.left)

    def __call__(self, x: Tensor) -> Tensor:
        """M x for `[N, B]`."""
        out = torch.zeros_like(x)
        self.add_product(x, out)
        return out

    def add_product(self, x: Tensor, out: Tensor) -> None:
        """out ← out + M x for `[N, B]`, in place."""
        csr = self.csr
        weight = np.ones(1, np.float32) if csr.weight is None else csr.weight.numpy()
        arrays = (csr.indptr.numpy(), csr.indices.numpy(), weight, int(csr.weight is not None))
        diagonals = (self.left.numpy(), self.right.numpy(), self.loops.numpy())
        scale = x.numpy().dtype.type(self.factor)
        for first, last in csr.blocks():
            work = int(csr.indptr[last] - csr.indptr[first]) * x.shape[1]
            run_parallel_if_worthwhile(
                work, _add_product, first, last, *arrays, *diagonals, scale, x.numpy(), out.numpy()
            )


def _row_sums(csr: CSR, power: int) -> Tensor:
    """Σ_j w(i, j)^power of each row, float64 `[N]`."""
    if csr.weight is None:
        return csr.indptr.diff().double()
    sums = []
    for first, last in csr.blocks():
        part = csr.part(first, last)
        weight = torch.ones(0, dtype=torch.float64) if part.weight is None else part.weight.double()
        sums.append(torch.segment_reduce(weight**power, "sum", offsets=part.indptr, initial=0))
    return torch.cat(sums)


@njit(parallel=True, fastmath={"contract", "reassoc", "nsz"}, cache=True)
def _add_product(first, last, indptr, indices, weight, stride, left, right, loops, scale, x, out):
    columns = x.shape[1]
    for block in prange((last - first + 63) // 64):
        total = np.empty(columns, x.dtype)
        for i in range(first + 64 * block, min(last, first + 64 * (block + 1))):
            own = loops[i] * right[i]
            here = x[i]
            for k in range(columns):
                total[k] = own * here[k]
            e, end = indptr[i], indptr[i + 1]
            # Four entries at a time: a quarter of the loads and stores of the sum.
            while e + 4 <= end:
                h, j, m, n = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
                a, b, c, d = x[h], x[j], x[m], x[n]
                s, t = weight[e * stride] * right[h], weight[(e + 1) * stride] * right[j]
                u, v = weight[(e + 2) * stride] * right[m], weight[(e + 3) * stride] * right[n]
                for k in range(columns):
                    total[k] += (s * a[k] + t * b[k]) + (u * c[k] + v * d[k])
                e += 4
            while e < end:
                a, s = x[indices[e]], weight[e * stride] * right[indices[e]]
                for k in range(columns):
                    total[k] += s * a[k]
                e += 1
            target, r = out[i], scale * left[i]
            for k in range(columns):
                target[k] += r * total[k]
