"""The closed form by dense linear algebra in double precision: filters, mixtures of kernels, and ridge regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import expm
from torch_geometric.data import Data

from lggd.filters import PPR, Heat, HighPass, Hops
from lggd.kernels import ArcCosine, ChosenKernel, Gaussian


def adjacency(weights: np.ndarray, self_loops: bool) -> np.ndarray:
    """Â of dense weights, or without self-loops; a node without neighbours has a row of zeros there."""
    matrix = weights + np.eye(len(weights)) if self_loops else weights
    degree = matrix.sum(1)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return root[:, None] * matrix * root


def dense_filter(filter: Any, weights: np.ndarray, x: np.ndarray, unit: bool = True) -> np.ndarray:
    """The filtered features, with rows of unit length or zero; or with a mean square length of 1."""
    a, identity = adjacency(weights, True), np.eye(len(weights))
    match filter:
        case Hops():
            out = np.linalg.matrix_power(adjacency(weights, filter.self_loops), filter.count) @ x
        case HighPass():
            out = x - a @ x
        case PPR():
            out = filter.alpha * np.linalg.inv(identity - (1 - filter.alpha) * a) @ x
        case Heat():
            out = expm(-filter.t * (identity - a)) @ x
    length = np.linalg.norm(out, axis=1, keepdims=True)
    if not unit:
        return out / np.sqrt(max(float((length**2).mean()), 1e-24))
    return np.where(length > 1e-6, out / np.maximum(length, 1e-6), 0)


def dense_kernel(kernel: Any, cosine: np.ndarray) -> np.ndarray:
    if isinstance(kernel, ArcCosine):
        c = cosine.clip(-1, 1)
        return (np.sqrt(1 - c**2) + (np.pi - np.arccos(c)) * c) / np.pi
    return np.exp((cosine - 1) / kernel.width) if isinstance(kernel, Gaussian) else cosine


def dense_mixture(graphs: Mapping[str, tuple[np.ndarray, np.ndarray]], chosen: Sequence[ChosenKernel]) -> np.ndarray:
    """The weighted mean of kernels on graphs of (dense weights, x), and an intercept of 1, `[N, N]`."""
    total, kernels = sum(each.weight for each in chosen), []
    for each in chosen:
        weights, x = graphs[each.graph]
        blocks = [dense_filter(f, weights, x, each.kernel.kernel.unit) for f in each.kernel.filters]
        mean = np.mean([block @ block.T for block in blocks], axis=0)
        kernels.append(each.weight / total * dense_kernel(each.kernel.kernel, mean))
    return 1 + np.sum(kernels, axis=0)


def dense_weights(data: Data) -> np.ndarray:
    """The adjacency matrix `[N, N]`."""
    weights = np.zeros((data.num_nodes, data.num_nodes))
    weights[tuple(data.edge_index.numpy())] = 1 if getattr(data, "edge_weight", None) is None else data.edge_weight
    return weights


def dense_probabilities(
    kernel: np.ndarray, labels: np.ndarray, classes: int, ridge: float, inverse_temperature: float
) -> np.ndarray:
    """softmax(β k (K + λ)⁻¹ Y) with targets 1 − 1/K and −1/K, `[N, K]`."""
    known = np.flatnonzero(labels >= 0)
    targets = np.eye(classes)[labels[known]] - 1 / classes
    scores = kernel[:, known] @ np.linalg.solve(kernel[np.ix_(known, known)] + ridge * np.eye(len(known)), targets)
    p = np.exp(inverse_temperature * (scores - scores.max(1, keepdims=True)))
    return p / p.sum(1, keepdims=True)


def dense_variance(kernel: np.ndarray, known: np.ndarray, ridge: float) -> np.ndarray:
    """k(x, x) − k(x)ᵀ (K + λ)⁻¹ k(x), `[N]`."""
    columns, gram = kernel[:, known], kernel[np.ix_(known, known)] + ridge * np.eye(len(known))
    return kernel.diagonal() - np.einsum("ij,ji->i", columns, np.linalg.solve(gram, columns.T))
