"""A graph in a folder: arrays that are mapped into memory when it is opened, so that it may be larger than memory.

The folder has a manifest, `graph.json`, and one file per array, in NumPy's format without pickles:

| file | type and shape | content |
|---|---|---|
| `indptr.npy` | int64 `[N + 1]` | where the row of each node begins in `indices` |
| `indices.npy` | int32 or int64 `[E]` | the neighbours of each node, ascending |
| `weight.npy`, `root_weight.npy` | float32 or float64 `[E]` | w and √w; missing where every weight is 1 |
| `degree.npy` | as `weight`, `[N]` | δ(i) = Σ_j w(i, j) |
| `x.npy`, `y.npy` | float32 `[N, F]`, int64 `[N]` | node features and labels, -1 for unlabelled nodes; optional |
| `ids.arrow` | one column, `id` | the user's id of each node; missing where it is the number of the node |

Nodes are numbered by row. The manifest is written last and holds the size and the checksums of every file: a folder
without it is no graph.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd._system.files import check_checksums, check_size, describe_file, recover_folder, replacing_folder
from lggd._system.memory import MappedArrays
from lggd.errors import InputError, InputFileError, optional_package
from lggd.graph.csr import CSR
from lggd.graph.edge_list import check_features
from lggd.validation import check_same_length

MANIFEST, FORMAT, VERSION = "graph.json", "lggd graph", 1
IDS = "ids.arrow"
# The size of an array file without entries.
HEADER_BYTES = 128
TRUNCATED = "It was truncated or replaced: copy the folder again, or build the graph again."
DAMAGED = "It was changed or damaged: copy the folder again, or build the graph again."

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredGraph:
    """The arrays of a graph in a folder, mapped into memory: read from disk where they are used, never as a whole.

    Attributes
    ----------
    folder : Path
    csr : CSR
        Rows, neighbours and weights.
    degree : Tensor
        δ(i), `[N]`.
    x, y : Tensor or None
        Node features `[N, F]` and labels `[N]`.
    metadata : dict
        What the manifest says beside the arrays, such as names of features and classes.
    """

    folder: Path
    csr: CSR
    degree: Tensor
    x: Tensor | None
    y: Tensor | None
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = True) -> StoredGraph:
        """Opens a folder; `verify` compares the checksum of every file, which reads all of them once."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        files = manifest["files"]
        for name, described in files.items():
            check_size(folder / name, described, TRUNCATED)
        if verify:
            for name, described in files.items():
                check_checksums(folder / name, described, DAMAGED)
        arrays = {name.removesuffix(".npy"): map_array(folder / name) for name in files if name.endswith(".npy")}
        _check_arrays(folder, manifest, arrays)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        csr = CSR(
            tensors["indptr"], tensors["indices"], tensors.get("weight"), not manifest["directed"],
            stored_root_weight=tensors.get("root_weight"), mapped=MappedArrays(tuple(arrays.values())),
        )  # fmt: skip
        return cls(folder, csr, tensors["degree"], tensors.get("x"), tensors.get("y"), manifest["metadata"])

    def on(self, csr: CSR) -> StoredGraph | None:
        """The same graph with rows on another device; None if its edges were copied there."""
        return None if csr.mapped is None else replace(self, csr=csr, degree=self.degree.to(csr.indptr.device))

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the manifest, which has the checksums of all files: equal for equal graphs."""
        return fingerprint(self.folder)

    def ids(self) -> Any:
        """The user's ids in node order, a pyarrow array mapped into memory; None where they are the node numbers."""
        path = self.folder / IDS
        if not path.exists():
            return None
        with optional_package("Graph.open", "lggd[disk]"):
            import pyarrow as pa

        return pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("id").combine_chunks()


