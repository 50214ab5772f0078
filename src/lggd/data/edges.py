"""Edges from files, with the names people gave their nodes."""

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

from lggd.data.rows import GRAPHML, TABLES, WEIGHT_NAMES, Cell, Rows, as_text, check_ending, read_graphml, read_rows
from lggd.errors import InputError
from lggd.files import check_readable
from lggd.validation import listed, suggestion

MATRIX = ".npz"
# A first row with one name of each of the first two groups is a header; letter case and "_" do not matter.
SOURCE_NAMES = ("source", "src", "from", "node1")
TARGET_NAMES = ("target", "dst", "to", "node2")


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Edges by node number, and the name of each node.

    `ids` are in order of first appearance, `edges` is int64 `[2, E]`, `weight` is float64 `[E]`, or None where the file
    has none. Pass the last two to `Graph.from_edges` with `num_nodes=len(ids)`.
    """

    ids: list[str]
    edges: NDArray[np.int64]
    weight: NDArray[np.float64] | None

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.ids)}

    def number(self, name: str, argument: str = "name") -> int:
        """The number of the node of this name. `argument` is what errors call it."""
        found = self._numbers.get(name)
        if found is None:
            remedy = suggestion(name, self.ids, f"The first is {self.ids[0]!r}.")
            raise InputError(argument, f"be one of the {len(self.ids)} nodes there are", repr(name), remedy)
        return found


def read_edges(path: str | Path, ids: Sequence[str] | None = None) -> EdgeTable:
    """Reads edges from a `.csv`, `.tsv`, `.parquet`, `.graphml` or `.npz` file.

    A text file has an edge a line: source, target and, if you like, weight. Names are kept as written, without the
    space around them. A first line is a header if it names a source and a target (`source,target`, `src,dst`, `from,to`
    or `node1,node2`): then columns may stand in any order, `weight` or `w` is read, and others are ignored. Without
    a header the columns are source, target, weight, and every line counts as an edge.

    A Parquet file has columns of those names. A GraphML file names its nodes itself, those without edges too, and its
    edges may have an attribute `weight`. An `.npz` file holds a square matrix written by `scipy.sparse.save_npz`; its
    nodes are named "0".."N-1".

    `ids` says which nodes there are and how they are numbered; any other name is then an error that says where it is.
    """
    path = check_readable(path)
    ending = check_ending(path, (*TABLES, GRAPHML, MATRIX))
    known = None if ids is None else {name: k for k, name in enumerate(ids)}
    if ending == MATRIX:
        return _read_matrix(path, known)
    if ending == GRAPHML:
        return _read_graphml_edges(path, known)
    return _gather(read_rows(path), _Nodes({}, False) if known is None else _Nodes(known, True))


# -- rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Nodes:
    """The number of each node: those given, and if that is not all of them, others as they come."""

    number: dict[str, int]
    complete: bool

    def add(self, name: str, where: str) -> int:
        """The number of a node that has none yet."""
        if not name:
            raise ValueError(f"{where} must name a node, got an empty cell.")
        if self.complete:
            remedy = suggestion(name, list(self.number), "Add the node, or leave the edge out.")
            raise ValueError(f"{where} must be one of the {len(self.number)} nodes, got {name!r}. {remedy}")
        return self.number.setdefault(name, len(self.number))


@dataclass(frozen=True)
class _Columns:
    """Where a row of `width` cells keeps what."""

    source: int
    target: int
    weight: int | None
    width: int

    @classmethod
    def from_header(cls, cells: list[str]) -> _Columns | None:
        """As the names say; None where the row is not a header."""
        names = [cell.lower().replace("_", "") for cell in cells]

        def place(known: tuple[str, ...]) -> int | None:
            return next((k for k, name in enumerate(names) if name in known), None)

        source, target = place(SOURCE_NAMES), place(TARGET_NAMES)
        if source is None or target is None:
            return None
        return cls(source, target, place(WEIGHT_NAMES), len(cells))

    @classmethod
    def from_names(cls, rows: Rows) -> _Columns | None:
        """Those of a format that names its columns; None for text, whose first row is still to be read."""
        if rows.names is None:
            return None
        columns = cls.from_header(rows.names)
        if columns is None:
            raise InputError(
                rows.path, "have a column named source and one named target", listed(rows.names), "Rename them."
            )
        return columns

    @classmethod
    def in_order(cls, cells: list[str], where: str) -> _Columns:
        """Source, target and perhaps weight, as many as the first row has."""
        if len(cells) not in (2, 3):
            raise ValueError(
                f"{where} must have 2 or 3 cells (source, target, weight), got {len(cells)}. "
                "Name the columns in a first line such as source,target,weight, or check what separates them."
            )
        return cls(0, 1, 2 if len(cells) == 3 else None, len(cells))


def _gather(rows: Rows, nodes: _Nodes) -> EdgeTable:
    columns = _Columns.from_names(rows)
    ends: list[int] = []
    weights: list[float] = []
    for number, cells in rows.rows:
        if columns is None:
            columns = _Columns.from_header(cells)
            if columns is not None:
                continue
            columns = _Columns.in_order(cells, f"{rows.place(number)},")
        if len(cells) != columns.width:
            rule = f"must have {columns.width} cells like the first line"
            raise ValueError(f"{rows.place(number)}, {rule}, got {len(cells)}.")
        for column in (columns.source, columns.target):
            name = as_text(cells[column])
            node = nodes.number.get(name)
            ends.append(nodes.add(name, f"{rows.place(number)}, column {column + 1},") if node is None else node)
        if columns.weight is not None:
            weight = _as_weight(cells[columns.weight])
            if weight is None:
                raise ValueError(
                    f"{rows.place(number)}, column {columns.weight + 1}, must be a positive weight, "
                    f"got {as_text(cells[columns.weight])!r}. Leave out edges that have none."
                )
            weights.append(weight)
    if columns is None or not ends:
        found = "an empty file" if columns is None else "only a header" if rows.names is None else "none"
        raise InputError(rows.path, "hold at least one edge", found, "Write lines such as a,b or a,b,0.5.")
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    return EdgeTable(list(nodes.number), edges, None if columns.weight is None else np.array(weights))


def _as_weight(cell: Cell) -> float | None:
    """A cell as a weight; None where it is none."""
    try:
        weight = float(cell)
    except (TypeError, ValueError):
        return None
    return weight if math.isfinite(weight) and weight > 0 else None


def _read_graphml_edges(path: Path, known: dict[str, int] | None) -> EdgeTable:
    nodes, edges = read_graphml(path)
    if known is not None:
        return _gather(edges, _Nodes(known, True))
    return _gather(edges, _Nodes({as_text(cells[0]): k for k, (_, cells) in enumerate(nodes.rows)}, False))


# -- matrices -------------------------------------------------------------------------------------------------------


def _read_matrix(path: Path, known: dict[str, int] | None) -> EdgeTable:
    try:
        matrix = sp.load_npz(path)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as wrong:
        raise InputError(path, "be written by scipy.sparse.save_npz", but=f"it reads: {wrong}") from wrong
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(path, "hold a square matrix", f"shape {matrix.shape}", "Save the N x N weights.")
    if matrix.dtype.kind not in "buif":
        raise InputError(path, "hold real numbers", matrix.dtype, "Convert them before saving.")
    entries = sp.coo_array(matrix)
    kept = entries.data != 0
    edges = np.stack([axis[kept] for axis in entries.coords]).astype(np.int64)
    ids = [str(node) for node in range(matrix.shape[0])]
    if known is not None:
        nodes = _Nodes(known, True)
        numbers = [known[name] if name in known else nodes.add(name, f"`{path}`, row {name},") for name in ids]
        edges, ids = np.array(numbers, np.int64)[edges], list(known)
    return EdgeTable(ids, edges, entries.data[kept].astype(np.float64))
