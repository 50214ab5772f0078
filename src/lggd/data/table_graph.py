"""A graph from tables: edges and nodes joined by their names, and labels that come later."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from lggd.data.edges import EdgeTable, read_edges
from lggd.data.nodes import ID_NAMES, NodeTable, read_nodes
from lggd.data.rows import GRAPHML, Cell, Rows, as_text, read_rows
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.validation import listed, suggestion

if TYPE_CHECKING:
    from torch_geometric.data import Data

# With one of ID_NAMES, these make a first row of a file of labels a header, in any letter case.
LABEL_NAMES = ("label", "class")


@dataclass(frozen=True, eq=False)
class TableGraph:
    """A graph from tables, and the names of its nodes, classes and features.

    `data` is a PyG Data with `x` float32 `[N, F]` (None where there are no features: choose some before you train),
    `edge_index` int64 `[2, E]` in both directions, `edge_weight` float32 `[E]` where some weight is not 1, and `y`
    int64 `[N]`, the number of each node's class in `classes`, -1 where it is unlabelled. From a split column come
    `train_mask`, `test_mask` and, if any node is for validation, `val_mask`, all bool `[N]`.
    """

    data: Data
    ids: list[str]
    classes: list[str]
    feature_names: list[str]


def read_graph(
    edges: str | Path,
    nodes: str | Path | None = None,
    *,
    label: str,
    id_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
) -> TableGraph:
    """Reads a graph from a file of edges and a file of nodes, or from one GraphML file that holds both.

    `read_edges` and `read_nodes` say what the files may look like. Nodes are numbered as in the file of nodes, and may
    have no edges. An edge is undirected, listed once or twice; of several weights the largest counts, and none is
    scaled: pass `unbounded=True` to `Graph.from_pyg` where some exceed 1. Self-loops are dropped with a warning.

    Classes are sorted, as numbers if they all are. A node whose split says test but that has no label is in no mask,
    because nobody could tell whether a prediction is right.
    """
    if nodes is None and Path(edges).suffix.lower() != GRAPHML:
        raise InputError("nodes", f"be given, because `{edges}` holds edges alone", remedy="Only GraphML holds both.")
    listing = edges if nodes is None else nodes
    table = read_nodes(listing, label=label, id_column=id_column, split_column=split_column, ignore=ignore)
    classes = _sorted_classes(listing, label, table)
    joined = read_edges(edges, table.ids)
    return TableGraph(_data(listing, table, joined, classes), table.ids, classes, table.feature_names)


def _sorted_classes(path: str | Path, label: str, table: NodeTable) -> list[str]:
    found = {said for said in table.labels or () if said is not None}
    if len(found) < 2:
        got = f"only {found.pop()!r}" if found else "no label at all"
        raise ValueError(f"`{path}`, column {label!r}: must name at least two classes, got {got}. Label more nodes.")
    if all(_is_number(said) for said in found):
        return sorted(found, key=lambda said: (float(said), said))
    return sorted(found)


def _is_number(said: str) -> bool:
    try:
        return math.isfinite(float(said))
    except ValueError:
        return False


def _data(path: str | Path, table: NodeTable, joined: EdgeTable, classes: list[str]) -> Data:
    from torch_geometric.data import Data

    number = {name: k for k, name in enumerate(classes)}
    y = torch.tensor([-1 if said is None else number[said] for said in table.labels or ()])
    graph = _graph(joined)
    data = Data(edge_index=graph.edge_index, y=y)
    data.num_nodes = len(table.ids)
    data.num_classes, data.class_names = len(classes), classes
    if table.feature_names:
        data.x = torch.from_numpy(table.x)
    if graph.is_weighted:
        data.edge_weight = graph.weight.float()
    if table.split is not None:
        _check_split(path, table, classes)
        for part in ("train", "val", "test"):
            mask = torch.tensor([said == part for said in table.split]) & (y >= 0)
            if part != "val" or mask.any():
                data[f"{part}_mask"] = mask
    return data


def _graph(joined: EdgeTable) -> Graph:
    edges, weight = joined.edges, joined.weight
    loops = edges[0] == edges[1]
    if loops.any():
        first = joined.ids[edges[0, loops][0]]
        warnings.warn(
            f"Self-loops dropped: {int(loops.sum())}, the first at node {first!r}. They change no distance.",
            UserWarning,
            stacklevel=4,  # whoever called read_graph
        )
        edges, weight = edges[:, ~loops], None if weight is None else weight[~loops]
    return Graph.from_edges(edges, weight, num_nodes=len(joined.ids), symmetrize="max", unbounded=True)


def _check_split(path: str | Path, table: NodeTable, classes: list[str]) -> None:
    """Learning needs the label of every node that it learns from, and such a node in every class."""
    taught = set()
    for name, said, part in zip(table.ids, table.labels or (), table.split or (), strict=True):
        if said is None and part in ("train", "val"):
            raise ValueError(f"`{path}`, node {name!r}: must have a label, because its split says {part}. Add one.")
        if part == "train":
            taught.add(said)
    for name in classes:
        if name not in taught:
            raise ValueError(f"`{path}`, class {name!r}: must have a node whose split says train, got none. Add one.")


# -- labels that come later -----------------------------------------------------------------------------------------


def read_labels(
    path: str | Path, ids: Sequence[str], classes: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels to add, from a `.csv`, `.tsv` or `.parquet` file: the numbers of the nodes and of their classes.

    The file has a first line `id,label` (or node or name, and class), or else two columns in that order.
    """
    rows = read_rows(path)
    node_number = {name: k for k, name in enumerate(ids)}
    class_number = {name: k for k, name in enumerate(classes)}
    known_nodes = f"the {len(ids)} nodes"
    known_classes = f"the classes {listed(classes)}"
    found: dict[int, tuple[int, int | str]] = {}  # the class of each node, and where that was said
    for number, (name, id_place), (said, label_place) in _pairs(rows):
        node = _look_up(name, node_number, id_place, known_nodes, "If the line names the columns, call them id,label.")
        label = _look_up(said, class_number, label_place, known_classes, "A new class needs a new fit.")
        before, line = found.setdefault(node, (label, number))
        if before != label:
            raise ValueError(
                f"{label_place} must give the node {name!r} one label, got {said!r} after {classes[before]!r} "
                f"in {rows.unit} {line}. Remove one."
            )
    if not found:
        raise InputError(rows.path, "hold at least one label", "none", "Write lines such as a,red.")
    return np.array(list(found), np.int64), np.array([label for label, _ in found.values()], np.int64)


