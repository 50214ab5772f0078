"""DuckDB: tables of any size in one or several files, as SQL, read within a limit of memory."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lggd._system.files import check_extension, check_readable, size_in_words
from lggd.app.tables.table import BLANKS, PARQUET, TABLES, Row, Table, import_arrow
from lggd.errors import DiskFullError, InputError, InputFileError, NotEnoughMemoryError, optional_package
from lggd.validation import listed

if TYPE_CHECKING:
    import pyarrow

ROWS_AT_ONCE = 1_000_000
# Less free space than this when a query fails means that the disk is full: DuckDB reports the reason only as text.
MIN_FREE = 2**26
LINES_SEEN = 200
Files = str | Path | Sequence[str | Path]
# A text that neither begins nor ends with what Python calls whitespace, and all of that.
STRIPPED = r"[^\s\p{Z}\p{Cc}]([\s\S]*[^\s\p{Z}\p{Cc}])?"
WHITESPACE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())


def import_duckdb() -> ModuleType:
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

    def batches(
        self, query: str, place: object, *, ordered: bool = False, rows: int = ROWS_AT_ONCE
    ) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a query as Arrow batches; `place` is the file that errors are about."""
        with self._cursor(place, ordered) as cursor:
            relation = cursor.sql(query)
            # The second name is that of version 1.
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
            with read(rows) as reader:
                yield from reader

    def rows(self, query: str, place: object) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._cursor(place) as cursor:
            return list(cursor.execute(query).fetchall())

    def row(self, query: str, place: object) -> dict[str, Any]:
        """The one row of a query, by the names of its columns."""
        with self._cursor(place) as cursor:
            result = cursor.execute(query)
            return dict(zip([column[0] for column in result.description], result.fetchone(), strict=True))

    def copy(self, query: str, path: Path, place: object, *, ordered: bool = False) -> int:
        """Writes the rows of a query to a Parquet file; returns their number."""
        with self._cursor(place, ordered) as cursor:
            return int(cursor.execute(f"COPY ({query}) TO {sql_text(path)} (FORMAT parquet)").fetchone()[0])

    @contextmanager
    def _cursor(self, place: object, ordered: bool = False) -> Iterator[Any]:
        """A cursor of its own, as the caller of `batches` may stop in the middle.

        Errors of DuckDB become errors about the file that is read, the disk or the memory.
        """
        duckdb, arrow = import_duckdb(), import_arrow()
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"SET preserve_insertion_order = {'true' if ordered else 'false'}")
                yield cursor
        except (duckdb.Error, arrow.ArrowException, OSError) as error:  # Arrow wraps errors of batches in its own
            free = shutil.disk_usage(self.folder).free
            if free < MIN_FREE and not isinstance(error, (duckdb.ParserException, duckdb.BinderException)):
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
class LargeTable:
    """A table in files with equal columns, for DuckDB where its cells are plain, and row by row.

    `sql` is a relation with the columns c0, c1, and so on. `kinds` has for each what DuckDB reads: cells of a text
    file, texts, integers, floats, booleans or others. A cell that is not plain needs the reader of rows: its quotes
    follow a blank, or Python writes its value in another way.
    """

    table: Table
    paths: tuple[Path, ...]
    read: Callable[[Path], Table]
    sql: str
    kinds: tuple[str, ...]

    @classmethod
    def open(cls, files: Files, read: Callable[[Path], Table]) -> LargeTable:
        """The table of one file, several, or all that match a pattern such as `edges-*.csv`; `read` that of one."""
        paths = _matching(files)
        tables = [read(path) for path in paths]
        for path, table in zip(paths, tables, strict=True):
            if (table.names, table.has_header) != (tables[0].names, tables[0].has_header):
                columns = listed(table.names) if table.has_header else f"{len(table.names)} columns without names"
                raise InputError(
                    path, f"have the columns of {paths[0]}", columns, "Build a graph of files of one kind."
                )
            if not table.names:
                raise table.empty_error("row", "Write lines such as a,b or a,b,0.5.")
        if check_extension(paths[0], TABLES) == PARQUET:
            kinds = _parquet_kinds(paths, tables[0].names)
            quoted = (name.replace('"', '""') for name in tables[0].names)
            columns = ", ".join(f'"{name}" AS c{k}' for k, name in enumerate(quoted))
            sql = f"(SELECT {columns} FROM read_parquet([{_listed(paths)}]))"
        else:
            parts: dict[str, list[Path]] = {}
            for path, table in zip(paths, tables, strict=True):
                parts.setdefault(_text_sql(table), []).append(path)
            sql = f"({' UNION ALL '.join(part.replace('{paths}', _listed(group)) for part, group in parts.items())})"
            kinds = ("cell",) * len(tables[0].names)
        return cls(tables[0], paths, read, sql, kinds)

    @property
    def place(self) -> Path:
        """The file in errors; of several the first with the number of the others."""
        return self.paths[0] if len(self.paths) == 1 else Path(f"{self.paths[0]} and {len(self.paths) - 1} more")

    def rows(self) -> Table:
        """The rows of all files as one table."""
        if len(self.paths) == 1:
            return self.read(self.paths[0])

        def rows() -> Iterator[Row]:
            for path in self.paths:
                yield from ((f"{row} of {path.name}", cells) for row, cells in self.read(path))

        return replace(self.read(self.paths[0]), path=self.place, rows=rows())

    def text(self, column: int) -> str:
        """SQL of a cell as a name, NULL if it is empty."""
        name, kind = f"c{column}", self.kinds[column]
        if kind in ("cell", "text"):
            blank = f"nullif(trim({name}, {sql_text(WHITESPACE)}), '')"
            return f"CASE WHEN regexp_full_match({name}, '{STRIPPED}') THEN {name} ELSE {blank} END"
        if kind == "float":
            return f"CASE WHEN {self._is_whole(column)} THEN {name}::BIGINT::VARCHAR END"
        return f"{name}::VARCHAR"

    def _is_whole(self, column: int) -> str:
        return f"(abs(c{column}) <= {2**53} AND c{column} = floor(c{column}))"

    def integer(self, column: int) -> str:
        """SQL of a cell as an integer; NULL if it is none, or a text written in another way, such as 007."""
        value, kind = f"TRY_CAST(c{column} AS BIGINT)", self.kinds[column]
        if kind == "integer":
            return value
        if kind == "float":
            return f"CASE WHEN {self._is_whole(column)} THEN {value} END"
        if kind == "other":
            return "NULL::BIGINT"
        written = f"{value}::VARCHAR = "
        return f"CASE WHEN {written}c{column} THEN {value} WHEN {written}trim(c{column}) THEN {value} END"

    def number(self, column: int) -> str:
        """SQL of a cell as a number, 1 and 0 for true and false; NULL for what is not plain."""
        name = f"c{column}"
        if self.kinds[column] not in ("cell", "text"):
            return "NULL::DOUBLE" if self.kinds[column] == "other" else f"{name}::DOUBLE"
        truth = f"CASE lower(trim({name})) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
        odd = f"contains({name}, '_') OR contains({name}, '+-')"  # numbers for DuckDB alone
        return f"CASE WHEN {odd} THEN NULL ELSE coalesce(TRY_CAST({name} AS DOUBLE), {truth}) END"

    def is_plain(self, column: int) -> str:
        """SQL: whether `text` reads a cell as the reader of rows does."""
        name, kind = f"c{column}", self.kinds[column]
        if kind == "cell":
            # Where any blanks separate columns, one blank alone is here; others are inside cells.
            plain = r'[^"\s]\S*' if self.table.dialect.delimiter == BLANKS else r'[^"][\s\S]*'
            return f"({name} IS NULL OR regexp_full_match(ltrim({name}), '{plain}'))"
        if kind == "float":
            return f"({name} IS NULL OR isnan({name}) OR {self._is_whole(column)})"
        return str(kind in ("text", "integer")).lower()


