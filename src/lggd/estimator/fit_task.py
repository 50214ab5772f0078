"""The inputs of a fit: data and seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from lggd.errors import InputError, InputTypeError, NotSymmetricError
from lggd.graph import Graph
from lggd.system.files import size_in_words

# The attributes of PyG data that a model depends on, besides the labels.
INPUTS = ("x", "edge_index", "edge_weight", "edge_attr", "graph")


@dataclass(frozen=True, eq=False)
class FitTask:
    """The inputs of the fit of one model.

    `inputs` builds the graph once, when needed: tasks whose data differ in labels alone share it. `seed` is set where
    an ensemble has chosen it. `name` identifies the model in errors and curves, "" for the only one, and `prefix`
    begins the names of its training stages.
    """

    data: Any
    inputs: Callable[[], Graph]
    seed: int | torch.Generator | None = None
    name: str = ""
    prefix: str = ""

    @classmethod
    def read(cls, data: Any, name: str = "") -> FitTask:
        """The task of a model that is fitted on its own."""
        check_data(data)
        return cls(data, cache(lambda: read_graph(data)), name=name)

    @property
    def graph(self) -> Graph:
        return self.inputs()

    def member(self, number: int, seed: int) -> FitTask:
        """The task of one member of an ensemble."""
        return replace(self, seed=seed, name=f"{self.name} member {number}".strip().replace(" ", "-"))


def check_data(data: Any) -> None:
    """Raises an error unless this is PyG data."""
    if not hasattr(data, "edge_index") or not hasattr(data, "num_nodes"):
        raise InputTypeError("data", "be a PyG Data", type(data).__name__)


def read_graph(data: Any) -> Graph:
    """The graph of PyG data, which must be symmetric."""
    check_data(data)
    graph = stored_graph(data)
    if graph is not None:
        if graph.is_directed:
            remedy = "Build it again without directions."
            raise InputError("data.graph", "have no directions, which models do not use", "a directed one", remedy)
        return graph
    try:
        return Graph.from_pyg(data, dtype=torch.float32)
    except NotSymmetricError as error:
        remedy = "Apply torch_geometric.transforms.ToUndirected() to the data first."
        raise error.replace(argument="data.edge_index", remedy=remedy) from error


def stored_graph(data: Any) -> Graph | None:
    """The graph on disk of data without `edge_index`; None for any other data."""
    graph = getattr(data, "graph", None)
    return graph if isinstance(graph, Graph) and getattr(data, "edge_index", None) is None else None


def check_storage(data: Any, model: str, needs_edge_index: bool) -> None:
    """Raises an error if a model that needs all edges in memory gets a graph on disk, or one with directions."""
    graph = stored_graph(data)
    if graph is None:
        return
    if needs_edge_index:
        size = size_in_words(16 * graph.num_edges)
        remedy = f"Set data.edge_index = data.graph.edge_index, which takes {size}, or use KernelRidge() or GGD()."
        raise InputError("data", f"have its edges in memory for {model}", "a graph on disk", remedy)
    read_graph(data)


def input_tensors(data: Any) -> tuple[Tensor | None, ...]:
    """The tensors of the data that distances depend on, besides the labels."""
    named = [getattr(data, name, None) for name in INPUTS]
    graph = stored_graph(data)
    named += [] if graph is None else [graph.csr.indptr, graph.csr.indices, graph.csr.weight]
    return tuple(value if isinstance(value, Tensor) else None for value in named)


def without_labels(data: Any) -> Any:
    """The graph and its node features alone: all that predictions may depend on besides the known labels."""
    from torch_geometric.data import Data

    inputs = {name: getattr(data, name, None) for name in INPUTS}
    return Data(**{name: value for name, value in inputs.items() if value is not None}, num_nodes=data.num_nodes)


def same_inputs(one: Any, other: Any) -> bool:
    """Whether two data have the same graph and the same node features."""
    if one is other:
        return True
    same_size = getattr(one, "num_nodes", None) == getattr(other, "num_nodes", None)
    if not same_size:
        return False
    files = [
        graph.stored for graph in map(stored_graph, (one, other)) if graph is not None and graph.stored is not None
    ]
    if len(files) == 2:  # their checksums are known: edges need not be read
        return files[0].fingerprint == files[1].fingerprint and equal(one.x, other.x)
    return equal(input_tensors(one), input_tensors(other))


def equal(one: Any, other: Any) -> bool:
    """Whether two settings or tensors are equal; tensors by their entries."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return _equal_tensors(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if is_dataclass(one) and not isinstance(one, type):
        return all(equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)


def _equal_tensors(one: Tensor, other: Tensor) -> bool:
    if (one.shape, one.dtype, one.layout, one.device) != (other.shape, other.dtype, other.layout, other.device):
        return False
    if one.layout == torch.strided:
        return torch.equal(one, other)
    # torch.equal does not take sparse tensors.
    a, b = (tensor.to_sparse_coo().coalesce() for tensor in (one, other))  # type: ignore[no-untyped-call]
    return torch.equal(a.indices(), b.indices()) and torch.equal(a.values(), b.values())
