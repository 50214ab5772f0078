"""Graphs and distances as tables, with the names people gave their nodes."""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lggd.data.files import replacing

DELIMITERS = {".csv": ",", ".tsv": "\t"}
# A first row with one name of each of the first two groups is a header; letter case and "_" do not matter.
SOURCE_NAMES = ("source", "src", "from", "node1")
TARGET_NAMES = ("target", "dst", "to", "node2")
WEIGHT_NAMES = ("weight", "w")
# Among how many names to look for one that was misspelt: comparing is slow.
NAMES_COMPARED = 10_000


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
            close = get_close_matches(name, self.ids[:NAMES_COMPARED], n=1)
            remedy = f"Did you mean {close[0]!r}?" if close else f"The first is {self.ids[0]!r}."
            raise ValueError(f"`{argument}` must be one of the {len(self.ids)} nodes there are, got {name!r}. {remedy}")
        return found


def read_edges(path: str | Path) -> EdgeTable:
    """Reads edges from a `.csv`, `.tsv` or `.npz` file.

    A text file has an edge a line: source, target and, if you like, weight. Names are kept as written, without the
    space around them. A first line is a header if it names a source and a target (`source,target`, `src,dst`, `from,to`
    or `node1,node2`): then columns may stand in any order, `weight` or `w` is read, and others are ignored. Without
    a header the columns are source, target, weight, and every line counts as an edge.

    An `.npz` file holds a square matrix written by `scipy.sparse.save_npz`; its nodes are named "0".."N-1".
    """
    path = _check_file(path)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _read_matrix(path)
    if suffix in DELIMITERS:
        return _read_delimited(path, DELIMITERS[suffix])
    raise ValueError(f"`{path}` must end in .csv, .tsv or .npz, got {suffix!r}. Rename or convert it.")


def read_ids(path: str | Path) -> list[str]:
    """Node names from a text file, one a line; empty lines are skipped."""
    path = _check_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as wrong:
        raise _not_utf8(path, wrong) from wrong
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise ValueError(f"`{path}` must name at least one node, got an empty file. Write one name a line.")
    return names


def write_distances(path: str | Path, ids: Sequence[str], value: Iterable[float]) -> None:
    """Writes the columns node and distance, between commas or, for a name in `.tsv`, tabs; `inf` is out of reach."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter=DELIMITERS.get(temporary.suffix.lower(), ","), lineterminator="\n")
        rows.writerow(("node", "distance"))
        rows.writerows(zip(ids, value, strict=True))


# -- text ---------------------------------------------------------------------------------------------------------


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
    def in_order(cls, cells: list[str], where: str) -> _Columns:
        """Source, target and perhaps weight, as many as the first row has."""
        if len(cells) not in (2, 3):
            raise ValueError(
                f"{where} must have 2 or 3 cells (source, target, weight), got {len(cells)}. "
                "Name the columns in a first line such as source,target,weight, or check what separates them."
            )
        return cls(0, 1, 2 if len(cells) == 3 else None, len(cells))


def _read_delimited(path: Path, delimiter: str) -> EdgeTable:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            return _gather(path, rows)
        except UnicodeDecodeError as wrong:
            raise _not_utf8(path, wrong) from wrong
        except csv.Error as wrong:
            raise ValueError(f"`{path}`, line {rows.line_num}, must be a row of cells: {wrong}.") from wrong


def _gather(path: Path, rows: Any) -> EdgeTable:
    """Numbers the nodes as they come. `rows` is a csv.reader, which knows the line it is at."""
    columns: _Columns | None = None
    number: dict[str, int] = {}
    ends: list[int] = []
    weights: list[float] = []
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        where = f"`{path}`, line {rows.line_num},"
        if columns is None:
            columns = _Columns.from_header(cells)
            if columns is not None:
                continue
            columns = _Columns.in_order(cells, where)
        if len(cells) != columns.width:
            raise ValueError(f"{where} must have {columns.width} cells like the first line, got {len(cells)}.")
        for column in (columns.source, columns.target):
            if not cells[column]:
                raise ValueError(f"{where} column {column + 1}, must name a node, got an empty cell.")
            ends.append(number.setdefault(cells[column], len(number)))
        if columns.weight is not None:
            weights.append(_read_weight(cells[columns.weight], f"{where} column {columns.weight + 1},"))
    if columns is None or not ends:
        found = "an empty file" if columns is None else "only a header"
        raise ValueError(f"`{path}` must hold at least one edge, got {found}. Write lines such as a,b or a,b,0.5.")
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    return EdgeTable(list(number), edges, None if columns.weight is None else np.array(weights))


def _read_weight(cell: str, where: str) -> float:
    try:
        weight = float(cell)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise ValueError(f"{where} must be a positive weight, got {cell!r}. Leave out edges that have none.")
    return weight


# -- matrices -----------------------------------------------------------------------------------------------------


def _read_matrix(path: Path) -> EdgeTable:
    try:
        matrix = sp.load_npz(path)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as wrong:
        raise ValueError(f"`{path}` must be written by scipy.sparse.save_npz, but it reads: {wrong}") from wrong
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"`{path}` must hold a square matrix, got shape {matrix.shape}. Save the N x N weights.")
    if matrix.dtype.kind not in "buif":
        raise ValueError(f"`{path}` must hold real numbers, got {matrix.dtype}. Convert them before saving.")
    entries = sp.coo_array(matrix)
    kept = entries.data != 0
    edges = np.stack([axis[kept] for axis in entries.coords]).astype(np.int64)
    return EdgeTable([str(node) for node in range(matrix.shape[0])], edges, entries.data[kept].astype(np.float64))


def _check_file(path: str | Path) -> Path:
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`{path}` must be a file, got a folder. Name a file inside it.")
    if not path.exists():
        raise FileNotFoundError(f"`{path}` must be a file, but there is none. Check the name and the folder.")
    return path


def _not_utf8(path: Path, wrong: UnicodeDecodeError) -> ValueError:
    byte = wrong.object[wrong.start]
    return ValueError(f"`{path}` must be UTF-8 text, got the byte 0x{byte:02x}. Save it in that encoding.")
