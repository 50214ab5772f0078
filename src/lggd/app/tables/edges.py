"""Edges in files, whose nodes have names; those that are listed twice, or in both directions, become one."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lggd._system.files import check_extension, check_readable, reading
from lggd.app.tables.edge_columns import AS_DETECTED, EdgeColumns, EdgeFormat, find_columns, read_edge_table
from lggd.app.tables.table import (
    GRAPHML,
    TABLES,
    Cell,
    Table,
    as_text,
    is_frame,
    is_graph,
    read_graph_tables,
    read_table,
)
from lggd.errors import InputError
from lggd.graph.csr import merge_duplicates
from lggd.graph.edge_list import ROUNDING, matrix_entries
from lggd.text import counted
from lggd.validation import check_name, suggestion

MATRIX = ".npz"
# Lengths whose squares are finite and not zero.
SHORTEST, LONGEST = 1e-150, 1e150


class Join(StrEnum):
    """The rule that merges several weights, or lengths, of one edge, in either direction."""

    MAX = "max"
    MEAN = "mean"
    MIN = "min"
    SUM = "sum"


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Edges by node number, and the name of each node.

    `ids` are in order of first appearance, `edges` is int64 `[2, E]`, `weight` is float64 `[E]`, or None if the file
    has no weights. Pass the last two to `Graph.from_edges` with `num_nodes=len(ids)`. If `is_length`, the file has
    lengths ℓ and weights are 1/ℓ², because an edge of weight w is 1/√w long. `notes` are sentences about the reading.
    """

    ids: list[str]
    edges: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    is_length: bool = False
    notes: tuple[str, ...] = ()

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.ids)}

    def number(self, name: str, argument: str = "name") -> int:
        """Returns the number of the node with this name; `argument` is the name of the option in errors."""
        node = self._numbers.get(name)
        if node is None:
            remedy = suggestion(name, self.ids, f"The first is {self.ids[0]!r}.")
            raise InputError(argument, f"be one of the {len(self.ids)} nodes", repr(name), remedy)
        return node


def read_edge_file(
    source: Any, ids: Sequence[str] | None = None, format: EdgeFormat = AS_DETECTED, *, refuse_unused: bool = True
) -> EdgeTable:
    """Reads edges from a `.csv`, `.tsv`, `.txt`, `.parquet`, `.graphml` or `.npz` file.

    A text file has one edge per line: source, target and optionally weight. Surrounding whitespace is stripped from
    names. The first line is a header if it names a source and a target (`source,target`, `src,dst`, `from,to`,
    `start,end` and others), and an edge if it has numbers or names of nodes that occur again; where neither is
    clear, an error asks. With a header, columns may be in any order; a column `weight` or `w` is read. Others are named
    in `notes`, or raise an error if their names suggest a weight or a length. Without a header, the columns are source,
    target, weight. `format` names columns, the separator and whether there is a header.

    A Parquet file has columns of the same names. A GraphML file lists its nodes, including isolated ones, and its edges
    may have attributes. An `.npz` file contains a square matrix saved by `scipy.sparse.save_npz`; its nodes are named
    "0".."N-1". A pandas DataFrame, a networkx graph and a SciPy sparse matrix are read as these files are.

    If `ids` is not None, it defines the nodes and their order, and any other name raises an `InputError` with its
    position in the file.
    """
    numbers = None if ids is None else {name: k for k, name in enumerate(ids)}
    if sp.issparse(source):
        return _read_matrix(source, Path("matrix"), numbers)
    nodes: Table | None = None
    if is_graph(source):
        nodes, table = read_graph_tables(source)
    elif is_frame(source):
        table = read_table(source)
    else:
        path = check_readable(source)
        extension = check_extension(path, (*TABLES, GRAPHML, MATRIX))
        if extension == MATRIX:
            damage = (ValueError, KeyError, EOFError, zipfile.BadZipFile)
            with reading(path, "be written by scipy.sparse.save_npz", *damage):
                matrix = sp.load_npz(path)
            return _read_matrix(matrix, path, numbers)
        table = read_edge_table(path, format, numbers)
    if numbers is None:
        numbers = {} if nodes is None else {as_text(cells[0]): k for k, (_, cells) in enumerate(nodes)}
    return _number_nodes(table, numbers, ids is not None, format, refuse_unused)


