"""Edges in every form that users have them: lists and arrays, assembled into compressed sparse rows, and PyG data.

Of PyG data, `edge_index [2, E]` and `edge_weight [E]` are read, checked and replaced, and node features are checked.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Set
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lggd.errors import InputError, InputTypeError, InputWarning, NotSymmetricError
from lggd.graph.csr import CSR, merge_duplicates
from lggd.validation import check_finite, check_int

if TYPE_CHECKING:
    from torch_geometric.data import Data

Ids = NDArray[np.int32]
Weights = NDArray[np.floating]
# Python expressions that error messages refer to by name; the command line replaces them by flags.
HINTS = {
    "symmetrize": 'symmetrize="max" or "mean"', "directed": "directed=True", "unbounded": "unbounded=True",
    "lengths": "weight=1/length**2 with unbounded=True",
}  # fmt: skip
# Relative difference up to which the weights of the two directions differ by rounding alone; they are averaged.
ROUNDING = 1e-5


class Symmetrize(StrEnum):
    """How an asymmetric graph becomes symmetric, where a missing direction counts as weight 0.

    The plain strings "max" and "mean" are accepted wherever a member is.

    Examples
    --------
    >>> import lggd
    >>> edges, weight = [(0, 1), (1, 0), (1, 2)], [1.0, 0.5, 1.0]
    >>> lggd.Graph.from_edges(edges, weight, symmetrize=Symmetrize.MEAN).weight.tolist()  # 0–1, 1–0, 1–2, 2–1
    [0.75, 0.75, 0.5, 0.5]
    """

    MAX = "max"
    MEAN = "mean"


def read_edge_list(
    edges: ArrayLike | Tensor | Iterable[tuple[int, int]], weight: ArrayLike | Tensor | None, num_nodes: int | None,
    directed: bool = False, symmetrize: Symmetrize | str | None = None, unbounded: bool = False,
    dtype: torch.dtype | None = None,
) -> tuple[CSR, torch.dtype]:  # fmt: skip
    """The rows of a graph and the precision of its weights, from the arguments of `Graph.from_edges`."""
    if symmetrize not in (None, *Symmetrize):
        raise InputError("symmetrize", 'be "max", "mean" or None', repr(symmetrize))
    if directed and symmetrize is not None:
        rule = "be omitted with {directed}, which keeps edge directions"
        raise InputError("symmetrize", rule, repr(str(symmetrize)), "Pass only one of the two.", hints=HINTS)
    if weight is not None and isinstance(edges, Set):
        raise InputError("edges", "have an order, that of the weights", type(edges).__name__, "Pass a list.")
    rows, columns = _read_pairs(edges)
    num_nodes = _check_ids(rows, columns, num_nodes)
    values = _check_weight(weight, rows, columns, unbounded)
    loops = rows == columns
    if loops.any():
        message = f"Self-loops dropped: {int(loops.sum())}, the first at node {{0}}. They have no effect on distances."
        warnings.warn(InputWarning(message, nodes=rows[loops][:1].tolist()), stacklevel=3)
        rows, columns = rows[~loops], columns[~loops]
        values = None if values is None else values[~loops]
    precise = values is not None and values.dtype == np.float64
    dtype = dtype or (torch.float64 if precise else torch.float32)
    if dtype not in (torch.float32, torch.float64):
        raise InputTypeError("dtype", "be torch.float32 or torch.float64", dtype)
    if values is not None:
        values = _round_to(dtype, values)
        values = None if (values == 1).all() else values
    return _assemble(rows.astype(np.int32), columns.astype(np.int32), values, num_nodes, directed, symmetrize), dtype


def _assemble(
    rows: Ids, columns: Ids, weight: Weights | None, num_nodes: int, directed: bool, symmetrize: Symmetrize | str | None
) -> CSR:
    """Sorted rows: unchanged if `directed`, made symmetric by `symmetrize`, otherwise checked to be symmetric."""
    if symmetrize == Symmetrize.MAX:
        return _both_directions(rows, columns, weight, num_nodes, "max")
    csr = merge_duplicates(rows, columns, weight, num_nodes, "max")
    if directed:
        return csr
    if symmetrize is None:
        return _checked_symmetric(csr)
    half = np.full(csr.num_edges, 0.5, np.float32) if csr.weight is None else csr.weight.numpy() / 2
    return _both_directions(csr.rows.to(torch.int32).numpy(), csr.indices.numpy(), half, num_nodes, "sum")


def as_array(value: ArrayLike | Tensor, name: str) -> NDArray[Any]:
    """The value as a NumPy array, without a copy where possible."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()  # NumPy has no bfloat16
    try:
        return np.asarray(value)
    except ValueError:
        raise InputError(name, "have rows of equal length", "rows of different lengths") from None


