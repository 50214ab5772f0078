"""Ridge regression of class indicators: its solution and its exact leave-one-out predictions, dual and primal.

Dual and primal are two ways to the same numbers: with labelled nodes as rows of Φ, ridge λ and targets Y,
f(x) = φ(x)ᵀ (ΦᵀΦ + λ)⁻¹ ΦᵀY = φ(x)ᵀ Φᵀ (ΦΦᵀ + λ)⁻¹ Y. The first inverts a matrix of the size of the features, the
second one of the size of the labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

# Added to kernels: a constant feature with a coefficient of its own, which is the intercept.
INTERCEPT = 1.0
# Rounding makes the kernel of nearly equal points singular. The first of these, relative to the diagonal, that makes
# it positive definite is added.
JITTERS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


def class_targets(classes: Tensor, num_classes: int) -> Tensor:
    """One row per label: 1 − 1/K at its class and −1/K elsewhere, float64 `[n, K]`."""
    return one_hot(classes, num_classes).double() - 1 / num_classes


def solve_dual(gram: Tensor, targets: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """The coefficients (K + λ)⁻¹ Y `[n, K]`, and what the others predict for each label `[n, K]`.

    Leaving label i out changes its prediction to yᵢ − αᵢ / [(K + λ)⁻¹]ᵢᵢ, exactly.
    """
    factor = _cholesky(gram, ridge)
    coefficients = torch.cholesky_solve(targets, factor)
    # (L Lᵀ)⁻¹ has the squared columns of L⁻¹ on its diagonal: seven times faster than all of it, for 1,536 labels.
    identity = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    inverse_diagonal = torch.linalg.solve_triangular(factor, identity, upper=False).square().sum(0)
    return coefficients, targets - coefficients / inverse_diagonal[:, None]


def solve_primal(
    normal: Tensor, moments: Tensor, features: Tensor, targets: Tensor, ridge: float
) -> tuple[Tensor, Tensor]:
    """The weights (ΦᵀΦ + λ)⁻¹ ΦᵀY `[m, K]`, and what the others predict for each label `[n, K]`.

    From `normal` ΦᵀΦ `[m, m]`, `moments` ΦᵀY `[m, K]` and `features` Φ `[n, m]`. Leaving label i out divides its
    residual by 1 − hᵢ with hᵢ = φᵢᵀ (ΦᵀΦ + λ)⁻¹ φᵢ.
    """
    factor = _cholesky(normal, ridge)
    weights = torch.cholesky_solve(moments, factor)
    leverage = torch.linalg.solve_triangular(factor, features.t(), upper=False).square().sum(0)
    return weights, targets - (targets - features @ weights) / (1 - leverage)[:, None]


def ridge_coefficients(matrix: Tensor, right: Tensor, ridge: float) -> Tensor:
    """(M + λ)⁻¹ right, `[n, K]`."""
    solution: Tensor = torch.cholesky_solve(right, _cholesky(matrix, ridge))
    return solution


def leave_one_out_path(gram: Tensor, targets: Tensor, ridges: Sequence[float]) -> Tensor:
    """The leave-one-out predictions of `solve_dual` for each ridge `[R, n, K]`, from one eigendecomposition."""
    values: Tensor
    vectors: Tensor
    values, vectors = torch.linalg.eigh(gram)
    shrunk = 1 / (values.clamp(min=0) + torch.tensor(ridges, dtype=gram.dtype, device=gram.device)[:, None])  # [R, n]
    coefficients = vectors @ (shrunk[:, :, None] * (vectors.t() @ targets))
    inverse_diagonal = shrunk @ vectors.square().t()
    left_out: Tensor = targets - coefficients / inverse_diagonal[:, :, None]
    return left_out


def posterior_variance(gram: Tensor, columns: Tensor, diagonal: Tensor, ridge: float) -> Tensor:
    """The variance of the prediction at each node before noise, `[N]`: k(x, x) − k(x)ᵀ (K + λ)⁻¹ k(x).

    `columns` are the kernel between all nodes and the labelled ones `[N, n]`, `diagonal` that of each node with itself.
    """
    return (diagonal - whitened(gram, columns, ridge).square().sum(0)).clamp(min=0)


def posterior_covariance(gram: Tensor, columns: Tensor, prior: Tensor, nodes: Tensor, ridge: float) -> Tensor:
    """The covariance of the predictions at `nodes` with those at all nodes, `[C, N]`, from their `prior` kernel."""
    explained = whitened(gram, columns, ridge).to(prior.dtype)
    return prior - explained[:, nodes].t() @ explained


def whitened(matrix: Tensor, rows: Tensor, ridge: float) -> Tensor:
    """L⁻¹ rowsᵀ with M + λ = L Lᵀ, `[n, N]`: the squared length of column i is rows[i]ᵀ (M + λ)⁻¹ rows[i]."""
    solved: Tensor = torch.linalg.solve_triangular(_cholesky(matrix, ridge), rows.t(), upper=False)
    return solved


def _cholesky(matrix: Tensor, ridge: float) -> Tensor:
    """The Cholesky factor of M + λ, with as little of `JITTERS` on its diagonal as it needs."""
    shifted = matrix.clone()
    shifted.diagonal().add_(ridge)
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(shifted)
    return regular_cholesky(shifted) if bool(failed) else factor


def regular_cholesky(matrix: Tensor) -> Tensor:
    """The Cholesky factor of a positive semidefinite matrix with as little of `JITTERS` on its diagonal as it needs.

    In float64: what rounding took from the smallest eigenvalues is far less than the first jitter there.
    """
    double = matrix.double()
    if not bool(torch.isfinite(double).all()):
        raise torch.linalg.LinAlgError("The kernel matrix has entries that are not finite.")  # type: ignore[attr-defined]
    scale = double.diagonal().mean()
    factor: Tensor
    for jitter in JITTERS:
        shifted = double + torch.diag_embed((jitter * scale).expand(len(double)))
        factor, failed = torch.linalg.cholesky_ex(shifted)
        if not bool(failed):
            return factor.to(matrix.dtype)
    factor = torch.linalg.cholesky(shifted)  # raises the error
    return factor.to(matrix.dtype)