def _number_nodes(
    table: Table, numbers: dict[str, int], complete: bool, format: EdgeFormat, refuse_unused: bool
) -> EdgeTable:
    """Replaces names by numbers; unknown nodes are added, unless `numbers` is complete."""
    columns = find_columns(table, format, refuse_unused=refuse_unused)
    ends: list[int] = []
    values: list[float] = []
    for row, source, target, value in read_edges(table, columns):
        for column, name in zip(columns.ends, (source, target), strict=True):
            node = numbers.get(name)
            if node is None:
                if complete:
                    raise unknown_node_error(table, row, column, name, list(numbers), len(numbers))
                node = numbers[name] = len(numbers)
            ends.append(node)
        values.append(value)
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    weight = None if columns.value is None else np.array(values)
    if weight is not None and columns.is_length:
        weight = 1 / weight**2
    notes = (*table.notes, *columns.notes, *table.numbers.notes(table.path))
    return EdgeTable(list(numbers), edges, weight, columns.is_length, notes)


def read_edges(table: Table, columns: EdgeColumns) -> Iterator[tuple[int | str, str, str, float]]:
    """The position, source, target and weight or length of each edge; raises where a row is none."""
    header = [table.names[end] for end in columns.ends] if table.has_header and table.unit == "line" else None
    is_empty = True
    for row, cells in table:
        is_empty = False
        ends = [as_text(cells[column]) for column in columns.ends]
        if "" in ends:
            remedy = "Fill it in or remove the row."
            raise table.error(row, columns.ends[ends.index("")], "name a node", "an empty cell", remedy)
        if ends == header:
            edge = f"an edge from {ends[0]!r} to {ends[1]!r} in {table.unit} {row}"
            raise InputError(table.path, "name its columns only once", edge, "Remove the repeated header.")
        value = 1.0 if columns.value is None else _read_value(table, row, columns, cells[columns.value])
        yield row, ends[0], ends[1], value
    if is_empty:
        raise table.empty_error("edge", "Write lines such as a,b or a,b,0.5.")


def _read_value(table: Table, row: int | str, columns: EdgeColumns, cell: Cell) -> float:
    """A weight or a length; both must be positive."""
    column, is_length = columns.value, columns.is_length
    value = table.numbers.read(cell)
    if is_length:
        if not SHORTEST < value < LONGEST:
            remedy = "Remove edges without a length."
            if value == 0:
                remedy = "An edge of length 0 makes two nodes one: merge them, or use a small length."
            elif value < 0:
                remedy = "There are no negative distances; shift or rescale the lengths."
            raise table.error(row, column, "be a positive length", repr(as_text(cell)), remedy)
    elif not 0 < value < math.inf:
        remedy = "Remove edges without a weight."
        if value < 0:
            remedy = "There are no negative similarities; shift or rescale the weights."
        raise table.error(row, column, "be a positive weight", repr(as_text(cell)), remedy)
    return value


def unknown_node_error(
    table: Table, row: int | str, column: int, name: str, ids: Sequence[str], count: int
) -> InputError:
    """An edge names a node that is none of `count`, of which `ids` are the first."""
    remedy = suggestion(name, ids, "Add the node, or remove the edge.")
    return table.error(row, column, f"be one of the {count} nodes", repr(name), remedy)


