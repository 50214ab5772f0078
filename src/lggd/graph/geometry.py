"""Graphs from geometry: nearest neighbours among points, adjacent pixels of a grid, and their order along a curve."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor

from lggd.errors import InputError, InputTypeError, InputWarning
from lggd.validation import check_int, check_positive

Floats = NDArray[np.floating]
Integers = NDArray[np.integer]
Kernel = Callable[[Floats], Floats]

ZEROS_AND_ONES = (
    "The mask has only the numbers 0 and 1 and was read as an image: its nodes are the dark pixels, the zeros. Pass "
    "mask == 0 if you mean these, or mask == 1 if the nodes are the ones."
)
# Beyond this dimension a kd-tree visits most of the points, and scikit-learn's blocked products are faster.
MAX_TREE_DIMENSION = 15


def check_points(coordinates: NDArray[Any]) -> Floats:
    """Returns the points as floating-point numbers `[N, d]` if they are finite."""
    if coordinates.dtype.kind in "bui":
        coordinates = coordinates.astype(np.float64)
    if coordinates.dtype.kind != "f":
        raise InputTypeError("points", "be numbers", coordinates.dtype)
    if coordinates.ndim != 2 or coordinates.shape[1] == 0:
        raise InputError("points", "be numbers [N, d]", f"shape {coordinates.shape}", "Pass one row per point.")
    if not np.isfinite(coordinates).all():
        bad = int(np.flatnonzero(~np.isfinite(coordinates).all(1))[0])
        raise InputError("points", "be finite", f"{coordinates[bad]} in row {bad}", "Drop or repair that row.")
    if len(coordinates) == 0:
        raise InputError("points", "contain at least one point", "none")
    return coordinates


def morton(points: Floats | Integers) -> Tensor:
    """Order `[N]` of the points along the Z-curve through their three widest coordinates."""
    widest = np.argsort(-np.ptp(points, axis=0), kind="stable")[:3]
    chosen = points[:, np.sort(widest)]
    bits = 21  # three coordinates fit into 64 bits
    low, extent = chosen.min(0), np.ptp(chosen, axis=0)
    extent[extent == 0] = 1
    cell = ((chosen - low) / extent * (2**bits - 1)).astype(np.uint64)
    code = np.zeros(len(points), np.uint64)
    dimensions = chosen.shape[1]
    for axis in range(dimensions):
        for bit in range(bits):
            code |= ((cell[:, axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * dimensions + axis)
    return torch.from_numpy(np.argsort(code, kind="stable"))


def neighbour_edges(points: Floats, *, k: int | None, epsilon: float | None) -> Integers:
    """Pairs `[2, E]` of nearby points, each pair at least once."""
    if (k is None) == (epsilon is None):
        raise InputError("k", "be passed if and only if epsilon is not", f"k={k} and epsilon={epsilon}", "Pass one.")
    return _within(points, epsilon) if epsilon is not None else _nearest(points, k)  # type: ignore[arg-type]  # not None


def edge_lengths(points: Floats, pairs: Integers) -> Floats:
    """Euclidean length of each edge `[E]`, computed axis by axis to avoid a temporary of E points."""
    squared = np.zeros(pairs.shape[1], points.dtype)
    for axis in range(points.shape[1]):
        squared += (points[pairs[0], axis] - points[pairs[1], axis]) ** 2
    return np.asarray(np.sqrt(squared))


def apply_kernel(kernel: Kernel, length: Floats) -> Floats:
    """The weights `[E]` of edges with these lengths, checked to lie in (0, 1]."""
    weight = np.asarray(kernel(length))
    if weight.dtype.kind not in "uif" or weight.shape != length.shape:
        received = f"{weight.dtype} of shape {weight.shape}"
        raise InputError("kernel", f"return one number per edge, shape [{len(length)}]", received)
    invalid = ~((weight > 0) & (weight <= 1))
    if invalid.any():
        e = int(np.flatnonzero(invalid)[0])
        received = f"{weight[e]:g} at length {length[e]:g}"
        raise InputError("kernel", "return weights in (0, 1]", received, "Divide by the largest.")
    return weight


def grid_edges(image: NDArray[np.generic], connectivity: int) -> tuple[Integers, Floats | None, Integers]:
    """Pairs `[2, E]` of adjacent pixels inside the mask, their weights, and the coordinates `[N, 2]` of the pixels."""
    if connectivity not in (4, 8):
        raise InputError("connectivity", "be 4 or 8", connectivity)
    inside = dark_half(image)
    if image.dtype.kind != "b" and np.isin(image, (0, 1)).all():
        warnings.warn(InputWarning(ZEROS_AND_ONES), stacklevel=3)  # the caller of Graph.from_grid
    number = np.full(inside.shape, -1, np.int64)
    number[inside] = np.arange(int(inside.sum()))
    height, width = inside.shape
    steps = [(0, 1, 1.0), (1, 0, 1.0)] + [(1, 1, 0.5), (1, -1, 0.5)] * (connectivity == 8)
    rows, columns, weights = [], [], []
    for down, right, weight in steps:
        first = number[: height - down, max(0, -right) : width - max(0, right)]
        second = number[down:, max(0, right) : width + min(0, right)]
        joined = (first >= 0) & (second >= 0)
        rows.append(first[joined])
        columns.append(second[joined])
        weights.append(np.full(int(joined.sum()), weight))
    pairs = np.stack([np.concatenate(rows), np.concatenate(columns)])
    return pairs, (np.concatenate(weights) if connectivity == 8 else None), np.argwhere(inside)


def dark_half(image: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Returns a mask unchanged; for an image, the mask of the pixels at or below the middle of its range."""
    if image.ndim != 2 or image.size == 0:
        raise InputError("mask", "be a 2-D mask or image", f"shape {image.shape}", "Convert colours to grey first.")
    if image.dtype.kind == "b":
        if not image.any():
            raise InputError("mask", "have at least one True pixel", "none")
        return image.astype(bool)
    if image.dtype.kind not in "uif":
        raise InputTypeError("mask", "be booleans or numbers", image.dtype)
    if not np.isfinite(image).all():
        row, column = (int(x) for x in np.argwhere(~np.isfinite(image))[0])
        raise InputError("mask", "be finite", f"{image[row, column]} at pixel ({row}, {column})", "Fill it in.")
    low, high = float(image.min()), float(image.max())
    if low == high:
        raise InputError("mask", "contain two colours", f"{low:g} in every pixel", "Pass a boolean mask instead.")
    return np.asarray(image.astype(float) <= (low + high) / 2)


