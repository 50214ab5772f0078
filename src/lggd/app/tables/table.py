"""Tables in text, Parquet and GraphML files, and pandas tables. Errors report the position in the file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lggd._system.files import check_extension, check_readable, reading
from lggd.app.tables.dialect import TEXT_TABLES, Dialect, Numbers, find_dialect
from lggd.errors import InputError, optional_package
from lggd.validation import listed, suggestion

if TYPE_CHECKING:
    import pyarrow

PARQUET, GRAPHML = ".parquet", ".graphml"
TABLES = (*TEXT_TABLES, PARQUET)
# Name of the column of node ids in a table read from GraphML; no attribute can have this name.
GRAPHML_ID = "<node>"
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

    `names` are the names of the columns, or their numbers from 1 if the file has no header. Each row comes with its
    position: the line of a text file, the row of a Parquet file, a node id or an edge number, according to `unit`.
    `notes` are sentences about how the file was read, and text has a `dialect`.
    """

    path: Path
    unit: str
    names: list[str]
    rows: Iterator[Row]
    notes: tuple[str, ...] = ()
    dialect: Dialect = Dialect(",")
    has_header: bool = True
    numbers: Numbers = field(default_factory=Numbers)

    def __iter__(self) -> Iterator[Row]:
        width = len(self.names)
        for row, cells in self.rows:
            if len(cells) != width:
                remedy = "Check the delimiter, and quote cells that contain it."
                raise self.error(row, None, f"have {width} cells like the first line", len(cells), remedy)
            yield row, cells

    def find(self, argument: str, name: str) -> int:
        """The index of the column with the name that was passed as `argument`."""
        if name not in self.names:
            remedy = suggestion(name, self.names, "Check the spelling.")
            if not self.has_header:
                remedy = "Columns are numbered from 1, because the first line does not name them."
            raise InputError(argument, f"be a column of `{self.path}` ({listed(self.names)})", repr(name), remedy)
        return self.names.index(name)

    def error(self, row: int | str, column: int | None, rule: str, value: object, remedy: str = "") -> InputError:
        """Returns an error about a row, or about one cell if `column` is an index."""
        name = "" if column is None else f", column {self.column_text(column)}"
        return InputError(f"{self.path}, {self.unit} {row}{name}", rule, value, remedy)

    def column_text(self, column: int) -> str:
        """A column in errors: its name in quotes, or its number."""
        return repr(self.names[column]) if self.has_header else self.names[column]

    def empty_error(self, item: str, remedy: str) -> InputError:
        value = "no rows" if self.has_header else "an empty file"
        return InputError(self.path, f"contain at least one {item}", value, remedy)


def read_table(
    source: Any, is_header: Callable[[list[str]], bool] = bool, *, delimiter: str | None = None,
    blanks: bool = False,
) -> Table:  # fmt: skip
    """Reads a `.csv`, `.tsv`, `.txt` or `.parquet` file, a pandas DataFrame, or the nodes of GraphML or networkx.

    In text, the separator is detected unless `delimiter` is one (see `find_dialect`, also for `blanks`); empty lines
    and surrounding whitespace are ignored. Its first line is a header if `is_header` returns True for the cells; by
    default it always is.
    """
    if is_frame(source):
        return _read_frame(source)
    if is_graph(source):
        return read_graph_tables(source)[0]
    path = check_readable(source)
    if check_extension(path, (*TABLES, GRAPHML)) == PARQUET:
        return _read_parquet(path)
    with reading(path, ""):
        dialect = find_dialect(path, delimiter, blanks=blanks)
    rows = _text_rows(path, dialect)
    first = next(rows, None)
    if first and is_header(first[1]):
        return Table(path, "line", first[1], rows, dialect.notes, dialect)
    numbers = [str(k) for k, _ in enumerate(first[1] if first else (), 1)]
    return Table(path, "line", numbers, chain([first] if first else [], rows), dialect.notes, dialect, False)


