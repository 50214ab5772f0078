"""Edges in files, whose nodes have names."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lggd.data.table import (
    GRAPHML,
    TABLES,
    WEIGHT_NAMES,
    Table,
    as_number,
    as_text,
    check_extension,
    find_column,
    find_pair,
    read_graphml,
    read_table,
    reading,
)
from lggd.errors import InputError
from lggd.files import check_readable
from lggd.validation import listed, suggestion

MATRIX = ".npz"
# A first line with one name of each group is a header; case and "_" do not matter.
END_NAMES = ("source", "src", "from", "node1"), ("target", "dst", "to", "node2")


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Edges by node number, and the name of each node.

    `ids` are in order of first appearance, `edges` is int64 `[2, E]`, `weight` is float64 `[E]`, or None if the file
    has no weights. Pass the last two to `Graph.from_edges` with `num_nodes=len(ids)`.
    """

    ids: list[str]
    edges: NDArray[np.int64]
    weight: NDArray[np.float64] | None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.ids)}

    def number(self, name: str, argument: str = "name") -> int:
        """Returns the number of the node with this name; `argument` is the name of the option in errors."""
        found = self._numbers.get(name)
        if found is None:
            remedy = suggestion(name, self.ids, f"The first is {self.ids[0]!r}.")
            raise InputError(argument, f"be one of the {len(self.ids)} nodes", repr(name), remedy)
        return found


def read_edge_file(path: str | Path, ids: Sequence[str] | None = None) -> EdgeTable:
    """Reads edges from a `.csv`, `.tsv`, `.parquet`, `.graphml` or `.npz` file.

    A text file has one edge per line: source, target and optionally weight. Surrounding whitespace is stripped from
    names. The first line is a header if it names a source and a target (`source,target`, `src,dst`, `from,to` or
    `node1,node2`). With a header, columns may be in any order; a column `weight` or `w` is read, and others are
    ignored. Without a header, the columns are source, target, weight.

    A Parquet file has columns of the same names. A GraphML file lists its nodes, including isolated ones, and its edges
    may have an attribute `weight`. An `.npz` file contains a square matrix saved by `scipy.sparse.save_npz`; its nodes
    are named "0".."N-1".

    If `ids` is not None, it defines the nodes and their order, and any other name raises an `InputError` with its
    position in the file.
    """
    path = check_readable(path)
    extension = check_extension(path, (*TABLES, GRAPHML, MATRIX))
    numbers = None if ids is None else {name: k for k, name in enumerate(ids)}
    if extension == MATRIX:
        return _read_matrix(path, numbers)
    if extension == GRAPHML:
        nodes, table = read_graphml(path)
        if numbers is None:
            return _number_nodes(table, {as_text(cells[0]): k for k, (_, cells) in enumerate(nodes)}, complete=False)
    else:
        table = read_table(path, lambda names: find_pair(names, *END_NAMES) is not None)
    return _number_nodes(table, numbers or {}, complete=ids is not None)


def _number_nodes(table: Table, numbers: dict[str, int], complete: bool) -> EdgeTable:
    """Replaces names by numbers; unknown nodes are added, unless `numbers` is complete."""
    ends_columns, weight_column = _find_columns(table)
    ends: list[int] = []
    weights: list[float] = []
    for row, cells in table:
        for column in ends_columns:
            name = as_text(cells[column])
            node = numbers.get(name)
            if node is None:
                if not name:
                    raise table.error(row, column, "name a node", "an empty cell")
                if complete:
                    remedy = suggestion(name, list(numbers), "Add the node, or remove the edge.")
                    raise table.error(row, column, f"be one of the {len(numbers)} nodes", repr(name), remedy)
                node = numbers[name] = len(numbers)
            ends.append(node)
        if weight_column is not None:
            cell = cells[weight_column]
            weights.append(as_number(cell))
            if not 0 < weights[-1] < math.inf:
                remedy = "Remove edges without a weight."
                raise table.error(row, weight_column, "be a positive weight", repr(as_text(cell)), remedy)
    if not ends:
        raise table.empty_error("edge", "Write lines such as a,b or a,b,0.5.")
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    return EdgeTable(list(numbers), edges, None if weight_column is None else np.array(weights))


def _find_columns(table: Table) -> tuple[tuple[int, int], int | None]:
    if table.names is None:
        if table.width not in (0, 2, 3):
            remedy = "Name the columns in a first line such as source,target,weight, or check the delimiter."
            raise InputError(table.path, "have 2 or 3 columns (source, target, weight)", table.width, remedy)
        return (0, 1), 2 if table.width == 3 else None
    ends = find_pair(table.names, *END_NAMES)
    if ends is None:
        rule = "have a column named source and one named target"
        raise InputError(table.path, rule, listed(table.names), "Rename them.")
    return ends, find_column(table.names, WEIGHT_NAMES)


def _read_matrix(path: Path, numbers: dict[str, int] | None) -> EdgeTable:
    with reading(path, "be written by scipy.sparse.save_npz", ValueError, KeyError, EOFError, zipfile.BadZipFile):
        matrix = sp.load_npz(path)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(path, "hold a square matrix", f"shape {matrix.shape}", "Save the N x N weights.")
    if matrix.dtype.kind not in "buif":
        raise InputError(path, "hold real numbers", matrix.dtype, "Convert them before saving.")
    entries = sp.coo_array(matrix)
    nonzero = entries.data != 0
    edges = np.stack([axis[nonzero] for axis in entries.coords]).astype(np.int64)
    ids = [str(node) for node in range(matrix.shape[0])]
    if numbers is not None:
        unknown = next((name for name in ids if name not in numbers), None)
        if unknown is not None:
            remedy = suggestion(unknown, list(numbers), "Add the node, or remove the row.")
            raise InputError(f"{path}, row {unknown}", f"be one of the {len(numbers)} nodes", repr(unknown), remedy)
        edges, ids = np.array([numbers[name] for name in ids], np.int64)[edges], list(numbers)
    return EdgeTable(ids, edges, entries.data[nonzero].astype(np.float64))
