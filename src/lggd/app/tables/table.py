"""Tables in text, Parquet and GraphML files, and pandas tables. Errors report the position in the file.

The dialect of text (separator, lines before the table, decimal commas) is detected, never guessed silently.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from lggd._system.files import check_extension, check_readable, reading
from lggd.errors import InputError, optional_package
from lggd.text import counted
from lggd.validation import check_name, listed, suggestion

if TYPE_CHECKING:
    import pyarrow

# The separator that an extension stands for. BLANKS stands for any run of spaces and tabs.
BLANKS = " "
TEXT_TABLES = {".csv": ",", ".tsv": "\t", ".txt": BLANKS}
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", BLANKS: "spaces"}
# Other names of separators, which are easier to type in a shell.
SEPARATOR_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": BLANKS}
# The first lines decide: at most this many, and at most this many characters.
LINES_SAMPLED, CHARACTERS_SAMPLED = 200, 2**17
EXCEL_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
# Lines before the table in lists of edges of network collections; "#cats" is a name.
COMMENT = re.compile(r"\s*$|#\s|%")
QUOTED = re.compile(r'"(?:[^"]|"")*"')
AROUND = re.compile(r"\s*[,;|]\s*")
DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
BOOLEANS = {"true": 1.0, "false": 0.0}
NUMBER_WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
# 1,234 is 1234 for some people and 1.234 for others.
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
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


@dataclass(frozen=True)
class Dialect:
    """The separator of a text table, the number of lines before the table, and sentences about both."""

    delimiter: str
    skipped: int = 0
    notes: tuple[str, ...] = ()

    def reader(self, file: TextIO) -> Any:
        """The `csv.reader` of a file from its start; its line numbers begin after the skipped lines."""
        return _split(islice(file, self.skipped, None), self.delimiter, strict=True)


def find_dialect(path: Path, delimiter: str | None = None, *, blanks: bool = False) -> Dialect:
    """Finds what separates the columns: the one separator that splits all of the first lines into equally many cells.

    Where that is not the separator of the extension, a note says so; where two fit, an error asks for `delimiter`.
    `blanks` allows spaces in files other than `.txt`: useful where a table of one column would make no sense.
    """
    usual, chosen = TEXT_TABLES[path.suffix.lower()], delimiter
    if delimiter is not None and delimiter not in SEPARATORS:
        chosen = SEPARATOR_NAMES[check_name("delimiter", delimiter, SEPARATOR_NAMES)]
    lines, notes, skipped = _sample(path), list[str](), 0
    declared = EXCEL_LINE.fullmatch(lines[0]) if lines else None
    if declared:
        skipped, chosen = 1, chosen or declared[1]
        notes.append(f"{path.name}: the first line, {lines[0].strip()}, declares the separator.")
    elif usual == BLANKS:
        skipped = next((k for k, line in enumerate(lines) if not COMMENT.match(line)), len(lines))
        if any(line.strip() for line in lines[:skipped]):
            first = "line" if skipped == 1 else f"{skipped} lines"
            notes.append(f"{path.name}: the comments in the first {first} were skipped.")
    separator = chosen or _choose(path, lines[skipped:], usual, blanks)
    if separator not in SEPARATORS:
        raise InputError(f"{path}, line 1", "declare a separator such as sep=;", repr(separator), "Remove the line.")
    if separator != usual and chosen is None:
        notes.append(f"{path.name}: columns are separated by {SEPARATORS[separator]}.")
    return Dialect(separator, skipped, tuple(notes))


def _sample(path: Path) -> list[str]:
    """The first lines of the file, without a last one that may be cut off."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = list(StringIO(file.read(CHARACTERS_SAMPLED), newline=""))
        return lines[:-1] if len(lines) > 1 and file.read(1) else lines


