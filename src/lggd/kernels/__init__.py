"""The one hot operation, the upwind p-norm, and its adjoint: one backend a device, chosen here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

import torch
from torch import Tensor

from lggd.kernels import cpu, reference
from lggd.kernels.field import Field

__all__ = ["Backend", "Field", "backend_for", "idle_columns"]


class Backend(Protocol):
    """What a backend must do; `reference` says precisely what each means."""

    def norm(self, field: Field, f: Tensor) -> Tensor: ...

    def stage(
        self,
        field: Field,
        y: Tensor,
        terms: Sequence[Tensor],
        targets: Sequence[Tensor],
        factors: Sequence[Sequence[float]],
    ) -> None: ...

    def vjp(
        self,
        field: Field,
        y: Tensor,
        terms: Sequence[Tensor],
        coefficients: Sequence[float],
        wants_rho: bool,
        wants_root: bool,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]: ...


def backend_for(device: torch.device) -> Backend:
    """numba on the CPU, Triton on NVIDIA GPUs (it comes with torch there), plain torch everywhere else."""
    if device.type == "cpu":
        return cast(Backend, cpu)
    if device.type == "cuda" and find_spec("triton") is not None:
        return cast(Backend, import_module("lggd.kernels.cuda"))
    return cast(Backend, reference)


def idle_columns(device: torch.device, columns: int) -> int:
    """How many columns to carry along unused, because they fill whole vector registers and cache lines.

    On a CPU 5 to 7 columns are carried as 8, 9 to 15 as 16, and more as a multiple of 8: a third faster, and with
    weights by column twice as fast, for the memory of the idle ones. A GPU loads four numbers at once: twice as fast.
    """
    if device.type == "cuda":
        return -columns % 4 if columns > 2 else 0
    if device.type != "cpu" or columns <= 4:
        return 0
    return -columns % (16 if 8 < columns < 16 else 8)
