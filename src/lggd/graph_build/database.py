"""DuckDB, which reads tables of any size within a limit of memory, with files of its own where that is too little."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from lggd.errors import DiskFullError, InputError, NotEnoughMemoryError
from lggd.system.files import size_in_words

ROWS_AT_ONCE = 1_000_000
# Less free space than this when a query fails means that the disk is full: DuckDB reports the reason only as text.
LEAST_FREE = 2**26


def check_duckdb() -> None:
    """Raises if the package is missing."""
    import_duckdb()


def import_duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        rule, remedy = "import DuckDB", "Run: pip install 'lggd[disk]'"
        raise InputError("lggd graph build", rule, but="it is not installed", remedy=remedy) from error
    return duckdb


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
        # A cursor of its own: the caller may stop in the middle, and ask another question about a row.
        with self._errors(place), self.connection.cursor() as cursor:
            self._keep_order(cursor, ordered)
            relation = cursor.sql(query)
            # The second name is that of version 1.
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
            with read(rows) as reader:
                yield from reader

    def rows(self, query: str, place: object, *, ordered: bool = False) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._errors(place), self.connection.cursor() as cursor:
            self._keep_order(cursor, ordered)
            return list(cursor.execute(query).fetchall())

    def _keep_order(self, cursor: Any, ordered: bool) -> None:
        cursor.execute(f"SET preserve_insertion_order = {'true' if ordered else 'false'}")

    @contextmanager
    def _errors(self, place: object) -> Iterator[None]:
        """Turns errors of DuckDB into errors about the file that is read, the disk or the memory."""
        duckdb = import_duckdb()
        try:
            yield
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
