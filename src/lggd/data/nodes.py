"""Node tables from files: ids, features, labels and splits, with every mistake named by file, line and column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lggd.data.rows import GRAPHML, GRAPHML_ID, TABLES, Cell, Rows, as_text, check_ending, read_graphml, read_rows
from lggd.errors import InputError, InputTypeError
from lggd.files import check_readable
from lggd.validation import listed, suggestion

# A column of one of these names holds the ids, in any letter case; the first name that is there counts.
ID_NAMES = ("id", "node", "name")
# What a label may say instead of nothing, in any letter case.
NO_LABEL = ("", "nan", "null")
SPLIT_VALUES = {"train": "train", "val": "val", "validation": "val", "test": "test"}
TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of a file, in its order.

    `x` is float32 `[N, F]` with a name for each column; F may be 0. A label or a part of the split is None where the
    node has none, and `labels` or `split` is None where no such column was asked for.
    """

    ids: list[str]
    x: NDArray[np.float32]
    feature_names: list[str]
    labels: list[str | None] | None
    split: list[str | None] | None


def read_nodes(
    path: str | Path,
    *,
    label: str | None = None,
    id_column: str | None = None,
    split_column: str | None = None,
    ignore: Sequence[str] = (),
) -> NodeTable:
    """Reads nodes from a `.csv`, `.tsv`, `.parquet` or `.graphml` file, a node a row, whose columns have names.

    Ids stand in the column called id, node or name, or else in the first; `id_column` names another one. In a GraphML
    file they are the nodes' own, and a node's attributes are its columns.
    `label` names the column of classes. They are kept as written; an empty cell, NaN or null leaves a node unlabelled.
    `split_column` names one that says train, val (or validation), test, or nothing.
    All other columns except those in `ignore` are features: numbers, or true and false, in every cell.
    """
    path = check_readable(path)
    rows = read_graphml(path)[0] if check_ending(path, (*TABLES, GRAPHML)) == GRAPHML else read_rows(path)
    columns, names = _Columns.find(rows, label, id_column, split_column, ignore)
    gathered = _Gathered(rows, names, columns)
    for number, cells in rows.rows:
        gathered.add(number, cells)
    return gathered.table()


# -- columns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """Where a row keeps what."""

    id: int
    label: int | None
    split: int | None
    features: list[int]

    @classmethod
    def find(
        cls, rows: Rows, label: str | None, id_column: str | None, split_column: str | None, ignore: Sequence[str]
    ) -> tuple[_Columns, list[str]]:
        """The columns as asked for, and the names of all."""
        names = _column_names(rows)
        if isinstance(ignore, str):
            raise InputTypeError("ignore", "be a list of columns", f"the text {ignore!r}", f"Pass [{ignore!r}].")
        asked = {"label": label, "id_column": id_column, "split_column": split_column}
        place = {role: _place(rows, names, role, name) for role, name in asked.items() if name is not None}
        ignored = {_place(rows, names, "ignore", name) for name in ignore}
        _check_apart(names, place, ignored)
        taken = ignored | set(place.values())
        place["id_column"] = _id_place(rows, names, place.get("id_column"), taken)
        taken.add(place["id_column"])
        features = [k for k in range(len(names)) if k not in taken]
        return cls(place["id_column"], place.get("label"), place.get("split_column"), features), names


def _column_names(rows: Rows) -> list[str]:
    if rows.names is None:
        first = next(rows.rows, None)
        if first is None:
            raise InputError(rows.path, "hold at least one node", "an empty file", "Name columns, then nodes.")
        header, names = rows.place(first[0]), first[1]
    else:
        header, names = f"`{rows.path}`", rows.names
    seen: set[str] = set()
    for column, name in enumerate(names, 1):
        where = f"{header}, column {column}:"
        if not name and column > 1:  # pandas leaves the name of the first one empty
            raise ValueError(f"{where} must have a name, got an empty cell. Name every column in the first line.")
        if name in seen:
            raise ValueError(f"{where} must have a name of its own, got {name!r} again. Rename or remove one.")
        seen.add(name)
    return names


def _place(rows: Rows, names: list[str], argument: str, name: str) -> int:
    if name not in names:
        raise InputError(
            argument,
            f"be a column of `{rows.path}` ({listed(names)})",
            repr(name),
            suggestion(name, names, "Check the spelling."),
        )
    return names.index(name)