def _within(points: Floats, epsilon: float) -> Integers:
    check_positive("epsilon", epsilon)
    pairs = cKDTree(points).query_pairs(epsilon, output_type="ndarray")
    if len(pairs) == 0 and len(points) > 1:
        nearest = cKDTree(points).query(points, 2)[0][:, 1].min()
        remedy = f"The closest two are {nearest:g} apart."
        raise InputError("epsilon", "join at least two points", f"{epsilon:g}", remedy)
    return np.asarray(pairs.T)


def _nearest(points: Floats, k: int) -> Integers:
    most = max(1, len(points) - 1)
    if check_int("k", k, 1) > most:
        raise InputError("k", f"be at most {most}, for {len(points)} points", k)
    if points.shape[1] > MAX_TREE_DIMENSION:
        from sklearn.neighbors import NearestNeighbors

        # Without a query scikit-learn leaves each point out of its own neighbours.
        near = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(points).kneighbors(return_distance=False)
        return np.stack([np.repeat(np.arange(len(points)), k), near.ravel()])
    if len(points) == 1:
        return np.empty((2, 0), np.int64)
    near = cKDTree(points).query(points, k + 1, workers=-1)[1]
    rows = np.repeat(np.arange(len(points)), k + 1)
    columns = near.ravel()
    other = (rows != columns).reshape(-1, k + 1)
    # Among more than k equal points a point may be missing from its own neighbours: drop the farthest instead.
    other[other.all(1), k] = False
    return np.stack([rows, columns])[:, other.ravel()]
