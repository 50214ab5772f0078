"""DuckDB: tables of any size in one or several files, as SQL, read within a limit of memory."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from lggd._system.files import check_extension, check_readable, size_in_words
from lggd.app.tables.dialect import BLANKS
from lggd.app.tables.table import PARQUET, TABLES, Table
from lggd.errors import DiskFullError, InputError, InputFileError, NotEnoughMemoryError, optional_package
from lggd.validation import listed

ROWS_AT_ONCE = 1_000_000
# Less free space than this when a query fails means that the disk is full: DuckDB reports the reason only as text.
LEAST_FREE = 2**26
# Whitespace that is stripped from cells.
BLANK_CHARACTERS = "E' \\t\\r'"
LINES_SEEN = 200


def import_duckdb() -> Any:
    with optional_package("lggd graph build", "lggd[disk]"):
        return import_module("duckdb")


class Database:
    """A connection that may use `memory` bytes, and writes what does not fit into `folder`."""

    def __init__(self, memory: int, folder: Path) -> None:
        self.folder = folder
        settings = {
            "memory_limit": f"{max(memory, 2**27) // 2**20}MiB", "temp_directory": str(folder / "spilled"),
            "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            "preserve_insertion_order": False,
        }  # fmt: skip
        self.connection = import_duckdb().connect(config=settings)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        shutil.rmtree(self.folder / "spilled", ignore_errors=True)

    def batches(self, query: str, place: object, *, ordered: bool = False, rows: int = ROWS_AT_ONCE) -> Iterator[Any]:
        """The rows of a query as Arrow batches; `place` is the file that errors are about."""
        with self._cursor(place, ordered) as cursor:
            relation = cursor.sql(query)
            # The second name is that of version 1.
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
            with read(rows) as reader:
                yield from reader

    def rows(self, query: str, place: object, *, ordered: bool = False) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._cursor(place, ordered) as cursor:
            return list(cursor.execute(query).fetchall())

    @contextmanager
    def _cursor(self, place: object, ordered: bool) -> Iterator[Any]:
        """A cursor of its own: the caller of `batches` may stop in the middle, and ask another question about a row.

        Errors of DuckDB become errors about the file that is read, the disk or the memory.
        """
        duckdb = import_duckdb()
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"SET preserve_insertion_order = {'true' if ordered else 'false'}")
                yield cursor
        except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow wraps errors of batches in its own
            free = shutil.disk_usage(self.folder).free
            if free < LEAST_FREE and not isinstance(error, (duckdb.ParserException, duckdb.BinderException)):
                but = f"only {size_in_words(free)} are free there"
                raise DiskFullError(str(self.folder), "fit on its disk", but=but, remedy="Free some space.") from error
            if isinstance(error, duckdb.OutOfMemoryException):
                remedy = "Allow more with --memory, or close other programs."
                raise NotEnoughMemoryError(f"Reading {place} needs more memory than it may use. {remedy}") from error
            said = " ".join(str(error).split("Possible ")[0].split()).rstrip(".")
            remedy = "Correct the file; check its delimiter, its quotes and its encoding (UTF-8)."
            raise InputError(place, "be a table", but=f"reading it failed: {said}", remedy=remedy) from error


def sql_text(text: object) -> str:
    """A text as SQL writes it.

    >>> sql_text("it's")
    "'it''s'"
    """
    return "'" + str(text).replace("'", "''") + "'"


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table in files with equal columns.

    `table` is that of the first file, for its names, its notes and errors; `sql` is a relation whose columns are
    c0, c1, and so on; `kinds` says of each whether it is text, integer, float or other.
    """

    paths: tuple[Path, ...]
    table: Table
    sql: str
    kinds: tuple[str, ...]

    @property
    def place(self) -> Path | str:
        """The file in errors; of several the first with the number of the others."""
        return self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"

    def text(self, column: int) -> str:
        """SQL of a cell as a name, NULL if it is empty; 1.0 is 1, as in other tables."""
        name, kind = f"c{column}", self.kinds[column]
        if kind == "text":
            return f"nullif(trim({name}, {BLANK_CHARACTERS}), '')"
        if kind == "float":
            whole = f"{name} = floor({name}) AND abs({name}) < 9e15"
            return (
                f"CASE WHEN isnan({name}) THEN NULL WHEN {whole} THEN {name}::BIGINT::VARCHAR ELSE {name}::VARCHAR END"
            )
        return f"{name}::VARCHAR"

    def integer(self, column: int) -> str:
        """SQL of a cell as an integer; NULL if it is none."""
        return f"TRY_CAST(c{column} AS BIGINT)"

    def is_odd(self, column: int, *, strip: bool) -> str:
        """SQL: whether a cell is no integer, or written in another way than integers are, such as 007."""
        written = f"trim(c{column}, {BLANK_CHARACTERS})" if strip else f"c{column}"
        if self.kinds[column] == "text":
            return f"({self.integer(column)}::VARCHAR IS DISTINCT FROM {written})"
        if self.kinds[column] == "float":
            return f"({self.integer(column)} IS DISTINCT FROM c{column})"
        return f"({self.integer(column)} IS NULL AND c{column} IS NOT NULL)"  # above 2⁶³, or of another type

    def number(self, column: int) -> str:
        """SQL of a cell as a number, 1 and 0 for true and false; NULL for anything else."""
        name = f"c{column}"
        if self.kinds[column] != "text":
            return f"TRY_CAST({name} AS DOUBLE)"
        truth = f"CASE lower(trim({name})) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
        return f"CASE WHEN contains({name}, '_') THEN NULL ELSE coalesce(TRY_CAST({name} AS DOUBLE), {truth}) END"


