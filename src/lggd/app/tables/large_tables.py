"""Edges and nodes of tables of any size: DuckDB reads plain tables, and the readers of rows decide about all others.

A table is plain if all its cells are: no quotes after blanks, no decimal commas, no text among features. Where one is
not, edges are read row by row into a Parquet file, and nodes into memory: the same answers, and errors, but slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lggd.app.tables.database import Database, Files, LargeTable, sql_text
from lggd.app.tables.edge_columns import EdgeFormat, find_columns, read_edge_table
from lggd.app.tables.edges import LONGEST, SHORTEST, read_edges, unknown_node_error
from lggd.app.tables.nodes import (
    LabelReader,
    find_node_columns,
    is_split_name,
    read_named_table,
    read_node_file,
    sorted_classes,
)
from lggd.app.tables.table import as_text, import_arrow, write_parquet
from lggd.errors import DiskFullError, InputError
from lggd.progress import Callback, Progress

# Lines that are read one by one to find out whether the first names columns.
LINES_DECIDING = 1_000_000
# Rows that are written, cells of features that are read, and unknown ids that are looked for, at a time.
ROWS_WRITTEN, CELLS_AT_ONCE, MAX_UNKNOWN = 2**16, 2**24, 2**16

HEADER_BYTES = 128


class ArrayFile:
    """An array `[length, *tail]` in a `.npy` file that grows at its end; `close` writes its length.

    Unlike an array that is mapped into memory, it raises an error where the disk is full.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.npy")
    >>> file = ArrayFile(path, np.int32)
    >>> file.append(np.arange(3)); file.append(np.arange(2)); file.close()
    >>> np.load(path)
    array([0, 1, 2, 0, 1], dtype=int32)
    """

    def __init__(self, path: Path, dtype: DTypeLike, tail: tuple[int, ...] = ()) -> None:
        self.dtype, self.tail, self.length = np.dtype(dtype), tail, 0
        self._file = path.open("wb")
        self._file.write(bytes(HEADER_BYTES))

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Writes the header; without it the file is no array."""
        description = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length, *self.tail)}
        magic = np.lib.format.magic(1, 0)
        text = repr(description).ljust(HEADER_BYTES - len(magic) - 3) + "\n"
        self._file.seek(0)
        self._file.write(magic + (len(text)).to_bytes(2, "little") + text.encode())
        self._file.close()