class StoredGraphWriter:
    """Writes the arrays of a graph into a new folder; see `writing_graph`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, array: Array) -> None:
        """Writes a whole array."""
        np.save(self.folder / f"{name}.npy", np.ascontiguousarray(array), allow_pickle=False)

    def write_ids(self, ids: Any) -> None:
        """Writes the ids of the nodes, from an array of strings or integers in node order."""
        import pyarrow as pa

        table = pa.table({"id": pa.array(ids)})
        with pa.OSFile(str(self.folder / IDS), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    def finish(self, *, directed: bool, metadata: Mapping[str, Any] | None = None) -> None:
        """Writes the manifest, from the files as they are."""
        indptr = map_array(self.folder / "indptr.npy")
        paths = sorted(path for path in self.folder.iterdir() if path.suffix in (".npy", ".arrow"))
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "nodes": len(indptr) - 1,
            "edges": int(indptr[-1]),
            "directed": directed,
            "metadata": dict(metadata or {}),
            "files": {path.name: describe_file(path) for path in paths},
        }
        (self.folder / MANIFEST).write_text(json.dumps(manifest, indent=1))


@contextmanager
def writing_graph(folder: str | Path) -> Iterator[StoredGraphWriter]:
    """Yields a writer for a new graph; the folder appears when everything is written, or not at all."""
    with replacing_folder(folder, MANIFEST) as new:
        yield StoredGraphWriter(new)


def write_csr(
    folder: str | Path, csr: CSR, degree: Tensor, *, x: Tensor | None = None, y: Tensor | None = None, ids: Any = None
) -> None:
    """Writes a graph that is in memory into a folder."""
    arrays = {"indptr": csr.indptr, "indices": csr.indices, "degree": degree}
    if csr.weight is not None:
        arrays |= {"weight": csr.weight, "root_weight": csr.weight.sqrt()}
    if x is not None:
        arrays["x"] = check_features("x", x, csr.num_nodes).to_dense()
    if y is not None:
        if y.shape != (csr.num_nodes,) or y.is_floating_point():
            rule = f"be a class number for each of {csr.num_nodes} nodes"
            raise InputError("y", rule, f"{y.dtype} {list(y.shape)}", "-1 means unlabelled.")
        arrays["y"] = y.long()
    if ids is not None:
        check_same_length("ids", ids, csr.num_nodes, "node")
    with writing_graph(folder) as writer:
        for name, array in arrays.items():
            writer.write(name, array.detach().cpu().numpy())
        if ids is not None:
            writer.write_ids(ids)
        writer.finish(directed=not csr.symmetric)


def fingerprint(folder: str | Path) -> str:
    """The SHA-256 of the sizes and checksums in the manifest of a graph."""
    manifest = read_manifest(Path(folder))
    return hashlib.sha256(json.dumps(manifest["files"], sort_keys=True).encode()).hexdigest()


def is_stored_graph(folder: str | Path) -> bool:
    """Whether a folder has the manifest of a graph."""
    return (Path(folder) / MANIFEST).is_file()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a graph, checked."""
    path, remedy = folder / MANIFEST, "Build it with `lggd graph build`, or check the name."
    if not folder.exists():
        recover_folder(folder)
    if not path.is_file():
        what = "there is none" if folder.is_dir() else "there is no such folder"
        raise InputFileError(str(folder), f"be the folder of a graph, with {MANIFEST}", but=what, remedy=remedy)
    try:
        manifest = json.loads(path.read_text())
    except ValueError as error:
        raise InputFileError(str(path), "be JSON", but=str(error), remedy="Build the graph again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputFileError(str(path), f"have the format {FORMAT!r}", but="it has another", remedy=remedy)
    if manifest.get("version") != VERSION:
        remedy = "Build the graph again with this version of lggd."
        raise InputFileError(str(path), f"have format version {VERSION}", manifest.get("version"), remedy)
    missing = {"nodes", "edges", "directed", "metadata", "files"} - manifest.keys()
    if missing:
        raise InputFileError(str(path), "be complete", f"no {min(missing)!r}", "Build the graph again.")
    return manifest


def map_array(path: Path) -> Array:
    """An array mapped into memory. Writing to it never changes the file."""
    has_entries = path.stat().st_size > HEADER_BYTES  # others cannot be mapped
    try:
        array: Array = np.load(path, mmap_mode="c" if has_entries else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputFileError(str(path), "be an array", but="it is damaged", remedy="Build the graph again.") from error
    return array


def _check_arrays(folder: Path, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Checks types and shapes, and that rows lie within the edges: compiled loops trust them."""
    nodes, edges = manifest["nodes"], manifest["edges"]
    shapes = {"indptr": (nodes + 1,), "degree": (nodes,), "y": (nodes,), "x": (nodes, None)}
    shapes |= dict.fromkeys(("indices", "weight", "root_weight"), (edges,))
    kinds = {"indptr": ("int64",), "indices": ("int32", "int64"), "y": ("int64",), "x": ("float32",)}
    for name in ("indptr", "indices", "degree"):
        if name not in arrays:
            raise InputFileError(str(folder), f"contain {name}.npy", "none", "Build the graph again.")
    for name, array in arrays.items():
        path, expected = folder / f"{name}.npy", shapes.get(name)
        if expected is None:
            raise InputFileError(str(path), "be one of the arrays of a graph", name, "Remove it.")
        kind = kinds.get(name, ("float32", "float64"))
        if str(array.dtype) not in kind:
            raise InputFileError(str(path), f"contain {' or '.join(kind)}", array.dtype, "Build the graph again.")
        if array.ndim != len(expected) or any(e not in (None, n) for e, n in zip(expected, array.shape, strict=True)):
            shape = list(array.shape)
            raise InputFileError(str(path), f"have shape {list(expected)}", shape, "Build the graph again.")
    indptr = arrays["indptr"]
    if indptr[0] != 0 or indptr[-1] != edges or bool((np.diff(indptr) < 0).any()):
        rule = f"rise from 0 to the number of edges, {edges}"
        raise InputFileError(str(folder / "indptr.npy"), rule, remedy="Build the graph again.")
