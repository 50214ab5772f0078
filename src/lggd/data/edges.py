"""Edges in files, whose nodes have names."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lggd.data.edge_columns import (
    LIKELY_PAIRS,
    SHORT_PAIRS,
    EdgeFormat,
    column_hints,
    end_columns,
    find_columns,
    first_line_is_header,
)
from lggd.data.table import (
    GRAPHML,
    READ_TABLES,
    Table,
    as_text,
    check_extension,
    is_frame,
    is_networkx,
    read_graphml,
    read_table,
    reading,
    tables_of_networkx,
)
from lggd.errors import InputError
from lggd.system.files import check_readable
from lggd.validation import suggestion

MATRIX = ".npz"
# Lengths whose squares are finite and not zero.
SHORTEST, LONGEST = 1e-150, 1e150
WEIGHT_RULE, LENGTH_RULE = "be a positive weight", "be a positive length"
AS_DETECTED = EdgeFormat()
FIRST_LINE = "The first line of the edges was read as an edge; the option `header` says that it names columns."


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
        found = self._numbers.get(name)
        if found is None:
            remedy = suggestion(name, self.ids, f"The first is {self.ids[0]!r}.")
            raise InputError(argument, f"be one of the {len(self.ids)} nodes", repr(name), remedy)
        return found


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
    if is_networkx(source):
        nodes, table = tables_of_networkx(source)
    elif is_frame(source):
        nodes, table = None, read_table(source)
    else:
        path = check_readable(source)
        extension = check_extension(path, (*READ_TABLES, GRAPHML, MATRIX))
        if extension == MATRIX:
            return _load_matrix(path, numbers)
        nodes, table = read_graphml(path) if extension == GRAPHML else (None, read_edge_table(path, format, numbers))
    if nodes is not None and numbers is None:
        known = {as_text(cells[0]): k for k, (_, cells) in enumerate(nodes)}
        return _number_nodes(table, known, False, format, refuse_unused)
    return _number_nodes(table, numbers or {}, ids is not None, format, refuse_unused)


def read_edge_table(
    path: Path, format: EdgeFormat, known: Mapping[str, int] | None = None, most_lines: int | None = None
) -> Table:
    """Reads the table after deciding whether its first line is a header, by at most so many lines."""
    undecided: list[list[str]] = []

    def is_header(cells: list[str]) -> bool:
        verdict = first_line_is_header(cells, format)
        if verdict is None:
            undecided.append(cells)
        return bool(verdict)

    def read(header: bool | None) -> Table:
        decide = is_header if header is None else lambda _: bool(header)
        return read_table(path, decide, delimiter=format.delimiter, blanks=True)

    table = read(None)
    if undecided:
        table = read(_decide_header(table, undecided[0], known, most_lines))
    if table.names is None and table.width and format.header is None:
        return replace(table, notes=(*table.notes, FIRST_LINE))
    return table


def _decide_header(table: Table, first: list[str], known: Mapping[str, int] | None, most_lines: int | None) -> bool:
    """Whether a first line without numbers is a header: names of nodes occur again, names of columns do not."""
    if len(first) < 2:
        return False  # the error is about the number of columns
    likely, short = end_columns(first, LIKELY_PAIRS), end_columns(first, SHORT_PAIRS)
    ends = likely or short or (0, 1)
    names = {first[k] for k in ends}
    again, lines, similar = any(name in known for name in names) if known is not None else False, 0, False
    for _, cells in islice(table, 1, most_lines):
        lines += 1
        found = [cells[k] for k in ends]
        if known is not None or again:
            break
        if "" in found:
            return False  # the error is about this line
        again = any(name in names for name in found)
        similar = similar or any(len(name) <= 2 and not name.isdigit() for name in found)
    is_named = likely is not None or (short is not None and not similar)
    if again and likely is None:
        return False
    if not again and is_named and lines:
        return True
    if not lines and (known is None or again):
        return False
    hints = column_hints([first[k] for k in ends]) | {"header": "header=False"}
    if again:
        value = f"{_cells(first)}, which may name columns or nodes, because nodes have these names"
    else:
        value = f"{_cells(first)}, which are neither known names of columns nor nodes that occur again"
    raise InputError(
        f"{table.path}, line 1", "name the columns or be an edge", value,
        "Add {source_column} {target_column} if it names columns, or {header} if it is an edge.", hints=hints,
    )  # fmt: skip


def _cells(cells: Sequence[str]) -> str:
    return ", ".join(map(repr, cells[:4])) + (" …" if len(cells) > 4 else "")


def _number_nodes(
    table: Table, numbers: dict[str, int], complete: bool, format: EdgeFormat, refuse_unused: bool
) -> EdgeTable:
    """Replaces names by numbers; unknown nodes are added, unless `numbers` is complete."""
    columns = find_columns(table, format, refuse_unused=refuse_unused)
    ends: list[int] = []
    values: list[float] = []
    for row, cells in table:
        for column in columns.ends:
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
        if columns.value is not None:
            values.append(read_value(table, row, columns.value, cells[columns.value], columns.is_length))
    if not ends:
        raise table.empty_error("edge", "Write lines such as a,b or a,b,0.5.")
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    _check_repeated_header(table, columns.ends, numbers, edges)
    weight = None if columns.value is None else np.array(values)
    if weight is not None and columns.is_length:
        weight = 1 / weight**2
    notes = (*table.notes, *columns.notes, *table.number_notes())
    return EdgeTable(list(numbers), edges, weight, columns.is_length, notes)


def read_value(table: Table, row: int | str, column: int, cell: Any, is_length: bool) -> float:
    """A weight or a length; both must be positive."""
    value = table.numbers.read(cell)
    if is_length:
        if not SHORTEST < value < LONGEST:
            remedy = "Remove edges without a length."
            if value == 0:
                remedy = "An edge of length 0 makes two nodes one: merge them, or use a small length."
            elif value < 0:
                remedy = "There are no negative distances; shift or rescale the lengths."
            raise table.error(row, column, LENGTH_RULE, repr(as_text(cell)), remedy)
    elif not 0 < value < math.inf:
        remedy = "Remove edges without a weight."
        raise table.error(row, column, WEIGHT_RULE, repr(as_text(cell)), remedy)
    return value


def _check_repeated_header(
    table: Table, ends: tuple[int, int], numbers: Mapping[str, int], edges: NDArray[np.int64]
) -> None:
    """Raises if the header is among the rows, as in files that were joined."""
    if table.names is None or table.unit != "line":
        return
    pair = [numbers.get(table.names[k]) for k in ends]
    if None not in pair and bool((edges == np.array(pair)[:, None]).all(0).any()):
        raise repeated_header_error(table, ends)


def repeated_header_error(table: Table, ends: tuple[int, int]) -> InputError:
    """The names of the columns are an edge."""
    first, second = ((table.names or [])[end] for end in ends)
    value = f"an edge from {first!r} to {second!r}"
    return InputError(table.path, "name its columns only once", value, "Remove the repeated header.")


def _load_matrix(path: Path, numbers: dict[str, int] | None) -> EdgeTable:
    with reading(path, "be written by scipy.sparse.save_npz", ValueError, KeyError, EOFError, zipfile.BadZipFile):
        matrix = sp.load_npz(path)
    return _read_matrix(matrix, path, numbers)


def _read_matrix(matrix: Any, path: Path, numbers: dict[str, int] | None) -> EdgeTable:
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
