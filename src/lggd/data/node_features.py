"""Columns of node tables as features: numbers, categories, and all that is neither, reported at once."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lggd.data.table import Cell, Table, as_text
from lggd.errors import InputError
from lggd.validation import listed

# Cells that are treated as missing values of a feature, in any case.
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")
# A column of text with more different values than this, or only different ones in more rows than this, is no category.
MOST_CATEGORIES, ROWS_ALL_DIFFERENT = 50, 10
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2})?"
)
LARGEST = "3.4e38"


class Missing(StrEnum):
    """What becomes of missing values: an error, the mean of the column, or nodes that are left out."""

    ERROR = "error"
    MEAN = "mean"
    DROP = "drop"


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features of the nodes that are kept.

    `x` is float32 `[N, F]`; `kept` bool `[rows]` are the rows that are nodes; `categories` are the values of each
    column of text, which became one feature per value; `fill` are the means that replace missing values, by feature.
    """

    x: NDArray[np.float32]
    names: list[str]
    kept: NDArray[np.bool_]
    categories: dict[str, list[str]] = field(default_factory=dict)
    fill: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass
class _Column:
    """The cells of a column that are no finite numbers: the index of the row, its position in the file, the cell."""

    index: int
    name: str
    unit: str
    rows: list[int] = field(default_factory=list)
    positions: list[int | str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    def without_value(self, missing: Sequence[str]) -> tuple[list[int], list[int]]:
        """The cells that are missing, and the others."""
        absent = [as_text(cell).lower() in missing for cell in self.cells]
        return [k for k, each in enumerate(absent) if each], [k for k, each in enumerate(absent) if not each]


class FeatureReader:
    """Collects the features of one row after the other, and decides at the end what each column is.

    `categories` fixes the values of columns of text, as they were in training; `category` names columns that are
    categories although they contain numbers.
    """

    def __init__(
        self, table: Table, columns: Sequence[int], *, category: Sequence[str] = (),
        categories: Mapping[str, Sequence[str]] | None = None, fill: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        names = table.names or [str(k + 1) for k in range(table.width)]
        self.table, self.columns = table, [_Column(k, names[k], table.unit) for k in columns]
        self.known = {name: list(values) for name, values in (categories or {}).items()}
        self.known_fill = dict(fill or {})
        self.as_text = {*category, *self.known}
        self.values: list[NDArray[np.float32]] = []

    def add(self, position: int | str, cells: Sequence[Cell]) -> None:
        read = self.table.numbers.read
        with np.errstate(over="ignore"):  # values too large for float32 become inf and are reported
            row = np.array(
                [np.nan if c.name in self.as_text else read(cells[c.index]) for c in self.columns], np.float32
            )
        for k in np.flatnonzero(~np.isfinite(row)):
            column = self.columns[k]
            column.rows.append(len(self.values))
            column.positions.append(position)
            column.cells.append(cells[column.index])
        self.values.append(row)

    def encode(self, missing: Missing | str = Missing.ERROR) -> Encoded:
        """Returns the features; raises one error that lists every column that has none."""
        if missing not in list(Missing):
            raise InputError("missing", f"be one of {', '.join(Missing)}", repr(missing))
        count = len(self.values)
        x = np.stack(self.values) if count else np.empty((0, len(self.columns)), np.float32)
        parts, names, categories, problems, absent, ignorable = [], [], {}, [], np.zeros(count, bool), []
        gaps = []
        for k, column in enumerate(self.columns):
            problem, values, unfilled = self._column(column, x[:, k], count)
            if problem:
                problems.append(problem)
                ignorable.append(column.name)
                continue
            if unfilled:
                gaps.append((column, unfilled))
                absent[[column.rows[i] for i in unfilled]] = True
            if values is not None:
                categories[column.name] = values
                parts.append(_one_hot(column, values, count, unfilled))
                names += [f"{column.name}={value}" for value in values]
            else:
                parts.append(x[:, k : k + 1])
                names.append(column.name)
        if problems or (gaps and missing == Missing.ERROR):
            raise self._error(problems, gaps if missing == Missing.ERROR else [], ignorable)
        features = np.concatenate(parts, 1) if parts else np.empty((count, 0), np.float32)
        kept, fill, notes = ~absent, dict[str, float](), list(_category_notes(categories, self.known))
        if gaps and missing == Missing.MEAN:
            fill = self._fill(features, names)
            kept = np.ones(count, bool)
            columns = listed([f"{column.name} ({len(cells):,})" for column, cells in gaps])
            notes.append(f"Missing values were replaced by the mean of their column: {columns}.")
        elif gaps:
            columns = listed([f"{column.name} ({len(cells):,})" for column, cells in gaps])
            notes.append(f"{int(absent.sum()):,} nodes with missing values were left out: {columns}.")
            if not kept.any():
                raise InputError(self.table.path, "have a node without missing values", "none", "Use another option.")
        return Encoded(features[kept], names, kept, categories, fill, tuple(notes))

    def _column(self, column: _Column, x: NDArray[np.float32], count: int) -> tuple[str, list[str] | None, list[int]]:
        """What is wrong with a column, its categories or None, and which of its odd cells are missing."""
        # In a column that is known to be a category, none or ? may be one of its values.
        unfilled, text = column.without_value(("",) if column.name in self.as_text else MISSING)
        if column.name in self.known:
            values = self.known[column.name]
            other = [k for k in text if as_text(column.cells[k]) not in values]
            return (
                (_place(column, other, "is no category of training", "are no categories of training") if other else ""),
                values,
                unfilled,
            )
        if len(unfilled) == count and column.name not in self.known_fill:
            return f"{column.name}: all cells are empty", None, []
        if not text:
            return "", None, unfilled
        infinite = [k for k in text if np.isinf(x[column.rows[k]])]
        if infinite:
            return (
                _place(column, infinite, f"is not below {LARGEST} in size", f"are not below {LARGEST} in size"),
                None,
                [],
            )
        dates = [k for k in text if _is_date(column.cells[k])]
        if len(dates) * 2 > len(text):
            return f"{_place(column, dates, 'is a date', 'are dates')}; convert them to numbers, such as days", None, []
        if len(text) + len(unfilled) < count:
            return _place(column, text, "is no number", "are no numbers"), None, []
        values = sorted({as_text(column.cells[k]) for k in text})
        different = len(values) == len(text) and len(text) > ROWS_ALL_DIFFERENT
        if (len(values) > MOST_CATEGORIES or different) and column.name not in self.as_text:
            how = "only different" if different else f"{len(values):,} different"
            return f"{column.name}: {how} texts, the first {as_text(column.cells[text[0]])!r}", None, []
        return "", values, unfilled

    def _fill(self, features: NDArray[np.float32], names: Sequence[str]) -> dict[str, float]:
        """Replaces NaN by the mean of the column, in place; returns the means."""
        fill = {}
        for k, name in enumerate(names):
            values = features[:, k]
            empty = np.isnan(values)
            mean = self.known_fill.get(name)
            if mean is None and not empty.all():
                mean = float(values[~empty].mean(dtype=np.float64))
            if mean is not None:
                fill[name] = mean
                values[empty] = mean
        return fill

    def _error(
        self, problems: Sequence[str], gaps: Sequence[tuple[_Column, list[int]]], ignorable: Sequence[str]
    ) -> InputError:
        found = [_place(column, cells, "is missing", "are missing") for column, cells in gaps]
        hints, remedies = dict[str, str](), list[str]()
        if gaps:
            hints |= {"mean": "missing='mean'", "drop": "missing='drop'"}
            remedies.append("Add {mean} or {drop} (without these nodes), or fill them in.")
        if ignorable:
            hints["ignore"] = f"ignore={list(ignorable)!r}"
            remedies.append("Correct these cells, or add {ignore}.")
        rule = "have numbers, or texts of few categories, in its columns of features"
        return InputError(
            self.table.path, rule, but="; ".join([*found, *problems]), remedy=" ".join(remedies), hints=hints
        )


def _one_hot(column: _Column, values: Sequence[str], count: int, unfilled: Sequence[int]) -> NDArray[np.float32]:
    number = {value: k for k, value in enumerate(values)}
    x = np.zeros((count, len(values)), np.float32)
    for row, cell in zip(column.rows, column.cells, strict=True):
        k = number.get(as_text(cell))
        if k is not None:
            x[row, k] = 1
    x[[column.rows[k] for k in unfilled]] = np.nan
    return x


def _is_date(cell: Cell) -> bool:
    return isinstance(cell, (datetime.date, datetime.time)) or bool(DATE.fullmatch(as_text(cell)))


def _place(column: _Column, cells: Sequence[int], one: str, many: str) -> str:
    """A phrase such as: age: 3 cells are no numbers, the first 'old' in line 5."""
    text = as_text(column.cells[cells[0]])
    shown = (
        f"{text!r} in {column.unit} {column.positions[cells[0]]}"
        if text
        else f"in {column.unit} {column.positions[cells[0]]}"
    )
    return (
        f"{column.name}: 1 cell {one}, {shown}"
        if len(cells) == 1
        else f"{column.name}: {len(cells):,} cells {many}, the first {shown}"
    )


def _category_notes(categories: Mapping[str, list[str]], known: Mapping[str, list[str]]) -> list[str]:
    return [
        f"Column {name} has text: each of its {len(values):,} values ({listed(values)}) became a feature, 1 or 0."
        for name, values in categories.items()
        if name not in known
    ]
