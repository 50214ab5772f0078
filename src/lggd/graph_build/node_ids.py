"""The numbers of nodes: by the order of the node table, or of their ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lggd.data.edges import repeated_header_error
from lggd.errors import InputError
from lggd.graph_build.database import Database, sql_text
from lggd.graph_build.edge_source import EdgeSource, RawEdges
from lggd.graph_build.node_source import NodeSource

NAMES = "ids.parquet"
# Bytes per integer between the smallest and the largest id, in which their numbers are looked up.
BYTES_PER_INTEGER = 12

Array = NDArray[Any]


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
    entries = np.zeros(nodes, np.int32)
    for sources, targets, _ in raw.chunks(weighted=False, is_length=False):
        _count(sources, targets, 0, np.zeros(nodes, np.bool_), entries, both)
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
        cells = ", ".join(f"{source.text(end)}{'::BIGINT' if integers else ''}" for end in edges.columns.ends)
        both = f"SELECT DISTINCT unnest([{cells}]) AS id FROM {source.sql}"
        database.rows(f"COPY (SELECT id FROM ({both}) ORDER BY id) {target}", source.place, ordered=True)
    if not integers:
        _check_repeated_header(path, edges, database)
    return int(database.rows(f"SELECT count(*) FROM read_parquet({sql_text(path)})", path)[0][0])


def _check_repeated_header(names: Path, edges: EdgeSource, database: Database) -> None:
    """Raises if the header is among the edges, as in files that were joined."""
    table, (first, second) = edges.source.table, edges.columns.ends
    if table.names is None or table.unit != "line":
        return
    header = [sql_text(table.names[end]) for end in (first, second)]
    ids = f"SELECT count(*) FROM read_parquet({sql_text(names)}) WHERE id IN ({', '.join(header)})"
    if database.rows(ids, names)[0][0] < 2:
        return
    ends = f"{edges.source.text(first)} = {header[0]} AND {edges.source.text(second)} = {header[1]}"
    if database.rows(f"SELECT 1 FROM {edges.source.sql} WHERE {ends} LIMIT 1", edges.source.place):
        raise repeated_header_error(table, edges.columns.ends)


def write_numbered(
    folder: Path, names: Path, edges: EdgeSource, database: Database, count: int, integers: bool,
    progress: Callable[[int], None],
) -> RawEdges:  # fmt: skip
    """Reads the edges with the numbers of their ends in `ids.parquet`."""
    table, source = f"read_parquet({sql_text(names)}, file_row_number = true)", edges.source
    cells = [f"{source.text(end)}{'::BIGINT' if integers else ''}" for end in edges.columns.ends]
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
