"""The upwind p-norm and its adjoint on a GPU: rows read their neighbours, fused with the update of a stage.

Nothing here synchronizes with the device except the first use of a graph, so a CUDA graph can capture all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, wraps
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from torch import Tensor

from lggd._kernels import tiles
from lggd._kernels.loops import LARGEST, POWERS, REDUCTIONS, SUM
from lggd._kernels.reference import Gradients
from lggd.equation import Field
from lggd.errors import InputError
from lggd.graph.csr import CSR

Operation = TypeVar("Operation", bound=Callable[..., Any])

# A row is long above this many neighbours, and above this many times the mean: it gets a tile of its own.
LONG_ROW = 128
LONGER_THAN_MEAN = 4
# Mean number of neighbours above which graphs with long rows get tiles for long rows.
SKEWED = 8
# Rows are sorted by length within windows of this size: rows that are close in memory stay close.
WINDOW = 4096
# Maximum number of terms of a weighted sum; schemes have at most four stages.
MAX_TERMS = 4


def _on_device_of_state(operation: Operation) -> Operation:
    """Triton launches on the current device, which need not be that of the state."""

    @wraps(operation)
    def run(field: Field, f: Tensor, *rest: Any) -> Any:
        with torch.cuda.device_of(f):  # type: ignore[no-untyped-call]  # not typed in torch
            return operation(field, f, *rest)

    return cast(Operation, run)


@_on_device_of_state
def norm(field: Field, f: Tensor) -> Tensor:
    """‖∇⁻_w f‖_p, `[N, C]`."""
    out = torch.empty_like(f)
    _evaluate(field, f, [f], [out], ())
    return out


@_on_device_of_state
def stage(
    field: Field, y: Tensor, terms: Sequence[Tensor], targets: Sequence[Tensor], factors: Sequence[Sequence[float]]
) -> None:
    """targets[t] ← Σ_r factors[t][r] · terms[r] + factors[t][-1] · F(y). Targets may be terms, but not y."""
    _evaluate(field, y, terms, targets, tuple(x for row in factors for x in row))


@_on_device_of_state
def vjp(
    field: Field, y: Tensor, terms: Sequence[Tensor], coefficients: Sequence[float], needs_rho: bool, needs_root: bool
) -> Gradients:
    """κᵀ ∂F/∂(y, ρ, √w) at y, with the cotangent κ = Σ_r coefficients[r] · terms[r]."""
    reduction, numbers = REDUCTIONS.get(field.p, POWERS), _numbers(field.p, (), y.dtype, y.device)
    csr, (nodes, width) = field.csr, y.shape
    if csr.mapped is not None:
        remedy = "Evolve without gradients, or use a graph that fits into its memory."
        raise InputError("graph", "be on the device for gradients", "a graph that is read from disk", remedy)
    downstream = _scaled_cotangent(field, terms, coefficients)
    # Arrays that a reduction does not need are never read: any tensor can be passed instead.
    norms, argmax = y, csr.indices
    if reduction == LARGEST:
        norms, argmax = _largest(field, y)
    elif reduction != SUM or needs_rho:
        norms = norm(field, y)
    grad_y = torch.empty_like(y)
    root, groups, weights = _weights(field)
    root_t = root if field.root_weight is None else field.root_weight_by_column
    transposed = csr.transposed
    if nodes and width:
        tile, (span, constant) = _tile(csr, width, groups), _span(width, groups)
        tiles.vjp_kernel[tile.grid](
            *tile.schedule, y, downstream, norms, argmax, grad_y,
            csr.indptr, csr.indices, root, transposed.indptr, transposed.indices, root_t, numbers,
            nodes, width // tile.vector, groups, span,
            reduction, weights, field.symmetric, csr.symmetric, tile.index, tile.vector, constant, **tile.sizes,
        )  # fmt: skip
    grad_root, rho = _root_vjp(field, y, downstream, norms, argmax) if needs_root else None, field.rho
    grad_rho = downstream.mul_(norms).view(nodes, rho.shape[1], -1).sum(2).div_(rho) if needs_rho else None
    return grad_y, grad_rho, grad_root


def _evaluate(
    field: Field, y: Tensor, terms: Sequence[Tensor], outputs: Sequence[Tensor], factors: tuple[float, ...]
) -> None:
    """The sums of a stage; without factors, the norm."""
    csr, (nodes, width) = field.csr, y.shape
    if not nodes or not width:
        return
    if csr.mapped is None:
        tile = _tile(csr, width, 1 if field.root_weight is None else field.root_weight.shape[1])
        _launch(field, tile, csr.indptr, csr.indices, y, terms, outputs, factors)
        return
    for first, last in csr.blocks():
        begin, end = int(csr.indptr[first]), int(csr.indptr[last])
        block = replace(field, root_weight=_copied(field.root_weight, begin, end, y))
        tile = _block_tile(first, last, end - begin, block, width)
        # Positions of edges count from the beginning of the block.
        _launch(block, tile, csr.indptr - begin, _copied(csr.indices, begin, end, y), y, terms, outputs, factors)


def _launch(
    field: Field, tile: Tile, indptr: Tensor, indices: Any, y: Tensor, terms: Sequence[Tensor],
    outputs: Sequence[Tensor], factors: tuple[float, ...],
) -> None:  # fmt: skip
    """Evaluates the rows of a tile's schedule."""
    root, groups, weights = _weights(field)
    rho_groups, width = field.rho.shape[1], y.shape[1]
    (span, constant), (rho_span, rho_constant) = _span(width, groups), _span(width, rho_groups)
    tiles.evaluate_kernel[tile.grid](
        *tile.schedule, y, *_three(terms), *_three(outputs), field.rho,
        y if field.boundary_mask is None else field.boundary_mask.view(torch.uint8),
        indptr, indices, root, _numbers(field.p, factors, y.dtype, y.device),
        len(tile.schedule.order), width // tile.vector, groups, span, rho_groups, rho_span,
        REDUCTIONS.get(field.p, POWERS), weights, len(terms), len(outputs) if factors else 0,
        field.boundary_mask is not None,
        tile.index, tile.vector, constant, rho_constant, **tile.sizes,
    )  # fmt: skip


