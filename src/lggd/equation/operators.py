"""The paper's operators in plain torch: the reference for every kernel and solver, not optimised for speed.

Each takes one function f `[N]` or several `[N, C]`; edge values are `[E]` or `[E, C]` along `Graph.edge_index`.
"""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.graph.csr import CSR


def check_p(p: float) -> float:
    """Returns the exponent as a float if it lies in [1, ∞]."""
    if isinstance(p, bool) or not isinstance(p, Real):
        raise InputTypeError("p", "be a number in [1, inf]", repr(p), "Use p=math.inf for shortest paths.")
    if not p >= 1:
        raise InputError("p", "lie in [1, inf]", p, "Use {p} for shortest paths.", hints={"p": "p=math.inf"})
    return float(p)


def difference(graph: Graph, f: Tensor) -> Tensor:
    """(d_w f)(i, j) = √w(i, j) · (f(j) − f(i)), Eq. (1)."""
    csr = graph.csr
    rise = f[csr.indices.long()] - f[csr.rows]
    if csr.weight is None:
        return rise
    root = csr.weight.to(f.dtype).sqrt()
    return (root if f.dim() == 1 else root.unsqueeze(1)) * rise


def upwind_difference(graph: Graph, f: Tensor) -> Tensor:
    """(d⁻_w f)(i, j) = √w(i, j) · max(f(i) − f(j), 0), Eq. (4)."""
    return (-difference(graph, f)).clamp(min=0)


def upwind_gradient_norm(graph: Graph, f: Tensor, p: float) -> Tensor:
    """‖∇⁻_w f(i)‖_p, Eq. (6), with the shape of f: the slope down which a front arrived."""
    return p_norm(graph.csr, upwind_difference(graph, f), p)


def residual(graph: Graph, f: Tensor, p: float, potential: Tensor | float = 1.0) -> Tensor:
    """ρ(i)‖∇⁻_w f(i)‖_p − 1, Eq. (7): 0 where f solves the equation, NaN where f is infinite.

    The boundary, where the equation need not hold, is included.
    """
    return (potential * upwind_gradient_norm(graph, f, p) - 1).masked_fill(torch.isinf(f), math.nan)


def p_norm(csr: CSR, nonnegative: Tensor, p: float) -> Tensor:
    """(Σ_j a(i, j)^p)^(1/p) over the edges of each row; the maximum for p = ∞; 0 for a row without edges."""
    check_p(p)
    if math.isinf(p):
        return _reduce(csr, nonnegative, "max")
    if p == 1:
        return _reduce(csr, nonnegative, "sum")
    # Dividing by the largest entry keeps powers representable for any p; it cancels in exact arithmetic.
    largest = _reduce(csr, nonnegative.detach(), "max")
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    total = _reduce(csr, (nonnegative / scale[csr.rows]) ** p, "sum")
    positive = total > 0
    return torch.where(positive, scale * torch.where(positive, total, torch.ones_like(total)) ** (1 / p), total)


def _reduce(csr: CSR, by_edge: Tensor, reduction: str) -> Tensor:
    if reduction == "sum":
        return torch.segment_reduce(by_edge, "sum", offsets=csr.indptr, initial=0)
    # Not segment_reduce: its gradient counts equal maxima twice.
    index = csr.rows if by_edge.dim() == 1 else csr.rows.unsqueeze(1).expand_as(by_edge)
    return by_edge.new_zeros((csr.num_nodes, *by_edge.shape[1:])).scatter_reduce(0, index, by_edge, "amax")
