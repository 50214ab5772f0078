"""A graph with node features, read from PyG data once; it has no labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from lggd._system.files import size_in_words
from lggd._system.memory import equal
from lggd.errors import InputError, InputTypeError, NotSymmetricError
from lggd.graph import Graph, read_weight
from lggd.graph.edge_list import check_edges, check_node_features, check_weights
from lggd.graph.stored_graph import StoredGraph

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False)
class NodeData:
    """A graph and its node features: all that predictions may depend on besides the known labels.

    What only some models need is checked where it is used: `features`, `edges` and `undirected_graph`.

    Parameters
    ----------
    x : Tensor or None
        Node features as they were given, dense or sparse `[N, F]`.
    edge_index : Tensor or None
        int64 `[2, E]`; None for a graph on disk.
    edge_weight : Tensor or None
        `[E]`; from `edge_attr` where the data have no `edge_weight`.
    num_nodes : int
    graph : Graph or None
        A graph on disk; None for all others.
    weight_name : str
        The attribute that holds the weights, for errors.

    Examples
    --------
    >>> import lggd
    >>> nodes = NodeData.read(lggd.load("karate"))
    >>> nodes.num_nodes, nodes.num_edges, nodes.features.shape
    (34, 156, torch.Size([34, 34]))
    """

    x: Tensor | None
    edge_index: Tensor | None
    edge_weight: Tensor | None
    num_nodes: int
    graph: Graph | None = None
    weight_name: str = "edge_weight"

    @classmethod
    def read(cls, data: Data | NodeData) -> NodeData:
        """The graph and the node features of PyG data."""
        if isinstance(data, NodeData):
            return data
        if not hasattr(data, "edge_index") or not hasattr(data, "num_nodes"):
            raise InputTypeError("data", "be a PyG Data", type(data).__name__)
        graph = getattr(data, "graph", None)
        stored = graph if isinstance(graph, Graph) and data.edge_index is None else None
        name = "edge_attr" if getattr(data, "edge_weight", None) is None else "edge_weight"
        return cls(getattr(data, "x", None), data.edge_index, read_weight(data), data.num_nodes, stored, name)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without what is computed from them

    @cached_property
    def features(self) -> Tensor:
        """The node features as float32 `[N, F]`, dense or sparse; raises an error if there are none or not finite."""
        return check_node_features(self.x, self.num_nodes)

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor | None]:
        """The edges int64 `[2, E]` and their weights `[E]` or None; those on disk are read into memory."""
        if self.graph is not None:  # they were checked when it was opened
            return self.graph.edge_index, self.graph.csr.weight
        check_edges(self.edge_index, self.edge_weight, self.num_nodes)
        edge_index = cast(Tensor, self.edge_index)  # None was refused
        if self.edge_weight is not None:  # a loss that is not finite would not name the cause
            check_weights(edge_index, self.edge_weight, self.weight_name)
        return edge_index, self.edge_weight

    @cached_property
    def undirected_graph(self) -> Graph:
        """The graph; raises an error if it is not symmetric."""
        if self.graph is not None:
            if self.graph.is_directed:
                remedy = "Build it again without directions."
                raise InputError("data.graph", "have no directions, which models do not use", "a directed one", remedy)
            return self.graph
        if self.edge_index is None:
            remedy = "Pass a PyG Data with one; ToSparseTensor(remove_edge_index=False) keeps it."
            raise InputTypeError("data", "have an edge_index", "Data without it", remedy)
        try:
            edges, weight, dtype = self.edge_index, self.edge_weight, torch.float32
            return Graph.from_edges(edges, weight, num_nodes=self.num_nodes, dtype=dtype).to(edges.device)
        except InputError as error:
            names = {"edges": "data.edge_index", "weight": f"data.{self.weight_name}"}
            argument = names.get(error.argument, error.argument)
            remedy = "Divide all weights by the largest." if "unbounded" in error.hints else error.remedy
            if isinstance(error, NotSymmetricError):
                argument = "data.edge_index"
                remedy = "Apply torch_geometric.transforms.ToUndirected() to the data first."
            raise error.replace(argument=argument, remedy=remedy) from error

    @property
    def files(self) -> StoredGraph | None:
        """The files of a graph on disk."""
        return None if self.graph is None else self.graph.stored

    @property
    def num_edges(self) -> int:
        """The number of edges; both directions of an undirected edge count."""
        if self.graph is not None:
            return self.graph.num_edges
        return 0 if self.edge_index is None else self.edge_index.shape[1]

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that predictions depend on."""
        rows = () if self.graph is None else (self.graph.csr.indptr, self.graph.csr.indices, self.graph.csr.weight)
        named = (self.x, self.edge_index, self.edge_weight, *rows)
        return tuple(value if isinstance(value, Tensor) else None for value in named)

    def check_storage(self, model: str, needs_edge_index: bool) -> None:
        """Raises an error if a model that needs all edges in memory gets a graph on disk, or one with directions."""
        if self.graph is None:
            return
        if needs_edge_index:
            size = size_in_words(16 * self.graph.num_edges)
            remedy = f"Set data.edge_index = data.graph.edge_index, which takes {size}, or use KernelRidge() or GGD()."
            raise InputError("data", f"have its edges in memory for {model}", "a graph on disk", remedy)
        _ = self.undirected_graph

    def equals(self, other: NodeData) -> bool:
        """Whether the graphs and the node features are the same."""
        if self is other:
            return True
        if self.num_nodes != other.num_nodes:
            return False
        if self.files is not None and other.files is not None:  # their checksums are known: edges need not be read
            return self.files.fingerprint == other.files.fingerprint and equal(self.x, other.x)
        return equal(self.tensors, other.tensors)

    def to_pyg(self) -> Data:
        """PyG data with this graph and these node features."""
        from torch_geometric.data import Data

        named = {name: getattr(self, name) for name in ("x", "edge_index", "edge_weight", "graph")}
        return Data(**{name: value for name, value in named.items() if value is not None}, num_nodes=self.num_nodes)

    def pack(self) -> dict[str, Tensor]:
        """The graph and the node features as tensors; sparse features as indices and values.

        Omits tensors stored with a graph on disk.
        """
        named = {"x": self.x, "edge_index": self.edge_index, "edge_weight": self.edge_weight}
        packed = {name: value for name, value in named.items() if isinstance(value, Tensor)}
        if self.files is not None and packed.get("x") is self.files.x:
            packed.pop("x", None)
        if "x" in packed and packed["x"].layout != torch.strided:
            x = packed.pop("x").to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]  # torch has no type for it
            packed |= {"x.places": x.indices(), "x.values": x.values(), "x.shape": torch.tensor(x.shape)}
        return {**packed, "num_nodes": torch.tensor(self.num_nodes)}

    @classmethod
    def unpack(cls, packed: Mapping[str, Tensor], graph: Graph | None = None) -> NodeData:
        """The inverse of `pack`; `graph` is the one on disk."""
        x = packed.get("x")
        if graph is not None and graph.stored is not None and x is None:
            x = graph.stored.x
        if "x.places" in packed:
            shape = tuple(packed["x.shape"].tolist())
            x = torch.sparse_coo_tensor(packed["x.places"], packed["x.values"], shape, check_invariants=True).coalesce()
        return cls(x, packed.get("edge_index"), packed.get("edge_weight"), int(packed["num_nodes"]), graph)
