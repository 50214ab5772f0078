"""Graphs on disk: as PyG data, the names of their nodes, and what they contain in numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.stored_graph import StoredGraph, read_manifest

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
        at = range(self._count)[index]
        if isinstance(at, int):
            return str(at if self._ids is None else self._ids[at].as_py())
        if self._ids is None:
            return [str(k) for k in at]
        return [str(name) for name in self._ids.take(np.arange(at.start, at.stop, at.step)).to_pylist()]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, self._count, NAMES_AT_ONCE):
            yield from self[start : start + NAMES_AT_ONCE]


def names_of(data: Data) -> NodeNames | None:
    """The names of the nodes of data on disk; None for other data."""
    graph = getattr(data, "graph", None)
    return NodeNames(graph.stored) if isinstance(graph, Graph) and graph.stored is not None else None


def describe_graph(folder: str | Path, *, verify: bool = False) -> dict[str, Any]:
    """Numbers about a graph on disk: nodes, edges, neighbours per node, features, labels per class, bytes.

    An undirected edge counts once. `verify` compares all checksums, and raises at the first that differs.

    Examples
    --------
    >>> import tempfile
    >>> from lggd import Graph
    >>> folder = tempfile.mkdtemp()
    >>> Graph.from_edges([(0, 1), (1, 2)], symmetrize="max").save(folder)
    >>> describe_graph(folder)["edges"], describe_graph(folder)["neighbours"]["max"]
    (2, 2)
    """
    folder = Path(folder)
    if verify:
        StoredGraph.open(folder)
    began = time.perf_counter()
    stored = StoredGraph.open(folder, verify=False)
    seconds = time.perf_counter() - began
    manifest, neighbours = read_manifest(folder), np.diff(stored.csr.indptr.numpy())
    counts = neighbours if len(neighbours) else np.zeros(1, np.int64)
    directed, metadata = bool(manifest["directed"]), stored.metadata
    facts: dict[str, Any] = {
        "folder": str(folder), "nodes": manifest["nodes"], "directed": directed,
        "edges": manifest["edges"] if directed else manifest["edges"] // 2, "weighted": stored.csr.weight is not None,
        "neighbours": {
            "min": int(counts.min()), "median": float(np.median(counts)), "mean": float(counts.mean()),
            "max": int(counts.max()), "isolated": int((neighbours == 0).sum()),
        },
        "ids": "ids.arrow" in manifest["files"], "features": 0 if stored.x is None else stored.x.shape[1],
        "classes": _labels(stored), "bytes": sum(file["bytes"] for file in manifest["files"].values()),
        "checksums": "match" if verify else "not compared", "seconds_to_open": seconds,
        "notes": list(metadata.get("notes", ())),
    }  # fmt: skip
    if stored.csr.mapped is not None:
        stored.csr.mapped.release()
    return facts


def _labels(stored: StoredGraph) -> dict[str, int] | None:
    """The number of labels of each class; None without labels."""
    if stored.y is None:
        return None
    y = stored.y.numpy()
    names = stored.metadata.get("classes") or range(int(y.max(initial=-1)) + 1)
    counts = np.bincount(y[y >= 0], minlength=len(names))
    return {str(name): int(count) for name, count in zip(names, counts, strict=False)}
