"""The upwind p-norm and its adjoint in plain torch, on any device: slow, the reference for the other backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lggd.equation import Field, p_norm

# For the state, and where required for ρ and √w.
Gradients = tuple[Tensor, Tensor | None, Tensor | None]


def norm(field: Field, f: Tensor) -> Tensor:
    """‖∇⁻_w f‖_p, `[N, C]`."""
    diff = torch.relu(f[field.csr.rows] - f[field.csr.indices.long()])  # its gradient at 0 is 0
    if field.root_weight is not None:
        diff = diff * by_column(field.root_weight, f.shape[1])
    return p_norm(field.csr, diff, field.p)


def rate(field: Field, f: Tensor) -> Tensor:
    """F(f), `[N, C]`, differentiable."""
    slope = 1 - by_column(field.rho, f.shape[1]) * norm(field, f)
    return slope if field.boundary_mask is None else slope.masked_fill(field.boundary_mask, 0)


def stage(
    field: Field, y: Tensor, terms: Sequence[Tensor], targets: Sequence[Tensor], factors: Sequence[Sequence[float]]
) -> None:
    """targets[t] ← Σ_r factors[t][r] · terms[r] + factors[t][-1] · F(y). Targets may be terms, but not y."""
    slope, sums = rate(field, y), []
    for row in factors:
        total = row[-1] * slope
        for factor, term in zip(row[:-1], terms, strict=True):
            total += factor * term
        sums.append(total)
    for target, total in zip(targets, sums, strict=True):
        target.copy_(total)


def vjp(
    field: Field, y: Tensor, terms: Sequence[Tensor], coefficients: Sequence[float], needs_rho: bool, needs_root: bool
) -> Gradients:
    """κᵀ ∂F/∂(y, ρ, √w) at y, with the cotangent κ = Σ_r coefficients[r] · terms[r]."""
    cotangent = torch.zeros_like(y)
    for term, coefficient in zip(terms, coefficients, strict=True):
        cotangent += coefficient * term
    with torch.enable_grad():
        y = y.detach().requires_grad_()
        rho = field.rho.detach().requires_grad_(needs_rho)
        root = field.root_weight
        if root is None and needs_root:
            root = torch.ones(field.csr.num_edges, 1, dtype=y.dtype, device=y.device)
        root = root if root is None else root.detach().requires_grad_(needs_root)
        slope = rate(replace(field, rho=rho, root_weight=root), y)
        inputs = [y] + [rho] * needs_rho + ([root] if needs_root and root is not None else [])
        grads = list(torch.autograd.grad(slope, inputs, cotangent))
    return grads.pop(0), grads.pop(0) if needs_rho else None, grads.pop(0) if needs_root else None


def by_column(by_group: Tensor, columns: int) -> Tensor:
    """Parameters by group `[·, G]` as parameters by column `[·, C]`, or `[·, 1]` where all columns share them."""
    groups = by_group.shape[1]
    return by_group if groups == 1 else by_group.repeat_interleave(columns // groups, 1)