def import_arrow() -> ModuleType:
    """pyarrow, or an error that says how to install it."""
    with optional_package("a Parquet file", "lggd[tables]"):
        return import_module("pyarrow")


def parquet_column(path: Path) -> pyarrow.ChunkedArray:
    """The one column of a Parquet file."""
    import_arrow()
    from pyarrow import parquet

    return parquet.read_table(path).column(0)


def write_parquet(path: Path, values: Any, name: str = "id") -> None:
    """Writes one column to a Parquet file."""
    arrow = import_arrow()
    from pyarrow import parquet

    parquet.write_table(arrow.table({name: values}), path)


def normalized(name: str) -> str:
    """The name of a column without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", str(name).lower())


def find_column(names: Sequence[str], known: Sequence[str]) -> int | None:
    """Returns the index of the column with the first `known` name that occurs, ignoring case and punctuation."""
    plain = [normalized(name) for name in names]
    return next((plain.index(name) for name in known if name in plain), None)


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


def _text_rows(path: Path, dialect: Dialect) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = dialect.reader(file)
        try:
            with reading(path, ""):
                for row in rows:
                    cells = [cell.strip() for cell in row]
                    if any(cells):
                        yield dialect.skipped + rows.line_num, cells
        except csv.Error as error:
            place = f"{path}, line {dialect.skipped + rows.line_num}"
            raise InputError(place, "be a row of cells", but=f"reading it failed: {error}") from error


def _read_parquet(path: Path) -> Table:
    arrow = import_arrow()
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

    return Table(path, "row", [schema.names[k] for k in order], rows())


def is_graph(source: Any) -> bool:
    """Whether this is a networkx graph or a `.graphml` file, which have tables of nodes and of edges."""
    if isinstance(source, (str, Path)):
        return Path(source).suffix.lower() == GRAPHML
    return hasattr(source, "adj") and hasattr(source, "nodes")


def is_frame(source: Any) -> bool:
    """Whether this is a pandas DataFrame."""
    return hasattr(source, "itertuples") and hasattr(source, "columns")


def _read_frame(frame: Any) -> Table:
    """A pandas DataFrame; its index is the first column, unless it only numbers the rows."""
    numbered = type(frame.index).__name__ == "RangeIndex"
    names = ([] if numbered else [str(frame.index.name or "")]) + [str(name) for name in frame.columns]
    rows = enumerate(([_plain(cell) for cell in row] for row in frame.itertuples(index=not numbered, name=None)), 1)
    return Table(Path("DataFrame"), "row", names, rows)


def _plain(cell: Any) -> Cell:
    """A cell of a DataFrame as a Python object: None for pandas' NA and NaT, numbers without NumPy's type."""
    if type(cell).__name__ in ("NAType", "NaTType"):
        return None
    return cell.item() if hasattr(cell, "item") and not hasattr(cell, "__len__") else cell


def read_graph_tables(source: Any) -> tuple[Table, Table]:
    """Reads the nodes and the edges of a networkx graph or a `.graphml` file.

    The columns of the nodes are their id and every attribute that some node has; those of the edges are source, target
    and every attribute that some edge has.
    """
    graph, path = source, Path("networkx graph")
    if isinstance(source, (str, Path)):
        from xml.etree.ElementTree import ParseError

        import networkx as nx

        path = check_readable(source)
        with reading(path, "be a GraphML file", ParseError, nx.NetworkXException, ValueError, KeyError):
            graph = nx.read_graphml(path)
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    attributes = list(dict.fromkeys(name for _, values in nodes for name in values))
    values_of_edges = list(dict.fromkeys(k for *_, values in edges for k in values))
    names = ["source", "target", *map(str, values_of_edges)]
    node_rows = ((repr(node), [node, *map(values.get, attributes)]) for node, values in nodes)
    edge_rows = (
        (number, [*ends, *map(values.get, values_of_edges)]) for number, (*ends, values) in enumerate(edges, 1)
    )
    return (
        Table(path, "node", [GRAPHML_ID, *map(str, attributes)], node_rows),
        Table(path, "edge", names, edge_rows),
    )
