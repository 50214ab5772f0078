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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lggd._system.files import check_readable, reading
from lggd.app.tables.edge_columns import AS_DETECTED, EdgeFormat
from lggd.app.tables.edges import MATRIX, EdgeTable, Join, join_directions, read_edge_file
from lggd.app.tables.node_features import Missing
from lggd.app.tables.nodes import ID_NAMES, NodeTable, node_columns, read_node_file, sorted_classes
from lggd.app.tables.table import as_text, find_pair, is_frame, is_graph, read_graph_tables, read_table
from lggd.errors import InputError
from lggd.graph import Graph
from lggd.validation import listed, suggestion

if TYPE_CHECKING:
    from torch_geometric.data import Data

# The first line of a label file is a header if it has one of ID_NAMES and one of these names, in any case.
LABEL_NAMES = ("label", "class")


@dataclass(frozen=True, eq=False)
class NamedGraph:
    """A graph and the names of its nodes, classes and features.

    `data` is a PyG Data with `x` float32 `[N, F]` (None if there are no features), `edge_index` int64 `[2, E]` in both
    directions, `edge_weight` float32 `[E]` unless all weights are 1, and `y` int64 `[N]`, the index of the class in
    `classes`, -1 if unlabelled. With a split column it has `train_mask`, `test_mask` and, unless it is empty,
    `val_mask`, all bool `[N]`.

    `categories` and `fill` tell how columns became features, `unit_weight` is the weight of the file that became 1, and
    `notes` are sentences about the reading.
    """

    data: Data
    ids: list[str]
    classes: list[str]
    feature_names: list[str]
    categories: Mapping[str, list[str]] = field(default_factory=dict)
    fill: Mapping[str, float] = field(default_factory=dict)
    unit_weight: float = 1.0
    notes: tuple[str, ...] = ()


def read_graph_files(
    edges: Any,
    nodes: Any = None,
    *,
    label: str | None,
    id_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
    category: Sequence[str] = (),
    missing: Missing | str = Missing.ERROR,
    unlabelled: Sequence[str] | None = None,
    format: EdgeFormat = AS_DETECTED,
    symmetrize: Join | str | None = None,
    fewest_classes: int = 2,
) -> NamedGraph:
    """Reads a graph from a file of edges and a file of nodes, or from one GraphML file with both.

    `read_edge_file` and `read_node_file` describe the formats and options; `ignore` names columns of either file, and
    the separator of `format` is that of both. Nodes are numbered as in the node file, and may be
    isolated. Edges are undirected and may be listed once or twice; what becomes of different weights is described in
    `join_directions`. Weights are not scaled: pass `unbounded=True` to `Graph.from_pyg` if some exceed 1. Lengths ℓ
    become weights (ℓ₀/ℓ)², where ℓ₀ is the shortest, so that they lie in (0, 1] and distances are multiples of ℓ₀.
    Self-loops are dropped with a warning.

    Classes are sorted, numerically if all are numbers. Test nodes without a label are in no mask. Fewer classes than
    `fewest_classes` are an error; where they may be none, `label` may be None.
    """
    if nodes is None and not is_graph(edges):
        rule = f"be a file, because `{_name(edges)}` has only edges"
        raise InputError("nodes", rule, remedy="Only GraphML has both.")
    node_path = edges if nodes is None else nodes
    in_edges = _only_of_edges(edges, node_path, ignore, label, format)
    table = read_node_file(
        node_path, label=label, id_column=id_column, split_column=split_column, category=category, missing=missing,
        ignore=[name for name in ignore if name not in in_edges], unlabelled=unlabelled, delimiter=format.delimiter,
    )  # fmt: skip
    classes = sorted_classes({name for name in table.labels or () if name is not None})
    if len(classes) < fewest_classes:
        table.label_reader.check_classes(f"{_name(node_path)}, column {label!r}", classes)
    edge_table = read_edge_file(edges, table.ids, replace(format, ignore=tuple(ignore)))
    edge_table = join_directions(_without_loops(edge_table), symmetrize)
    edge_table, unit, scaled = _scale_lengths(edge_table)
    data = _to_data(_name(node_path), table, edge_table, classes)
    notes = (*table.notes, *edge_table.notes, *scaled)
    return NamedGraph(data, table.ids, classes, table.feature_names, table.categories, table.fill, unit, notes)


def _name(source: Any) -> str | Path:
    return source if isinstance(source, (str, Path)) else type(source).__name__


def _only_of_edges(edges: Any, nodes: Any, ignore: Sequence[str], label: str | None, format: EdgeFormat) -> set[str]:
    """The columns to ignore that only the table of edges has."""
    is_table = is_frame(edges) or (isinstance(edges, (str, Path)) and Path(edges).suffix.lower() != MATRIX)
    if not ignore or not (is_table or is_graph(edges)):
        return set()
    of_nodes = node_columns(nodes, [] if label is None else [label], format.delimiter)
    if is_graph(edges):
        of_edges = read_graph_tables(edges)[1].names
    else:
        of_edges = read_table(edges, delimiter=format.delimiter, blanks=True).names
    return {*of_edges} - {*of_nodes}


