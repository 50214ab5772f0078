"""Samples `X` and labels `y` of scikit-learn as a graph of nearest neighbours with class numbers."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets

from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.sparse import without_sparse_warnings

if TYPE_CHECKING:
    from torch_geometric.data import Data

Array = NDArray[Any]
UNLABELLED = -1
SAMPLES = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C"}


def is_unlabelled(y: Array) -> Array:
    """Where y is -1, bool `[N]`. NumPy turns a -1 among strings into "-1"."""
    return np.asarray(y.astype(str) == str(UNLABELLED) if y.dtype.kind in "OUS" else y == UNLABELLED)


def read_labels(y: Array) -> tuple[Array, Array]:
    """The classes `[K]`, and the class index of each sample, int64 `[N]`, -1 without a label."""
    labelled = ~is_unlabelled(y)
    if not labelled.any():
        raise InputError("y", "label samples of at least two classes", "-1 for all", "Label one of each class.")
    check_classification_targets(y[labelled])
    classes, inverse = np.unique(y[labelled], return_inverse=True)
    if len(classes) < 2:
        remedy = "-1 marks samples without a label: rename a class of that name."
        raise InputError("y", "label samples of at least two classes", f"one class, {classes.tolist()[0]!r}", remedy)
    codes = np.full(len(y), UNLABELLED, np.int64)
    codes[labelled] = inverse
    return classes, codes


def class_numbers(labels: ArrayLike, classes: Array) -> Array:
    """The indices of labels in `classes`, int64."""
    number = {label: code for code, label in enumerate(classes.tolist())}
    names = np.ravel(labels).tolist()
    unknown = [name for name in names if name not in number]
    if unknown:
        rule = f"be among the classes {', '.join(map(repr, number))}"
        raise InputError("labels", rule, repr(unknown[0]), "A new class needs a new fit.")
    return np.array([number[name] for name in names], np.int64)


def row_keys(X: Any) -> list[bytes]:
    """A digest of each row, equal for equal numbers, dense or sparse."""
    # Not distance 0: rounding may separate a sample from itself, and a metric may not separate two samples.
    rows = sp.csr_array(X, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    columns = rows.indices.astype(np.int64)
    bounds = pairwise(rows.indptr.tolist())
    return [blake2b(columns[a:b].tobytes() + rows.data[a:b].tobytes(), digest_size=16).digest() for a, b in bounds]


def graph_data(X: Any, codes: Array, nearest: NearestNeighbors) -> Data:
    """The neighbour graph as PyG data; columns of X get standard deviation 1 and, unless sparse, mean 0."""
    from torch_geometric.data import Data

    # Without a query, scikit-learn leaves a sample out of its own neighbours.
    graph = Graph.from_scipy(nearest.kneighbors_graph(), symmetrize="max")
    # Networks use the direction of a row, and far from 0 all rows point the same way. Neighbours are computed from X.
    x = StandardScaler(with_mean=not sp.issparse(X)).fit_transform(X).astype(np.float32)
    if sp.issparse(x):
        x = x.tocoo()
        with without_sparse_warnings():
            x = torch.sparse_coo_tensor(torch.from_numpy(np.stack([x.row, x.col])), x.data, x.shape).coalesce()
    else:
        x = torch.from_numpy(x)
    return Data(x=x, edge_index=graph.edge_index, y=torch.from_numpy(codes), num_nodes=X.shape[0])


def unpack_samples(packed: Mapping[str, torch.Tensor]) -> Any:
    """The samples that were saved as tensors: an array, or a sparse one."""
    parts = {name: value.numpy() for name, value in packed.items()}
    samples = parts.get("samples")
    if samples is None:
        samples = sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"]))
        samples.check_format(full_check=True)
    if samples.ndim != 2 or samples.dtype not in SAMPLES["dtype"]:
        raise InputError("samples", "be a matrix of floats", f"{samples.dtype} {list(samples.shape)}")
    return samples
