"""The edges of a table, read once from its files into plain arrays on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from lggd.data.edge_columns import EdgeColumns, EdgeFormat, find_columns
from lggd.data.edges import LONGEST, SHORTEST, read_edge_table, read_value
from lggd.errors import InputError
from lggd.graph_build.database import Database
from lggd.graph_build.row_files import EDGES_AT_ONCE
from lggd.graph_build.table_source import TableSource, read_source

# Lines that are read one by one to find out whether the first names columns.
LINES_DECIDING = 1_000_000

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class EdgeSource:
    """A table of edges and its columns; weights above 1 are an error unless `unbounded`."""

    source: TableSource
    columns: EdgeColumns
    unbounded: bool

    @classmethod
    def read(cls, pattern: Any, format: EdgeFormat, *, unbounded: bool) -> EdgeSource:
        """Finds the columns by the rules of all tables of edges."""
        source = read_source(
            pattern, lambda path: read_edge_table(path, format, most_lines=LINES_DECIDING), blanks=True,
            delimiter=format.delimiter,
        )  # fmt: skip
        return cls(source, find_columns(source.table, format), unbounded)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.source.table.notes, *self.columns.notes)

    @property
    def is_weighted(self) -> bool:
        return self.columns.value is not None

    @property
    def value_sql(self) -> str:
        """The last part of a selection: the weight or length, if there is one."""
        return f", {self.source.number(self.columns.value)} AS value" if self.columns.value is not None else ""

    def integers(self, *, strip: bool) -> str:
        """SQL of the ends as integers, whether one of them is odd, and the value."""
        first, second = self.columns.ends
        odd = " OR ".join(self.source.is_odd(end, strip=strip) for end in (first, second))
        ends = f"{self.source.integer(first)} AS source, {self.source.integer(second)} AS target"
        return f"SELECT {ends}, {odd} AS odd{self.value_sql} FROM {self.source.sql}"

    def is_wrong(self, values: Array) -> Array:
        """Which values are not allowed; NaN stands for what is no number."""
        if self.columns.is_length:
            return ~((values > SHORTEST) & (values < LONGEST))
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        return ~((single > 0) & np.isfinite(single)) | (~np.bool_(self.unbounded) & (values > 1))

    def check_complete(self, database: Database) -> None:
        """Raises if an end of an edge is an empty cell."""
        texts = [self.source.text(end) for end in self.columns.ends]
        for column, text, other in zip(self.columns.ends, texts, reversed(texts), strict=True):
            query = f"SELECT {other}, count(*) OVER () FROM {self.source.sql} WHERE {text} IS NULL LIMIT 1"
            found = database.rows(query, self.source.place)
            if found:
                at = f"one of {found[0][1]:,} edges without, that of {found[0][0]!r}"
                raise self._table.error(at, column, "name a node", "an empty cell")

    def value_error(self, database: Database) -> InputError:
        """The error about the first edge with a value that is not allowed."""
        column = self.columns.value if self.columns.value is not None else 0
        number, cell = self.source.number(column), self.source.text(column)
        allowed = f"v > {SHORTEST} AND v < {LONGEST}" if self.columns.is_length else "v > 1.5e-45 AND v < 3.4e38"
        if not self.columns.is_length and not self.unbounded:
            allowed += " AND v <= 1"
        ends = ", ".join(f"{self.source.text(end)} AS e{k}" for k, end in enumerate(self.columns.ends))
        rows = f"(SELECT {ends}, {cell} AS cell, {number} AS v FROM {self.source.sql})"
        query = f"SELECT e0, e1, cell FROM {rows} WHERE NOT coalesce({allowed}, false) LIMIT 1"
        found = database.rows(query, self.source.place)
        first, second, text = found[0] if found else ("", "", "")
        edge = f"{first} → {second}"
        value = read_value(self._table, edge, column, text or "", self.columns.is_length)
        if value > 1 and "," not in str(text):
            remedy = "Divide by the largest weight, add {unbounded} to allow any, or {lengths} if these are lengths."
            hints = {"unbounded": "unbounded=True", "lengths": "`length`"}
            at = f"{self.source.place}, edge {edge}"
            raise InputError(at, "have a weight in (0, 1]", repr(text), remedy, hints=hints)
        error: InputError = self._table.error(
            edge, column, "be a number that float32 can hold", repr(text), "Use a decimal point."
        )
        return error

    @property
    def _table(self) -> Any:
        return replace(self.source.table, unit="edge")


class RawEdges:
    """Ends as int64 and values in files, in the order in which they were read.

    `facts` are the number of lines and self-loops, the smallest and largest end, and of values the extremes.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts

    @classmethod
    def write(
        cls, folder: Path, edges: EdgeSource, database: Database, query: str, progress: Callable[[int], None]
    ) -> RawEdges | None:
        """Reads the rows of a query: source, target, odd and value. None as soon as one is odd."""
        is_length = edges.columns.is_length
        facts: dict[str, Any] = {"lines": 0, "loops": 0, "low": 2**63 - 1, "high": -(2**63)}
        facts |= {"smallest": np.inf, "largest": 0.0}
        with (
            (folder / "sources").open("wb") as sources,
            (folder / "targets").open("wb") as targets,
            (folder / "values").open("wb") as values,
        ):
            for batch in database.batches(query, edges.source.place):
                if pc.any(batch.column(2)).as_py():
                    return None
                if batch.column(0).null_count or batch.column(1).null_count:
                    edges.check_complete(database)
                ends = [batch.column(k).to_numpy(zero_copy_only=False) for k in range(2)]
                if not len(ends[0]):
                    continue
                facts["lines"] += len(ends[0])
                facts["loops"] += int((ends[0] == ends[1]).sum())
                facts["low"] = min(facts["low"], *(int(end.min()) for end in ends))
                facts["high"] = max(facts["high"], *(int(end.max()) for end in ends))
                sources.write(np.ascontiguousarray(ends[0], np.int64).data)
                targets.write(np.ascontiguousarray(ends[1], np.int64).data)
                if edges.is_weighted:
                    found = batch.column(3).to_numpy(zero_copy_only=False)
                    if bool(edges.is_wrong(found).any()):
                        raise edges.value_error(database)
                    facts["smallest"] = min(facts["smallest"], float(found.min()))
                    facts["largest"] = max(facts["largest"], float(found.max()))
                    values.write(found.astype(np.float64 if is_length else np.float32).data)
                progress(facts["lines"])
        if not facts["lines"]:
            raise edges.source.table.empty_error("edge", "Write lines such as a,b or a,b,0.5.")
        if not edges.is_weighted:
            facts |= {"smallest": 1.0, "largest": 1.0}
        return cls(folder, facts)

    def chunks(self, *, weighted: bool, is_length: bool) -> Iterator[tuple[Array, Array, Array | None]]:
        """Sources, targets, and weights: those of lengths ℓ are (ℓ₀/ℓ)², where ℓ₀ is the shortest."""
        kind = np.dtype(np.float64 if is_length else np.float32)
        for first in range(0, self.facts["lines"], EDGES_AT_ONCE):
            count = min(EDGES_AT_ONCE, self.facts["lines"] - first)
            ends = [
                np.fromfile(self.folder / name, np.int64, count, offset=8 * first) for name in ("sources", "targets")
            ]
            if not weighted:
                yield ends[0], ends[1], None
                continue
            values = np.fromfile(self.folder / "values", kind, count, offset=kind.itemsize * first)
            if is_length:
                values = ((self.facts["smallest"] / values) ** 2).astype(np.float32)
            yield ends[0], ends[1], values