def _scale_lengths(table: EdgeTable) -> tuple[EdgeTable, float, tuple[str, ...]]:
    """Lengths in units of the shortest; also returns the weight that became 1, and a sentence."""
    if not table.is_length or table.weight is None or not len(table.weight):
        return table, 1.0, ()
    largest, smallest = float(table.weight.max()), float(table.weight.min())
    shortest, longest = largest**-0.5, smallest**-0.5
    return replace(table, weight=table.weight / largest), largest, (length_note(shortest, longest),)


def length_note(shortest: float, longest: float) -> str:
    """A sentence about lengths that become weights; raises if some of these would be 0 in float32."""
    smallest = (shortest / longest) ** 2
    if np.float32(smallest) == 0:
        remedy = "Remove edges that are far too short or too long."
        raise InputError("length", "vary by less than a factor of 1e19", f"{shortest:g} and {longest:g}", remedy)
    return (
        f"Lengths from {shortest:g} to {longest:g} became weights (shortest/length)², from 1 down to "
        f"{smallest:.3g}: an edge of weight w is 1/√w long."
    )


def _to_data(path: str | Path, table: NodeTable, edges: EdgeTable, classes: list[str]) -> Data:
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
        _check_split(path, list(zip(table.ids, labels, table.split, strict=True)), classes)
        for part in ("train", "val", "test"):
            mask = torch.tensor([value == part for value in table.split]) & (y >= 0)
            if part != "val" or mask.any():
                data[f"{part}_mask"] = mask
    return data


def read_undirected_edges(
    path: str | Path, ids: Sequence[str], format: EdgeFormat = AS_DETECTED, symmetrize: Join | str | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Reads edges between these nodes as `read_graph_files` does: int64 `[2, E]` in both directions, and weights.

    Lengths ℓ become weights 1/ℓ². Columns that are not used are no error.
    """
    table = read_edge_file(path, ids, format, refuse_unused=False)
    graph = _undirected_graph(join_directions(_without_loops(table), symmetrize))
    return graph.edge_index, None if table.weight is None else graph.weight


def _without_loops(table: EdgeTable) -> EdgeTable:
    edges, weight = table.edges, table.weight
    loops = edges[0] == edges[1]
    if not loops.any():
        return table
    first = table.ids[edges[0, loops][0]]
    message = f"Self-loops dropped: {int(loops.sum())}, the first at node {first!r}. They change no distance."
    warnings.warn(message, UserWarning, stacklevel=3)  # the caller of read_graph_files
    return replace(table, edges=edges[:, ~loops], weight=None if weight is None else weight[~loops])


def _undirected_graph(table: EdgeTable) -> Graph:
    return Graph.from_edges(table.edges, table.weight, num_nodes=len(table.ids), symmetrize="max", unbounded=True)


def _check_split(path: str | Path, rows: Sequence[tuple[str, str | None, str | None]], classes: Sequence[str]) -> None:
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


def read_label_file(path: str | Path, ids: Sequence[str], classes: Sequence[str] | None = None) -> dict[int, str]:
    """Reads labels from a `.csv`, `.tsv`, `.parquet` or `.graphml` file; returns the class of each node, by its index.

    The file has columns named id (or node, name) and label (or class), or two columns in that order without a header.
    With `classes`, others are an error.
    """
    header = "Name the columns in a first line: id,label."
    try:
        table = read_table(path, lambda names: find_pair(names, ID_NAMES, LABEL_NAMES) is not None)
    except InputError as error:
        if not error.hints:
            raise
        # The separator of labels cannot be chosen, but with a header only one fits.
        raise error.replace(remedy=header, hints={}) from error
    columns, unnamed = find_pair(table.names, ID_NAMES, LABEL_NAMES), ""
    if columns is None:
        if len(table.names) not in (0, 2):
            raise InputError(table.path, "have 2 columns (id, label)", len(table.names), header)
        columns, unnamed = (0, 1), "Name the columns id,label."
    numbers = {name: k for k, name in enumerate(ids)}
    allowed = None if classes is None else dict.fromkeys(classes)
    of_classes = "name a class" if classes is None else f"be one of the classes {listed(classes)}"
    rules = (
        (numbers, f"be one of the {len(ids)} nodes", unnamed),
        (allowed, of_classes, "Fit a new model."),
    )
    labels: dict[int, tuple[str, int | str]] = {}  # the class of each node, and the row of its label
    for row, cells in table:
        names = [as_text(cells[column]) for column in columns]
        for name, column, (known, rule, remedy) in zip(names, columns, rules, strict=True):
            if not name:
                raise table.error(row, column, rule, "an empty cell", "Fill it in or remove the row.")
            if known is not None and name not in known:
                raise table.error(row, column, rule, repr(name), suggestion(name, list(known), remedy))
        node, label = names
        before, row_before = labels.setdefault(numbers[node], (label, row))
        if before != label:
            value = f"{label!r} after {before!r} in {table.unit} {row_before}"
            raise table.error(row, columns[1], f"give the node {node!r} one label", value, "Remove one.")
    if not labels:
        raise table.empty_error("label", "Write lines such as a,red.")
    return {node: label for node, (label, _) in labels.items()}