def _choose(path: Path, lines: Sequence[str], usual: str, blanks: bool) -> str:
    widths = {separator: _widths(lines, separator) for separator in SEPARATORS}
    # A separator inside quotes separates nothing.
    bare = [line for line in QUOTED.sub("", "".join(lines)).splitlines() if line.strip()]
    even = [each for each in SEPARATORS if len(set(widths[each])) == 1 and widths[each][0] > 1]
    fitting = [each for each in even if each != BLANKS and all(each in line for line in bare)]
    if usual == "\t" and usual in fitting:  # names in a .tsv file often contain other separators
        return usual
    only_decimal_commas = all(len(DECIMAL_COMMA.findall(line)) == line.count(",") for line in lines)
    if "," in fitting and len(fitting) > 1 and only_decimal_commas:
        fitting.remove(",")
    if (usual == BLANKS or fitting == ["|"]) and BLANKS in even and widths[BLANKS] != widths["\t"]:
        # In "a, b" and "a | b" blanks are no separators.
        fitting += [BLANKS] if any(" " in AROUND.sub(",", line.strip()) for line in lines) else []
    if len(fitting) > 1:
        both = " and by ".join(SEPARATORS[each] for each in fitting[:2])
        named = {separator: name for name, separator in reversed(SEPARATOR_NAMES.items())}
        hints = {"delimiter": f"delimiter={named[fitting[0]]!r}", "other": f"delimiter={named[fitting[1]]!r}"}
        value = f"lines that can be split by {both}"
        raise InputError(path, "have one separator", value, "Add {delimiter} or {other}.", hints=hints)
    if fitting:
        return fitting[0]
    if BLANKS in even and (usual == BLANKS or (blanks and not any(usual in line for line in bare))):
        return BLANKS
    # No separator fits all lines: the first line decides, and the error reports the first line that differs.
    first = {
        each: max(widths[each][:1], default=0) for each in SEPARATORS if each != BLANKS and each in "".join(bare[:1])
    }
    return usual if usual in first or not first else max(first, key=first.__getitem__)


def _widths(lines: Sequence[str], separator: str) -> list[int]:
    """The number of cells of each line, except empty lines."""
    try:
        rows = _split(lines, separator, strict=False)
        return [len(cells) for cells in islice(rows, LINES_SAMPLED) if any(cell.strip() for cell in cells)]
    except csv.Error:
        return []


def _split(lines: Iterable[str], separator: str, strict: bool) -> Any:
    if separator == BLANKS:
        lines = (line.strip() + "\n" if '"' in line else " ".join(line.split()) + "\n" for line in lines)
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=strict)


class Numbers:
    """Reads the numbers of one table, and remembers whether they have decimal commas or points.

    >>> numbers = Numbers()
    >>> numbers.read("0,5"), numbers.read("true"), numbers.read("red"), numbers.read("1_000")
    (0.5, 1.0, nan, nan)
    """

    def __init__(self) -> None:
        self.commas = self.grouped = 0
        self.with_comma = self.with_point = ""

    def read(self, cell: Any) -> float:
        """Returns a cell as a number, 1 and 0 for true and false, NaN for anything else."""
        if not isinstance(cell, str):
            try:
                return float(cell)
            except (TypeError, ValueError, OverflowError):
                return math.nan
        if "_" in cell:  # Python reads 1_000 as 1000, nobody else does
            return math.nan
        text = cell.strip()
        try:
            value = float(text)
        except ValueError:
            if "," not in text or not NUMBER_WITH_COMMA.fullmatch(text):
                return BOOLEANS.get(text.lower(), math.nan)
            self.commas += 1
            self.grouped += GROUPED.fullmatch(text) is not None
            self.with_comma = self.with_comma or text
            return float(text.replace(",", "."))
        if "." in text:
            self.with_point = self.with_point or text
        return value

    def notes(self, path: Path) -> tuple[str, ...]:
        """A sentence if numbers have decimal commas; raises if commas may separate thousands."""
        if not self.commas:
            return ()
        remedy = "Write numbers with a decimal point and without separators of thousands."
        if self.with_point:
            value = f"{self.with_comma!r} and {self.with_point!r}"
            raise InputError(path, "have numbers with either decimal commas or points", value, remedy)
        if self.commas == self.grouped:
            value = f"{self.with_comma!r}, which may be a thousand times larger or smaller"
            raise InputError(path, "have clear numbers", value, remedy)
        read = counted(self.commas, f"number, {self.with_comma}, was", f"numbers such as {self.with_comma} were")
        return (f"{path.name}: {read} read with a decimal comma.",)


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
