"""The upwind p-norm ‖∇⁻f‖_p and its adjoint, the hot path of all solvers: one backend per device, chosen here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

import torch
from torch import Tensor

from lggd.kernels import cpu, reference
from lggd.kernels.field import Field, Gradients

__all__ = ["Backend", "Field", "backend_for", "idle_columns"]


class Backend(Protocol):
    """The operations of a backend; `reference` defines them."""

    def norm(self, field: Field, f: Tensor) -> Tensor: ...

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
        return cast(Backend, cpu)
    if device.type == "cuda" and find_spec("triton") is not None:
        return cast(Backend, import_module("lggd.kernels.cuda"))
    return cast(Backend, reference)


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
