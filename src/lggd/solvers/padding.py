"""Idle columns: states carry unused columns so that kernels fill whole vector registers and cache lines."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import pad

from lggd.graph.csr import CSR
from lggd.kernels import Field, idle_columns


@dataclass(frozen=True)
class PaddedState:
    """G groups of K columns each, `[N, G, K]`, as the C columns of a state `[N, C]`, with the field that drives it.

    Where the columns of a group share parameters, every group has idle columns of its own; otherwise idle columns
    follow the last column. Idle columns belong to the boundary where there is one.
    """

    state: Tensor
    field: Field
    groups: int
    columns: int
    width: int  # columns of a group, with its idle ones

    @classmethod
    def build(
        cls,
        csr: CSR,
        p: float,
        start: Tensor,
        rho: Tensor,
        root_weight: Tensor | None,
        boundary_mask: Tensor | None,
        symmetric: bool,
    ) -> PaddedState:
        """All by row: `start` and `boundary_mask` `[N, G, K]`; `rho` and `root_weight` with 1, G or G·K columns."""
        _, groups, columns = start.shape
        parameters = (rho,) if root_weight is None else (rho, root_weight)
        by_group = any(x.shape[1] not in (1, groups * columns) for x in parameters)
        own = idle_columns(start.device, columns) if by_group else 0
        last = 0 if by_group else idle_columns(start.device, groups * columns)

        def flat(values: Tensor, filling: float) -> Tensor:
            return _padded(_padded(values, own, filling).reshape(len(values), -1), last, filling).contiguous()

        def parameter(values: Tensor) -> Tensor:
            return (values if values.shape[1] == 1 else _padded(values, last, 1.0)).contiguous()

        root_weight = None if root_weight is None else parameter(root_weight)
        boundary_mask = None if boundary_mask is None else flat(boundary_mask, True)
        field = Field(csr, p, parameter(rho), root_weight, boundary_mask, symmetric)
        return cls(flat(start, 0.0), field, groups, columns, columns + own)

    def unpad(self, states: Tensor) -> Tensor:
        """States `[…, N, C]` without idle columns, `[…, N, G, K]`."""
        used = states[..., : self.groups * self.width]
        return used.view(*states.shape[:-1], self.groups, self.width)[..., : self.columns]


def _padded(values: Tensor, count: int, filling: float) -> Tensor:
    return pad(values, (0, count), value=filling) if count else values  # padding by nothing would copy
