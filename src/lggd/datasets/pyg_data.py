"""PyG data from one file of tensors or arrays, or from a graph on disk; nothing in a file is executed."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from lggd._system.files import check_extension, check_readable, reading
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.graph.stored_graph import StoredGraph, read_manifest
from lggd.text import counted
from lggd.validation import listed

if TYPE_CHECKING:
    from torch_geometric.data import Data

TENSORS, ARRAYS = ".pt", ".npz"
# Names under which files store the parts of a graph; the first that occurs is read.
PARTS = {
    "edge_index": ("edge_index", "edges"),
    "x": ("x", "features", "node_features", "feat"),
    "y": ("y", "labels", "node_labels", "label"),
    "edge_weight": ("edge_weight", "edge_weights", "weight"),
    "train_mask": ("train_mask", "train_masks"),
    "val_mask": ("val_mask", "val_masks", "valid_mask"),
    "test_mask": ("test_mask", "test_masks"),
}
MASKS = ("train_mask", "val_mask", "test_mask")
REQUIRED = ("edge_index", "y")
# More classes than this, and than nodes, are no classes: probably years, or ids.
MAX_CLASSES = 10_000
# Names that are converted to Python strings at a time.
NAMES_AT_ONCE = 2**16


def read_data_file(path: str | Path) -> Data:
    """Reads a graph with labels as a PyG `Data` from a `.pt` or an `.npz` file.

    A `.pt` file contains a PyG `Data`, or a dictionary of tensors such as `data.to_dict()`, written by `torch.save`. It
    is loaded with `weights_only=True`: a file with anything else is refused. An `.npz` file contains arrays and is
    loaded without pickles. Both have `edge_index` `[2, E]` (or `edges` `[E, 2]`, or the rows of a sparse matrix,
    `adj_data`, `adj_indices`, `adj_indptr`), `y` `[N]` and possibly `x` `[N, F]`, `edge_weight` `[E]` and
    masks `[N]` or `[N, S]`.
    """
    path = check_readable(path)
    extension = check_extension(path, (TENSORS, ARRAYS))
    parts = _load_tensors(path) if extension == TENSORS else _load_arrays(path)
    missing = [name for name in REQUIRED if name not in parts]
    if missing:
        remedy = "Save a PyG Data with edge_index, y and possibly x; for edges alone use a table of nodes too."
        raise InputError(path, f"contain {' and '.join(missing)}", "none", remedy)
    from torch_geometric.data import Data

    return Data(**parts)


def checked_data(data: Data, place: str | Path) -> tuple[Data, tuple[str, ...]]:
    """Returns a `Data` with checked parts, edges in both directions and without self-loops, and sentences about them.

    `y` becomes int64 `[N]` with -1 for unlabelled nodes, `x` float32 `[N, F]`.
    """
    from torch_geometric.data import Data

    if not isinstance(data, Data):
        remedy = "Convert it to a homogeneous graph first."
        raise InputError(place, "be one graph with one kind of nodes", type(data).__name__, remedy)
    y = _labels(getattr(data, "y", None), place)
    notes, x = list[str](), _features(getattr(data, "x", None), len(y), place)
    edges = torch.as_tensor(() if data.edge_index is None else data.edge_index)
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise InputError(place, "have an edge_index of integers [2, E]", f"{edges.dtype} {list(edges.shape)}")
    edges, weight = edges.long(), getattr(data, "edge_weight", None)
    if getattr(data, "edge_attr", None) is not None and weight is None:
        attribute = torch.as_tensor(data.edge_attr)
        if attribute.dim() == 1 or attribute.shape[1:] == (1,):
            weight = attribute.reshape(-1)
            notes.append("edge_attr was read as weights: larger means closer.")
        else:
            notes.append(f"edge_attr {list(attribute.shape)} was not used: weights have one number per edge.")
    if weight is not None:
        weight = torch.as_tensor(weight).reshape(-1)
        if len(weight) != edges.shape[1]:
            raise InputError(place, f"have an edge_weight [{edges.shape[1]}], one for each edge", [len(weight)])
    loops = edges[0] == edges[1]
    if bool(loops.any()):
        dropped = counted(int(loops.sum()), "self-loop was dropped; it changes", "self-loops were dropped; they change")
        notes.append(f"{dropped} no distance.")
        edges, weight = edges[:, ~loops], None if weight is None else weight[~loops]
    graph = Graph.from_edges(edges, weight, num_nodes=len(y), symmetrize="max", unbounded=True)
    distinct = len(torch.unique(edges[0] * len(y) + edges[1]))
    if graph.num_edges != distinct:
        added = counted(graph.num_edges - distinct, "edge was added", "edges were added")
        notes.append(f"{added} in the opposite direction.")
    checked = Data(x=x, edge_index=graph.edge_index, y=y, num_nodes=len(y))
    if graph.is_weighted:
        checked.edge_weight = graph.weight.float()
    for name in MASKS:
        if getattr(data, name, None) is not None:
            checked[name] = _mask(data[name], len(y), f"{place}, {name}")
    return checked, tuple(notes)


def _load_tensors(path: Path) -> dict[str, Tensor]:
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    rule, remedy = "contain a PyG Data or a dictionary of tensors", "Save it with torch.save(data.to_dict(), FILE)."
    kinds = (RuntimeError, EOFError, ValueError, KeyError, AttributeError, OSError, IndexError, TypeError)
    try:
        # Classes that hold tensors and names; nothing that they contain is called.
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            stored = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        clause = "it contains other objects, which are not loaded, because they could execute code"
        raise InputError(path, rule, but=clause, remedy=remedy) from error
    except kinds as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(path, rule, but=f"reading it failed: {lines[0]}", remedy=remedy) from error
    while isinstance(stored, (tuple, list)) and stored:  # PyG's processed files: the graph, slices and its class
        stored = stored[0]
    values = stored if isinstance(stored, Mapping) else getattr(stored, "to_dict", dict)()
    if not values or not any(isinstance(value, Tensor) for value in values.values()):
        raise InputError(path, rule, type(stored).__name__, remedy)
    return _parts({name: value for name, value in values.items() if isinstance(value, Tensor)})


def _load_arrays(path: Path) -> dict[str, Tensor]:
    rule, remedy = "contain arrays of numbers", "Save it with numpy.savez(FILE, edge_index=…, x=…, y=…)."
    damage = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile)
    with reading(path, rule, *damage, remedy=remedy), np.load(path, allow_pickle=False) as file:
        if isinstance(file, np.ndarray):
            raise ValueError("it contains one array without a name")
        arrays = {name: file[name] for name in file.files}
    arrays |= _sparse(arrays, "adj", "edge_index", path) | _sparse(arrays, "attr", "x", path)
    if "edges" in arrays and arrays["edges"].ndim == 2 and arrays["edges"].shape[1] == 2:
        arrays["edges"] = arrays["edges"].T
    numbers = {name: array for name, array in arrays.items() if array.dtype.kind in "buif" and array.ndim}
    parts = _parts({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in numbers.items()})
    for name in MASKS:  # some files store one row per split
        mask = parts.get(name)
        if mask is not None and mask.dim() == 2 and "y" in parts and mask.shape[0] != len(parts["y"]):
            parts[name] = mask.T.contiguous()
    return parts


def _sparse(arrays: Mapping[str, Any], prefix: str, name: str, path: Path) -> dict[str, Any]:
    """A matrix that is stored as its rows, adj as edges and attr as features."""
    keys = [f"{prefix}_{part}" for part in ("data", "indices", "indptr")]
    if name in arrays or not all(key in arrays for key in keys):
        return {}
    with reading(path, f"contain a sparse matrix {prefix}", ValueError, IndexError):
        shape = arrays.get(f"{prefix}_shape")
        matrix = sp.csr_array(tuple(arrays[key] for key in keys), None if shape is None else tuple(shape)).tocoo()
        if name == "x":
            return {name: matrix.toarray().astype(np.float32)}
    return {name: np.stack(matrix.coords).astype(np.int64), "edge_weight": matrix.data}


def _parts(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parts of a graph under their usual names."""
    parts = {part: next((values[name] for name in names if name in values), None) for part, names in PARTS.items()}
    return {part: value for part, value in parts.items() if value is not None}


