"""What a graph on disk contains, in numbers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from lggd.graph.stored_graph import StoredGraph, read_manifest


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
    directed, metadata = bool(manifest["directed"]), stored.metadata
    facts: dict[str, Any] = {
        "folder": str(folder), "nodes": manifest["nodes"], "directed": directed,
        "edges": manifest["edges"] if directed else manifest["edges"] // 2, "weighted": stored.csr.weight is not None,
        "neighbours": {
            "min": int(neighbours.min(initial=2**62)) if len(neighbours) else 0,
            "median": float(np.median(neighbours)) if len(neighbours) else 0.0,
            "mean": float(neighbours.mean()) if len(neighbours) else 0.0,
            "max": int(neighbours.max(initial=0)), "isolated": int((neighbours == 0).sum()),
        },
        "ids": "ids.arrow" in manifest["files"], "features": 0 if stored.x is None else stored.x.shape[1],
        "classes": _labels(stored), "bytes": sum(file["bytes"] for file in manifest["files"].values()),
        "checksums": "match" if verify else "not compared", "seconds_to_open": seconds,
        "node_order": metadata.get("node_order"), "notes": list(metadata.get("notes", ())),
    }  # fmt: skip
    if stored.csr.mapped is not None:
        stored.csr.mapped.release()
    return facts


def _labels(stored: StoredGraph) -> dict[str, int] | None:
    """The number of labels of each class; None without labels."""
    if stored.y is None:
        return None
    y = stored.y.numpy()
    counts = np.bincount(y[y >= 0])
    names = stored.metadata.get("classes") or [str(k) for k in range(len(counts))]
    counts = np.pad(counts, (0, max(0, len(names) - len(counts))))
    return {str(name): int(count) for name, count in zip(names, counts, strict=False)}