class LargeEdges:
    """A table of edges and its columns; weights above 1 are an error unless `unbounded`."""

    def __init__(self, files: Files, format: EdgeFormat, nodes: LargeNodes | None, *, unbounded: bool) -> None:
        read = partial(read_edge_table, format=format, known=nodes, max_lines=LINES_DECIDING)
        self.source = LargeTable.open(files, read)
        self.columns, self.unbounded = find_columns(self.source.table, format), unbounded
        self.is_weighted = self.columns.value is not None

    def write(self, database: Database, path: Path) -> dict[str, Any]:
        """Writes source, target and value of all edges to a Parquet file; returns facts about them.

        The ends are integers if all are. Raises where an edge cannot be read.
        """
        notes, rows, columns = [*self.source.table.notes], path.with_name("rows.parquet"), [*self.columns.ends]
        notes += self.columns.notes
        columns += [] if self.columns.value is None else [self.columns.value]
        integers = self._copy(database, self.source, columns, path, integers=True)
        if not integers and not self._copy(database, self.source, columns, path, integers=False):
            notes += self._write_rows(rows)
            sql = f"(SELECT * FROM read_parquet({sql_text(rows)}))"
            read = replace(self.source, sql=sql, kinds=("text", "text", "float"))
            integers = self._copy(database, read, [*range(len(columns))], path, integers=True)
            rows.unlink() if integers else rows.replace(path)
        value = "c2" if self.is_weighted else "1::DOUBLE"
        facts = database.row(
            "SELECT count(*) AS lines, count(*) FILTER (WHERE c0 = c1) AS loops, "
            f"min({value}) AS smallest, max({value}) AS largest FROM read_parquet({sql_text(path)})",
            path,
        )
        highest = float(np.finfo(np.float32).max) if self.unbounded else 1
        if not self.columns.is_length and not (np.float32(facts["smallest"]) > 0 and facts["largest"] <= highest):
            self._refuse_weights(highest)
        return facts | {"integers": integers, "notes": notes}

    def _copy(
        self, database: Database, source: LargeTable, columns: Sequence[int], path: Path, *, integers: bool
    ) -> bool:
        """Writes the edges if DuckDB can read all of them, as integers or texts; returns whether it can."""
        first, second, *value = columns
        ends = [source.integer(k) if integers else source.text(k) for k in (first, second)]
        tests = ["e0 IS NOT NULL AND e1 IS NOT NULL", *([] if integers else map(source.is_plain, (first, second)))]
        if source.kinds[first] == "cell" and source.table.has_header and not integers:
            header = [sql_text(source.table.names[k]) for k in (first, second)]
            tests.append(f"NOT (e0 = {header[0]} AND e1 = {header[1]})")
        number = ""
        if value:
            low, high = (SHORTEST, LONGEST) if self.columns.is_length else (0, "'inf'::DOUBLE")
            number = f", {source.number(value[0])} AS value"
            tests.append(f"coalesce(value > {low} AND value < {high}, false)")
        checked = (
            f"CASE WHEN {' AND '.join(tests)} THEN e0 ELSE error('not plain: ' || coalesce(c{first}::VARCHAR, '')) END"
        )
        edges = f"SELECT *, {ends[0]} AS e0, {ends[1]} AS e1{number} FROM {source.sql}"
        query = f"SELECT {checked} AS c0, e1 AS c1{', value AS c2' if value else ''} FROM ({edges})"
        attempt = path.with_name(f"{source.kinds[first]}-{integers}.parquet")
        try:
            # Of a query that fails, DuckDB deletes the file, possibly later: each has one of its own.
            if not database.copy(query, attempt, source.place):
                return False
            attempt.replace(path)
            return True
        except DiskFullError:
            raise
        except InputError:
            return False

    def _write_rows(self, path: Path) -> tuple[str, ...]:
        """Writes names and values of all edges, read row by row; returns sentences about them."""
        arrow = import_arrow()
        from pyarrow import parquet

        kinds = [("c0", arrow.string()), ("c1", arrow.string()), ("c2", arrow.float64())]
        schema = arrow.schema(kinds[: 3 if self.is_weighted else 2])
        table = self.source.rows()
        edges = (edge for _, *edge in read_edges(table, self.columns))
        with parquet.ParquetWriter(path, schema) as writer:
            while rows := list(islice(edges, ROWS_WRITTEN)):
                columns = list(zip(*rows, strict=True))[: len(schema)]
                writer.write_table(arrow.table(columns, schema=schema))
        return table.numbers.notes(table.path)

    def _refuse_weights(self, highest: float) -> None:
        table = self.source.rows()
        for row, _, _, value in read_edges(table, self.columns):
            rule, remedy, hints = "be a number that float32 can hold", "Rescale the weights.", dict[str, str]()
            if value > 1 == highest:
                rule = "be a weight in (0, 1]"
                remedy = "Divide by the largest, add {unbounded} to allow any, or {lengths} if these are lengths."
                hints = {"unbounded": "unbounded=True", "lengths": "`length`"}
            elif np.float64(value).astype(np.float32) > 0 and value <= highest:
                continue
            raise table.error(row, self.columns.value, rule, f"{value:g}", remedy).replace(hints=hints)

    def weight(self, smallest: float) -> str:
        """SQL of the weight of a written edge: (ℓ₀/ℓ)² of a length ℓ, where ℓ₀ is the shortest."""
        if not self.is_weighted:
            return "1::FLOAT"
        ratio = f"({smallest!r}::DOUBLE / c2)"
        return f"({ratio} * {ratio})::FLOAT" if self.columns.is_length else "c2::FLOAT"

    def unknown_error(self, unknown: Sequence[object], ids: Sequence[str], count: int) -> InputError:
        """The first of the edges that name one of these nodes, which are none of `count` nodes such as `ids`."""
        table, names = self.source.rows(), set(map(str, unknown))
        for row, *ends, _ in read_edges(table, self.columns):
            for column, name in zip(self.columns.ends, ends, strict=True):
                if name in names:
                    return unknown_node_error(table, row, column, name, ids, count)
        return InputError(table.path, f"name the {count} nodes", "others")