def numbers(name: str, values: Any, rule: str = "be numbers") -> Tensor:
    """Real numbers as a tensor, from a tensor or an array."""
    if isinstance(values, Tensor):
        if values.dtype.is_complex:
            raise InputTypeError(name, rule, values.dtype)
        return values
    array = as_array(values, name)
    if array.dtype.kind not in "biuf":
        raise InputTypeError(name, rule, "None" if values is None else array.dtype)
    return torch.as_tensor(np.ascontiguousarray(array))  # torch has no negative strides


def whole_numbers(name: str, values: Any, device: torch.device) -> Tensor:
    """As int64; an empty list is an array of floats to NumPy."""
    tensor = numbers(name, values, rule := "be whole numbers").to(device)
    if tensor.numel() and (tensor.dtype.is_floating_point or tensor.dtype == torch.bool):
        raise InputTypeError(name, rule, tensor.dtype)
    return tensor.long()


def matrix_entries(matrix: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The positions int64 `[2, E]` and the values `[E]` of the entries of a matrix that are not 0."""
    entries = sp.coo_array(matrix)
    nonzero = entries.data != 0
    return np.stack([axis[nonzero] for axis in entries.coords]).astype(np.int64), entries.data[nonzero]


def _both_directions(rows: Ids, columns: Ids, weight: Weights | None, num_nodes: int, rule: str) -> CSR:
    doubled = None if weight is None else np.concatenate([weight, weight])
    both = (np.concatenate([rows, columns]), np.concatenate([columns, rows]))
    merged = merge_duplicates(*both, doubled, num_nodes, rule)
    weighted = merged.weight is not None and not bool((merged.weight == 1).all())
    return CSR(merged.indptr, merged.indices, merged.weight if weighted else None, symmetric=True)


def _checked_symmetric(csr: CSR) -> CSR:
    reverse = csr.transposed
    if not torch.equal(reverse.indptr, csr.indptr) or not torch.equal(reverse.indices, csr.indices):
        forward, backward = csr.rows * csr.num_nodes + csr.indices, csr.indices.long() * csr.num_nodes + csr.rows
        e = int((~torch.isin(backward, forward)).nonzero()[0])
        raise NotSymmetricError(
            "edges", "be symmetric", "({0}, {1}) without ({1}, {0})",
            "Pass {symmetrize} to add the missing direction, or {directed} to keep edge directions.",
            nodes=(int(csr.rows[e]), int(csr.indices[e])), hints=HINTS,
        )  # fmt: skip
    weight, opposite = csr.weight, reverse.weight
    if weight is not None and opposite is not None:
        differs = (weight - opposite).abs() > ROUNDING * weight
        if bool(differs.any()):
            e = int(differs.nonzero()[0])
            i, j = int(csr.rows[e]), int(csr.indices[e])
            raise NotSymmetricError(
                "weight", "be symmetric",
                f"{float(weight[e]):g} on ({{0}}, {{1}}) and {float(opposite[e]):g} on ({{1}}, {{0}})",
                "Pass {symmetrize} to join them, or {directed} to keep both.", nodes=(i, j), hints=HINTS,
            )  # fmt: skip
        weight = (weight + opposite) / 2
    return CSR(csr.indptr, csr.indices, weight, symmetric=True)


def _read_pairs(edges: ArrayLike | Tensor | Iterable[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    listed = isinstance(edges, (list, tuple, Iterator, Set))
    array = as_array(list(edges) if listed else edges, "edges")  # type: ignore[arg-type]  # an Iterator is listed
    if array.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if array.dtype.kind not in "ui":
        raise InputTypeError("edges", "be integers", array.dtype, "Number the nodes 0..N-1.")
    if array.ndim == 2 and array.shape[1] == 2 and (listed or array.shape[0] != 2):
        array = array.T
    if array.ndim != 2 or array.shape[0] != 2:
        raise InputError("edges", "be an edge_index [2, E] or a list of pairs", f"shape {array.shape}")
    return array[0].astype(np.int64, copy=False), array[1].astype(np.int64, copy=False)


def _check_ids(rows: NDArray[np.int64], columns: NDArray[np.int64], num_nodes: int | None) -> int:
    if num_nodes is None:
        if len(rows) == 0:
            raise InputError("num_nodes", "be passed for a graph without edges, which does not determine it")
        num_nodes = max(int(rows.max()), int(columns.max()), 0) + 1
    num_nodes = check_int("num_nodes", num_nodes, 1, "A graph needs a node.")
    if num_nodes >= 2**31:
        raise InputError("num_nodes", "be below 2**31", num_nodes, "Split the graph by component.")
    for ids in (rows, columns):
        outside = ids[(ids < 0) | (ids >= num_nodes)]
        if len(outside):
            remedy = "Renumber the nodes or raise num_nodes."
            raise InputError("edges", f"name nodes 0..{num_nodes - 1}", int(outside[0]), remedy)
    return num_nodes


def _check_weight(
    weight: ArrayLike | Tensor | None, rows: NDArray[np.int64], columns: NDArray[np.int64], unbounded: bool
) -> Weights | None:
    if weight is None:
        return None
    values = as_array(weight, "weight")
    if values.dtype.kind in "bui":
        values = values.astype(np.float32)
    if values.dtype.kind != "f":
        raise InputTypeError("weight", "be numbers", values.dtype)
    if values.shape != rows.shape:
        raise InputError("weight", f"have one number per edge, shape [{len(rows)}]", list(values.shape))
    invalid, rule, remedy = ~(np.isfinite(values) & (values > 0)), "be positive and finite", "Omit edges of weight 0."
    if not invalid.any() and not unbounded:
        invalid, rule = values > 1, "lie in (0, 1]"
        remedy = (
            "Divide by the largest weight, pass {unbounded} to allow any positive weight, or {lengths} for lengths."
        )
    if invalid.any():
        e = int(np.flatnonzero(invalid)[0])
        received, nodes = f"{values[e]:g} on edge ({{0}}, {{1}})", (int(rows[e]), int(columns[e]))
        raise InputError("weight", rule, received, remedy, nodes=nodes, hints=HINTS)
    return values


def _round_to(dtype: torch.dtype, weight: Weights) -> Weights:
    kind: type[np.floating] = np.float64 if dtype == torch.float64 else np.float32
    with np.errstate(over="ignore", under="ignore"):
        values = weight.astype(kind)
    lost = ~(np.isfinite(values) & (values > 0))
    if lost.any():
        raise InputError("weight", f"fit {dtype}", f"{weight[lost][0]:g}", "Pass dtype=torch.float64.")
    return values


def check_edges(edge_index: Tensor | None, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Raises an error unless these are the edges of `num_nodes` nodes. Ids out of range would read out of bounds."""
    if edge_index is None:
        remedy = "Pass two rows of node ids. ToSparseTensor(remove_edge_index=False) keeps them beside `adj_t`."
        raise InputError("edge_index", "be int64 [2, E]", "None", remedy)
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.int64:
        received = f"{edge_index.dtype} {list(edge_index.shape)}"
        raise InputError("edge_index", "be int64 [2, E]", received, "Pass two rows of node ids.")
    if edge_index.numel():
        low, high = (int(end) for end in edge_index.aminmax())
        if low < 0 or high >= num_nodes:
            rule = f"contain node ids from 0 to {num_nodes - 1}"
            raise InputError("edge_index", rule, low if low < 0 else high, "`x` needs one row per node.")
    if edge_weight is not None and list(edge_weight.shape) != [edge_index.shape[1]]:
        rule = f"have shape [{edge_index.shape[1]}], one weight per edge"
        raise InputError("edge_weight", rule, list(edge_weight.shape))


def check_weights(edge_index: Tensor, edge_weight: Tensor, name: str = "edge_weight") -> None:
    """Raises an error if weights are negative or not finite; `name` is the attribute that holds them."""
    invalid = ~((edge_weight >= 0) & edge_weight.isfinite())
    if bool(invalid.any()):
        e = int(invalid.nonzero()[0])
        received, nodes = f"{float(edge_weight[e]):g} on edge ({{0}}, {{1}})", edge_index[:, e].tolist()
        raise InputError(name, "be 0 or above and finite", received, "Remove such edges.", nodes=nodes)


def check_symmetric(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Raises an error if an edge has no reverse edge of the same weight; the weights of repeated edges add up."""
    weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight.detach().cpu()
    rows, columns = edge_index.cpu().int().numpy()
    try:
        _checked_symmetric(merge_duplicates(rows, columns, weight.double().numpy(), num_nodes, "sum"))
    except NotSymmetricError as error:
        rule = "contain every edge in both directions, with equal weights"
        remedy = "Apply torch_geometric.transforms.ToUndirected() to the data first."
        raise InputError("data.edge_index", rule, remedy=remedy) from error


def with_edges(data: Data, edge_index: Tensor, edge_weight: Tensor | None) -> Data:
    """A shallow copy of PyG data with other edges."""
    changed = copy.copy(data)
    for name in ("edge_attr", "edge_weight"):
        if getattr(changed, name, None) is not None:
            delattr(changed, name)
    changed.edge_index = edge_index
    if edge_weight is not None:
        changed.edge_weight = edge_weight
    return changed


def read_weight(data: Data) -> Tensor | None:
    """The weights of a PyG `Data`: `edge_weight`, or else `edge_attr` with one number per edge, or else None.

    PyG's layers take `[E]` and `[E, 1]` alike; its transforms and functions for networkx make either.
    """
    weight: Tensor | None = getattr(data, "edge_weight", None)
    if weight is not None:
        return _constant(weight)
    attribute: Tensor | None = getattr(data, "edge_attr", None)
    if attribute is not None and attribute.shape[1:] == (1,):
        attribute = attribute.squeeze(1)
    return _constant(attribute) if attribute is not None and attribute.dim() == 1 else None


def _constant(values: Tensor) -> Tensor:
    """Values that training may use and does not differentiate, such as embeddings that another network has computed."""
    if values.is_inference():
        return values.clone()
    return values.detach() if values.requires_grad else values


def check_node_features(x: Tensor | None, num_nodes: int) -> Tensor:
    """Returns node features as float32, dense or sparse, if they are finite and have one row per node."""
    if not isinstance(x, Tensor):
        remedy = "LGGDClassifier() and GGD() work without node features; or use an identity matrix."
        raise InputTypeError("data.x", "be a tensor of node features [N, F]", type(x).__name__, remedy)
    x = check_features("data.x", x, num_nodes)
    entries = x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values()  # type: ignore[no-untyped-call]  # not typed in torch
    check_finite("data.x", entries)
    return x


def check_features(name: str, x: Tensor, num_nodes: int) -> Tensor:
    """Returns node features as float32, dense or sparse, if there is one row of real numbers per node."""
    if x.dim() != 2 or x.shape[0] != num_nodes or x.shape[1] == 0:
        raise InputError(name, f"have shape [{num_nodes}, F], one row per node", list(x.shape))
    if x.dtype.is_complex:
        raise InputTypeError(name, "be real numbers", x.dtype)
    x = _constant(x).float()
    # Sums depend on the order in memory, and a saved model has it contiguous.
    return x.contiguous() if x.layout == torch.strided else x
