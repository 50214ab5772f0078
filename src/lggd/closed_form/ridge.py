"""Ridge regression of class indicators: its solution, its exact leave-one-out predictions, and its uncertainty.

Dual and primal are two ways to the same numbers: with labelled nodes as rows of Φ, ridge λ and targets Y,
f(x) = φ(x)ᵀ (ΦᵀΦ + λ)⁻¹ ΦᵀY = φ(x)ᵀ Φᵀ (ΦΦᵀ + λ)⁻¹ Y. The first inverts a matrix of the size of the features, the
second one of the size of the labels. `ExactSystem` is dual; `InducedSystem` has features from inducing points, and
takes whichever way is shorter. Systems never change: other labelled nodes give another one, which shares features.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from lggd._system.memory import InMemory
from lggd.kernels import MixtureKernel

# Beyond this many labels or nodes, inducing points take the place of labelled nodes.
MAX_EXACT_LABELS, MAX_EXACT_NODES = 2048, 10_000
# Nodes whose features are computed at a time, where the others are in files.
NODES_PER_BLOCK = 2**15
# Rounding makes the kernel of nearly equal points singular. The first of these, relative to the diagonal, that makes
# it positive definite is added.
JITTERS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


def class_targets(classes: Tensor, num_classes: int) -> Tensor:
    """One row per label: 1 − 1/K at its class and −1/K elsewhere, float64 `[n, K]`."""
    return one_hot(classes, num_classes).double() - 1 / num_classes


def ridge_coefficients(matrix: Tensor, right: Tensor, ridge: float) -> Tensor:
    """(M + λ)⁻¹ right, `[n, K]`."""
    solution: Tensor = torch.cholesky_solve(right, _cholesky(matrix, ridge))
    return solution


def left_out_scores(gram: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """The exact leave-one-out scores, `[n, K]`: yᵢ − αᵢ / [(K + λ)⁻¹]ᵢᵢ with α = (K + λ)⁻¹ Y."""
    factor = _cholesky(gram, ridge)
    # (L Lᵀ)⁻¹ has the squared columns of L⁻¹ on its diagonal: seven times faster than all of it, for 1,536 labels.
    identity = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    inverse_diagonal = torch.linalg.solve_triangular(factor, identity, upper=False).square().sum(0)
    left_out: Tensor = targets - torch.cholesky_solve(targets, factor) / inverse_diagonal[:, None]
    return left_out


def primal_left_out_scores(normal: Tensor, features: Tensor, targets: Tensor, ridge: float) -> Tensor:
    """The same from `normal` ΦᵀΦ `[m, m]` and `features` Φ `[n, m]`.

    Leaving label i out divides its residual by 1 − hᵢ with hᵢ = φᵢᵀ (ΦᵀΦ + λ)⁻¹ φᵢ.
    """
    factor = _cholesky(normal, ridge)
    fitted = features @ torch.cholesky_solve(features.t() @ targets, factor)
    leverage = torch.linalg.solve_triangular(factor, features.t(), upper=False).square().sum(0)
    left_out: Tensor = targets - (targets - fitted) / (1 - leverage)[:, None]
    return left_out


def leave_one_out_path(gram: Tensor, targets: Tensor, ridges: Sequence[float]) -> Tensor:
    """`left_out_scores` for each ridge `[R, n, K]`, from one eigendecomposition."""
    vectors, shrunk = eigenvectors_by_ridge(gram, ridges)
    coefficients = vectors @ (shrunk[:, :, None] * (vectors.t() @ targets))
    inverse_diagonal = shrunk @ vectors.square().t()
    left_out: Tensor = targets - coefficients / inverse_diagonal[:, :, None]
    return left_out


def primal_leave_one_out_path(features: Tensor, moments: Tensor, targets: Tensor, shrunk: Tensor) -> Tensor:
    """`primal_left_out_scores` for each ridge, `[R, n, K]`.

    `features` `[n, m]` and `moments` ΦᵀY `[m, K]` are in terms of the eigenvectors of ΦᵀΦ, and `shrunk` `[R, m]` are
    1 / (its eigenvalues + λ).
    """
    fitted = features @ (shrunk[:, :, None] * moments)
    leverage = shrunk @ features.square().t()
    left_out: Tensor = targets - (targets - fitted) / (1 - leverage)[:, :, None]
    return left_out


def eigenvectors_by_ridge(matrix: Tensor, ridges: Sequence[float]) -> tuple[Tensor, Tensor]:
    """The eigenvectors of M `[n, n]`, and for each ridge 1 / (its eigenvalues + λ), `[R, n]`."""
    values: Tensor
    vectors: Tensor
    values, vectors = torch.linalg.eigh(matrix)
    shift = torch.tensor(ridges, dtype=values.dtype, device=values.device)
    return vectors, 1 / (values.clamp(min=0) + shift[:, None])


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
        raise torch.linalg.LinAlgError("The kernel matrix has entries that are not finite.")  # type: ignore[attr-defined]  # torch's stubs lack it
    scale = double.diagonal().mean()
    factor: Tensor
    for jitter in JITTERS:
        shifted = double + torch.diag_embed((jitter * scale).expand(len(double)))
        factor, failed = torch.linalg.cholesky_ex(shifted)
        if not bool(failed):
            return factor.to(matrix.dtype)
    factor = torch.linalg.cholesky(shifted)  # raises the error
    return factor.to(matrix.dtype)


class RidgeSystem(ABC):
    """Ridge regression with a kernel for labelled `nodes`, in ascending order: on one machine or on a cluster."""

    nodes: Tensor

    @abstractmethod
    def _gram(self) -> Tensor:
        """The kernel between the labelled nodes, float64 `[n, n]`."""

    @abstractmethod
    def _from_dual(self, coefficients: Tensor) -> Tensor:
        """The scores of all nodes, float32 `[N, K]`, from the coefficients of the labelled ones `[n, K]`."""

    def scores(self, targets: Tensor, ridge: float) -> Tensor:
        """The scores of all nodes, float32 `[N, K]`, for targets `[n, K]`."""
        return self._from_dual(ridge_coefficients(self._gram(), targets, ridge))

    def left_out(self, targets: Tensor, ridge: float) -> Tensor:
        """The leave-one-out scores of the labelled nodes, float64 `[n, K]`."""
        return left_out_scores(self._gram(), targets, ridge)

    def path(self, targets: Tensor, ridges: Sequence[float]) -> Tensor:
        """The leave-one-out scores for each ridge, `[R, n, K]`."""
        return leave_one_out_path(self._gram(), targets, ridges)

    def probabilities(self, classes: Tensor, num_classes: int, ridge: float, inverse_temperature: float) -> Tensor:
        """softmax(β · scores) of all nodes, float32 `[N, K]`, from the classes of the labelled nodes, int64 `[n]`."""
        return torch.softmax(inverse_temperature * self.scores(class_targets(classes, num_classes), ridge), dim=1)


class LocalSystem(RidgeSystem):
    """A ridge regression whose kernel is on this machine, in memory or in files."""

    kernel: MixtureKernel

    @abstractmethod
    def with_nodes(self, nodes: Tensor) -> Self:
        """The system for these labelled nodes, reusing what was computed for those that stay."""

    @abstractmethod
    def variance(self, ridge: float) -> Tensor:
        """The posterior variance of each node, `[N]`."""

    @abstractmethod
    def covariance(self, nodes: Tensor, ridge: float) -> Tensor:
        """The posterior covariance of these nodes with all, float32 `[C, N]`, as far as labels can change it."""


class ExactSystem(LocalSystem):
    """The dual: a column of the kernel for each labelled node. A new label appends a column."""

    def __init__(self, kernel: MixtureKernel) -> None:
        self.kernel = kernel
        self._points = kernel.points()
        device = self._points[0].device
        self.nodes = torch.empty(0, dtype=torch.int64, device=device)
        self.columns = torch.empty(kernel.num_nodes, 0, device=device)

    def with_nodes(self, nodes: Tensor) -> Self:
        if torch.equal(nodes, self.nodes):
            return self
        known = torch.isin(nodes, self.nodes)
        position = torch.searchsorted(self.nodes, nodes[known])
        new = self.kernel.between(self._points, [block[nodes[~known]] for block in self._points])
        columns = torch.empty(self.kernel.num_nodes, len(nodes), device=nodes.device)
        columns[:, known], columns[:, ~known] = self.columns[:, position], new
        after = copy.copy(self)
        after.nodes, after.columns = nodes, columns
        return after

    def _gram(self) -> Tensor:
        return self.columns[self.nodes].double()

    def _from_dual(self, coefficients: Tensor) -> Tensor:
        return self.columns @ coefficients.float()

    def variance(self, ridge: float) -> Tensor:
        return posterior_variance(self._gram(), self.columns.double(), self.kernel.diagonal(self._points), ridge)

    def covariance(self, nodes: Tensor, ridge: float) -> Tensor:
        prior = self.kernel.between([block[nodes] for block in self._points], self._points)
        return posterior_covariance(self._gram(), self.columns.double(), prior, nodes, ridge)


class FeatureSystem(RidgeSystem):
    """The primal: a kernel ΦΦᵀ, from the features Φ of the labelled nodes, float32 `[n, m]`; or the dual if n < m."""

    _normal: Tensor | None = None

    def __init__(self, nodes: Tensor, labelled: Tensor) -> None:
        self.nodes, self._labelled = nodes, labelled

    @abstractmethod
    def _predicted(self, weights: Tensor) -> Tensor:
        """Φ W of all nodes, float32 `[N, K]`."""

    @property
    def _in_dual(self) -> bool:
        return len(self.nodes) < int(self._labelled.shape[1])

    def _normal_matrix(self) -> Tensor:
        """ΦᵀΦ, float64 `[m, m]`; kept from the first time that it is needed."""
        if self._normal is None:
            self._normal = gram_matrix(self._labelled.t())
        return self._normal

    def _gram(self) -> Tensor:
        return gram_matrix(self._labelled)

    def _from_dual(self, coefficients: Tensor) -> Tensor:
        return self._predicted(self._labelled.double().t() @ coefficients)

    def scores(self, targets: Tensor, ridge: float) -> Tensor:
        if self._in_dual:
            return super().scores(targets, ridge)
        moments = self._labelled.double().t() @ targets
        return self._predicted(ridge_coefficients(self._normal_matrix(), moments, ridge))

    def left_out(self, targets: Tensor, ridge: float) -> Tensor:
        if self._in_dual:
            return super().left_out(targets, ridge)
        return primal_left_out_scores(self._normal_matrix(), self._labelled.double(), targets, ridge)

    def path(self, targets: Tensor, ridges: Sequence[float]) -> Tensor:
        if self._in_dual:
            return super().path(targets, ridges)
        vectors, shrunk = eigenvectors_by_ridge(self._normal_matrix(), ridges)
        rotated = self._labelled.double() @ vectors
        return primal_leave_one_out_path(rotated, rotated.t() @ targets, targets, shrunk)


class InducedSystem(FeatureSystem, LocalSystem):
    """Features Φ with ΦΦᵀ ≈ K from inducing points, exact between them (Nyström).

    Φ = k(x, Z) R⁻ᵀ with k(Z, Z) = R Rᵀ.
    """

    def __init__(self, kernel: MixtureKernel, inducing: Sequence[Tensor], storage: InMemory | None = None) -> None:
        self.kernel = kernel
        self._storage = InMemory(inducing[0]) if storage is None else storage
        factor, points = inducing_factor(kernel, inducing), kernel.points()
        self.features = self._storage.empty(kernel.num_nodes, len(factor))
        for part in self._parts():
            self.features[part] = inducing_features(kernel, [block[part] for block in points], inducing, factor)
        super().__init__(torch.empty(0, dtype=torch.int64, device=self.features.device), self.features[:0])

    def _parts(self) -> Iterator[slice]:
        return self._storage.parts(len(self.features), NODES_PER_BLOCK)

    def _predicted(self, weights: Tensor) -> Tensor:
        predicted = self.features.new_empty(len(self.features), weights.shape[1])
        for part in self._parts():
            torch.mm(self.features[part], weights.float(), out=predicted[part])
        return predicted

    def with_nodes(self, nodes: Tensor) -> Self:
        if torch.equal(nodes, self.nodes):
            return self
        gone, new = self.nodes[~torch.isin(self.nodes, nodes)], nodes[~torch.isin(nodes, self.nodes)]
        after = copy.copy(self)
        after.nodes, after._labelled = nodes, self.features[nodes]
        if 2 * len(gone) > len(nodes):  # starting over is faster, and forgets the rounding of all changes before
            after._normal = None
        elif self._normal is not None:
            after._normal = self._normal.clone()
            for sign, changed in ((1, new), (-1, gone)):
                after._normal.add_(gram_matrix(self.features[changed].t()), alpha=sign)
        return after

    def variance(self, ridge: float) -> Tensor:
        points, variance = self.kernel.points(), self.features.new_empty(len(self.features), dtype=torch.float64)
        for part in self._parts():
            features = self.features[part].double()
            scaled = whitened(self._normal_matrix(), features, ridge)
            # The part of the kernel that the inducing points do not span is not reduced by any label.
            unexplained = self.kernel.diagonal([block[part] for block in points]) - features.square().sum(1)
            variance[part] = ridge * scaled.square().sum(0) + unexplained.clamp(min=0)
        return variance

    def covariance(self, nodes: Tensor, ridge: float) -> Tensor:
        scaled = whitened(self._normal_matrix(), self.features.double(), ridge).float()
        covariance: Tensor = ridge * scaled[:, nodes].t() @ scaled
        return covariance


def inducing_factor(kernel: MixtureKernel, inducing: Sequence[Tensor]) -> Tensor:
    """R with k(Z, Z) = R Rᵀ, float32 `[m, m]`."""
    return regular_cholesky(kernel.between(inducing, inducing).double()).float()


def inducing_features(
    kernel: MixtureKernel, points: Sequence[Tensor], inducing: Sequence[Tensor], factor: Tensor
) -> Tensor:
    """k(x, Z) R⁻ᵀ, `[n, m]`."""
    columns = kernel.between(points, inducing).t()
    features: Tensor = torch.linalg.solve_triangular(factor, columns, upper=False).t()
    return features


def is_exact(num_labels: int, num_nodes: int) -> bool:
    """Whether an `ExactSystem` is fast enough, and no inducing points are needed."""
    return num_labels <= MAX_EXACT_LABELS and num_nodes <= MAX_EXACT_NODES


def draw_inducing(labelled: Tensor, num_nodes: int, count: int, seed: int) -> Tensor:
    """Labelled nodes first, which makes the solution exact for them if there are few, and others at random."""
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed)).to(labelled.device)
    known = torch.isin(order, labelled)
    return torch.cat([order[known], order[~known]])[:count]


def gram_matrix(rows: Tensor) -> Tensor:
    """The products of all rows with each other, float64 `[n, n]`.

    In float64 on a GPU, where float32 may stand for TF32: with three digits, the result need not be positive definite.
    """
    return rows.double() @ rows.double().t() if rows.is_cuda else (rows @ rows.t()).double()