def _matching(files: Files) -> tuple[Path, ...]:
    several = [files] if isinstance(files, (str, Path)) else list(files)
    paths: list[Path] = []
    for each in several:
        path = Path(each)
        is_pattern = not path.exists() and glob.has_magic(str(each))
        matches = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor)))) if is_pattern else [path]
        if not matches:
            raise InputFileError(str(each), "match a file", but="it matches none", remedy="Check the pattern.")
        paths += map(check_readable, matches)
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
    skipped, separator = table.dialect.skipped, table.dialect.delimiter
    if separator == BLANKS:  # a tab if the first lines have no other blank
        with table.path.open(encoding="utf-8-sig") as file:
            lines = [line.strip() for line in islice(file, skipped, skipped + LINES_SEEN)]
        separator = "\t" if all(re.fullmatch(r"\S+(\t\S+)+", line) for line in lines if line) else " "
    kinds = ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(table.names)))
    options = f"auto_detect = false, header = {str(table.has_header).lower()}, skip = {skipped}"
    delim = "E'\\t'" if separator == "\t" else sql_text(separator)
    return f"SELECT * FROM read_csv([{{paths}}], {options}, columns = {{{kinds}}}, delim = {delim}, quote = '\"')"


def _parquet_kinds(paths: Sequence[Path], names: Sequence[str]) -> tuple[str, ...]:
    import_arrow()
    from pyarrow import parquet, types

    schemas = [parquet.read_schema(path) for path in paths]
    tests: dict[str, Callable[[pyarrow.DataType], bool]] = {
        "text": lambda kind: types.is_string(kind) or types.is_large_string(kind), "integer": types.is_integer,
        "float": types.is_floating, "boolean": types.is_boolean,
    }  # fmt: skip

    def kind(name: str) -> str:
        stored = [schema.field(name).type for schema in schemas]
        stored = [each.value_type if types.is_dictionary(each) else each for each in stored]
        return next((kind for kind, test in tests.items() if all(map(test, stored))), "other")

    return tuple(kind(name) for name in names)
