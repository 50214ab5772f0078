"""Graphs and results as tables, with the names people gave their nodes: everything that reads or writes them.

    edges.csv            nodes.csv               labels.csv
    source,target        id,kind,age,split       id,label
    ada,ben              ada,red,31,train        cyd,red
    ben,cyd              ben,blue,27,train
                         cyd,,45,

`read_graph("edges.csv", "nodes.csv", label="kind", split_column="split")` has the classes blue and red, the feature age
and no label for cyd. `read_labels("labels.csv", graph.ids, graph.classes)` brings one later.
"""

from __future__ import annotations

from pathlib import Path

from lggd.data.edges import EdgeTable, read_edges
from lggd.data.nodes import NodeTable, read_nodes
from lggd.data.results import write_distances, write_features, write_predictions
from lggd.data.rows import not_utf8
from lggd.data.table_graph import TableGraph, read_graph, read_labels
from lggd.errors import InputError
from lggd.files import check_readable

__all__ = [
    "EdgeTable",
    "NodeTable",
    "TableGraph",
    "read_edges",
    "read_graph",
    "read_ids",
    "read_labels",
    "read_nodes",
    "write_distances",
    "write_features",
    "write_predictions",
]


def read_ids(path: str | Path) -> list[str]:
    """Node names from a text file, one a line; empty lines are skipped."""
    path = check_readable(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as wrong:
        raise not_utf8(path, wrong) from wrong
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise InputError(path, "name at least one node", "an empty file", "Write one name a line.")
    return names
