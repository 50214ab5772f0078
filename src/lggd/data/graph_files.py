"""Graphs in files of edges and nodes, and files of ids and labels that refer to a graph.

    edges.csv            nodes.csv               labels.csv
    source,target        id,kind,age,split       id,label
    ada,ben              ada,red,31,train        cyd,red
    ben,cyd              ben,blue,27,train
                         cyd,,45,

`read_graph_files("edges.csv", "nodes.csv", label="kind", split_column="split")` returns a graph with the classes blue
and red and the feature age, where cyd is unlabelled. `read_label_file("labels.csv", graph.ids, graph.classes)` reads
a label for cyd.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lggd.data.edges import EdgeTable, read_edge_file
from lggd.data.nodes import ID_NAMES, NodeTable, read_node_file
from lggd.data.table import GRAPHML, as_text, find_pair, read_table, reading
from lggd.errors import InputError
from lggd.files import check_readable
from lggd.graph import Graph
from lggd.validation import listed, suggestion

# The first line of a label file is a header if it has one of ID_NAMES and one of these names, in any case.
LABEL_NAMES = ("label", "class")


@dataclass(frozen=True, eq=False)
class NamedGraph:
    """A graph and the names of its nodes, classes and features.

    `data` is a PyG Data with `x` float32 `[N, F]` (None if there are no features), `edge_index` int64 `[2, E]` in both
    directions, `edge_weight` float32 `[E]` unless all weights are 1, and `y` int64 `[N]`, the index of the class in
    `classes`, -1 if unlabelled. With a split column it has `train_mask`, `test_mask` and, unless it is empty,
    `val_mask`, all bool `[N]`.
    """

    data: Any
    ids: list[str]
    classes: list[str]
    feature_names: list[str]


def read_graph_files(
    edges: str | Path,
    nodes: str | Path | None = None,
    *,
    label: str | None,
    id_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
    fewest_classes: int = 2,
) -> NamedGraph:
    """Reads a graph from a file of edges and a file of nodes, or from one GraphML file with both.

    `read_edge_file` and `read_node_file` describe the formats. Nodes are numbered as in the node file, and may be
    isolated. Edges are undirected and may be listed once or twice; of several weights the largest is used. Weights are
    not scaled: pass `unbounded=True` to `Graph.from_pyg` if some exceed 1. Self-loops are dropped with a warning.

    Classes are sorted, numerically if all are numbers. Test nodes without a label are in no mask. Fewer classes than
    `fewest_classes` are an error; where they may be none, `label` may be None.
    """
    if nodes is None and Path(edges).suffix.lower() != GRAPHML:
        raise InputError("nodes", f"be a file, because `{edges}` has only edges", remedy="Only GraphML has both.")
    node_path = edges if nodes is None else nodes
    table = read_node_file(node_path, label=label, id_column=id_column, split_column=split_column, ignore=ignore)
    classes = _sorted_classes(node_path, label, table, fewest_classes)
    edge_table = read_edge_file(edges, table.ids)
    return NamedGraph(_to_data(node_path, table, edge_table, classes), table.ids, classes, table.feature_names)


def _sorted_classes(path: str | Path, label: str | None, table: NodeTable, fewest: int) -> list[str]:
    found = {name for name in table.labels or () if name is not None}
    if len(found) < fewest:
        value = f"only {found.pop()!r}" if found else "no label at all"
        raise InputError(f"{path}, column {label!r}", "name at least two classes", value, "Label more nodes.")
    try:
        return sorted(found, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(found)


def _to_data(path: str | Path, table: NodeTable, edges: EdgeTable, classes: list[str]) -> Any:
    from torch_geometric.data import Data

    number = {name: k for k, name in enumerate(classes)}
    labels = table.labels or [None] * len(table.ids)
    y = torch.tensor([-1 if name is None else number[name] for name in labels])
    graph = _undirected_graph(edges)
    data = Data(edge_index=graph.edge_index, y=y, num_nodes=len(table.ids))
    data.num_classes, data.class_names = len(classes), classes
    if table.feature_names:
        data.x = torch.from_numpy(table.x)
    if graph.is_weighted:
        data.edge_weight = graph.weight.float()
    if table.split is not None:
        _check_split(path, table, classes)
        for part in ("train", "val", "test"):
            mask = torch.tensor([value == part for value in table.split]) & (y >= 0)
            if part != "val" or mask.any():
                data[f"{part}_mask"] = mask
    return data


def read_undirected_edges(path: str | Path, ids: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Reads edges between these nodes as `read_graph_files` does: int64 `[2, E]` in both directions, and weights."""
    table = read_edge_file(path, ids)
    graph = _undirected_graph(table)
    return graph.edge_index, None if table.weight is None else graph.weight.float()


