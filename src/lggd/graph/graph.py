"""The graph: immutable, sparse, weighted, built from and converted to many formats."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.graph import geometry
from lggd.graph.csr import CPU, CSR, Layout, connected_components, inverse
from lggd.graph.edge_list import Symmetrize, as_array, matrix_entries, read_edge_list, read_weight
from lggd.html import MAX_VALUES, Facts, card, histogram
from lggd.validation import suggestion

if TYPE_CHECKING:
    import networkx as nx
    from jaxtyping import Float, Int64, Shaped
    from torch_geometric.data import Data

    from lggd.graph.stored_graph import StoredGraph


class EdgeOptions(TypedDict, total=False):
    """The options of `Graph.from_edges` that every other constructor from edges forwards to it."""

    directed: bool
    symmetrize: Symmetrize | str | None
    unbounded: bool
    dtype: torch.dtype | None


class Graph:
    """A weighted graph on nodes 0..N-1, immutable.

    Build one with `from_edges`, `from_scipy`, `from_networkx`, `from_pyg`, `from_points` or `from_grid`. Rows are
    sorted and both directions of an edge are stored. Weights lie in (0, 1]: the larger, the closer the nodes (an edge
    is 1/√w long). Duplicate edges are merged and keep the largest weight. Self-loops are dropped with a warning.
    `dtype` is the precision of the weights, and the default precision of evolutions.

    Examples
    --------
    >>> graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> graph
    Graph(nodes=3, edges=4)
    >>> graph.degree.tolist()
    [1.0, 2.0, 1.0]
    """

    def __init__(self, layout: Layout, dtype: torch.dtype, stored: StoredGraph | None = None) -> None:
        self._native, self.dtype, self.stored = layout, dtype, stored

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = True) -> Graph:
        """Opens a graph on disk, written by `save` or by `lggd graph build`; its edges are read where they are used.

        Parameters
        ----------
        folder : path
        verify : bool
            Compares the checksum of every file, which reads all of them once.

        Raises
        ------
        InputFileError
            If the folder is not a graph, or a file of it was truncated, changed or written by another version.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> Graph.from_edges([(0, 1), (1, 2)], symmetrize="max").save(folder)
        >>> Graph.open(folder)
        Graph(nodes=3, edges=4, on disk)
        """
        from lggd.graph.stored_graph import StoredGraph

        stored = StoredGraph.open(folder, verify=verify)
        return cls(Layout(stored.csr), stored.degree.dtype, stored)

    def save(
        self, folder: str | Path, *, x: Shaped[Tensor, "n f"] | None = None, y: Shaped[Tensor, " n"] | None = None,
        ids: Any = None,
    ) -> None:  # fmt: skip
        """Writes the graph into a folder, for `open`: one that is new, empty, or a graph to replace.

        With node features `x` [N, F], labels `y` [N] (-1 for unlabelled nodes) and `ids` of the nodes, where given.
        """
        from lggd.graph.stored_graph import write_csr

        write_csr(folder, self.csr, self.degree, x=x, y=y, ids=ids)

    @classmethod
    def from_edges(
        cls, edges: ArrayLike | Tensor | Iterable[tuple[int, int]], weight: ArrayLike | Tensor | None = None, *,
        num_nodes: int | None = None, directed: bool = False, symmetrize: Symmetrize | str | None = None,
        unbounded: bool = False, dtype: torch.dtype | None = None,
    ) -> Graph:  # fmt: skip
        """From an edge list.

        Parameters
        ----------
        edges : array-like [2, E] or iterable of pairs
            PyG's `edge_index`, or pairs (i, j).
        weight : array-like [E], optional
            Similarities; None sets all weights to 1. Lengths ℓ are weights 1/ℓ², with `unbounded=True`.
        num_nodes : int, optional
            None infers it from the largest id; required for a graph without edges.
        directed : bool
            Keeps edge directions: f(i) depends on f(j) through the edge (i, j), so that distances are those of paths
            from i along the edges to the boundary; reverse the edges for paths from the boundary. Otherwise edges must
            be symmetric, or `symmetrize` makes them so.
        symmetrize : Symmetrize or {"max", "mean"}, optional
            How to join the two directions of an edge; a missing one counts as weight 0.
        unbounded : bool
            Allows any positive weight instead of (0, 1].
        dtype : torch.dtype, optional
            float32 or float64; None follows the weights.

        Raises
        ------
        InputError
            If edges are not symmetric, name unknown nodes, or weights are out of range.

        Examples
        --------
        >>> Graph.from_edges([(0, 1), (1, 0), (1, 2), (2, 1)], [0.5, 0.5, 1.0, 1.0])
        Graph(nodes=3, edges=4, weighted)
        """
        csr, dtype = read_edge_list(edges, weight, num_nodes, directed, symmetrize, unbounded, dtype)
        return cls(Layout(csr), dtype)

    @classmethod
    def from_scipy(cls, matrix: Any, **options: Unpack[EdgeOptions]) -> Graph:
        """From a square matrix of weights.

        Parameters
        ----------
        matrix : SciPy sparse matrix or array-like [N, N]
            The weight of each edge (i, j); zeros are no edges.
        **options
            `directed`, `symmetrize`, `unbounded` and `dtype`, as in `from_edges`.

        Examples
        --------
        >>> Graph.from_scipy(np.array([[0, 0.5], [0.5, 0]]))
        Graph(nodes=2, edges=2, weighted)
        """
        if not sp.issparse(matrix):
            matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError("matrix", "be square", f"shape {tuple(matrix.shape)}", "Pass the N x N weights.")
        return cls.from_edges(*matrix_entries(matrix), num_nodes=matrix.shape[0], **options)

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph[Any], *, weight: str | None = "weight", **options: Unpack[EdgeOptions]
    ) -> Graph:
        """From a networkx graph, whose nodes are numbered in the order of `list(graph)`.

        Parameters
        ----------
        graph : networkx.Graph
        weight : str, optional
            The edge attribute to read; edges without it have weight 1, and with None all edges. An attribute that no
            edge has is an error, except "weight".
        **options
            `directed`, `symmetrize`, `unbounded` and `dtype` (float64 by default), as in `from_edges`.

        Examples
        --------
        >>> import networkx as nx
        >>> Graph.from_networkx(nx.path_graph(3))
        Graph(nodes=3, edges=4)
        """
        if weight not in ("weight", None) and graph.number_of_edges():
            known = {str(name) for _, _, attributes in graph.edges(data=True) for name in attributes}
            if weight not in known:
                remedy = suggestion(str(weight), sorted(known))
                raise InputError("weight", "be an attribute of an edge", repr(weight), remedy)
        number: dict[Hashable, int] = {node: k for k, node in enumerate(graph)}
        # networkx looks for an attribute called None, too, and finds none.
        triples = [(number[u], number[v], w) for u, v, w in graph.edges(data=weight, default=1.0)]
        edges = np.array([(u, v) for u, v, _ in triples], np.int64).reshape(-1, 2).T
        values = np.array([w for _, _, w in triples])
        if not graph.is_directed():
            # networkx lists an undirected edge once; a self-loop has no other direction.
            distinct = edges[0] != edges[1]
            edges = np.concatenate([edges, edges[::-1, distinct]], axis=1)
            values = np.concatenate([values, values[distinct]])
        options["dtype"] = options.get("dtype") or torch.float64
        return cls.from_edges(edges, values, num_nodes=len(number), **options)

    @classmethod
    def from_pyg(cls, data: Data, **options: Unpack[EdgeOptions]) -> Graph:
        """From a PyG `Data`.

        Parameters
        ----------
        data : torch_geometric.data.Data
            `edge_index` holds the edges, `edge_weight` or else `edge_attr` [E] or [E, 1] their weights.
        **options
            `directed`, `symmetrize`, `unbounded` and `dtype`, as in `from_edges`.

        Examples
        --------
        >>> from torch_geometric.data import Data
        >>> Graph.from_pyg(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2))
        Graph(nodes=2, edges=2)
        """
        edge_index, stored = getattr(data, "edge_index", None), getattr(data, "graph", None)
        if edge_index is None and isinstance(stored, Graph):
            return stored
        if edge_index is None:
            remedy = "Pass a PyG Data with one; ToSparseTensor(remove_edge_index=False) keeps it."
            raise InputTypeError("data", "have an edge_index", f"{type(data).__name__} without it", remedy)
        graph = cls.from_edges(edge_index, read_weight(data), num_nodes=data.num_nodes, **options)
        return graph.to(edge_index.device)

    @classmethod
    def from_points(
        cls, points: ArrayLike | Tensor, *, k: int | None = None, epsilon: float | None = None,
        kernel: geometry.Kernel | None = None, dtype: torch.dtype | None = None,
    ) -> Graph:  # fmt: skip
        """From points in Euclidean space, stored in Morton order internally.

        Parameters
        ----------
        points : array-like [N, d]
            One row per point.
        k : int, optional
            Joins two points where either is among the `k` nearest neighbours of the other.
        epsilon : float, optional
            Joins points at most this far apart. Pass either `k` or `epsilon`.
        kernel : callable, optional
            Maps the lengths of edges [E] to weights in (0, 1]; None sets all weights to 1.
        dtype : torch.dtype, optional
            float32 or float64; None follows the weights.

        Examples
        --------
        >>> Graph.from_points([[0.0], [0.1], [1.0]], epsilon=0.5)
        Graph(nodes=3, edges=2)
        """
        coordinates = geometry.check_points(as_array(points, "points"))
        order = geometry.morton(coordinates)
        sorted_points = coordinates[order.numpy()]
        edges = geometry.neighbour_edges(sorted_points, k=k, epsilon=epsilon)
        weight = None if kernel is None else geometry.apply_kernel(kernel, geometry.edge_lengths(sorted_points, edges))
        csr, dtype = read_edge_list(edges, weight, len(order), symmetrize=Symmetrize.MAX, dtype=dtype)
        return cls(Layout(csr, order), dtype)

    @classmethod
    def from_grid(
        cls, mask: ArrayLike | Tensor, *, connectivity: Literal[4, 8] = 4, dtype: torch.dtype | None = None
    ) -> Graph:
        """From the pixels of a 2-D mask or image, numbered row by row.

        Parameters
        ----------
        mask : array-like [H, W]
            Nodes are the True pixels, or those of an image (any numbers, also 0 and 1) up to the middle of its range.
        connectivity : {4, 8}
            Diagonal steps (8) weigh 1/2, so that with p = ∞ they are √2 long.
        dtype : torch.dtype, optional
            float32 (default) or float64.

        Examples
        --------
        >>> Graph.from_grid([[255, 255, 0], [255, 255, 0]])  # the two dark pixels, one above the other
        Graph(nodes=2, edges=2)
        """
        edges, weight, pixels = geometry.grid_edges(as_array(mask, "mask"), connectivity)
        order, dtype = geometry.morton(pixels), dtype or torch.float32
        rows = inverse(order).numpy()[edges]
        csr, dtype = read_edge_list(rows, weight, len(order), symmetrize=Symmetrize.MAX, dtype=dtype)
        return cls(Layout(csr, order), dtype)

    @property
    def num_nodes(self) -> int:
        return self._native.csr.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of stored edges; an undirected edge counts twice, as in PyG."""
        return self._native.csr.num_edges

    @property
    def is_directed(self) -> bool:
        return not self._native.csr.symmetric

    @property
    def is_weighted(self) -> bool:
        return self._native.csr.weight is not None

    @property
    def device(self) -> torch.device:
        return self._native.csr.indptr.device

    @cached_property
    def csr(self) -> CSR:
        """The rows in node order. Do not modify them in place: solvers share this memory."""
        return self._native.in_node_order[0]

    @property
    def edge_index(self) -> Int64[Tensor, "2 e"]:
        """PyG's edge_index, int64 `[2, E]`, sorted by row and then by column."""
        return torch.stack([self.csr.rows, self.csr.indices.long()])

    @property
    def weight(self) -> Float[Tensor, " e"]:
        """The weight of each edge `[E]`, in the order of `edge_index`."""
        if self.csr.weight is not None:
            return self.csr.weight
        return torch.ones(self.num_edges, dtype=self.dtype, device=self.device)

    @cached_property
    def degree(self) -> Float[Tensor, " n"]:
        """δ(i) = Σ_j w(i, j), `[N]`."""
        csr = self._native.csr
        if self.stored is not None:
            return self.stored.degree
        if csr.weight is None:
            total = csr.indptr.diff().to(self.dtype)
        else:
            total = torch.segment_reduce(csr.weight, "sum", offsets=csr.indptr, initial=0)
        return self._native.to_nodes(total)

    @cached_property
    def components(self) -> Int64[Tensor, " n"]:
        """The connected component of each node (weakly connected where directed), int64 `[N]`, numbered from 0."""
        return connected_components(self.csr)

    def layout(self, passes: int = 1) -> Layout:
        """The memory layout to solve on, for work that reads all edges about `passes` times.

        Points are stored in Morton order. Any other large graph whose neighbours lie far apart in memory is reordered
        (reverse Cuthill-McKee) once the work is worth it, and stays so.
        """
        return self._native if self.stored is not None else self._native.for_passes(passes)

    def to(self, device: torch.device | str) -> Graph:
        """The same graph on another device; the graph itself if it is already there."""
        device = torch.empty(0, device=device).device  # "cuda" becomes the current device, as "cuda:0"
        if device == self.device:
            return self
        order, csr = None if self._native.order is None else self._native.order.to(device), self._native.csr.to(device)
        return Graph(Layout(csr, order), self.dtype, None if self.stored is None else self.stored.on(csr))

    def to_scipy(self) -> sp.csr_array:
        """The weights as a SciPy CSR array `[N, N]`."""
        return self.csr.to(CPU).to_scipy(self.weight.cpu().numpy())

    def to_networkx(self) -> nx.Graph[int]:
        """A networkx Graph, or DiGraph where directed, with the weights as the edge attribute `weight`."""
        import networkx as nx

        graph: nx.Graph[int] = nx.DiGraph() if self.is_directed else nx.Graph()
        graph.add_nodes_from(range(self.num_nodes))
        graph.add_weighted_edges_from(zip(*self.edge_index.tolist(), self.weight.tolist(), strict=True))
        return graph

    def __repr__(self) -> str:
        traits = [f"nodes={self.num_nodes}", f"edges={self.num_edges}"]
        traits += ["weighted"] * self.is_weighted + ["directed"] * self.is_directed + ["on disk"] * bool(self.stored)
        traits += [f"device={self.device}"] * (self.device.type != "cpu")
        return f"Graph({', '.join(traits)})"

    def _repr_html_(self) -> str:
        """Sizes, traits and how many neighbours nodes have, for notebooks; reads no edges, however many there are."""
        indptr, traits = self._native.csr.indptr, {"weighted": self.is_weighted, "directed": self.is_directed}
        first = range(0, self.num_nodes, max(1, self.num_nodes // MAX_VALUES))
        neighbours = (indptr[1:][first.start :: first.step] - indptr[:-1][first.start :: first.step]).cpu()
        facts: Facts = [
            ("nodes", f"{self.num_nodes:,}"),
            ("edges", f"{self.num_edges:,}"),
            ("kind", ", ".join(name if holds else f"un{name}" for name, holds in traits.items())),
            ("device", self.device),
        ]
        if self.stored is not None:
            facts.append(("folder", self.stored.folder))
        return card("Graph", facts, histogram(neighbours, "neighbours of a node"))

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("_native", "dtype", "stored") or name in self.__dict__:
            raise AttributeError(f"A Graph is immutable: cannot set {name!r}. Build a new one.")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, object]:
        return {"_native": self._native, "dtype": self.dtype, "stored": self.stored}


def check_graph(graph: Any) -> Graph:
    """Returns the graph if it is a `Graph`."""
    if not isinstance(graph, Graph):
        remedy = "Build one, as with Graph.from_networkx, Graph.from_pyg or Graph.from_scipy."
        raise InputTypeError("graph", "be a lggd.Graph", type(graph), remedy)
    return graph