def _copied(values: Tensor | None, begin: int, end: int, like: Tensor) -> Tensor | None:
    """A part of an array that is mapped into the memory of the host, on the device."""
    if values is None:
        return None
    part = values[begin:end]
    return part.pin_memory().to(like.device, non_blocking=True) if like.is_cuda else part


def _block_tile(first: int, last: int, edges: int, field: Field, width: int) -> Tile:
    """The rows from `first` to before `last` in their order: a copy takes longer than what another order would save."""
    order = torch.arange(first, last, dtype=torch.int32, device=field.rho.device)
    sizes = _sizes(triton.next_power_of_2(width), edges / max(1, last - first), has_long=False)
    grid = (triton.cdiv(last - first, sizes["ROWS"]), triton.cdiv(width, sizes["COLUMNS"]))
    return Tile(grid, Schedule(order, 0), math.gcd(width, 4), tl.int64, sizes)


def _three(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Always three tensors, as kernels expect; those that are not needed are not accessed."""
    return [*tensors, *[tensors[0]] * (3 - len(tensors))]


def _scaled_cotangent(field: Field, terms: Sequence[Tensor], coefficients: Sequence[float]) -> Tensor:
    """−ρ Σ_r coefficients[r] · terms[r] off the boundary, 0 on it."""
    first, groups = terms[0], field.rho.shape[1]
    out = torch.empty_like(first)
    block = 1024
    if out.numel():
        tiles.cotangent_kernel[(triton.cdiv(out.numel(), block),)](
            *terms, *[first] * (MAX_TERMS - len(terms)), out, field.rho,
            first if field.boundary_mask is None else field.boundary_mask.view(torch.uint8),
            _numbers(field.p, tuple(coefficients), first.dtype, first.device),
            out.numel(), first.shape[1], groups, first.shape[1] // groups,
            len(terms), field.boundary_mask is not None, block,
        )  # fmt: skip
    return out


def _largest(field: Field, f: Tensor) -> tuple[Tensor, Tensor]:
    """The largest upwind differences `[N, C]` and their neighbours, int32 `[N, C]`."""
    norms, argmax = torch.empty_like(f), torch.empty(f.shape, dtype=torch.int32, device=f.device)
    nodes, width = f.shape
    root, groups, weights = _weights(field)
    block = min(128, triton.next_power_of_2(width))
    if f.numel():
        tiles.largest_kernel[(nodes, triton.cdiv(width, block))](
            f, norms, argmax, field.csr.indptr, field.csr.indices, root, width, groups, width // groups, weights, block
        )
    return norms, argmax


def _root_vjp(field: Field, y: Tensor, downstream: Tensor, norms: Tensor, argmax: Tensor) -> Tensor:
    csr, width = field.csr, y.shape[1]
    root, groups, weights = _weights(field)
    grad = torch.empty(csr.num_edges, groups, dtype=y.dtype, device=y.device)
    span = width // groups
    columns = min(64, triton.next_power_of_2(span))
    edges = 512 // columns
    if grad.numel():
        tiles.root_kernel[(triton.cdiv(csr.num_edges, edges), groups)](
            y, downstream, norms, argmax, csr.rows, csr.indices, root,
            _numbers(field.p, (), y.dtype, y.device), grad, csr.num_edges, width, groups, span,
            REDUCTIONS.get(field.p, POWERS), weights, columns, edges,
        )  # fmt: skip
    return grad


def _weights(field: Field) -> tuple[Tensor, int, int]:
    """√w, its groups, and how it is stored."""
    root = field.root_weight
    if root is None:
        return field.rho, 1, tiles.UNIT.value
    return root.contiguous(), root.shape[1], tiles.SHARED.value if root.shape[1] == 1 else tiles.GROUPED.value


@cache
def _numbers(p: float, coefficients: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """p and the factors of a sum, on the device. Cached forever, because CUDA graphs keep reading them."""
    return torch.tensor((p, *coefficients), dtype=dtype, device=device)


class Schedule(NamedTuple):
    """The order in which programs process rows, int32 `[N]`, and the number of long rows at its beginning."""

    order: Tensor
    num_long: int


class Tile(NamedTuple):
    """How work is split: the grid, the order of rows, numbers per load, the index type, and tile sizes."""

    grid: tuple[int, int]
    schedule: Schedule
    vector: int
    index: tl.dtype
    sizes: dict[str, Any]


_schedules: WeakKeyDictionary[CSR, Schedule] = WeakKeyDictionary()


def _schedule(csr: CSR) -> Schedule:
    """Long rows first, the longest at the very beginning; then, window by window, rows of decreasing length.

    The rows of a tile wait for the longest of them, so rows of equal length belong together.
    """
    if csr not in _schedules:
        length = csr.indptr[1:] - csr.indptr[:-1]
        is_long = length > max(LONG_ROW, LONGER_THAN_MEAN * csr.num_edges // max(1, csr.num_nodes))
        window = torch.arange(csr.num_nodes, device=length.device) // WINDOW
        # Lengths are below 2³², so that one number encodes both.
        order = (torch.where(is_long, -1, window) * 2**32 - length).argsort(stable=True)
        _schedules[csr] = Schedule(order.to(torch.int32), int(is_long.sum()))
    return _schedules[csr]


_tiles: WeakKeyDictionary[CSR, dict[tuple[int, int], Tile]] = WeakKeyDictionary()


def _tile(csr: CSR, width: int, groups: int) -> Tile:
    """Cached: a launch from Python must not take longer than the work itself."""
    cached = _tiles.setdefault(csr, {})
    if (width, groups) not in cached:
        schedule = _schedule(csr)
        sizes = _sizes(triton.next_power_of_2(width), csr.num_edges / csr.num_nodes, schedule.num_long > 0)
        short = triton.cdiv(csr.num_nodes - schedule.num_long, sizes["ROWS"])
        grid = (schedule.num_long + short, triton.cdiv(width, sizes["COLUMNS"]))
        # 64-bit index arithmetic takes twice the time.
        large = max(csr.num_nodes * width, csr.num_edges * groups) >= 2**31
        cached[width, groups] = Tile(grid, schedule, math.gcd(width, 4), tl.int64 if large else tl.int32, sizes)
    return cached[width, groups]


def _sizes(width: int, mean: float, has_long: bool) -> dict[str, Any]:
    """Tile sizes, the fastest as measured on an H200 (docs/performance.md)."""
    if has_long and mean > SKEWED:
        # Many warps, for the long rows: the longest must not finish last.
        columns = min(64, width)
        warps = max(1, columns // 8)
        return {"COLUMNS": columns, "ROWS": 16, "EDGES": 2, "LONG_EDGES": 128, "num_warps": warps}
    columns = min(32, width)
    # Where no row is long, a large tile for long ones would only waste registers.
    long_edges = 32 if has_long else 4
    return {"COLUMNS": columns, "ROWS": 128 // columns, "EDGES": 4, "LONG_EDGES": long_edges, "num_warps": 1}


def _span(width: int, groups: int) -> tuple[int, int]:
    """The columns of a group, as a number times a constant: a constant span lets adjacent columns share one load."""
    return (width, 1) if groups == 1 else (1, width // groups)