def read_source(pattern: Any, read: Callable[[Path], Table]) -> TableSource:
    """The table of one file, several, or all that a pattern such as `edges-*.csv` matches; `read` that of one file."""
    paths = _matching(pattern)
    tables = [read(path) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if (table.names, table.has_header) != (tables[0].names, tables[0].has_header):
            found = listed(table.names) if table.has_header else f"{len(table.names)} columns without names"
            raise InputError(path, f"have the columns of {paths[0]}", found, "Build a graph of files of one kind.")
        if not table.names:
            raise table.empty_error("row", "Write lines such as a,b or a,b,0.5.")
    if check_extension(paths[0], TABLES) == PARQUET:
        kinds = _parquet_kinds(paths, tables[0])
        quoted = (name.replace('"', '""') for name in tables[0].names)
        columns = ", ".join(f'"{name}" AS c{k}' for k, name in enumerate(quoted))
        return TableSource(paths, tables[0], f"(SELECT {columns} FROM read_parquet([{_listed(paths)}]))", kinds)
    parts: dict[str, list[Path]] = {}
    for path, table in zip(paths, tables, strict=True):
        parts.setdefault(_text_sql(table), []).append(path)
    union = " UNION ALL ".join(sql.replace("{paths}", _listed(group)) for sql, group in parts.items())
    return TableSource(paths, tables[0], f"({union})", ("text",) * len(tables[0].names))


def _matching(pattern: Any) -> tuple[Path, ...]:
    several = [pattern] if isinstance(pattern, (str, Path)) else list(pattern)
    paths: list[Path] = []
    for each in several:
        path = Path(each)
        is_pattern = not path.exists() and glob.has_magic(str(each))
        found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor)))) if is_pattern else [path]
        if not found:
            raise InputFileError(str(each), "match a file", but="it matches none", remedy="Check the pattern.")
        paths += map(check_readable, found)
    if not paths:
        raise InputError("edges", "name a file", "none")
    extensions = {check_extension(path, TABLES) for path in paths}
    if PARQUET in extensions and len(extensions) > 1:
        raise InputError("edges", "be files of one kind", listed(sorted(extensions)), "Convert some of them.")
    return tuple(paths)


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(sql_text(glob.escape(str(path))) for path in paths)


def _text_sql(table: Table) -> str:
    """A relation of text files like that of this table, whose `{paths}` are to be inserted."""
    skipped, width = table.dialect.skipped, len(table.names)
    separator = table.dialect.delimiter if table.dialect.delimiter != BLANKS else _plain_blank(table.path, skipped)
    options = f"auto_detect = false, header = {str(table.has_header).lower()}, skip = {skipped}"
    if separator is None:
        lines = f"read_csv([{{paths}}], {options}, columns = {{'line': 'VARCHAR'}}, delim = E'\\x01', quote = '')"
        cells = f"(SELECT string_split_regex(trim(line, {BLANK_CHARACTERS}), '\\s+') AS cells FROM {lines})"
        columns = ", ".join(f"cells[{k + 1}] AS c{k}" for k in range(width))
        wrong = f"error('a line has ' || len(cells) || ' cells instead of {width}')"
        return f"SELECT {columns} FROM {cells} WHERE CASE WHEN len(cells) = {width} THEN true ELSE {wrong} END"
    kinds = ", ".join(f"'c{k}': 'VARCHAR'" for k in range(width))
    delim = "E'\\t'" if separator == "\t" else sql_text(separator)
    return f"SELECT * FROM read_csv([{{paths}}], {options}, columns = {{{kinds}}}, delim = {delim}, quote = '\"')"


def _plain_blank(path: Path, skipped: int) -> str | None:
    """The one blank that separates columns in the first lines, which is read faster; None if there are several."""
    with path.open(encoding="utf-8-sig") as file:
        lines = [line.rstrip("\r\n") for _, line in zip(range(skipped + LINES_SEEN), file, strict=False)][skipped:]
    for blank in ("\t", " "):
        if lines and all('"' not in line and re.fullmatch(rf"\S+({blank}\S+)+", line) for line in lines if line):
            return blank
    return None


def _parquet_kinds(paths: Sequence[Path], table: Table) -> tuple[str, ...]:
    import pyarrow as pa
    from pyarrow import parquet

    schemas = [parquet.read_schema(path) for path in paths]

    def kind(name: str) -> str:
        found = [schema.field(name).type for schema in schemas]
        found = [each.value_type if pa.types.is_dictionary(each) else each for each in found]
        if all(pa.types.is_string(each) or pa.types.is_large_string(each) for each in found):
            return "text"
        if all(pa.types.is_integer(each) for each in found):
            return "integer"
        return "float" if all(pa.types.is_floating(each) for each in found) else "other"

    return tuple(kind(name) for name in table.names)