def _pairs(rows: Rows) -> Iterator[tuple[int | str, tuple[str, str], tuple[str, str]]]:
    """The number of each row, its id and its label, both with the place where they stand."""
    columns, width = None, 0
    if rows.names is not None:
        width = len(rows.names)
        columns = _label_columns(rows.names) or _in_order(rows.names, f"`{rows.path}`:")
    for number, cells in rows.rows:
        where = rows.place(number)
        if columns is None:
            width = len(cells)
            columns = _label_columns(cells)
            if columns is not None:
                continue
            columns = _in_order(cells, f"{where}:")
        if len(cells) != width:
            raise ValueError(f"{where}: must have {width} cells like the first line, got {len(cells)}.")
        name, said = ((as_text(cells[k]), f"{where}, column {k + 1}:") for k in columns)
        yield number, name, said


def _look_up(name: str, numbers: dict[str, int], where: str, known: str, otherwise: str) -> int:
    if not name:
        raise ValueError(f"{where} must be one of {known}, got an empty cell. Fill it in or remove the row.")
    if name not in numbers:
        remedy = suggestion(name, list(numbers), otherwise)
        raise ValueError(f"{where} must be one of {known}, got {name!r}. {remedy}")
    return numbers[name]


def _label_columns(cells: list[Cell]) -> tuple[int, int] | None:
    """Where ids and labels stand, if the row is a header."""
    names = [as_text(cell).lower() for cell in cells]
    id_place = next((names.index(name) for name in ID_NAMES if name in names), None)
    label_place = next((names.index(name) for name in LABEL_NAMES if name in names), None)
    return None if id_place is None or label_place is None else (id_place, label_place)


def _in_order(cells: list[Cell], where: str) -> tuple[int, int]:
    if len(cells) != 2:
        raise ValueError(
            f"{where} must have 2 cells (id, label), got {len(cells)}. Name the columns in a first line: id,label."
        )
    return 0, 1
