"""Tables in text, Parquet and GraphML files. Errors report the position in the file."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from lggd.errors import InputError
from lggd.files import check_readable, check_writable

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET, GRAPHML = ".parquet", ".graphml"
TABLES = (*DELIMITERS, PARQUET)
# Name of the column of node ids in a table read from GraphML; no attribute can have this name.
GRAPHML_ID = "<node>"
WEIGHT_NAMES = ("weight", "w")
# Rows of a Parquet file that are converted to Python objects at a time.
BATCH_SIZE = 4096
# Integers up to this size are exact in float64, in which pandas stores integers with missing values.
EXACT_INTEGERS = 2**53

# Text, a number, a boolean, or None for an empty cell. Files may contain other types, such as dates.
Cell = Any
Row = tuple[int | str, list[Cell]]


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a file, which can be iterated once.

    `names` are the names of the `width` columns, or None if the file has no header. Each row comes with its position:
    the line of a text file, the row of a Parquet file, a node id or an edge number, according to `unit`.
    """

    path: Path
    unit: str
    names: list[str] | None
    width: int
    rows: Iterator[Row]

    def __iter__(self) -> Iterator[Row]:
        for row, cells in self.rows:
            if len(cells) != self.width:
                remedy = "Check the delimiter, and quote cells that contain it."
                raise self.error(row, None, f"have {self.width} cells like the first line", len(cells), remedy)
            yield row, cells

    def error(self, row: int | str, column: int | None, rule: str, value: object, remedy: str = "") -> InputError:
        """Returns an error about a row, or about one cell if `column` is an index."""
        name = "" if column is None else f", column {self.names[column]!r}" if self.names else f", column {column + 1}"
        return InputError(f"{self.path}, {self.unit} {row}{name}", rule, value, remedy)

    def empty_error(self, item: str, remedy: str) -> InputError:
        found = "an empty file" if self.names is None else "no rows"
        return InputError(self.path, f"contain at least one {item}", found, remedy)


def read_table(path: str | Path, is_header: Callable[[list[str]], bool] = bool) -> Table:
    """Reads a `.csv`, `.tsv` or `.parquet` file, or the nodes of a `.graphml` file.

    Empty lines and surrounding whitespace are ignored in text. Its first line is a header if `is_header` returns True
    for the cells; by default it always is.
    """
    path = check_readable(path)
    extension = check_extension(path, (*TABLES, GRAPHML))
    if extension == GRAPHML:
        return read_graphml(path)[0]
    if extension == PARQUET:
        return _read_parquet(path)
    rows = _text_rows(path, DELIMITERS[extension])
    first = next(rows, None)
    names = first[1] if first else []
    if first and is_header(names):
        return Table(path, "line", names, len(names), rows)
    return Table(path, "line", None, len(names), chain([first] if first else [], rows))


def check_extension(path: str | Path, allowed: Sequence[str]) -> str:
    """Returns the extension of a file name, which must be one of `allowed`; `.pq` is short for `.parquet`."""
    extension = Path(path).suffix.lower()
    extension = PARQUET if extension == ".pq" else extension
    if extension not in allowed:
        choice = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise InputError(path, f"end in {choice}", repr(extension), "Rename or convert it.")
    return extension


def check_table_writable(path: str | Path) -> Path:
    """Returns the path if a table can be written there. Call it before a long computation."""
    check_extension(path, TABLES)
    return check_writable(path)


def find_column(names: Sequence[str], known: Sequence[str]) -> int | None:
    """Returns the index of the column with the first `known` name that occurs, ignoring case and underscores."""
    normalized = [str(name).lower().replace("_", "") for name in names]
    return next((normalized.index(name) for name in known if name in normalized), None)


def find_pair(names: Sequence[str], *known: Sequence[str]) -> tuple[int, int] | None:
    """Returns the indices of two columns by their `known` names, or None if one is missing."""
    first, second = (find_column(names, group) for group in known)
    return None if first is None or second is None else (first, second)


def as_text(cell: Cell) -> str:
    """Returns a cell as a name: "" for None and NaN, "1" for 1.0, as pandas writes integers with missing values."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    is_whole = isinstance(cell, float) and cell.is_integer() and abs(cell) <= EXACT_INTEGERS
    return str(int(cell) if is_whole else cell)


def as_number(cell: Cell) -> float:
    """Returns a cell as a number, 1 and 0 for true and false, NaN for anything else."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return {"true": 1.0, "false": 0.0}.get(as_text(cell).lower(), math.nan)


@contextmanager
def reading(path: Path | str, rule: str, *kinds: type[Exception], remedy: str = "") -> Iterator[None]:
    """Turns errors of these kinds, and otherwise of text that is not UTF-8, into one about the file."""
    try:
        yield
    except kinds as error:
        raise InputError(path, rule, but=f"reading it failed: {error}", remedy=remedy) from error
    except UnicodeDecodeError as error:
        byte = f"the byte 0x{error.object[error.start]:02x}"
        raise InputError(path, "be UTF-8 text", byte, "Save it in that encoding.") from error


def _text_rows(path: Path, delimiter: str) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            with reading(path, ""):
                for row in rows:
                    cells = [cell.strip() for cell in row]
                    if any(cells):
                        yield rows.line_num, cells
        except csv.Error as error:
            place = f"{path}, line {rows.line_num}"
            raise InputError(place, "be a row of cells", but=f"reading it failed: {error}") from error


def _read_parquet(path: Path) -> Table:
    import pyarrow as arrow
    from pyarrow import parquet

    def values(column: Any) -> Any:
        is_number = arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)
        # Conversion by NumPy is many times faster than by to_pylist.
        return column.to_numpy(False).tolist() if is_number and not column.null_count else column.to_pylist()

    damage = (path, "be a Parquet file", arrow.ArrowException, OSError)
    with reading(*damage):
        schema = parquet.read_schema(path)
    # pandas stores the index last, but shows it as the first column, where ids are expected.
    index = [name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    order = sorted(range(len(schema.names)), key=lambda k: schema.names[k] not in index)

    def rows() -> Iterator[Row]:
        number = 0
        with reading(*damage), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_SIZE):
                for cells in zip(*(values(batch.column(k)) for k in order), strict=True):
                    number += 1
                    yield number, list(cells)

    return Table(path, "row", [schema.names[k] for k in order], len(order), rows())


def read_graphml(path: Path) -> tuple[Table, Table]:
    """Reads the nodes and the edges of a `.graphml` file.

    The columns of the nodes are their id and every attribute that some node has; those of the edges are source, target
    and, if some edge has that attribute, weight.
    """
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    with reading(path, "be a GraphML file", ParseError, nx.NetworkXException, ValueError, KeyError):
        graph = nx.read_graphml(path)
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    attributes = list(dict.fromkeys(name for _, values in nodes for name in values))
    weight = [name for name in dict.fromkeys(k for *_, values in edges for k in values) if name.lower() in WEIGHT_NAMES]
    node_rows = ((repr(node), [node, *map(values.get, attributes)]) for node, values in nodes)
    edge_rows = ((number, [*ends, *map(values.get, weight[:1])]) for number, (*ends, values) in enumerate(edges, 1))
    width = 3 if weight else 2
    return (
        Table(path, "node", [GRAPHML_ID, *attributes], 1 + len(attributes), node_rows),
        Table(path, "edge", ["source", "target", "weight"][:width], width, edge_rows),
    )
