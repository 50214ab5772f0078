"""Nodes in files: ids, features, labels and splits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd.data.labels import LabelReader
from lggd.data.node_features import FeatureReader, Missing
from lggd.data.numbers import Numbers
from lggd.data.table import Cell, Table, as_text, find_column, is_networkx, normalized, read_table, tables_of_networkx
from lggd.errors import InputError, InputTypeError
from lggd.validation import listed, suggestion

# Names of the id column, in any case; the first name that occurs is used.
ID_NAMES = ("id", "node", "name", "nodeid", "nodename", "vertex", "key", "index")
# Cells without a split, in any case.
NO_SPLIT = ("", "nan", "null", "na", "n/a", "none")
SPLIT_VALUES = {"train": "train", "val": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of a file, in its order.

    `x` is float32 `[N, F]` with one name per column; F may be 0. Entries of `labels` and `split` are None for nodes
    without one; the whole list is None if no such column was requested. `dropped` are the ids of nodes that were left
    out for missing values; `categories` and `fill` tell how columns became features (see `Encoded`), and `notes` are
    sentences about the reading. `label_reader` knows which cells were read as unlabelled.
    """

    ids: list[str]
    x: NDArray[np.float32]
    feature_names: list[str]
    labels: list[str | None] | None
    split: list[str | None] | None
    dropped: tuple[str, ...] = ()
    categories: Mapping[str, list[str]] | None = None
    fill: Mapping[str, float] | None = None
    notes: tuple[str, ...] = ()
    label_reader: LabelReader | None = None


def read_node_file(
    source: Any,
    *,
    label: str | None = None,
    id_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
    category: Sequence[str] = (),
    missing: Missing | str = Missing.ERROR,
    unlabelled: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    fill: Mapping[str, float] | None = None,
) -> NodeTable:
    """Reads a `.csv`, `.tsv`, `.txt`, `.parquet` or `.graphml` file with one node per row and named columns.

    `id_column` is the column of ids; by default the one named id, node or name, or else the first. In a GraphML file,
    the columns are the attributes of the nodes, and ids are those of the nodes themselves. Columns of a table without a
    header are numbered from 1. A pandas DataFrame and a networkx graph are read as these files are.

    `label` is the column of class names. A cell that is empty, -1, NA, NaN, null, none, unknown or ? means unlabelled;
    `unlabelled` replaces these values, except the empty cell.
    `split_column` is a column with the values train, val (or validation), test, or empty.
    All other columns except those in `ignore` are features: numbers, true and false, or texts, each of which becomes a
    feature that is 1 or 0. So do numbers in a column of `category`. Missing values raise an error, become the mean of
    the column with `missing="mean"`, or leave out their nodes with `missing="drop"`. All that cannot be read is
    reported in one error. `categories` and `fill`, from an earlier table, make new nodes look like old ones.
    """
    for argument, value in (("ignore", ignore), ("category", category)):
        if isinstance(value, str):
            raise InputTypeError(argument, "be a list of columns", f"the text {value!r}", f"Pass [{value!r}].")
    requested = [name for name in (label, id_column, split_column) if name is not None]
    table = read_named_table(source, requested, delimiter, header)
    columns = find_node_columns(
        table, label=label, id_column=id_column, split_column=split_column, ignore=ignore, category=category
    )
    ids, names = columns.ids, table.names or []
    features = FeatureReader(table, columns.features, category=category, categories=categories, fill=fill)
    reader = LabelReader(unlabelled)
    positions: dict[str, int | str] = {}
    labels: list[str | None] = []
    split: list[str | None] = []
    for row, cells in table:
        _add_id(table, positions, row, ids, cells[ids])
        if columns.label is not None:
            labels.append(reader.read(cells[columns.label]))
        if columns.split is not None:
            split.append(_split_part(table, row, columns.split, cells[columns.split]))
        features.add(row, cells)
    if not positions:
        raise table.empty_error("node", "Write one row per node.")
    encoded, all_ids = features.encode(missing), list(positions)
    number_notes = table.number_notes()

    def kept(values: list[Any]) -> list[Any]:
        return [value for value, keep in zip(values, encoded.kept, strict=True) if keep]

    label_notes = reader.notes(labels) if labels else ()
    if id_column is None and table.unit != "node" and normalized(names[ids]) not in ID_NAMES:
        label_notes = (f"Ids of nodes are in the column {names[ids]!r}.", *label_notes)
    return NodeTable(
        kept(all_ids), encoded.x, encoded.names, kept(labels) if labels else None, kept(split) if split else None,
        tuple(name for name, keep in zip(all_ids, encoded.kept, strict=True) if not keep), encoded.categories,
        encoded.fill, (*table.notes, *number_notes, *label_notes, *encoded.notes), reader,
    )  # fmt: skip


@dataclass(frozen=True)
class NodeColumns:
    """The indices of the columns of a table of nodes."""

    ids: int
    label: int | None
    split: int | None
    features: list[int]