def _check_apart(names: list[str], place: dict[str, int], ignored: set[int]) -> None:
    roles: dict[int, str] = dict.fromkeys(ignored, "ignore")
    for role, column in place.items():
        if column in roles:
            raise ValueError(
                f"`{role}` and `{roles[column]}` must be different columns, got {names[column]!r} for both. Change one."
            )
        roles[column] = role


def _id_place(rows: Rows, names: list[str], asked: int | None, taken: set[int]) -> int:
    if names[0] == GRAPHML_ID and rows.unit == "node":
        if asked not in (None, 0):
            raise InputError("id_column", f"be None for `{rows.path}`: a GraphML file has ids of its own")
        return 0
    if asked is not None:
        return asked
    free = [k for k in range(len(names)) if k not in taken]
    if not free:
        raise InputError(rows.path, f"have a column of ids besides {listed(names)}", remedy="Add one called id.")
    by_name = {names[k].lower(): k for k in reversed(free)}
    return next((by_name[name] for name in ID_NAMES if name in by_name), free[0])


# -- cells ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Gathered:
    """What has been read of a file so far."""

    rows: Rows
    names: list[str]
    columns: _Columns
    seen: dict[str, int | str] = field(default_factory=dict)  # where each id stands
    x: list[NDArray[np.float32]] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    split: list[str | None] = field(default_factory=list)

    def add(self, number: int | str, cells: list[Cell]) -> None:
        if len(cells) != len(self.names):
            raise ValueError(
                f"{self.rows.place(number)}: must have {len(self.names)} cells like the first line, got {len(cells)}. "
                "Check what separates them, and put a cell that contains it in quotes."
            )
        self._add_id(number, cells)
        if self.columns.label is not None:
            said = as_text(cells[self.columns.label])
            self.labels.append(None if said.lower() in NO_LABEL else said)
        if self.columns.split is not None:
            self.split.append(self._part(number, cells, self.columns.split))
        self.x.append(self._features(number, cells))

    def table(self) -> NodeTable:
        if not self.seen:
            raise InputError(self.rows.path, "hold at least one node", "none", "Write a row for each.")
        return NodeTable(
            list(self.seen),
            np.stack(self.x),
            [self.names[k] for k in self.columns.features],
            self.labels if self.columns.label is not None else None,
            self.split if self.columns.split is not None else None,
        )

    def _where(self, number: int | str, column: int) -> str:
        return f"{self.rows.place(number)}, column {self.names[column]!r}:"

    def _add_id(self, number: int | str, cells: list[Cell]) -> None:
        name, where = as_text(cells[self.columns.id]), self._where(number, self.columns.id)
        if not name:
            raise ValueError(f"{where} must name the node, got an empty cell. Give every node an id.")
        if name in self.seen:
            before = f"{self.rows.unit} {self.seen[name]}"
            raise ValueError(f"{where} must be an id of its own, got {name!r}, which is in {before} too. Remove one.")
        self.seen[name] = number

    def _part(self, number: int | str, cells: list[Cell], column: int) -> str | None:
        said = as_text(cells[column])
        if said.lower() in NO_LABEL:
            return None
        part = SPLIT_VALUES.get(said.lower())
        if part is None:
            raise ValueError(f"{self._where(number, column)} must be train, val, test or empty, got {said!r}.")
        return part

    def _features(self, number: int | str, cells: list[Cell]) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is refused below
            values = np.array([as_number(cells[k]) for k in self.columns.features], np.float32)
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            column = self.columns.features[wrong[0]]
            raise ValueError(f"{self._where(number, column)} {_refusal(cells[column])}")
        return values


def _refusal(cell: Cell) -> str:
    """What is wrong with a cell that is no feature, and what to do."""
    said = as_text(cell)
    if said.lower() in NO_LABEL:
        shown = repr(said) if said else "an empty cell"
        return f"must be a number, got {shown}. Fill it in, or leave the column out with `ignore`."
    if math.isnan(as_number(cell)):
        return f"must be a number, got {said!r}. Remove the column or turn it into numbers."
    return f"must be a number below 3.4e38 in size, got {said!r}. Bring the column to a smaller scale."


def as_number(cell: Cell) -> float:
    """A cell as a number, 1 and 0 for true and false; NaN where it is none."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return TRUTH.get(as_text(cell).lower(), math.nan)
