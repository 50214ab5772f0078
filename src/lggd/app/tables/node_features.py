"""Columns of node tables as features: numbers, categories, and all that is neither, reported at once."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lggd.app.tables.table import Cell, Table, as_text
from lggd.errors import InputError
from lggd.validation import check_name, listed

# Cells that are treated as missing values of a feature, in any case.
MISSING = ("", "na", "n/a", "nan", "null", "none", "?")
# A column of text with more different values than this, or only different ones in more rows than this, is no category.
MAX_CATEGORIES, MAX_DIFFERENT = 50, 10
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2})?"
)
LARGEST = "3.4e38"


class Missing(StrEnum):
    """The rule for missing values: an error, or the mean of the column."""

    ERROR = "error"
    MEAN = "mean"


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features of the nodes.

    `x` is float32 `[N, F]`; `categories` are the values of each
    column of text, which became one feature per value; `fill` are the means that replace missing values, by feature.
    """

    x: NDArray[np.float32]
    names: list[str]
    categories: dict[str, list[str]]
    fill: dict[str, float]
    notes: tuple[str, ...]


class _OddCell(NamedTuple):
    """A non-finite or non-numeric cell: the index of its row, its position in the file, and its content."""

    row: int
    position: int | str
    cell: Cell


class FeatureReader:
    """Collects the features of one row after the other, and decides at the end what each column is.

    `categories` fixes which columns have text and its values, as they were in training; `category` names columns that
    are categories although they contain numbers.
    """

    def __init__(
        self, table: Table, columns: Sequence[int], *, category: Sequence[str] = (),
        categories: Mapping[str, Sequence[str]] | None = None, fill: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self.table = table
        self.columns = {k: table.names[k] for k in columns}
        self.known = {name: list(values) for name, values in (categories or {}).items()}
        self.is_first = categories is None
        self.known_fill = fill or {}
        self.as_text = {*category, *self.known}
        self.values: list[NDArray[np.float32]] = []
        self.odd: dict[str, list[_OddCell]] = {name: [] for name in self.columns.values()}

    def add(self, position: int | str, cells: Sequence[Cell]) -> None:
        read = self.table.numbers.read
        numbers = [np.nan if name in self.as_text else read(cells[k]) for k, name in self.columns.items()]
        with np.errstate(over="ignore"):  # values too large for float32 become inf and are reported
            row = np.array(numbers, np.float32)
        if not np.isfinite(row).all():
            for (k, name), is_number in zip(self.columns.items(), np.isfinite(row), strict=True):
                if not is_number:
                    self.odd[name].append(_OddCell(len(self.values), position, cells[k]))
        self.values.append(row)

    def texts(self, name: str) -> set[str] | None:
        """The texts in a column so far, in lower case; None if some of its cells are numbers."""
        odd = self.odd[name]
        return {as_text(cell.cell).lower() for cell in odd} if len(odd) == len(self.values) else None

    def encode(self, missing: Missing | str = Missing.ERROR) -> Encoded:
        """Returns the features; raises one error that lists every column that has none."""
        check_name("missing", missing, list(Missing))
        count = len(self.values)
        x = np.stack(self.values) if count else np.empty((0, len(self.columns)), np.float32)
        parts, names = [np.empty((count, 0), np.float32)], list[str]()
        categories, problems, gaps = dict[str, list[str]](), dict[str, str](), dict[str, list[_OddCell]]()
        for name, numbers in zip(self.columns.values(), x.T, strict=True):
            # In a column that is known to be a category, none or ? may be one of its values.
            missing_values = ("",) if name in self.as_text else MISSING
            gap = [odd for odd in self.odd[name] if as_text(odd.cell).lower() in missing_values]
            text = [odd for odd in self.odd[name] if as_text(odd.cell).lower() not in missing_values]
            problem = self._problem(name, numbers, gap, text)
            if problem:
                problems[name] = problem
                continue
            if gap:
                gaps[name] = gap
            if name in self.known or text:
                categories[name] = self.known.get(name) or sorted({as_text(odd.cell) for odd in text})
                parts.append(_one_hot(categories[name], count, gap, text))
                names += [f"{name}={value}" for value in categories[name]]
            else:
                parts.append(numbers[:, None])
                names.append(name)
        if problems or (gaps and missing == Missing.ERROR):
            raise self._error(problems, gaps if missing == Missing.ERROR else {})
        features, fill = np.concatenate(parts, 1), dict[str, float]()
        notes = [
            f"Column {name} has text: {_each_of(values)} became a feature, 1 or 0."
            for name, values in categories.items()
            if name not in self.known
        ]
        shown = listed([f"{name} ({len(gap):,})" for name, gap in gaps.items()])
        if gaps:
            fill = self._fill(features, names)
            notes.append(f"Missing values were replaced by the mean of their column: {shown}.")
        return Encoded(features, names, categories, fill, tuple(notes))

    def _problem(self, name: str, numbers: NDArray[np.float32], gap: list[_OddCell], text: list[_OddCell]) -> str:
        """The problem of a column with missing cells or text; empty if it has none."""
        if name in self.known:
            other = [odd for odd in text if as_text(odd.cell) not in self.known[name]]
            return self._place(name, other, "is no category of training", "are no categories of training")
        if len(gap) == len(numbers) and name not in self.known_fill:
            return f"{name}: all cells are empty"
        if not text:
            return ""
        infinite = [odd for odd in text if np.isinf(numbers[odd.row])]
        if infinite:
            return self._place(name, infinite, f"is not below {LARGEST} in size", f"are not below {LARGEST} in size")
        dates = [odd for odd in text if _is_date(odd.cell)]
        if len(dates) * 2 > len(text):
            return f"{self._place(name, dates, 'is a date', 'are dates')}; convert them to numbers, such as days"
        if len(text) + len(gap) < len(numbers) or not (self.is_first or name in self.as_text):
            return self._place(name, text, "is no number", "are no numbers")
        values = {as_text(odd.cell) for odd in text}
        different = len(values) == len(text) and len(text) > MAX_DIFFERENT
        if (len(values) > MAX_CATEGORIES or different) and name not in self.as_text:
            how = "only different" if different else f"{len(values):,} different"
            return f"{name}: {how} texts, the first {as_text(text[0].cell)!r}"
        return ""

    def _place(self, name: str, cells: Sequence[_OddCell], one: str, many: str) -> str:
        """A phrase such as: age: 3 cells are no numbers, the first 'old' in line 5. Empty without cells."""
        if not cells:
            return ""
        text, where = as_text(cells[0].cell), f"in {self.table.unit} {cells[0].position}"
        shown = f"{text!r} {where}" if text else where
        return f"{name}: " + (
            f"1 cell {one}, {shown}" if len(cells) == 1 else f"{len(cells):,} cells {many}, the first {shown}"
        )

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

    def _error(self, problems: Mapping[str, str], gaps: Mapping[str, Sequence[_OddCell]]) -> InputError:
        missing = [self._place(name, gap, "is missing", "are missing") for name, gap in gaps.items()]
        hints, remedies = dict[str, str](), list[str]()
        if gaps:
            hints["mean"] = "missing='mean'"
            remedies.append("Add {mean}, or fill them in.")
        if problems:
            hints["ignore"] = f"ignore={list(problems)!r}"
            remedies.append("Correct these cells, or add {ignore}.")
        rule = "have numbers, or texts of few categories, in its columns of features"
        but = "; ".join([*missing, *problems.values()])
        return InputError(self.table.path, rule, but=but, remedy=" ".join(remedies), hints=hints)


def _each_of(values: Sequence[str]) -> str:
    shown = listed(values)
    return f"its one value ({shown})" if len(values) == 1 else f"each of its {len(values):,} values ({shown})"


def _one_hot(
    values: Sequence[str], count: int, gap: Sequence[_OddCell], text: Sequence[_OddCell]
) -> NDArray[np.float32]:
    """A column per value: 1 where the cell has it, 0 elsewhere, NaN where it is missing."""
    number = {value: k for k, value in enumerate(values)}
    x = np.zeros((count, len(values)), np.float32)
    x[[odd.row for odd in text], [number[as_text(odd.cell)] for odd in text]] = 1
    x[[odd.row for odd in gap]] = np.nan
    return x


def _is_date(cell: Cell) -> bool:
    return isinstance(cell, (datetime.date, datetime.time)) or bool(DATE.fullmatch(as_text(cell)))
