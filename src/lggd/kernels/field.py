"""The right-hand side of the evolution and its parameters, in the layout that kernels read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from lggd.equation.operators import p_norm
from lggd.graph.csr import CSR

# For the state, and where required for ρ and √w.
Gradients = tuple[Tensor, Tensor | None, Tensor | None]


@dataclass(frozen=True, eq=False)
class Field:
    """F(f) = 1 − ρ‖∇⁻_w f‖_p off the boundary and 0 on it, for C columns at once.

    `rho` is `[N, G]` and `root_weight` (√w) is `[E, G]` or None for unit weights. G divides C: the columns form G equal
    groups of adjacent ones, and each group has its own parameters. `boundary_mask`, `[N, C]` or None, is True on the
    boundary. `symmetric` promises that √w is the same in both directions of an edge. All follow the rows of `csr`.
    """

    csr: CSR
    p: float
    rho: Tensor
    root_weight: Tensor | None = None
    boundary_mask: Tensor | None = None
    symmetric: bool = True

    @cached_property
    def root_weight_by_column(self) -> Tensor | None:
        """√w along the transposed rows, which the adjoint reads."""
        if self.root_weight is None or self.symmetric:
            return self.root_weight
        return self.root_weight.index_select(0, self.csr.transposed.edge.to(torch.int64))

    def detached(self) -> Field:
        """The same field, detached from autograd."""
        root = None if self.root_weight is None else self.root_weight.detach()
        return replace(self, rho=self.rho.detach(), root_weight=root)

    @cached_property
    def cfl_bound(self) -> float:
        """The largest `cfl_number`; its product with the step must stay below a scheme's limits. 0 without edges."""
        return float(self.cfl_number().max())

    def cfl_number(self) -> Tensor:
        """ρ(i)‖√w(i,·)‖_p, `[N, G]`: how much F(i) can change with f (Hölder)."""
        rho = self.rho.detach()
        if self.root_weight is None:
            degree = (self.csr.indptr[1:] - self.csr.indptr[:-1]).to(rho.dtype).unsqueeze(1)
            return rho * torch.where(degree > 0, degree ** (1 / self.p), degree)
        reach = self._reach(self.root_weight.detach())
        groups = max(rho.shape[1], reach.shape[1])
        return rho.repeat_interleave(groups // rho.shape[1], 1) * reach.repeat_interleave(groups // reach.shape[1], 1)

    def _reach(self, root: Tensor) -> Tensor:
        """‖√w(i,·)‖_p, `[N, G]`."""
        csr = self.csr
        if csr.mapped is None:
            return p_norm(csr, root, self.p)
        ends = ((rows, int(csr.indptr[rows[0]]), int(csr.indptr[rows[1]])) for rows in csr.blocks())
        device = csr.indptr.device
        return torch.cat([p_norm(csr.part(*rows), root[begin:end].to(device), self.p) for rows, begin, end in ends])
