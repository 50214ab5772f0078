"""A table of nodes of any size: ids, features and labels, in the order of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from lggd.app.graph_build.database import Database, TableSource, read_source
from lggd.app.graph_build.row_files import ArrayFile
from lggd.app.tables.graph_files import LABEL_NAMES
from lggd.app.tables.nodes import LabelReader, NodeColumns, find_node_columns, read_named_table, sorted_classes
from lggd.errors import InputError
from lggd.text import counted

# Cells of features that are read at a time.
CELLS_AT_ONCE = 2**24

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class NodeSource:
    """A table of nodes and its columns."""

    source: TableSource
    columns: NodeColumns
    label: str | None

    @classmethod
    def read(
        cls, path: Any, *, label: str | None, id_column: str | None, ignore: Sequence[str], delimiter: str | None
    ) -> NodeSource:
        """Finds the columns by the rules of all tables of nodes. Columns to ignore may be those of the edges."""
        requested = [name for name in (label, id_column) if name is not None]
        source = read_source(path, lambda each: read_named_table(each, requested, delimiter))
        known = [name for name in ignore if name in source.table.names]
        return cls(source, find_node_columns(source.table, label=label, id_column=id_column, ignore=known), label)

    @property
    def id_text(self) -> str:
        return self.source.text(self.columns.ids)

    @property
    def feature_names(self) -> list[str]:
        return [self.source.table.names[k] for k in self.columns.features]

    def integer_ids(self, database: Database) -> Array | None:
        """The ids int64 `[N]`; None if one is no integer."""
        column, parts = self.columns.ids, []
        odd = self.source.is_odd(column, strip=True)
        query = f"SELECT {self.source.integer(column)} AS id, {odd} AS odd FROM {self.source.sql}"
        for batch in database.batches(query, self.source.place, ordered=True):
            if batch.column(0).null_count or pc.any(batch.column(1)).as_py():
                return None
            parts.append(batch.column(0).to_numpy())
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def check_ids(self, database: Database) -> None:
        """Raises if ids are missing or repeated."""
        counts = f"SELECT count(*), count({self.id_text}) FROM {self.source.sql}"
        rows, named = database.rows(counts, self.source.place)[0]
        table, column = self.source.table, self.columns.ids
        place = f"{self.source.place}, column {table.column_text(column)}"
        if not rows:
            raise table.empty_error("node", "Write one row per node.")
        if named < rows:
            value = counted(rows - named, "empty cell")
            raise InputError(place, "name every node", value, "Give every node an id.")
        repeated = f"SELECT {self.id_text} AS id, count(*) AS n FROM {self.source.sql} GROUP BY 1 HAVING n > 1"
        found = database.rows(f"SELECT id, n, count(*) OVER () FROM ({repeated}) LIMIT 1", self.source.place)
        if found:
            id, times, others = found[0]
            value = f"{id!r} {times} times" + (f", and {counted(others - 1, 'other')} repeatedly" if others > 1 else "")
            raise InputError(place, "have unique ids", value, "Remove the repeated rows.")

    def write_features(self, path: Path, database: Database, progress: Callable[[int], None]) -> None:
        """Writes features as float32 `[N, F]`."""
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
                raise self._feature_error(database)
            file.append(x)
            progress(file.length)
        file.close()

    def _feature_error(self, database: Database) -> InputError:
        """One error that lists all columns with cells that are no finite numbers."""
        tests = {k: f"isfinite(TRY_CAST({self.source.number(k)} AS FLOAT))" for k in self.columns.features}
        sums = ", ".join(
            f"count(*) FILTER (NOT coalesce({test}, false)), "
            f"first({self.source.text(k)}) FILTER (NOT coalesce({test}, false))" for k, test in tests.items()
        )  # fmt: skip
        found = database.rows(f"SELECT {sums} FROM {self.source.sql}", self.source.place, ordered=True)[0]
        wrong = {name: (found[2 * k], found[2 * k + 1]) for k, name in enumerate(self.feature_names) if found[2 * k]}
        told = [
            f"{name}: {counted(count, 'cell is none,', 'cells are none, such as')} {cell or ''!r}"
            for name, (count, cell) in wrong.items()
        ]
        rule = "have finite numbers, with decimal points, in its columns of features"
        remedy = "Correct these cells, or add {ignore}."
        hints = {"ignore": f"ignore={list(wrong)!r}"}
        classes = [name for name in wrong if name.lower() in LABEL_NAMES]
        if self.label is None and classes:
            remedy, hints["label"] = f"{remedy} If they are classes, add {{label}}.", f"label={classes[0]!r}"
        return InputError(self.source.place, rule, but="; ".join(told[:5]), remedy=remedy, hints=hints)

    def read_labels(
        self, nodes: int, unlabelled: Sequence[str] | None, database: Database
    ) -> tuple[Array, list[str], tuple[str, ...]]:
        """Labels int64 `[N]`, -1 for unlabelled nodes; the classes, sorted; and sentences about them."""
        reader, codes = LabelReader(unlabelled), dict[str, int]()
        y, done = np.full(nodes, -1, np.int64), 0
        column = self.columns.label if self.columns.label is not None else 0
        query = f"SELECT coalesce({self.source.text(column)}, '') AS label FROM {self.source.sql}"
        for batch in database.batches(query, self.source.place, ordered=True):
            encoded = batch.column(0).dictionary_encode()
            indices, table = encoded.indices.to_numpy(), []
            for text, count in zip(encoded.dictionary.to_pylist(), np.bincount(indices).tolist(), strict=True):
                name = reader.read(text, count)
                table.append(-1 if name is None else codes.setdefault(name, len(codes)))
            y[done : done + len(batch)] = np.array(table, np.int64)[indices]
            done += len(batch)
        classes = sorted_classes(codes)
        reader.check_classes(f"{self.source.place}, column {self.label!r}", classes)
        rank = np.empty(len(codes) + 1, np.int64)
        rank[[codes[name] for name in classes]] = np.arange(len(classes))
        rank[-1] = -1  # unlabelled
        return rank[y], classes, reader.notes()
