"""Linear systems behind the closed form, kept while labels come and go: exact, or with inducing points."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lggd.closed_form.kernels import MixtureKernel
from lggd.closed_form.ridge import (
    leave_one_out_path,
    posterior_covariance,
    posterior_variance,
    regular_cholesky,
    ridge_coefficients,
    solve_dual,
    solve_primal,
    whitened,
)
from lggd.system.memory import Scratch

# Nodes whose features are in memory at a time, where all of them may not fit.
NODES_PER_BLOCK = 2**15


@dataclass(frozen=True, eq=False)
class RidgeSolution:
    """Scores of all nodes float32 `[N, K]`, and leave-one-out scores of the labelled ones float64 `[n, K]`."""

    scores: Tensor
    leave_one_out: Tensor


class RidgeSystem(ABC):
    """Ridge regression with a kernel; `nodes` are the labelled ones in ascending order."""

    nodes: Tensor

    @abstractmethod
    def set_nodes(self, nodes: Tensor) -> None:
        """Changes the labelled nodes, reusing what was computed for those that stay."""

    def fork(self) -> Self:
        """A system with the same kernel and labelled nodes, which can be changed on its own."""
        return copy.copy(self)

    @abstractmethod
    def solve(self, targets: Tensor, ridge: float) -> RidgeSolution:
        """Solves for targets `[n, K]`."""

    @abstractmethod
    def scores(self, targets: Tensor, ridge: float) -> Tensor:
        """The scores of all nodes alone, float32 `[N, K]`."""

    @abstractmethod
    def path(self, targets: Tensor, ridges: Sequence[float]) -> Tensor:
        """The leave-one-out scores for each ridge, `[R, n, K]`."""

    @abstractmethod
    def variance(self, ridge: float) -> Tensor:
        """The posterior variance of each node, `[N]`."""

    @abstractmethod
    def covariance(self, nodes: Tensor, ridge: float) -> Tensor:
        """The posterior covariance of these nodes with all, float32 `[C, N]`, as far as labels can change it."""


class ExactSystem(RidgeSystem):
    """The dual: a column of the kernel for each labelled node. A new label appends a column."""

    def __init__(self, kernel: MixtureKernel) -> None:
        self.kernel = kernel
        self._points = kernel.points()
        device = self._points[0].device
        self.nodes = torch.empty(0, dtype=torch.int64, device=device)
        self.columns = torch.empty(kernel.num_nodes, 0, device=device)

    def set_nodes(self, nodes: Tensor) -> None:
        known = torch.isin(nodes, self.nodes)
        position = torch.searchsorted(self.nodes, nodes[known])
        new = self.kernel.between(self._points, [block[nodes[~known]] for block in self._points])
        columns = torch.empty(self.kernel.num_nodes, len(nodes), device=nodes.device)
        columns[:, known], columns[:, ~known] = self.columns[:, position], new
        self.nodes, self.columns = nodes, columns

    @property
    def _gram(self) -> Tensor:
        return self.columns[self.nodes].double()

    def scores(self, targets: Tensor, ridge: float) -> Tensor:
        return self.columns @ ridge_coefficients(self._gram, targets, ridge).float()

    def solve(self, targets: Tensor, ridge: float) -> RidgeSolution:
        coefficients, left_out = solve_dual(self._gram, targets, ridge)
        return RidgeSolution(self.columns @ coefficients.float(), left_out)

    def path(self, targets: Tensor, ridges: Sequence[float]) -> Tensor:
        return leave_one_out_path(self._gram, targets, ridges)

    def variance(self, ridge: float) -> Tensor:
        diagonal = _diagonal(self.kernel, self._points)
        return posterior_variance(self._gram, self.columns.double(), diagonal, ridge)

    def covariance(self, nodes: Tensor, ridge: float) -> Tensor:
        prior = self.kernel.between([block[nodes] for block in self._points], self._points)
        return posterior_covariance(self._gram, self.columns.double(), prior, nodes, ridge)


class InducedSystem(RidgeSystem):
    """The primal: features Φ with ΦΦᵀ ≈ K from inducing points, exact between them (Nyström).

    Φ = k(x, Z) R⁻ᵀ with k(Z, Z) = R Rᵀ. Labels are accumulated in ΦᵀΦ and Φᵀ Y.
    """

    def __init__(self, kernel: MixtureKernel, inducing: Sequence[Tensor]) -> None:
        self.kernel, self.inducing = kernel, inducing
        self.features = self._compute_features(regular_cholesky(kernel.between(inducing, inducing).double()).float())
        self.nodes = torch.empty(0, dtype=torch.int64, device=self.features.device)
        self._normal: Tensor | None = None

    def _compute_features(self, factor: Tensor) -> Tensor:
        return self._features_of(self.kernel.points(), factor)

    def _features_of(self, points: Sequence[Tensor], factor: Tensor) -> Tensor:
        """Φ of these points, with the factor R of k(Z, Z)."""
        columns = self.kernel.between(points, self.inducing).t()
        solved: Tensor = torch.linalg.solve_triangular(factor, columns, upper=False)
        return solved.t().contiguous()

    def _predicted(self, weights: Tensor) -> Tensor:
        """Φ W, float32 `[N, K]`."""
        predicted: Tensor = self.features @ weights.float()
        return predicted

    def set_nodes(self, nodes: Tensor) -> None:
        gone, new = self.nodes[~torch.isin(self.nodes, nodes)], nodes[~torch.isin(nodes, self.nodes)]
        if 2 * len(gone) > len(nodes):  # starting over is faster, and forgets the rounding of all changes before
            self._normal = None
        if self._normal is not None:
            for sign, changed in ((1, new), (-1, gone)):
                self._normal.add_(_gram(self.features[changed].t()), alpha=sign)
        self.nodes, self._labelled = nodes, self.features[nodes]

    def fork(self) -> Self:
        fork = copy.copy(self)
        fork._normal = None if self._normal is None else self._normal.clone()  # changed in place
        return fork

    @property
    def _in_dual(self) -> bool:
        return len(self.nodes) < int(self.features.shape[1])

    def _gram(self) -> Tensor:
        """ΦΦᵀ of the labelled nodes, float64 `[n, n]`."""
        return _gram(self._labelled)

    def _normal_matrix(self) -> Tensor:
        """ΦᵀΦ, float64 `[m, m]`; accumulated from the first time that it is needed."""
        if self._normal is None:
            self._normal = _gram(self._labelled.t())
        return self._normal

    def scores(self, targets: Tensor, ridge: float) -> Tensor:
        labelled = self._labelled.double()
        if self._in_dual:
            weights = labelled.t() @ ridge_coefficients(self._gram(), targets, ridge)
        else:
            weights = ridge_coefficients(self._normal_matrix(), labelled.t() @ targets, ridge)
        return self._predicted(weights)

    def solve(self, targets: Tensor, ridge: float) -> RidgeSolution:
        labelled = self._labelled.double()
        if self._in_dual:
            coefficients, left_out = solve_dual(self._gram(), targets, ridge)
            weights = labelled.t() @ coefficients
        else:
            weights, left_out = solve_primal(self._normal_matrix(), labelled.t() @ targets, labelled, targets, ridge)
        return RidgeSolution(self._predicted(weights), left_out)

    def path(self, targets: Tensor, ridges: Sequence[float]) -> Tensor:
        if self._in_dual:
            return leave_one_out_path(self._gram(), targets, ridges)
        values: Tensor
        vectors: Tensor
        values, vectors = torch.linalg.eigh(self._normal_matrix())
        rotated = self._labelled.double() @ vectors
        shrunk = 1 / (values.clamp(min=0) + torch.tensor(ridges, dtype=values.dtype, device=values.device)[:, None])
        fitted = rotated @ (shrunk[:, :, None] * (rotated.t() @ targets))
        leverage = shrunk @ rotated.square().t()
        left_out: Tensor = targets - (targets - fitted) / (1 - leverage)[:, :, None]
        return left_out

    def variance(self, ridge: float) -> Tensor:
        scaled = whitened(self._normal_matrix(), self.features.double(), ridge)
        # The part of the kernel that the inducing points do not span is not reduced by any label.
        unexplained = _diagonal(self.kernel, self.kernel.points()) - self.features.double().square().sum(1)
        variance: Tensor = ridge * scaled.square().sum(0) + unexplained.clamp(min=0)
        return variance

    def covariance(self, nodes: Tensor, ridge: float) -> Tensor:
        scaled = whitened(self._normal_matrix(), self.features.double(), ridge).float()
        covariance: Tensor = ridge * scaled[:, nodes].t() @ scaled
        return covariance


class StreamedSystem(InducedSystem):
    """`InducedSystem` with Φ in a temporary file, computed and read in blocks of nodes."""

    def __init__(self, kernel: MixtureKernel, inducing: Sequence[Tensor], scratch: Scratch) -> None:
        self._scratch = scratch
        super().__init__(kernel, inducing)

    def _compute_features(self, factor: Tensor) -> Tensor:
        points, features = self.kernel.points(), self._scratch.empty(self.kernel.num_nodes, len(factor))
        for part in self._parts(features):
            features[part] = self._features_of([block[part] for block in points], factor)
        return features

    def _predicted(self, weights: Tensor) -> Tensor:
        weights = weights.float()
        predicted = torch.empty(len(self.features), weights.shape[1])
        for part in self._parts(predicted):
            torch.mm(self.features[part], weights, out=predicted[part])
        return predicted

    def variance(self, ridge: float) -> Tensor:
        points, variance = self.kernel.points(), torch.empty(len(self.features), dtype=torch.float64)
        normal = self._normal_matrix()
        for part in self._parts(variance):
            features = self.features[part].double()
            unexplained = _diagonal(self.kernel, [block[part] for block in points]) - features.square().sum(1)
            scaled = whitened(normal, features, ridge)
            variance[part] = ridge * scaled.square().sum(0) + unexplained.clamp(min=0)
        return variance

    def _parts(self, values: Tensor) -> Iterator[slice]:
        for start in range(0, len(values), NODES_PER_BLOCK):
            yield slice(start, start + NODES_PER_BLOCK)
            self._scratch.release()


def draw_inducing(labelled: Tensor, num_nodes: int, count: int, seed: int) -> Tensor:
    """Labelled nodes first, which makes the solution exact for them if there are few, and others at random."""
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed)).to(labelled.device)
    known = torch.isin(order, labelled)
    return torch.cat([order[known], order[~known]])[:count]


def _diagonal(kernel: MixtureKernel, points: Sequence[Tensor]) -> Tensor:
    """k(x, x) of every point, float64 `[N]`."""
    chunks = zip(*(torch.split(block, 256) for block in points), strict=True)
    return torch.cat([kernel.between(chunk, chunk).diagonal() for chunk in chunks]).double()


def _gram(rows: Tensor) -> Tensor:
    """The products of all rows with each other, float64 `[n, n]`.

    In float64 on a GPU, where float32 may stand for TF32: with three digits, the result need not be positive definite.
    """
    return rows.double() @ rows.double().t() if rows.is_cuda else (rows @ rows.t()).double()
