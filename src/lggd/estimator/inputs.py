"""What models read of PyG data besides labels, the graph and the node features; and a cache of what depends on them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from lggd.errors import InputError, InputTypeError, NotSymmetricError
from lggd.graph import Graph
from lggd.graph.stored_graph import StoredGraph
from lggd.system.files import size_in_words

T = TypeVar("T")
# The attributes of PyG data that a model depends on, besides the labels.
INPUTS = ("x", "edge_index", "edge_weight", "edge_attr", "graph")
# Cached digests of tensors, with the versions that they were computed from.
_digests = WeakIdKeyDictionary()


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


def graph_files(data: Any) -> StoredGraph | None:
    """The files of such a graph."""
    graph = stored_graph(data)
    return None if graph is None else graph.stored


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
    if getattr(one, "num_nodes", None) != getattr(other, "num_nodes", None):
        return False
    mine, its = graph_files(one), graph_files(other)
    if mine is not None and its is not None:  # their checksums are known: edges need not be read
        return mine.fingerprint == its.fingerprint and equal(one.x, other.x)
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


class Cache(Generic[T]):
    """An LRU cache of `capacity` results. A key of None is never cached; copies start empty.

    >>> cache: Cache[int] = Cache(capacity=2)
    >>> cache("two", lambda: 2), cache("two", lambda: 3)
    (2, 2)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Hashable, T] = OrderedDict()

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the cached result of a key; on a miss, calls `make` and caches its result."""
        result = self.get(key)
        if result is None:
            result = make()
            self.put(key, result)
        return result

    def get(self, key: Hashable) -> T | None:
        if key is None or key not in self._results:
            return None
        self._results.move_to_end(key)
        return self._results[key]

    def put(self, key: Hashable, result: T) -> None:
        """Caches a result, and evicts the least recently used one beyond the capacity."""
        if key is not None:
            self._results[key] = result
        if len(self._results) > self._capacity:
            self._results.popitem(last=False)

    def clear(self) -> None:
        self._results.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._capacity,)


class _Identity:
    """Equal for the same tensor objects in the same memory, not changed in place since the key was created."""

    def __init__(self, tensors: tuple[Tensor | None, ...]) -> None:
        # References to the tensors keep their ids from being reused. Sparse tensors have no address of their own.
        self.tensors = tensors
        self.state = [
            None if x is None else (x._version, x.data_ptr() if x.layout == torch.strided else None) for x in tensors
        ]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.tensors)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Identity)
            and [*map(id, self.tensors)] == [*map(id, other.tensors)]
            and self.state == other.state
        )


def identity_key(*tensors: Tensor | None) -> Hashable:
    """A key for these tensor objects, which any in-place change invalidates.

    None where changes cannot be detected: for inference tensors, and for tensors that are being trained.
    """
    present = [tensor for tensor in tensors if tensor is not None]
    return None if any(x.is_inference() or x.requires_grad for x in present) else _Identity(tensors)


def content_key(*tensors: Tensor | None) -> tuple[str, ...]:
    """A digest of the entries, dtype, shape, device and layout of each tensor."""
    return tuple("none" if tensor is None else _digest(tensor) for tensor in tensors)


def _digest(tensor: Tensor) -> str:
    version = None if tensor.is_inference() else tensor._version
    cached: tuple[int, str] | None = _digests.get(tensor)  # type: ignore[no-untyped-call]
    if cached is not None and version is not None and cached[0] == version:
        return cached[1]
    dense = tensor.detach().cpu()
    dense = dense if dense.layout == torch.strided else dense.to_dense()
    kind = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.layout}".encode()
    digest = hashlib.blake2b(kind + dense.contiguous().numpy().tobytes(), digest_size=16).hexdigest()
    if version is not None:
        _digests[tensor] = version, digest
    return digest
