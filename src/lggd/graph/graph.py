"""The graph: immutable, sparse, weighted, with many ways in and out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.graph import ordering
from lggd.graph.csr import CSR, inverse
from lggd.graph.edge_list import EdgeList, Symmetrize, as_array
from lggd.graph.geometry import Kernel, apply_kernel, edge_lengths, grid_edges, neighbour_edges
from lggd.graph.layout import Layout

if TYPE_CHECKING:
    import networkx as nx


class Graph:
    """A weighted graph on nodes 0..N-1 that never changes.

    Rows are sorted, both directions of an edge are stored, weights are in (0, 1]: the larger, the closer the
    nodes (the length of an edge is 1/√w). Build one with `from_edges`, `from_scipy`, `from_networkx`, `from_pyg`,
    `from_points` or `from_grid`; they all state and check the same rules:

    - Equal edges are merged and keep the largest weight. Self-loops are dropped with a warning.
    - The graph must be symmetric. If yours is not, either make it so (`symmetrize="max"` or `"mean"`, where a missing
      direction counts as 0) or keep the arrows (`directed=True`): then f(i) sees f(j) through the edge (i, j),
      so a distance is that of walking from i along the arrows to the boundary.
    - Weights lie in (0, 1]; `unbounded=True` admits any positive weight.

    >>> graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> graph
    Graph(nodes=3, edges=4)
    >>> graph.degree.tolist()
    [1.0, 2.0, 1.0]
    """

    def __init__(self, layout: Layout, dtype: torch.dtype) -> None:
        self._native = layout
        self._dtype = dtype

    # -- ways in ------------------------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        edges: ArrayLike | Tensor | Sequence[tuple[int, int]],
        weight: ArrayLike | Tensor | None = None,
        *,
        num_nodes: int | None = None,
        directed: bool = False,
        symmetrize: Symmetrize | None = None,
        unbounded: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Graph:
        """From PyG's `edge_index [2, E]` or a list of pairs, with optional weights `[E]`.

        `num_nodes=None` counts up to the largest id. A graph without edges is accepted when `num_nodes` says so.

        >>> Graph.from_edges([(0, 1), (1, 0), (1, 2), (2, 1)], [0.5, 0.5, 1.0, 1.0])
        Graph(nodes=3, edges=4, weighted)
        """
        listed = EdgeList.read(edges, weight, num_nodes=num_nodes, unbounded=unbounded, dtype=dtype)
        return cls(Layout(listed.assemble(directed, symmetrize)), listed.dtype)

    @classmethod
    def from_scipy(
        cls,
        matrix: Any,
        *,
        directed: bool = False,
        symmetrize: Symmetrize | None = None,
        unbounded: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Graph:
        """From a square SciPy sparse matrix (or dense array) of weights; zeros are no edges.

        >>> import numpy as np
        >>> Graph.from_scipy(np.array([[0, 0.5], [0.5, 0]]))
        Graph(nodes=2, edges=2, weighted)
        """
        if not sp.issparse(matrix):
            matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError("matrix", "be square", f"shape {tuple(matrix.shape)}", "Pass the N x N weights.")
        entries = sp.coo_array(matrix)
        kept = entries.data != 0
        rows, columns = (axis[kept] for axis in entries.coords)
        values = entries.data[kept]
        if values.dtype.kind in "bui":
            values = values.astype(np.float32)
        return cls.from_edges(
            np.stack([rows, columns]),
            values,
            num_nodes=matrix.shape[0],
            directed=directed,
            symmetrize=symmetrize,
            unbounded=unbounded,
            dtype=dtype,
        )

    @classmethod
    def from_networkx(
        cls,
        graph: nx.Graph[Any],
        *,
        weight: str = "weight",
        directed: bool = False,
        symmetrize: Symmetrize | None = None,
        unbounded: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Graph:
        """From a networkx graph. Nodes are numbered in networkx's own order: `list(graph)`.

        `weight` names the edge attribute to read; edges without it weigh 1.

        >>> import networkx as nx
        >>> Graph.from_networkx(nx.path_graph(3))
        Graph(nodes=3, edges=4)
        """
        number: dict[Hashable, int] = {node: k for k, node in enumerate(graph)}
        listed = [(number[u], number[v], w) for u, v, w in graph.edges(data=weight, default=1.0)]
        edges = np.array([(u, v) for u, v, _ in listed], np.int64).reshape(-1, 2).T
        values = np.array([w for _, _, w in listed])
        if not graph.is_directed():
            # networkx lists an undirected edge once; a self-loop has no other direction.
            turned = edges[0] != edges[1]
            edges = np.concatenate([edges, edges[::-1, turned]], axis=1)
            values = np.concatenate([values, values[turned]])
        return cls.from_edges(
            edges,
            values,
            num_nodes=len(number),
            directed=directed,
            symmetrize=symmetrize,
            unbounded=unbounded,
            dtype=dtype or torch.float64,
        )

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        directed: bool = False,
        symmetrize: Symmetrize | None = None,
        unbounded: bool = False,
        dtype: torch.dtype | None = None,
    ) -> Graph:
        """From a PyG `Data`: `edge_index`, and as weights `edge_weight` or else a one-dimensional `edge_attr`.

        >>> from torch_geometric.data import Data
        >>> Graph.from_pyg(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2))
        Graph(nodes=2, edges=2)
        """
        edge_index = getattr(data, "edge_index", None)
        if edge_index is None:
            raise InputTypeError(
                "data", "carry an edge_index", f"{type(data).__name__} without one", "Pass a PyG Data."
            )
        return cls.from_edges(
            edge_index,
            read_weight(data),
            num_nodes=data.num_nodes,
            directed=directed,
            symmetrize=symmetrize,
            unbounded=unbounded,
            dtype=dtype,
        ).to(edge_index.device)

    @classmethod
    def from_points(
        cls,
        points: ArrayLike | Tensor,
        *,
        k: int | None = None,
        epsilon: float | None = None,
        kernel: Kernel | None = None,
        dtype: torch.dtype | None = None,
    ) -> Graph:
        """Joins each point to its `k` nearest ones (an edge where either counts the other), or to all within `epsilon`.

        `kernel` maps Euclidean lengths `[E]` to weights in (0, 1]; None makes every weight 1. Points are read in
        Morton order inside, which never shows outside.

        >>> Graph.from_points([[0.0], [0.1], [1.0]], epsilon=0.5)
        Graph(nodes=3, edges=2)
        """
        coordinates = as_array(points, "points")
        if coordinates.dtype.kind in "bui":
            coordinates = coordinates.astype(np.float64)
        if coordinates.dtype.kind != "f":
            raise InputTypeError("points", "be numbers", coordinates.dtype)
        if coordinates.ndim != 2 or coordinates.shape[1] == 0:
            raise InputError("points", "be numbers [N, d]", f"shape {coordinates.shape}", "Pass one row a point.")
        if not np.isfinite(coordinates).all():
            bad = int(np.flatnonzero(~np.isfinite(coordinates).all(1))[0])
            raise InputError("points", "be finite", f"{coordinates[bad]} in row {bad}", "Drop or repair that row.")
        if len(coordinates) == 0:
            raise InputError("points", "hold at least one point", "none")
        order = ordering.morton(coordinates)
        sorted_points = coordinates[order.numpy()]
        edges = neighbour_edges(sorted_points, k=k, epsilon=epsilon)
        weight = None if kernel is None else apply_kernel(kernel, edge_lengths(sorted_points, edges))
        listed = EdgeList.read(edges, weight, num_nodes=len(coordinates), dtype=dtype)
        return cls(Layout(listed.assemble(directed=False, symmetrize="max"), order), listed.dtype)

    @classmethod
    def from_grid(
        cls, mask: ArrayLike | Tensor, *, connectivity: Literal[4, 8] = 4, dtype: torch.dtype | None = None
    ) -> Graph:
        """Pixels as nodes, numbered row by row over the True pixels of a 2-D `mask`.

        An image (any 2-D numbers) is a mask of its dark half: pixels at or below the middle of its range. Diagonal
        steps (`connectivity=8`) weigh 1/2, so that with p = ∞ they are √2 long.

        >>> Graph.from_grid([[1, 1, 0], [1, 1, 0]], connectivity=4)  # the two dark pixels, one above the other
        Graph(nodes=2, edges=2)
        """
        edges, weight, pixels = grid_edges(as_array(mask, "mask"), connectivity)
        order = ordering.morton(pixels)
        listed = EdgeList.read(
            inverse(order).numpy()[edges], weight, num_nodes=len(pixels), dtype=dtype or torch.float32
        )
        return cls(Layout(listed.assemble(directed=False, symmetrize="max"), order), listed.dtype)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        return self._native.csr.num_nodes

    @property
    def num_edges(self) -> int:
        """Stored edges; an undirected edge counts twice, as in PyG."""
        return self._native.csr.num_edges

    @property
    def is_directed(self) -> bool:
        return not self._native.csr.symmetric

    @property
    def is_weighted(self) -> bool:
        return self._native.csr.weight is not None

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights, and of evolutions that are not told otherwise."""
        return self._dtype

    @property
    def device(self) -> torch.device:
        return self._native.csr.indptr.device

    @cached_property
    def csr(self) -> CSR:
        """The rows in node order. Do not write into them: solvers share this memory."""
        return self._native.in_node_order[0] if self._native.order is not None else self._native.csr

    @property
    def edge_index(self) -> Tensor:
        """PyG's edge_index, int64 `[2, E]`, sorted by row and then by column."""
        return torch.stack([self.csr.rows, self.csr.indices.long()])

    @property
    def weight(self) -> Tensor:
        """The weight of each edge `[E]`, in the order of `edge_index`."""
        if self.csr.weight is not None:
            return self.csr.weight
        return torch.ones(self.num_edges, dtype=self.dtype, device=self.device)

    @cached_property
    def degree(self) -> Tensor:
        """δ(i) = Σ_j w(i, j), `[N]`."""
        csr = self._native.csr
        if csr.weight is None:
            total = (csr.indptr[1:] - csr.indptr[:-1]).to(self.dtype)
        else:
            total = torch.segment_reduce(csr.weight, "sum", offsets=csr.indptr, initial=0)
        return self._native.to_nodes(total)

    @cached_property
    def components(self) -> Tensor:
        """The connected component of each node (weakly connected where directed), int64 `[N]`, numbered from 0."""
        csr = self.csr.to(torch.device("cpu"))
        pattern = sp.csr_array(
            (np.ones(csr.num_edges, np.int8), csr.indices.numpy(), csr.indptr.numpy()), shape=(self.num_nodes,) * 2
        )
        _, label = connected_components(pattern, directed=self.is_directed, connection="weak")
        return torch.from_numpy(label.astype(np.int64)).to(self.device)

    def layout(self, passes: int = 1) -> Layout:
        """The arrangement to solve on, for work that reads all edges about `passes` times.

        Points already lie in Morton order. Any other large graph whose neighbours lie far apart is brought into
        reverse Cuthill-McKee order the first time that much work is asked of it, and kept so.
        """
        native = self._native
        if native.order is not None or self.device.type != "cpu" or self.num_nodes < ordering.SMALLEST_WORTH_ORDERING:
            return native
        if "_ordered" in self.__dict__:
            return self._ordered
        return self._ordered if passes >= ordering.PASSES_WORTH_ORDERING else native

    @cached_property
    def _ordered(self) -> Layout:
        native = self._native
        if not ordering.is_scattered(native.csr):
            return native
        order = ordering.cuthill_mckee(native.csr)
        return Layout(native.csr.permuted(order)[0], order)

    # -- ways out -----------------------------------------------------------------------------------------------

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device; itself where it lies there already."""
        device = torch.empty(0, device=device).device  # "cuda" becomes the device it means, as "cuda:0"
        if device == self.device:
            return self
        order = None if self._native.order is None else self._native.order.to(device)
        return Graph(Layout(self._native.csr.to(device), order), self.dtype)

    def to_scipy(self) -> sp.csr_array:
        """The weights as a SciPy CSR array `[N, N]`."""
        csr = self.csr
        parts = (self.weight.cpu().numpy(), csr.indices.cpu().numpy(), csr.indptr.cpu().numpy())
        return sp.csr_array(parts, shape=(self.num_nodes,) * 2)

    def to_networkx(self) -> nx.Graph[int]:
        """A networkx Graph, or DiGraph where directed, with the weights as the edge attribute `weight`."""
        import networkx as nx

        graph: nx.Graph[int] = nx.DiGraph() if self.is_directed else nx.Graph()
        graph.add_nodes_from(range(self.num_nodes))
        graph.add_weighted_edges_from(zip(*self.edge_index.tolist(), self.weight.tolist(), strict=True))
        return graph

    # -- manners ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        traits = [f"nodes={self.num_nodes}", f"edges={self.num_edges}"]
        traits += ["weighted"] * self.is_weighted + ["directed"] * self.is_directed
        traits += [f"device={self.device}"] * (self.device.type != "cpu")
        return f"Graph({', '.join(traits)})"

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("_native", "_dtype") or name in self.__dict__:
            raise AttributeError(f"A Graph does not change: cannot set {name!r}. Build a new one.")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, object]:
        return {"_native": self._native, "_dtype": self._dtype}


def read_weight(data: Any) -> Tensor | None:
    """The weights of a PyG `Data`: `edge_weight`, or else a one-dimensional `edge_attr`, or else none."""
    weight: Tensor | None = getattr(data, "edge_weight", None)
    if weight is not None:
        return weight
    attribute: Tensor | None = getattr(data, "edge_attr", None)
    return attribute if attribute is not None and attribute.dim() == 1 else None
