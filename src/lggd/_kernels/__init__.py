"""The upwind p-norm ‖∇⁻f‖_p and its adjoint, the hot path of all solvers: one backend per device, chosen here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd._kernels import cpu, reference
from lggd._kernels.reference import Gradients
from lggd.equation import Field
from lggd.graph.csr import CSR

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

__all__ = ["Backend", "PaddedState", "backend_for", "idle_columns", "largest_residual"]


class Backend(Protocol):
    """The operations of a backend; `reference` defines them."""

    def norm(self, field: Field, f: Float[Tensor, "n c"]) -> Float[Tensor, "n c"]: ...

    def stage(
        self, field: Field, y: Tensor, terms: Sequence[Tensor], targets: Sequence[Tensor],
        factors: Sequence[Sequence[float]],
    ) -> None: ...  # fmt: skip

    def vjp(
        self, field: Field, y: Tensor, terms: Sequence[Tensor], coefficients: Sequence[float],
        needs_rho: bool, needs_root: bool,
    ) -> Gradients: ...  # fmt: skip


def backend_for(device: torch.device) -> Backend:
    """numba on the CPU, Triton on NVIDIA GPUs (torch ships it there), plain torch everywhere else."""
    if device.type == "cpu":
        return cpu
    if device.type == "cuda" and find_spec("triton") is not None:
        from lggd._kernels import cuda

        return cuda
    return reference


def largest_residual(field: Field, f: Float[Tensor, "n c"], free: Bool[Tensor, "n k"]) -> float:
    """max |1 − ρ‖∇⁻f‖_p| where `free` `[N, K]` is True, in the first K columns of f; 0 if it is nowhere."""
    off = 1 - field.rho.detach() * backend_for(f.device).norm(field.detached(), f)
    return float(off.abs()[:, : free.shape[1]].masked_fill(~free, 0).max())


def idle_columns(device: torch.device, columns: int) -> int:
    """Number of unused columns to add, so that columns fill whole vector registers and cache lines.

    On a CPU 5 to 7 columns become 8, 9 to 15 become 16, and more a multiple of 8: a third faster, and twice as fast
    with weights by column, at the cost of their memory. A GPU loads four numbers at once: twice as fast.
    """
    if device.type == "cuda":
        return -columns % 4 if columns > 2 else 0
    if device.type != "cpu" or columns <= 4:
        return 0
    return -columns % (16 if 8 < columns < 16 else 8)


@dataclass(frozen=True)
class PaddedState:
    """G groups of K columns each, `[N, G, K]`, as the C columns of a state `[N, C]`, with the field that drives it.

    Where the columns of a group share parameters, every group has idle columns of its own; otherwise idle columns
    follow the last column. Idle columns belong to the boundary where there is one.
    """

    state: Float[Tensor, "n c"]
    field: Field
    groups: int
    columns: int
    width: int  # columns of a group, with its idle ones

    @classmethod
    def build(
        cls, csr: CSR, p: float, start: Float[Tensor, "m g k"], rho: Float[Tensor, "n r"],
        root_weight: Float[Tensor, "e w"] | None, boundary_mask: Bool[Tensor, "n g k"] | None, symmetric: bool,
    ) -> PaddedState:  # fmt: skip
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

    def unpad(self, states: Float[Tensor, "*t n c"]) -> Float[Tensor, "*t n g k"]:
        """States `[…, N, C]` without idle columns, `[…, N, G, K]`."""
        used = states[..., : self.groups * self.width]
        return used.view(*states.shape[:-1], self.groups, self.width)[..., : self.columns]


def _padded(values: Tensor, count: int, filling: float) -> Tensor:
    return pad(values, (0, count), value=filling) if count else values  # padding by nothing would copy