def _undirected_graph(table: EdgeTable) -> Graph:
    edges, weight = table.edges, table.weight
    loops = edges[0] == edges[1]
    if loops.any():
        first = table.ids[edges[0, loops][0]]
        message = f"Self-loops dropped: {int(loops.sum())}, the first at node {first!r}. They change no distance."
        warnings.warn(message, UserWarning, stacklevel=4)  # the caller of read_graph_files
        edges, weight = edges[:, ~loops], None if weight is None else weight[~loops]
    return Graph.from_edges(edges, weight, num_nodes=len(table.ids), symmetrize="max", unbounded=True)


def _check_split(path: str | Path, table: NodeTable, classes: list[str]) -> None:
    rows = list(zip(table.ids, table.labels or (), table.split or (), strict=True))
    for name, label, part in rows:
        if label is None and part in ("train", "val"):
            raise InputError(f"{path}, node {name!r}", f"have a label, because its split is {part}", remedy="Add one.")
    trained = {label for _, label, part in rows if part == "train"}
    missing = [name for name in classes if name not in trained]
    if missing:
        raise InputError(f"{path}, class {missing[0]!r}", "have a node whose split is train", "none", "Add one.")


def read_id_file(path: str | Path) -> list[str]:
    """Reads node names from a text file, one per line; empty lines are skipped."""
    path = check_readable(path)
    with reading(path, ""):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise InputError(path, "name at least one node", "an empty file", "Write one name per line.")
    return names


def read_label_file(
    path: str | Path, ids: Sequence[str], classes: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Reads labels from a `.csv`, `.tsv`, `.parquet` or `.graphml` file; returns indices of nodes and of their classes.

    The file has columns named id (or node, name) and label (or class), or two columns in that order without a header.
    """
    table = read_table(path, lambda names: find_pair(names, ID_NAMES, LABEL_NAMES) is not None)
    columns = find_pair(table.names or (), ID_NAMES, LABEL_NAMES)
    if columns is None:
        if table.width not in (0, 2):
            remedy = "Name the columns in a first line: id,label."
            raise InputError(table.path, "have 2 columns (id, label)", table.width, remedy)
        columns = 0, 1
    lookups = (
        ({name: k for k, name in enumerate(ids)}, f"be one of the {len(ids)} nodes", "Name the columns id,label."),
        ({name: k for k, name in enumerate(classes)}, f"be one of the classes {listed(classes)}", "Fit a new model."),
    )
    found: dict[int, tuple[int, int | str]] = {}  # the class of each node, and the row of its label
    for row, cells in table:
        names = [as_text(cells[column]) for column in columns]
        for name, column, (numbers, rule, remedy) in zip(names, columns, lookups, strict=True):
            if not name:
                raise table.error(row, column, rule, "an empty cell", "Fill it in or remove the row.")
            if name not in numbers:
                raise table.error(row, column, rule, repr(name), suggestion(name, list(numbers), remedy))
        node, label = (numbers[name] for name, (numbers, *_) in zip(names, lookups, strict=True))
        known, known_row = found.setdefault(node, (label, row))
        if known != label:
            value = f"{names[1]!r} after {classes[known]!r} in {table.unit} {known_row}"
            raise table.error(row, columns[1], f"give the node {names[0]!r} one label", value, "Remove one.")
    if not found:
        raise table.empty_error("label", "Write lines such as a,red.")
    return np.array(list(found), np.int64), np.array([label for label, _ in found.values()], np.int64)
