"""PyG data: `edge_index [2, E]` and `edge_weight [E]`, read, checked and replaced; node features, checked."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.validation import check_finite


def read_edges(data: Any, num_nodes: int) -> tuple[Tensor, Tensor | None]:
    """The edges of PyG data and their weights, checked here because a non-finite loss would not name the cause."""
    graph = getattr(data, "graph", None)
    if data.edge_index is None and graph is not None:  # a graph on disk, whose edges were checked when it was opened
        return graph.edge_index, graph.csr.weight
    weight = read_weight(data)
    check_edges(data.edge_index, weight, num_nodes)
    if weight is not None:
        name = "edge_attr" if getattr(data, "edge_weight", None) is None else "edge_weight"
        check_weights(data.edge_index, weight, name)
    return data.edge_index, weight


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
        i, j = edge_index[:, e].tolist()
        received = f"{float(edge_weight[e]):g} on edge ({i}, {j})"
        raise InputError(name, "be 0 or above and finite", received, "Remove such edges.")


def check_symmetric(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Raises an error if an edge has no reverse edge of the same weight."""
    forward, backward = (_coalesced(edges, edge_weight, num_nodes) for edges in (edge_index, edge_index.flip(0)))
    if not torch.equal(forward[0], backward[0]) or not torch.allclose(forward[1], backward[1], rtol=1e-5, atol=0):
        rule = "contain every edge in both directions, with equal weights"
        remedy = "Apply torch_geometric.transforms.ToUndirected() to the data first."
        raise InputError("data.edge_index", rule, remedy=remedy)


def _coalesced(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Each distinct edge as one number, sorted, and the sum of its weights."""
    edge, inverse = torch.unique(edge_index[0] * num_nodes + edge_index[1], return_inverse=True)
    weight = torch.ones(len(inverse), device=edge.device) if edge_weight is None else edge_weight
    total = torch.zeros(len(edge), dtype=torch.float64, device=edge.device)
    return edge, total.index_add_(0, inverse, weight.double())


def with_edges(data: Any, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
    """A shallow copy of PyG data with other edges."""
    changed = copy.copy(data)
    for name in ("edge_attr", "edge_weight"):
        if getattr(changed, name, None) is not None:
            delattr(changed, name)
    changed.edge_index = edge_index
    if edge_weight is not None:
        changed.edge_weight = edge_weight
    return changed


def read_weight(data: Any) -> Tensor | None:
    """The weights of a PyG `Data`: `edge_weight`, or else a one-dimensional `edge_attr`, or else None."""
    weight: Tensor | None = getattr(data, "edge_weight", None)
    if weight is not None:
        return weight
    attribute: Tensor | None = getattr(data, "edge_attr", None)
    return attribute if attribute is not None and attribute.dim() == 1 else None


def check_node_features(data: Any) -> Tensor:
    """Returns `data.x` as float32, dense or sparse, if it is finite and has one row per node."""
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor):
        remedy = "GGD() works without node features; or use an identity matrix."
        raise InputTypeError("data.x", "be a tensor of node features [N, F]", type(x).__name__, remedy)
    if x.dim() != 2 or x.shape[0] != data.num_nodes or x.shape[1] == 0:
        raise InputError("data.x", f"have shape [{data.num_nodes}, F], one row per node", list(x.shape))
    if x.dtype.is_complex:
        raise InputTypeError("data.x", "be real numbers", x.dtype)
    x = x.float()
    check_finite("data.x", x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values())  # type: ignore[no-untyped-call]
    return x
