"""The edges of a table, read once from its files into plain arrays on disk, and the numbers of their nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from lggd.app.graph_build.database import Database, TableSource, read_source, sql_text
from lggd.app.graph_build.node_source import NodeSource
from lggd.app.graph_build.row_files import EDGES_AT_ONCE
from lggd.app.tables.edge_columns import EdgeColumns, EdgeFormat, find_columns, read_edge_table
from lggd.app.tables.edges import LONGEST, SHORTEST, read_value, repeated_header_error
from lggd.app.tables.table import Table
from lggd.errors import InputError

# Lines that are read one by one to find out whether the first names columns.
LINES_DECIDING = 1_000_000
# The file of ids that are no integers, or integers far apart.
NAMES = "ids.parquet"
# Bytes per integer between the smallest and the largest id, in which their numbers are looked up.
BYTES_PER_INTEGER = 12

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
        source = read_source(pattern, lambda path: read_edge_table(path, format, most_lines=LINES_DECIDING))
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

    def cells(self, *, integers: bool) -> list[str]:
        """SQL of both ends as names, or as the integers that these are."""
        return [f"{self.source.text(end)}{'::BIGINT' if integers else ''}" for end in self.columns.ends]

    def check_complete(self, database: Database) -> None:
        """Raises if an end of an edge is an empty cell."""
        texts = self.cells(integers=False)
        for column, text, other in zip(self.columns.ends, texts, reversed(texts), strict=True):
            query = f"SELECT {other}, count(*) OVER () FROM {self.source.sql} WHERE {text} IS NULL LIMIT 1"
            found = database.rows(query, self.source.place)
            if found:
                at = f"one of {found[0][1]:,} edges without, that of {found[0][0]!r}"
                raise self._table.error(at, column, "name a node", "an empty cell")

    def check_values(self, values: Array, database: Database) -> None:
        """Raises an error about an edge with a weight or length that is not allowed; NaN is what is no number."""
        if self.columns.is_length:
            allowed = (values > SHORTEST) & (values < LONGEST)
        else:
            with np.errstate(over="ignore"):
                single = values.astype(np.float32)
            allowed = (single > 0) & np.isfinite(single) & (self.unbounded | (values <= 1))
        if allowed.all():
            return
        column, wrong = self.columns.value or 0, float(values[~allowed][0])
        number, cell = self.source.number(column), self.source.text(column)
        same = "v IS NULL OR isnan(v)" if math.isnan(wrong) else f"v = '{wrong!r}'::DOUBLE"
        first, second = self.cells(integers=False)
        rows = f"(SELECT {first} AS e0, {second} AS e1, {cell} AS cell, {number} AS v FROM {self.source.sql})"
        query = f"SELECT e0, e1, cell FROM {rows} WHERE {same} LIMIT 1"
        first, second, text = database.rows(query, self.source.place)[0]
        edge = f"{first} → {second}"
        value = read_value(self._table, edge, column, text or "", self.columns.is_length)
        if value > 1 and "," not in text:
            remedy = "Divide by the largest weight, add {unbounded} to allow any, or {lengths} if these are lengths."
            hints = {"unbounded": "unbounded=True", "lengths": "`length`"}
            at = f"{self.source.place}, edge {edge}"
            raise InputError(at, "have a weight in (0, 1]", repr(text), remedy, hints=hints)
        rule = "be a number that float32 can hold"
        raise self._table.error(edge, column, rule, repr(text), "Use a decimal point.")

    @property
    def _table(self) -> Table:
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
                    edges.check_values(found, database)
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


@dataclass(frozen=True, eq=False)
class Numbering:
    """The node of each end of an edge.

    `ids` are int64 `[N]`, or None where nodes have names; `entries` `[N]` how many entries the row of each node has at
    most; `number` int32 is the node of each integer from `low` on, or None if ends are numbers of nodes.
    """

    ids: Array | None
    entries: Array
    low: int = 0
    number: Array | None = None

    def of(self, ends: Array) -> Array:
        return ends if self.number is None else self.number[ends - self.low]


def integers_fit(facts: dict[str, Any], node_ids: Array | None, memory: int) -> bool:
    """Whether integers lie so close to each other that an array can number them."""
    low, high = _range(facts, node_ids)
    return (high - low + 1) * BYTES_PER_INTEGER <= max(memory, 2**24)


def number_integers(raw: RawEdges, edges: EdgeSource, node_ids: Array | None, *, both: bool) -> Numbering:
    """Nodes in the order of `node_ids`, or of their ids."""
    low, high = _range(raw.facts, node_ids)
    present, entries = np.zeros(high - low + 1, np.bool_), np.zeros(high - low + 1, np.int32)
    for sources, targets, _ in raw.chunks(weighted=False, is_length=False):
        _count(sources, targets, low, present, entries, both)
    if node_ids is None:
        ids = np.flatnonzero(present) + low
        number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    else:
        ids, number = node_ids, np.full(len(present), -1, np.int32)
        number[node_ids - low] = np.arange(len(node_ids), dtype=np.int32)
        unknown = np.flatnonzero(present & (number < 0))
        if len(unknown):
            raise unknown_error(edges, len(unknown), str(unknown[0] + low), len(ids))
    return Numbering(ids, entries[ids - low], low, number)


def number_names(raw: RawEdges, nodes: int, *, both: bool) -> Numbering:
    """Ends that are numbers of nodes already."""
    present, entries = np.zeros(nodes, np.bool_), np.zeros(nodes, np.int32)
    for sources, targets, _ in raw.chunks(weighted=False, is_length=False):
        _count(sources, targets, 0, present, entries, both)
    return Numbering(None, entries)


def write_names(folder: Path, edges: EdgeSource, nodes: NodeSource | None, database: Database, integers: bool) -> int:
    """Writes ids into `ids.parquet`, in the order of the node table or sorted; returns their number."""
    path, source = folder / NAMES, edges.source
    target = f"TO {sql_text(path)} (FORMAT parquet)"
    if nodes is not None:
        cell = f"{nodes.id_text}::BIGINT" if integers else nodes.id_text
        query = f"SELECT {cell} AS id FROM {nodes.source.sql}"
        database.rows(f"COPY ({query}) {target}", nodes.source.place, ordered=True)
    else:
        edges.check_complete(database)
        both = f"SELECT DISTINCT unnest([{', '.join(edges.cells(integers=integers))}]) AS id FROM {source.sql}"
        database.rows(f"COPY (SELECT id FROM ({both}) ORDER BY id) {target}", source.place, ordered=True)
    if not integers:
        _check_repeated_header(path, edges, database)
    return int(database.rows(f"SELECT count(*) FROM read_parquet({sql_text(path)})", path)[0][0])


def _check_repeated_header(names: Path, edges: EdgeSource, database: Database) -> None:
    """Raises if the header is among the edges, as in files that were joined."""
    table = edges.source.table
    if not table.has_header or table.unit != "line":
        return
    header = [sql_text(table.names[end]) for end in edges.columns.ends]
    ids = f"SELECT count(*) FROM read_parquet({sql_text(names)}) WHERE id IN ({', '.join(header)})"
    if database.rows(ids, names)[0][0] < 2:
        return
    ends = " AND ".join(f"{cell} = {name}" for cell, name in zip(edges.cells(integers=False), header, strict=True))
    if database.rows(f"SELECT 1 FROM {edges.source.sql} WHERE {ends} LIMIT 1", edges.source.place):
        raise repeated_header_error(table, edges.columns.ends)


def write_numbered(
    folder: Path, names: Path, edges: EdgeSource, database: Database, count: int, integers: bool,
    progress: Callable[[int], None],
) -> RawEdges:  # fmt: skip
    """Reads the edges with the numbers of their ends in `ids.parquet`."""
    table, source = f"read_parquet({sql_text(names)}, file_row_number = true)", edges.source
    cells = edges.cells(integers=integers)
    rows = f"(SELECT {cells[0]} AS s, {cells[1]} AS t{edges.value_sql} FROM {source.sql})"
    value = ", value" if edges.is_weighted else ""
    query = (
        f"SELECT a.file_row_number AS source, b.file_row_number AS target, a.id IS NULL OR b.id IS NULL AS odd{value} "
        f"FROM {rows} LEFT JOIN {table} AS a ON s = a.id LEFT JOIN {table} AS b ON t = b.id"
    )
    raw = RawEdges.write(folder, edges, database, query, progress)
    if raw is not None:
        return raw
    edges.check_complete(database)
    ends = f"SELECT DISTINCT unnest([{', '.join(cells)}]) AS id FROM {source.sql}"
    unknown = f"SELECT id, count(*) OVER () FROM ({ends}) WHERE id NOT IN (SELECT id FROM {table}) ORDER BY id LIMIT 1"
    first, others = database.rows(unknown, source.place)[0]
    raise unknown_error(edges, others, str(first), count)


def unknown_error(edges: EdgeSource, unknown: int, first: str, nodes: int) -> InputError:
    """Edges name nodes that the node table lacks."""
    what = f"{first!r}" if unknown == 1 else f"{unknown:,} others, the first {first!r}"
    rule, remedy = f"connect the {nodes:,} nodes of the node table", "Add these nodes to it, or remove their edges."
    return InputError(edges.source.place, rule, but=f"it names {what}", remedy=remedy)


def _range(facts: dict[str, Any], node_ids: Array | None) -> tuple[int, int]:
    low, high = facts["low"], facts["high"]
    if node_ids is not None and len(node_ids):
        low, high = min(low, int(node_ids.min())), max(high, int(node_ids.max()))
    return low, high


@njit(cache=True)
def _count(sources, targets, low, present, entries, both):  # pragma: no cover
    for e in range(sources.size):
        source, target = sources[e] - low, targets[e] - low
        present[source] = True
        present[target] = True
        if source != target:
            entries[source] += 1
            if both:
                entries[target] += 1