class LargeNodes:
    """A table of nodes and its columns. Columns to ignore may be those of the edges."""

    def __init__(
        self, files: Files, *, label: str | None, id_column: str | None, unlabelled: Sequence[str] | None,
        format: EdgeFormat,
    ) -> None:  # fmt: skip
        requested = [name for name in (label, id_column) if name is not None]
        self.source = LargeTable.open(files, lambda each: read_named_table(each, requested, format.delimiter))
        names = self.source.table.names
        self.options: dict[str, Any] = {
            "label": label, "id_column": id_column, "ignore": [name for name in format.ignore if name in names],
        }  # fmt: skip
        self.columns, self.unlabelled = find_node_columns(self.source.table, **self.options), unlabelled
        self.feature_names = [names[k] for k in self.columns.features]

    def __contains__(self, name: object) -> bool:
        return any(as_text(cells[self.columns.ids]) == name for _, cells in self.source.rows())

    def read(self, database: Database, folder: Path, report: Callback) -> dict[str, Any]:
        """Writes `ids.parquet`, `x.npy` and `y.npy` in the order of the table; returns facts about them."""
        try:
            facts = self._read_plain(database, folder, report)
        except DiskFullError:
            raise
        except InputError:  # the reader of rows tells which, unless it can read it
            facts = None
        return self._read_rows(folder) if facts is None else facts

    def _read_plain(self, database: Database, folder: Path, report: Callback) -> dict[str, Any] | None:
        """Facts about the nodes, or None if the reader of rows is needed."""
        source, columns = self.source, self.columns
        if any(map(is_split_name, self.feature_names)):
            return None
        ids, number = source.text(columns.ids), source.integer(columns.ids)
        used = [columns.ids] if columns.label is None else [columns.ids, columns.label]
        plain = " AND ".join(map(source.is_plain, used))
        facts = database.row(
            f"SELECT count(*) AS nodes, count(*) FILTER (WHERE i IS NOT NULL AND {plain}) AS plain, "
            "coalesce(bool_and(number IS NOT NULL), false) AS integers "
            f"FROM (SELECT *, {ids} AS i, {number} AS number FROM {source.sql})",
            source.place,
        )  # fmt: skip
        repeated = f"SELECT 1 FROM (SELECT {ids} AS id FROM {source.sql}) GROUP BY id HAVING count(*) > 1 LIMIT 1"
        if not facts["nodes"] or facts["plain"] < facts["nodes"] or database.rows(repeated, source.place):
            return None
        if columns.features and not self._write_features(database, folder / "x.npy", facts["nodes"], report):
            return None
        cell = number if facts["integers"] else ids
        database.copy(f"SELECT {cell} AS id FROM {source.sql}", folder / "ids.parquet", source.place, ordered=True)
        facts |= {"classes": [], "feature_names": self.feature_names, "notes": list(source.table.notes)}
        if columns.label is not None:
            reader, codes = LabelReader(self.unlabelled), dict[str, int]()
            query = f"SELECT coalesce({source.text(columns.label)}, '') AS label FROM {source.sql}"
            y = np.empty(facts["nodes"], np.int64)
            done = 0
            for batch in database.batches(query, source.place, ordered=True):
                encoded = batch.column(0).dictionary_encode()
                indices, known = encoded.indices.to_numpy(), list[int]()
                counts = np.bincount(indices, minlength=len(encoded.dictionary)).tolist()
                for text, count in zip(encoded.dictionary.to_pylist(), counts, strict=True):
                    name = reader.read(text, count)
                    known.append(-1 if name is None else codes.setdefault(name, len(codes)))
                y[done : done + len(batch)] = np.array(known, np.int64)[indices]
                done += len(batch)
            facts["classes"] = self._classes(reader, codes)
            facts["notes"] += reader.notes()
            rank = np.array([*(facts["classes"].index(name) for name in codes), -1])  # the last is of unlabelled nodes
            np.save(folder / "y.npy", rank[y])
        return facts

    def _classes(self, reader: LabelReader, names: Iterator[str] | dict[str, int]) -> list[str]:
        classes = sorted_classes(names)
        reader.check_classes(f"{self.source.place}, column {self.options['label']!r}", classes)
        return classes

    def _write_features(self, database: Database, path: Path, nodes: int, report: Callback) -> bool:
        """Writes features as float32 `[N, F]`; returns whether all are finite numbers."""
        columns = self.columns.features
        file = ArrayFile(path, np.float32, (len(columns),))
        cells = ", ".join(f"TRY_CAST({self.source.number(k)} AS FLOAT) AS x{k}" for k in columns)
        at_once = max(1, CELLS_AT_ONCE // len(columns))
        query = f"SELECT {cells} FROM {self.source.sql}"
        for batch in database.batches(query, self.source.place, ordered=True, rows=at_once):
            x = np.empty((len(batch), len(columns)), np.float32)
            for k in range(len(columns)):
                x[:, k] = batch.column(k).to_numpy(zero_copy_only=False)
            if not np.isfinite(x).all():
                file.close()
                return False
            file.append(x)
            report(Progress("reading nodes", file.length, nodes))
        file.close()
        return True

    def _read_rows(self, folder: Path) -> dict[str, Any]:
        """The same by `read_node_file`, in memory."""
        table = read_node_file(self.source.rows(), unlabelled=self.unlabelled, **self.options)
        ids = table.ids
        numbers = [int(name) for name in ids if name.lstrip("-").isdecimal()]
        integers = [str(number) for number in numbers] == ids and max(map(abs, numbers)) < 2**63
        write_parquet(folder / "ids.parquet", numbers if integers else ids)
        if table.feature_names:
            np.save(folder / "x.npy", table.x)
        classes: list[str] = []
        if table.labels is not None:
            classes = self._classes(table.label_reader, {name: 0 for name in table.labels if name is not None})
            code = {name: k for k, name in enumerate(classes)} | {None: -1}
            np.save(folder / "y.npy", np.array([code[name] for name in table.labels]))
        return {
            "nodes": len(ids), "integers": integers, "classes": classes, "feature_names": table.feature_names,
            "notes": list(table.notes),
        }  # fmt: skip