def _read_matrix(matrix: Any, path: Path, numbers: dict[str, int] | None) -> EdgeTable:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(path, "hold a square matrix", f"shape {matrix.shape}", "Save the N x N weights.")
    if matrix.dtype.kind not in "buif":
        raise InputError(path, "hold real numbers", matrix.dtype, "Convert them before saving.")
    edges, weight = matrix_entries(matrix)
    ids = [str(node) for node in range(matrix.shape[0])]
    if numbers is not None:
        unknown = next((name for name in ids if name not in numbers), None)
        if unknown is not None:
            remedy = suggestion(unknown, list(numbers), "Add the node, or remove the row.")
            raise InputError(f"{path}, row {unknown}", f"be one of the {len(numbers)} nodes", repr(unknown), remedy)
        edges, ids = np.array([numbers[name] for name in ids], np.int64)[edges], list(numbers)
    return EdgeTable(ids, edges, weight.astype(np.float64))


def join_directions(table: EdgeTable, rule: Join | str | None = None) -> EdgeTable:
    """Returns a table with every pair of nodes once, in no particular direction.

    `rule` says what becomes of the weights, or lengths, of edges that are listed several times; one that is listed once
    keeps its own. By default the larger weight or the shorter length counts, and a note tells if any differ.
    """
    if rule is not None:
        check_name("symmetrize", rule, list(Join))
    weight = np.ones(table.edges.shape[1]) if table.weight is None else table.weight
    values, ends = 1 / np.sqrt(weight) if table.is_length else weight, np.sort(table.edges, axis=0)
    chosen = Join(rule) if rule is not None else Join.MIN if table.is_length else Join.MAX
    edges, joined = _merged(ends, values, chosen)
    repeated = table.edges.shape[1] - _merged(table.edges, values, chosen)[0].shape[1]
    rows = counted(repeated, "row repeats", "rows repeat")
    note = f"{rows} an edge of the same direction." if repeated else ""
    if rule is None:
        differ = _different_values(table, ends, values)
        note = f"{differ} (option `symmetrize`: max, mean, min or sum)." if differ else note
    unweighted = table.weight is None and rule != Join.SUM
    kept = None if unweighted else 1 / joined**2 if table.is_length else joined
    return replace(table, edges=edges, weight=kept, notes=(*table.notes, note) if note else table.notes)


def report_different_values(table: EdgeTable) -> EdgeTable:
    """Adds a note if an edge is listed several times in one direction with different weights: a graph keeps one."""
    if table.weight is None:
        return table
    differ = _different_values(table, table.edges, 1 / np.sqrt(table.weight) if table.is_length else table.weight)
    return replace(table, notes=(*table.notes, f"{differ}.")) if differ else table


def _merged(
    edges: NDArray[np.int64], values: NDArray[np.float64], rule: Join
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each edge once, sorted, and what becomes of its values."""
    rows, columns = edges.astype(np.int32)
    csr = merge_duplicates(rows, columns, values, int(edges.max(initial=0)) + 1, rule)
    return np.stack([csr.rows.numpy(), csr.indices.numpy()]), csr.weight.numpy()  # type: ignore[union-attr]  # it has weights


def _different_values(table: EdgeTable, ends: NDArray[np.int64], values: NDArray[np.float64]) -> str:
    """A sentence without its end if an edge has several weights."""
    (pairs, largest), (_, smallest) = (_merged(ends, values, rule) for rule in (Join.MAX, Join.MIN))
    differ = np.flatnonzero(largest - smallest > ROUNDING * largest)
    if not len(differ):
        return ""
    rows = np.flatnonzero((ends == pairs[:, differ[:1]]).all(0))[:2]
    first = " and ".join(
        f"{table.ids[i]},{table.ids[j]} = {value:g}"
        for i, j, value in zip(*table.edges[:, rows], values[rows], strict=True)
    )
    kind, kept = ("lengths", "shorter") if table.is_length else ("weights", "larger")
    pairs_have = counted(len(differ), "pair of nodes has", "pairs of nodes have")
    return f"{pairs_have} edges of different {kind} (the first: {first}); the {kept} is kept"
