"""Rows of cells from text, Parquet and GraphML files, and where each row stands, so that mistakes can be named."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lggd.errors import InputError
from lggd.files import check_readable

if TYPE_CHECKING:
    import networkx as nx

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET = ".parquet"
GRAPHML = ".graphml"
TABLES = (*DELIMITERS, PARQUET)
# What the column of node ids is called in what we make of a GraphML file. No attribute has this name.
GRAPHML_ID = "<node>"
WEIGHT_NAMES = ("weight", "w")
# Rows of a Parquet file that are turned into Python's values at a time.
BATCH = 4096
# Whole numbers up to here are exact as float64, in which pandas keeps integers that have gaps.
EXACT_INTEGERS = 2**53

# A cell is text, a number, a truth value, or None where it is empty. Files may hold stranger things, such as dates.
Cell = Any


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a file, to be read once.

    `names` are the columns' names where the format has them. It is None for text, whose first row may hold them.
    A row comes with what people call it: the line of a text file, the row of a Parquet file, a node, an edge.
    """

    path: Path
    unit: str
    names: list[str] | None
    rows: Iterator[tuple[int | str, list[Cell]]]

    def place(self, number: int | str) -> str:
        """Where a row stands, for errors."""
        return f"`{self.path}`, {self.unit} {number}"


def read_rows(path: str | Path) -> Rows:
    """The rows of a `.csv`, `.tsv` or `.parquet` file. Empty lines and the space around text are left out."""
    path = check_readable(path)
    ending = check_ending(path, TABLES)
    if ending == PARQUET:
        return _parquet_rows(path)
    return Rows(path, "line", None, _text_rows(path, DELIMITERS[ending]))


def check_ending(path: str | Path, allowed: Sequence[str]) -> str:
    """How a file's name ends, if that is one of `allowed`: it says what the file holds. `.pq` is short for Parquet."""
    ending = Path(path).suffix.lower()
    ending = PARQUET if ending == ".pq" else ending
    if ending not in allowed:
        choice = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise InputError(path, f"end in {choice}", repr(ending), "Rename or convert it.")
    return ending


def as_text(cell: Cell) -> str:
    """A cell as a name: empty for None and NaN, and 1 for 1.0, because pandas writes integers with gaps that way."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None:
        return ""
    if isinstance(cell, float):
        if math.isnan(cell):
            return ""
        if cell.is_integer() and abs(cell) <= EXACT_INTEGERS:
            return str(int(cell))
    return str(cell)


def not_utf8(path: Path, wrong: UnicodeDecodeError) -> ValueError:
    byte = wrong.object[wrong.start]
    return ValueError(f"`{path}` must be UTF-8 text, got the byte 0x{byte:02x}. Save it in that encoding.")


# -- text -----------------------------------------------------------------------------------------------------------


def _text_rows(path: Path, delimiter: str) -> Iterator[tuple[int | str, list[Cell]]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            for row in rows:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    yield rows.line_num, cells
        except UnicodeDecodeError as wrong:
            raise not_utf8(path, wrong) from wrong
        except csv.Error as wrong:
            raise ValueError(f"`{path}`, line {rows.line_num}, must be a row of cells: {wrong}.") from wrong


# -- Parquet --------------------------------------------------------------------------------------------------------


def _parquet_rows(path: Path) -> Rows:
    arrow, parquet = parquet_library(path)
    try:
        schema = parquet.read_schema(path)
    except (arrow.ArrowException, OSError) as wrong:
        raise _not_parquet(path, wrong) from wrong
    # pandas stores a table's index last, though its users see it first, where ids are.
    about = schema.pandas_metadata or {}
    index = [name for name in about.get("index_columns", []) if isinstance(name, str)]
    order = sorted(range(len(schema.names)), key=lambda k: schema.names[k] not in index)

    def rows() -> Iterator[tuple[int | str, list[Cell]]]:
        number = 0
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(BATCH):
                    for cells in zip(*(_values(arrow, batch.column(k)) for k in order), strict=True):
                        number += 1
                        yield number, list(cells)
        except (arrow.ArrowException, OSError) as wrong:
            raise _not_parquet(path, wrong) from wrong

    return Rows(path, "row", [schema.names[k] for k in order], rows())


def parquet_library(path: Path) -> tuple[Any, Any]:
    """pyarrow and its Parquet reader and writer."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as wrong:
        raise ImportError(f"`{path}` is a Parquet file, which needs pyarrow. Install pyarrow, or use .csv.") from wrong
    return arrow, parquet


def _values(arrow: Any, column: Any) -> list[Cell]:
    numbers = arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)
    if numbers and column.null_count == 0:  # many times faster than a value at a time
        values: list[Cell] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return list(column.to_pylist())


def _not_parquet(path: Path, wrong: Exception) -> ValueError:
    return ValueError(f"`{path}` must be a Parquet file, but it reads: {wrong}")


# -- GraphML --------------------------------------------------------------------------------------------------------


def read_graphml(path: str | Path) -> tuple[Rows, Rows]:
    """Nodes and edges of a `.graphml` file as rows.

    The nodes' columns are their id and then every attribute that some node has. The edges' are source, target and, if
    some edge has an attribute of that name, weight.
    """
    path = check_readable(path)
    graph = _graphml_graph(path)
    attributes = list(dict.fromkeys(name for _, given in graph.nodes(data=True) for name in given))
    nodes: Iterator[tuple[int | str, list[Cell]]] = (
        (repr(node), [node, *(given.get(name) for name in attributes)]) for node, given in graph.nodes(data=True)
    )
    known = dict.fromkeys(name for _, _, given in graph.edges(data=True) for name in given)
    weight = [name for name in known if name.lower() in WEIGHT_NAMES][:1]
    edges: Iterator[tuple[int | str, list[Cell]]] = (
        (number, [source, target, *(given.get(name) for name in weight)])
        for number, (source, target, given) in enumerate(graph.edges(data=True), 1)
    )
    columns = ["source", "target", "weight"] if weight else ["source", "target"]
    return Rows(path, "node", [GRAPHML_ID, *attributes], nodes), Rows(path, "edge", columns, edges)


def _graphml_graph(path: Path) -> nx.Graph[str]:
    from xml.etree.ElementTree import ParseError

    try:
        import networkx as nx
    except ImportError as wrong:
        raise ImportError(f"`{path}` is a GraphML file, which needs networkx. Install networkx.") from wrong
    try:
        graph: nx.Graph[str] = nx.read_graphml(path)
    except (ParseError, nx.NetworkXException, ValueError, KeyError) as wrong:
        raise InputError(path, "be a GraphML file", but=f"it reads: {wrong}") from wrong
    return graph
