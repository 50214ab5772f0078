"""Nodes in files: ids, features, labels and splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lggd.data.table import Cell, Table, as_number, as_text, find_column, read_table
from lggd.errors import InputError, InputTypeError
from lggd.validation import listed, suggestion

# Names of the id column, in any case; the first name that occurs is used.
ID_NAMES = ("id", "node", "name")
# Cells that are treated as missing, in any case.
MISSING = ("", "nan", "null")
SPLIT_VALUES = {"train": "train", "val": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of a file, in its order.

    `x` is float32 `[N, F]` with one name per column; F may be 0. Entries of `labels` and `split` are None for nodes
    without one; the whole list is None if no such column was requested.
    """

    ids: list[str]
    x: NDArray[np.float32]
    feature_names: list[str]
    labels: list[str | None] | None
    split: list[str | None] | None


def read_node_file(
    path: str | Path,
    *,
    label: str | None = None,
    id_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
) -> NodeTable:
    """Reads a `.csv`, `.tsv`, `.parquet` or `.graphml` file with one node per row and named columns.

    `id_column` is the column of ids; by default the one named id, node or name, or else the first. In a GraphML file,
    the columns are the attributes of the nodes, and ids are those of the nodes themselves.
    `label` is the column of class names; an empty cell, NaN or null means unlabelled.
    `split_column` is a column with the values train, val (or validation), test, or empty.
    All other columns except those in `ignore` are features: every cell must be a number, true or false.
    """
    if isinstance(ignore, str):
        raise InputTypeError("ignore", "be a list of columns", f"the text {ignore!r}", f"Pass [{ignore!r}].")
    table = read_table(path)
    names = _check_names(table)
    requested = {"label": label, "id_column": id_column, "split_column": split_column}
    columns, used = _requested_columns(table, names, requested, ignore)
    ids = columns["id_column"] if "id_column" in columns else _find_ids(table, names, used)
    features = [k for k in range(len(names)) if k not in used | {ids}]
    positions: dict[str, int | str] = {}
    x: list[NDArray[np.float32]] = []
    labels: list[str | None] = []
    split: list[str | None] = []
    for row, cells in table:
        name = as_text(cells[ids])
        if not name:
            raise table.error(row, ids, "name the node", "an empty cell", "Give every node an id.")
        if name in positions:
            found = f"{name!r}, which is in {table.unit} {positions[name]} too"
            raise table.error(row, ids, "be a unique id", found, "Remove one.")
        positions[name] = row
        if "label" in columns:
            labels.append(_optional(cells[columns["label"]]))
        if "split_column" in columns:
            part = _optional(cells[columns["split_column"]])
            if part is not None and part.lower() not in SPLIT_VALUES:
                raise table.error(row, columns["split_column"], "be train, val, test or empty", repr(part))
            split.append(part and SPLIT_VALUES[part.lower()])
        x.append(_features(table, row, features, cells))
    if not positions:
        raise table.empty_error("node", "Write one row per node.")
    return NodeTable(list(positions), np.stack(x), [names[k] for k in features], labels or None, split or None)


def _check_names(table: Table) -> list[str]:
    if table.names is None:
        raise table.empty_error("node", "Write a line of column names, then one line per node.")
    seen: set[str] = set()
    for number, name in enumerate(table.names, 1):
        place = f"{table.path}, column {number}"
        if not name and seen:  # pandas leaves the name of the first column empty
            raise InputError(place, "have a name", "an empty cell", "Name every column in the first line.")
        if name in seen:
            raise InputError(place, "have a unique name", f"{name!r} again", "Rename or remove one.")
        seen.add(name)
    return table.names


def _requested_columns(
    table: Table, names: list[str], requested: dict[str, str | None], ignore: Sequence[str]
) -> tuple[dict[str, int], set[int]]:
    """The index of each requested column by argument, and the indices of these columns and those to ignore."""
    columns: dict[str, int] = {}
    ignored: set[int] = set()
    for argument, name in [*requested.items(), *(("ignore", name) for name in ignore)]:
        if name is None:
            continue
        if name not in names:
            rule = f"be a column of `{table.path}` ({listed(names)})"
            raise InputError(argument, rule, repr(name), suggestion(name, names, "Check the spelling."))
        column = names.index(name)
        other = next((other for other, taken in columns.items() if taken == column), None)
        if other is not None:
            raise InputError(argument, f"differ from `{other}`", f"{name!r} for both", "Change one.")
        if argument == "ignore":
            ignored.add(column)
        else:
            columns[argument] = column
    if table.unit == "node" and columns.get("id_column", 0) != 0:
        raise InputError("id_column", f"be None for `{table.path}`: a GraphML file has ids of its own")
    return columns, ignored | set(columns.values())


def _find_ids(table: Table, names: list[str], used: set[int]) -> int:
    if table.unit == "node":  # GraphML
        return 0
    free = [k for k in range(len(names)) if k not in used]
    if not free:
        raise InputError(table.path, f"have a column of ids besides {listed(names)}", remedy="Add one called id.")
    return free[find_column([names[k] for k in free], ID_NAMES) or 0]


def _optional(cell: Cell) -> str | None:
    text = as_text(cell)
    return None if text.lower() in MISSING else text


def _features(table: Table, row: int | str, columns: list[int], cells: list[Cell]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # values too large for float32 become inf and raise below
        values = np.array([as_number(cells[k]) for k in columns], np.float32)
    if not np.isfinite(values).all():
        column = columns[np.flatnonzero(~np.isfinite(values))[0]]
        text = as_text(cells[column])
        rule, remedy = "be a number", "Remove the column or convert it to numbers."
        if text.lower() in MISSING:
            remedy = "Fill it in, or exclude the column with `ignore`."
        elif not math.isnan(as_number(cells[column])):
            rule, remedy = "be a number below 3.4e38 in size", "Rescale the column."
        raise table.error(row, column, rule, repr(text) if text else "an empty cell", remedy)
    return values
