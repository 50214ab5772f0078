"""The upwind p-norm and its adjoint on CPU cores: no temporaries of the size of the edges, bitwise reproducible.

Each row is written by one thread and summed in a fixed order, so results do not depend on the number of threads.
Loops are compiled once per precision: p is a float and arrays are contiguous in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd._kernels.loops import KERNELS, LARGEST, POWERS, REDUCTIONS, SUM, find_largest
from lggd._kernels.reference import Gradients
from lggd.equation import Field
from lggd.graph.csr import run_parallel_if_worthwhile

Array = NDArray[Any]
Operation = TypeVar("Operation", bound=Callable[..., Any])


def _run_parallel_if_worthwhile(operation: Operation) -> Operation:
    """Runs an operation on one thread where edges × columns is small."""

    @wraps(operation)
    def run(field: Field, f: Tensor, *rest: Any) -> Any:
        return run_parallel_if_worthwhile(field.csr.num_edges * f.shape[1], operation, field, f, *rest)

    return cast(Operation, run)


@_run_parallel_if_worthwhile
def norm(field: Field, f: Tensor) -> Tensor:
    """‖∇⁻_w f‖_p, `[N, C]`."""
    out = torch.empty_like(f)
    loop, arrays = KERNELS[REDUCTIONS.get(field.p, POWERS)].norm, (*_rows(field), f.numpy(), out.numpy())
    for first, last in field.csr.blocks():
        loop(float(field.p), first, last, *arrays)
    return out


@_run_parallel_if_worthwhile
def stage(
    field: Field, y: Tensor, terms: Sequence[Tensor], targets: Sequence[Tensor], factors: Sequence[Sequence[float]]
) -> None:
    """targets[t] ← Σ_r factors[t][r] · terms[r] + factors[t][-1] · F(y). Targets may be terms, but not y."""
    boundary_mask = _NO_BOUNDARY if field.boundary_mask is None else field.boundary_mask.numpy()
    loop = KERNELS[REDUCTIONS.get(field.p, POWERS)].stage
    arrays = (
        *_rows(field), field.rho.numpy(), boundary_mask, y.numpy(),
        _three(terms), _three(targets), np.array(factors, y.numpy().dtype),
    )  # fmt: skip
    for first, last in field.csr.blocks():
        loop(float(field.p), first, last, *arrays)


@_run_parallel_if_worthwhile
def vjp(
    field: Field, y: Tensor, terms: Sequence[Tensor], coefficients: Sequence[float], needs_rho: bool, needs_root: bool
) -> Gradients:
    """κᵀ ∂F/∂(y, ρ, √w) at y, with the cotangent κ = Σ_r coefficients[r] · terms[r]."""
    reduction, rho, (nodes, columns) = REDUCTIONS.get(field.p, POWERS), field.rho, y.shape
    by_group = (nodes, rho.shape[1], columns // rho.shape[1])
    cotangent = terms[0] * coefficients[0]
    for term, coefficient in zip(terms[1:], coefficients[1:], strict=True):
        cotangent.add_(term, alpha=coefficient)
    downstream = cotangent.view(by_group).mul_(-rho.unsqueeze(2)).view(nodes, columns)
    if field.boundary_mask is not None:
        downstream.masked_fill_(field.boundary_mask, 0)

    shared = field.root_weight is None or field.root_weight.shape[1] == 1
    one_pass = reduction == SUM and shared and field.csr.symmetric and field.symmetric and not needs_root
    # Arrays that a reduction does not need have no columns: no memory, and the same compiled kernel.
    norms, argmax = y.new_empty(nodes, 0), torch.empty(nodes, 0, dtype=torch.int32)
    if needs_rho or reduction != SUM:
        if reduction == LARGEST:
            norms = torch.empty_like(y)
            argmax = torch.empty(y.shape, dtype=torch.int32)
            for first, last in field.csr.blocks():
                find_largest(first, last, *_rows(field), y.numpy(), norms.numpy(), argmax.numpy())
        else:
            norms = norm(field, y)
    grad_root = y.new_empty(0, 0)
    if needs_root:
        root_groups = 1 if field.root_weight is None else field.root_weight.shape[1]
        grad_root = torch.empty(field.csr.num_edges, root_groups, dtype=y.dtype)
    grad_y = torch.empty_like(y)
    arrays = (
        *_rows(field), *_columns(field),
        y.numpy(), downstream.numpy(), norms.numpy(), argmax.numpy(), grad_y.numpy(), grad_root.numpy(),
        one_pass, field.csr.symmetric,
    )  # fmt: skip
    for first, last in field.csr.blocks():
        KERNELS[reduction].vjp(float(field.p), first, last, *arrays)
    grad_rho = downstream.mul_(norms).reshape(by_group).sum(2).div_(rho) if needs_rho else None
    return grad_y, grad_rho, grad_root if needs_root else None


def _three(tensors: Sequence[Tensor]) -> tuple[Array, ...]:
    """Always three arrays, for one compiled kernel; those without factors are not accessed."""
    arrays = [tensor.numpy() for tensor in tensors]
    return tuple(arrays + arrays[:1] * (3 - len(arrays)))


_NO_BOUNDARY = np.empty((0, 0), np.bool_)
_UNIT = {dtype: torch.ones((1, 1), dtype=dtype).numpy() for dtype in (torch.float32, torch.float64)}


def _rows(field: Field) -> tuple[Array, Array, Array, int]:
    """Row pointers, neighbours, √w `[E, G]` and the stride of its rows."""
    # Unit weights are a single 1 read with stride 0: no memory, no bandwidth, and the same compiled kernel.
    root = (_UNIT[field.rho.dtype], 0) if field.root_weight is None else (field.root_weight.contiguous().numpy(), 1)
    return field.csr.indptr.numpy(), field.csr.indices.numpy(), *root


def _columns(field: Field) -> tuple[Array, Array, Array]:
    """The rows of the transposed graph."""
    transposed, root = field.csr.transposed, field.root_weight_by_column
    by_column = _UNIT[field.rho.dtype] if root is None else root.contiguous().numpy()
    return transposed.indptr.numpy(), transposed.indices.numpy(), by_column
