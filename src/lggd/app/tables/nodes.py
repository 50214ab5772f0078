"""Nodes in files: ids, features, splits and labels, and which cells mean that a node is unlabelled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lggd.app.tables.node_features import FeatureReader, Missing
from lggd.app.tables.table import Numbers, Table, as_text, find_column, normalized, read_table
from lggd.errors import InputError, InputTypeError
from lggd.validation import listed

# Names of the id column, in any case; the first name that occurs is used.
ID_NAMES = ("id", "node", "name", "nodeid", "nodename", "vertex", "key", "index")
# Those that no column of classes has.
ONLY_IDS = ("id", "node", "nodeid")
# Cells that mean "unlabelled" unless others are named, in any case; an empty cell always does.
UNLABELLED = ("-1", "-1.0", "na", "n/a", "nan", "null", "none", "unknown", "?", "unlabelled", "unlabeled")
# What cells of a split column mean, in any case.
SPLIT_VALUES = dict.fromkeys(("", "nan", "null", "na", "n/a", "none")) | {
    "train": "train", "val": "val", "validation": "val", "test": "test",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes of a file, in its order.

    `x` is float32 `[N, F]` with one name per column; F may be 0. Entries of `labels` and `split` are None for nodes
    without one; the whole list is None if no such column was requested. `categories` and `fill` tell how columns became
    features (see `Encoded`), and `notes` are sentences about the reading. `label_reader` knows which cells were read as
    unlabelled.
    """

    ids: list[str]
    x: NDArray[np.float32]
    feature_names: list[str]
    labels: list[str | None] | None
    split: list[str | None] | None
    categories: Mapping[str, list[str]]
    fill: Mapping[str, float]
    notes: tuple[str, ...]
    label_reader: LabelReader


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
    feature that is 1 or 0. So do numbers in a column of `category`. Missing values raise an error, or become the mean
    of the column with `missing="mean"`. All that cannot be read is reported in one error. `categories` and `fill`, from
    an earlier table, make new nodes look like old ones.
    """
    for argument, value in (("ignore", ignore), ("category", category)):
        if isinstance(value, str):
            raise InputTypeError(argument, "be a list of columns", f"the text {value!r}", f"Pass [{value!r}].")
    requested = [name for name in (label, id_column, split_column) if name is not None]
    table = source if isinstance(source, Table) else read_named_table(source, requested, delimiter)
    columns = find_node_columns(
        table, label=label, id_column=id_column, split_column=split_column, ignore=ignore, category=category
    )
    ids = columns.ids
    features = FeatureReader(table, columns.features, category=category, categories=categories, fill=fill)
    reader = LabelReader(unlabelled)
    positions: dict[str, int | str] = {}
    labels: list[str | None] = []
    split: list[str | None] = []
    for row, cells in table:
        name = as_text(cells[ids])
        if not name:
            raise table.error(row, ids, "name the node", "an empty cell", "Give every node an id.")
        if name in positions:
            value = f"{name!r}, which is in {table.unit} {positions[name]} too"
            raise table.error(row, ids, "be a unique id", value, "Remove one.")
        positions[name] = row
        if columns.label is not None:
            labels.append(reader.read(cells[columns.label]))
        if columns.split is not None:
            part = as_text(cells[columns.split])
            if part.lower() not in SPLIT_VALUES:
                raise table.error(row, columns.split, "be train, val, test or empty", repr(part))
            split.append(SPLIT_VALUES[part.lower()])
        features.add(row, cells)
    if not positions:
        raise table.empty_error("node", "Write one row per node.")
    if categories is None:  # otherwise an earlier table has decided
        _refuse_split(
            table, {name: features.texts(name) for name in features.odd if name not in category}, split_column
        )
    encoded, notes = features.encode(missing), [*table.notes, *table.numbers.notes(table.path)]
    column = table.names[ids]
    if id_column is None and table.unit != "node" and normalized(column) not in ID_NAMES:
        notes.append(f"Ids of nodes are in the column {column!r}.")
    if labels:
        notes += reader.notes()

    return NodeTable(
        list(positions), encoded.x, encoded.names, labels or None, split or None, encoded.categories, encoded.fill,
        (*notes, *encoded.notes), reader,
    )  # fmt: skip


def _refuse_split(table: Table, features: Mapping[str, set[str] | None], split_column: str | None) -> None:
    """Raises for a feature called split, or with the values of a split, which would show a model how nodes were chosen.

    `features` has the texts of a column, in lower case, or None if some of its cells are numbers.
    """
    for name, texts in features.items():
        parts = set() if texts is None or not texts <= SPLIT_VALUES.keys() else {SPLIT_VALUES[text] for text in texts}
        if not is_split_name(name) and len(parts - {None}) < 2:
            continue
        hints = {"ignore": f"ignore={[name]!r}", "category": f"category={[name]!r}"}
        choice = "{ignore} (not used) or {category} (a feature)"
        if split_column is None:
            hints["split_column"] = f"split_column={name!r}"
            choice = "{split_column} (train, val and test), " + choice
        rule = "be used or ignored, because it seems to tell which nodes are for training"
        raise InputError(f"{table.path}, column {name!r}", rule, remedy=f"Add {choice}.", hints=hints)


def is_split_name(name: str) -> bool:
    """Whether a column is called split."""
    return normalized(name) == "split"


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
    more = [("ignore", name) for name in ignore] + [("category", name) for name in category]
    columns: dict[str, int] = {}
    for argument, name in (*requested.items(), *more):
        if name is None:
            continue
        if len(names) == 1 and name not in names and name in names[0].split():
            rule, hints = f"be a column of `{table.path}` ({names[0]})", {"delimiter": "delimiter='space'"}
            remedy = "Add {delimiter} if spaces separate the columns."
            raise InputError(argument, rule, repr(name), remedy, hints=hints)
        column = table.find(argument, name)
        other = next((other for other, taken in columns.items() if taken == column), None)
        if other is not None:
            value, hints = f"{name!r} for both", {"other": other}
            raise InputError(argument, "differ from `{other}`", value, "Change one.", hints=hints)
        if argument in requested:
            columns[argument] = column
    if table.unit == "node" and columns.get("id_column", 0) != 0:
        raise InputError("id_column", f"be None for `{table.path}`: a GraphML file has ids of its own")
    if label is not None and "id_column" not in columns and normalized(label) in ONLY_IDS:
        rule, hints = "name the column of classes", {"id_column": "id_column"}
        remedy = "Add `{id_column}` if another column has the ids."
        raise InputError("label", rule, but=f"{label!r} is that of the ids", remedy=remedy, hints=hints)
    used = {*columns.values(), *(names.index(name) for name in ignore)}
    ids = columns["id_column"] if "id_column" in columns else _find_ids(table, names, used)
    features = [k for k in range(len(names)) if k not in used | {ids}]
    return NodeColumns(ids, columns.get("label"), columns.get("split_column"), features)


def node_columns(source: Any, requested: Sequence[str] = (), delimiter: str | None = None) -> list[str]:
    """The names of the columns of a table of nodes."""
    return read_named_table(source, requested, delimiter).names


def read_named_table(source: Any, requested: Sequence[str], delimiter: str | None = None) -> Table:
    """Reads a table of nodes; if its first line is a node, a note says so."""
    table = read_table(source, lambda cells: _is_header(cells, requested), delimiter=delimiter)
    if table.has_header or not table.names:
        return table
    note = "The first line of the nodes was read as a node; columns are numbered from 1."
    return replace(table, notes=(*table.notes, note))


def _is_header(cells: Sequence[str], requested: Sequence[str]) -> bool:
    """A first line without a name that is known or requested is a node if it has numbers, or if these are requested."""
    read = Numbers().read
    if not any(cell and not math.isnan(read(cell)) for cell in cells):
        by_number = [name for name in requested if name.isdecimal() and 0 < int(name) <= len(cells)]
        return not requested or len(by_number) < len(requested)
    texts = [cell for cell in cells if math.isnan(read(cell))]
    return any(normalized(cell) in ID_NAMES for cell in texts) or any(name in cells for name in requested)


def _check_names(table: Table) -> list[str]:
    if not table.names and not table.has_header:
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


def _find_ids(table: Table, names: list[str], used: set[int]) -> int:
    if table.unit == "node":  # GraphML
        return 0
    free = [k for k in range(len(names)) if k not in used]
    if not free:
        raise InputError(table.path, f"have a column of ids besides {listed(names)}", remedy="Add one called id.")
    return free[find_column([names[k] for k in free], ID_NAMES) or 0]


class LabelReader:
    """Reads labels, and counts classes and cells that were read as unlabelled.

    `unlabelled` replaces the default values, which ignore case; those named are matched exactly.
    """

    def __init__(self, unlabelled: Sequence[str] | None = None) -> None:
        if isinstance(unlabelled, str):
            raise InputTypeError("unlabelled", "be a list of values", f"the text {unlabelled!r}")
        self.named = None if unlabelled is None else {text.strip() for text in unlabelled}
        self.classes, self.unlabelled = Counter[str](), Counter[str]()

    def read(self, cell: Any, count: int = 1) -> str | None:
        """Returns the class of a cell that occurs `count` times, or None."""
        text = as_text(cell)
        if text and (text.lower() not in UNLABELLED if self.named is None else text not in self.named):
            self.classes[text] += count
            return text
        self.unlabelled[text] += count
        return None

    def notes(self) -> tuple[str, ...]:
        """How many labels of which class were read, and which cells were not."""
        classes, without = sorted_classes(self.classes), self.unlabelled.total()
        shown = listed([f"{self.classes[name]:,} {name}" for name in classes]) or "none"
        verb = "is" if without == 1 else "are"
        sentence = f"Labels: {shown}; {without:,} of {self.classes.total() + without:,} nodes {verb} unlabelled"
        if any(self.unlabelled):
            sentence += f" ({self._unlabelled_in_words()}; option `unlabelled` for other values)"
        alike = [
            f"Classes {' and '.join(map(repr, names))} differ only in case or format." for names in _alike(classes)
        ]
        notes = [f"{sentence}.", *alike]
        if self.named is not None:  # these replace the usual values, and may not occur at all
            usual = listed([repr(name) for name in classes if name.lower() in UNLABELLED])
            absent = listed([repr(text) for text in sorted(self.named) if text and text not in self.unlabelled])
            if usual:
                why = "because option `unlabelled` names other values; repeat it for each"
                notes.append(f"{usual} are classes, {why}.")
            if absent:
                notes.append(f"No label is {absent}, which option `unlabelled` names.")
        return tuple(notes)

    def _unlabelled_in_words(self) -> str:
        """The cells that were read as unlabelled, such as: 8 empty, 3 'NA'."""
        counted = self.unlabelled.most_common()
        return ", ".join(f"{count:,} {text!r}" if text else f"{count:,} empty" for text, count in counted)

    def check_classes(self, place: str | Path, classes: Sequence[str]) -> None:
        """Raises unless there are two classes."""
        if len(classes) >= 2:
            return
        value = f"only {classes[0]!r}" if classes else "no label at all"
        remedy, hints = "Label more nodes.", dict[str, str]()
        if self.named is None and any(self.unlabelled):
            value += f" besides {self._unlabelled_in_words()}, read as unlabelled"
            hints = {"unlabelled": "unlabelled=['']"}
            remedy = "Label more nodes, or add {unlabelled} if only empty cells are unlabelled."
        raise InputError(place, "name at least two classes", value, remedy, hints=hints)


def sorted_classes(names: Iterable[str]) -> list[str]:
    """The names of classes in order, numerically if all are numbers."""
    names = list(names)
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


def _alike(names: Iterable[str]) -> list[list[str]]:
    """Groups of names that differ only in case, or as 1 and 1.0 do."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        try:
            key = repr(float(name))
        except ValueError:
            key = name.casefold()
        groups.setdefault(key, []).append(name)
    return [group for group in groups.values() if len(group) > 1]
