"""Graphs on disk as PyG data, and the names of their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.stored_graph import StoredGraph

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Names that are converted to Python strings at a time.
NAMES_AT_ONCE = 2**16


def load_stored(folder: str | Path, *, verify: bool = True) -> Data:
    """PyG data of a graph on disk: `graph` instead of `edge_index`; `x` and `y` are read where they are used."""
    from torch_geometric.data import Data

    graph = Graph.open(folder, verify=verify)
    stored = graph.stored
    if stored is None or stored.y is None:
        raise InputError(str(folder), "have labels", "none", "Build it with a table of nodes that has a label column.")
    given = {"x": stored.x, "y": stored.y}
    data = Data(**{name: value for name, value in given.items() if value is not None}, num_nodes=graph.num_nodes)
    data.graph, data.name = graph, Path(folder).resolve().name
    classes = stored.metadata.get("classes")
    data.num_classes = max(int(stored.y.max()) + 1, len(classes or ()))
    if classes:
        data.class_names = [str(name) for name in classes]
    return data


class NodeNames(Sequence[str]):
    """The ids of the nodes of a graph on disk as strings, converted when they are asked for."""

    def __init__(self, stored: StoredGraph) -> None:
        self._ids, self._count = stored.ids(), stored.csr.num_nodes

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            if self._ids is None:
                return [str(k) for k in range(start, stop, step)]
            names = [str(name) for name in self._ids.slice(start, max(0, stop - start)).to_pylist()]
            return names[::step]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        position = index % self._count
        return str(position if self._ids is None else self._ids[position].as_py())

    def __iter__(self) -> Iterator[str]:
        for start in range(0, self._count, NAMES_AT_ONCE):
            yield from self[start : start + NAMES_AT_ONCE]


def names_of(data: Any) -> NodeNames | None:
    """The names of the nodes of data on disk; None for other data."""
    graph = getattr(data, "graph", None)
    return NodeNames(graph.stored) if isinstance(graph, Graph) and graph.stored is not None else None
