"""What a model is fitted to, what several models have in common in that, and how errors say which model they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from lggd.errors import InputTypeError, error_context
from lggd.estimator.labels import Labels
from lggd.graph import Graph


@dataclass(frozen=True, eq=False)
class FitTask:
    """What a model is fitted to. Those whose graph and contents are the same have one `graph` in common.

    `name` is what errors and curves call the model; "" where there is but one.
    """

    data: Any
    graph: Graph
    labels: Labels
    seed: int
    name: str = ""


def read_graphs(data: Sequence[Any], names: Sequence[str]) -> list[Graph]:
    """The graph of each of these data: one for all whose graph and contents are the same."""
    graphs: list[Graph] = []
    for place, first in enumerate(first_equal(data, same_inputs)):
        with error_context(names[place]):
            graphs.append(graphs[first] if first < place else read_graph(data[place]))
    return graphs


def read_graph(data: Any) -> Graph:
    """The graph of PyG data, which must be symmetric."""
    if not hasattr(data, "edge_index") or not hasattr(data, "num_nodes"):
        raise InputTypeError("data", "be a PyG Data", type(data).__name__)
    try:
        return Graph.from_pyg(data, dtype=torch.float32)
    except ValueError as wrong:
        if "symmetrize" not in str(wrong):
            raise
        sentence = str(wrong).split(" Use ")[0].split(" Pass ")[0].replace("`edges`", "`data.edge_index`")
        raise ValueError(f"{sentence} Apply torch_geometric.transforms.ToUndirected() to the data first.") from wrong


def inputs_of(data: Any) -> list[Tensor | None]:
    """The tensors of the data that distances depend on, besides the labels."""
    named = (getattr(data, name, None) for name in ("edge_index", "x", "edge_weight", "edge_attr"))
    return [value if isinstance(value, Tensor) else None for value in named]


def without_labels(data: Any) -> Any:
    """The graph and its contents alone: what predictions may depend on besides the labels that were given."""
    from torch_geometric.data import Data

    kept = {name: getattr(data, name, None) for name in ("x", "edge_index", "edge_weight", "edge_attr")}
    return Data(**{name: value for name, value in kept.items() if value is not None}, num_nodes=data.num_nodes)


def same_inputs(one: Any, other: Any) -> bool:
    """Whether two data have the same graph and the same contents."""
    if one is other:
        return True
    nodes = [getattr(data, "num_nodes", None) for data in (one, other)]
    return nodes[0] == nodes[1] and all(map(equal, inputs_of(one), inputs_of(other)))


def equal(one: Any, other: Any) -> bool:
    """Whether two settings or tensors are the same; tensors by their entries, where they are not the same object."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return _same_entries(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if is_dataclass(one):
        return all(equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)


def _same_entries(one: Tensor, other: Tensor) -> bool:
    kinds = [(tensor.shape, tensor.dtype, tensor.layout, tensor.device) for tensor in (one, other)]
    if kinds[0] != kinds[1]:
        return False
    if one.layout == torch.strided:
        return torch.equal(one, other)
    # Torch compares no sparse tensors.
    entries = [tensor.to_sparse_coo().coalesce() for tensor in (one, other)]  # type: ignore[no-untyped-call]
    return torch.equal(entries[0].indices(), entries[1].indices()) and torch.equal(
        entries[0].values(), entries[1].values()
    )


def digest(tensor: Tensor) -> str:
    """What stands for the entries of a tensor, its kind and where it lies: equal for equal ones, whoever holds them."""
    plain = tensor.detach().cpu()
    plain = plain if plain.layout == torch.strided else plain.to_dense()
    told = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.layout}".encode()
    return hashlib.blake2b(told + plain.contiguous().numpy().tobytes(), digest_size=16).hexdigest()


def first_equal(things: Sequence[Any], same: Callable[[Any, Any], bool]) -> list[int]:
    """For each of them the place of the first that is the same."""
    found: list[int] = []
    for place, thing in enumerate(things):
        earlier = (first for first in sorted(set(found)) if same(things[first], thing))
        found.append(next(earlier, place))
    return found