def _labels(labels: Any, place: str | Path) -> Tensor:
    if labels is None:
        raise InputError(place, "have labels y", "none", "Add y, with -1 for unlabelled nodes.")
    y: Tensor = torch.as_tensor(labels)
    y = y.squeeze(1) if y.dim() == 2 and y.shape[1] == 1 else y
    if y.dim() != 1 or len(y) == 0:
        remedy = "Each node has one class; use the index of the class, not one column per class."
        raise InputError(place, "have labels y [N]", list(y.shape), remedy)
    if y.is_floating_point():
        known = ~y.isnan()
        if bool((y[known] != y[known].round()).any()):
            raise InputError(place, "have labels y of whole numbers", "fractions", "Regression is not supported.")
        y = torch.where(known, y, -1.0)
    y = y.long().clamp(min=-1)
    if len(torch.unique(y[y >= 0])) < 2:
        raise InputError(place, "have labels y of at least two classes", "fewer", "Negative labels mean unlabelled.")
    if int(y.max()) >= max(len(y), MAX_CLASSES):
        rule = "have labels y that number the classes from 0"
        raise InputError(place, rule, int(y.max()), "Use the index of the class.")
    return y


def _features(x: Any, count: int, place: str | Path) -> Tensor | None:
    if x is None:
        return None
    x = torch.as_tensor(x)
    x = x.to_dense() if x.layout != torch.strided else x
    if x.dim() != 2 or len(x) != count or x.is_complex():
        raise InputError(place, f"have features x [{count}, F]", list(x.shape), "Use one row per node.")
    x = x.float()
    if not bool(x.isfinite().all()):
        bad = (~x.isfinite()).sum(0)
        columns = listed([f"{k} ({int(bad[k])})" for k in bad.nonzero().flatten().tolist()])
        raise InputError(place, "have finite features x", f"NaN or infinity in columns {columns}", "Fill them in.")
    return x if x.shape[1] else None


def _mask(values: Any, count: int, place: str) -> Tensor:
    mask: Tensor = torch.as_tensor(values)
    if mask.dim() not in (1, 2) or mask.shape[0] != count:
        raise InputError(place, f"be a mask [{count}] or [{count}, splits]", list(mask.shape))
    return mask.bool()


# -- graphs on disk ---------------------------------------------------------------------------------------------------


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
    stored = StoredGraph.open(folder, verify=verify)
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
        "classes": _label_counts(stored), "bytes": sum(file["bytes"] for file in manifest["files"].values()),
        "checksums": "match" if verify else "not compared",
        "notes": list(metadata.get("notes", ())),
    }  # fmt: skip
    if stored.csr.mapped is not None:
        stored.csr.mapped.release()
    return facts


def _label_counts(stored: StoredGraph) -> dict[str, int] | None:
    """The number of labels of each class; None without labels."""
    if stored.y is None:
        return None
    y = stored.y.numpy()
    names = stored.metadata.get("classes") or range(int(y.max(initial=-1)) + 1)
    counts = np.bincount(y[y >= 0], minlength=len(names))
    return {str(name): int(count) for name, count in zip(names, counts, strict=False)}