def find_node_columns(
    table: Table, *, label: str | None = None, id_column: str | None = None, split_column: str | None = None,
    ignore: Sequence[str] = (), category: Sequence[str] = (),
) -> NodeColumns:  # fmt: skip
    """Finds the columns; all that are neither requested nor ignored are features."""
    names = _check_names(table)
    requested = {"label": label, "id_column": id_column, "split_column": split_column}
    columns, used = _requested_columns(table, names, requested, {"ignore": ignore, "category": category})
    used |= {names.index(name) for name in ignore}
    ids = columns["id_column"] if "id_column" in columns else _find_ids(table, names, used)
    features = [k for k in range(len(names)) if k not in used | {ids}]
    return NodeColumns(ids, columns.get("label"), columns.get("split_column"), features)


def node_columns(source: Any, requested: Sequence[str] = (), delimiter: str | None = None) -> list[str]:
    """The names of the columns of a table of nodes."""
    return read_named_table(source, requested, delimiter).names or []


def read_named_table(
    source: Any, requested: Sequence[str], delimiter: str | None = None, header: bool | None = None
) -> Table:
    """Reads a table of nodes; if its first line is a node, columns are numbered."""
    if is_networkx(source):
        return tables_of_networkx(source)[0]
    table = read_table(
        source, lambda cells: is_node_header(cells, requested) if header is None else header, delimiter=delimiter
    )
    return with_numbered_columns(table, note=header is None)


def with_numbered_columns(table: Table, *, note: bool = True) -> Table:
    """A table of nodes whose columns have names: numbers from 1, where the first line does not name them."""
    if table.names is not None or not table.width:
        return table
    said = "The first line of the nodes was read as a node; columns are numbered from 1."
    return replace(
        table, names=[str(k + 1) for k in range(table.width)], notes=(*table.notes, *([said] if note else []))
    )


def is_node_header(cells: Sequence[str], requested: Sequence[str]) -> bool:
    """A first line without a name that is known or requested is a node if it has numbers, or if these are requested."""
    read = Numbers().read
    if not any(cell and not math.isnan(read(cell)) for cell in cells):
        by_number = [name for name in requested if name.isdecimal() and 0 < int(name) <= len(cells)]
        return not requested or len(by_number) < len(requested)
    texts = [cell for cell in cells if math.isnan(read(cell))]
    return any(normalized(cell) in ID_NAMES for cell in texts) or any(name in cells for name in requested)


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
    table: Table, names: list[str], requested: Mapping[str, str | None], more: Mapping[str, Sequence[str]]
) -> tuple[dict[str, int], set[int]]:
    """The index of each requested column by argument, and the set of them; checks the names of `more` columns."""
    columns: dict[str, int] = {}
    for argument, name in [*requested.items(), *((key, name) for key, values in more.items() for name in values)]:
        if name is None:
            continue
        if name not in names:
            rule = f"be a column of `{table.path}` ({listed(names)})"
            if len(names) == 1 and name in names[0].split():
                remedy, hints = "Add {delimiter} if spaces separate the columns.", {"delimiter": "delimiter='space'"}
                raise InputError(argument, rule, repr(name), remedy, hints=hints)
            raise InputError(argument, rule, repr(name), suggestion(name, names, "Check the spelling."))
        column = names.index(name)
        other = next((other for other, taken in columns.items() if taken == column), None)
        if other is not None:
            raise InputError(argument, f"differ from `{other}`", f"{name!r} for both", "Change one.")
        if argument in requested:
            columns[argument] = column
    if table.unit == "node" and columns.get("id_column", 0) != 0:
        raise InputError("id_column", f"be None for `{table.path}`: a GraphML file has ids of its own")
    return columns, set(columns.values())


def _find_ids(table: Table, names: list[str], used: set[int]) -> int:
    if table.unit == "node":  # GraphML
        return 0
    free = [k for k in range(len(names)) if k not in used]
    if not free:
        raise InputError(table.path, f"have a column of ids besides {listed(names)}", remedy="Add one called id.")
    return free[find_column([names[k] for k in free], ID_NAMES) or 0]


def _add_id(table: Table, positions: dict[str, int | str], row: int | str, column: int, cell: Cell) -> None:
    name = as_text(cell)
    if not name:
        raise table.error(row, column, "name the node", "an empty cell", "Give every node an id.")
    if name in positions:
        found = f"{name!r}, which is in {table.unit} {positions[name]} too"
        raise table.error(row, column, "be a unique id", found, "Remove one.")
    positions[name] = row


def _split_part(table: Table, row: int | str, column: int, cell: Cell) -> str | None:
    part = as_text(cell).lower()
    if part in NO_SPLIT:
        return None
    if part not in SPLIT_VALUES:
        raise table.error(row, column, "be train, val, test or empty", repr(as_text(cell)))
    return SPLIT_VALUES[part]
