"""The columns of a table of edges: which are source, target, weight or length, and which are not used."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lggd.data.numbers import Numbers
from lggd.data.table import Table, normalized
from lggd.errors import InputError
from lggd.validation import listed, suggestion

# Names of the two ends of an edge, in any case and with any punctuation. A first line with such a pair is a header …
CERTAIN_PAIRS = tuple(
    (source, target)
    for source in ("source", "src", "from", "node1")
    for target in ("target", "dst", "to", "node2", "destination", "dest", "tgt")
)
# … unless nodes have these names too, which leaves two meanings …
LIKELY_PAIRS = (
    ("start", "end"), ("start", "stop"), ("begin", "end"), ("origin", "destination"), ("origin", "dest"),
    ("head", "tail"), ("sender", "receiver"), ("parent", "child"), ("citing", "cited"), ("follower", "followee"),
    ("left", "right"), ("first", "second"), ("nodea", "nodeb"), ("id1", "id2"), ("vertex1", "vertex2"),
    ("source1", "source2"), ("name1", "name2"), ("user1", "user2"),
)  # fmt: skip
# … and these are common names of nodes: only where no node has them they are a header.
SHORT_PAIRS = (("u", "v"), ("i", "j"), ("a", "b"), ("x", "y"), ("n1", "n2"), ("v1", "v2"), ("s", "t"))
WEIGHT_NAMES = ("weight", "w")
# Words in the name of a column that suggest that larger means closer …
SIMILARITIES = {
    "weight", "weights", "w", "similarity", "sim", "strength", "affinity", "score", "count", "counts", "value", "val",
    "values", "correlation", "corr", "confidence", "probability", "prob", "frequency", "freq", "intensity", "capacity",
    "trust", "rating", "amount", "volume", "flow", "number", "num", "n", "interactions", "contacts", "importance",
}  # fmt: skip
# … or farther.
LENGTHS = {
    "length", "lengths", "len", "distance", "distances", "dist", "km", "kms", "kilometer", "kilometers", "kilometre",
    "kilometres", "mile", "miles", "mi", "m", "meter", "meters", "metre", "metres", "cm", "mm", "feet", "ft", "yards",
    "cost", "costs", "price", "time", "minutes", "mins", "hours", "seconds", "secs", "days", "duration", "latency",
    "delay", "ping", "resistance", "impedance", "dissimilarity", "traveltime",
}  # fmt: skip
ENDS_FROM = "Edges go from column"  # how the note on names other than source and target begins
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")


@dataclass(frozen=True)
class EdgeFormat:
    """How a table of edges is read; what is None is detected.

    Columns are named as in the header, or numbered from 1 in a table without one. `weight` is a column of similarities,
    where larger means closer; `length` one of lengths, where longer means farther. `ignore` are columns that are
    deliberately not used. `delimiter` separates columns of text, and `header` tells whether the first line names them.
    """

    source_column: str | None = None
    target_column: str | None = None
    weight: str | None = None
    length: str | None = None
    ignore: tuple[str, ...] = ()
    delimiter: str | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and self.length is not None:
            value = f"{self.weight!r} with length={self.length!r}"
            raise InputError("weight", "be omitted with `length`", value, "An edge has a weight or a length.")
        if (self.source_column is None) != (self.target_column is None):
            argument, other = "source_column", "target_column"
            if self.source_column is None:
                argument, other = other, argument
            raise InputError(argument, f"be given together with `{other}`", remedy="Name both columns.")

    @property
    def requested(self) -> dict[str, str]:
        """The columns that are requested by name, by argument."""
        names = ("source_column", "target_column", "weight", "length")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True)
class EdgeColumns:
    """The indices of the columns that are read, and sentences about them."""

    ends: tuple[int, int]
    value: int | None
    is_length: bool
    notes: tuple[str, ...]


def end_columns(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[int, int] | None:
    """The first of these pairs among the names, as indices of columns."""
    plain = [normalized(name) for name in names]
    # Source_id, FromNodeId and "target node" mean the same without their last word.
    for found in (plain, [re.sub(r"(node|vertex|id|name)+$", "", name) for name in plain]):
        for pair in pairs:
            if pair[0] in found and pair[1] in found:
                return found.index(pair[0]), found.index(pair[1])
    return None


def first_line_is_header(cells: Sequence[str], reading: EdgeFormat) -> bool | None:
    """Whether the first line of text names the columns; None if only the other lines can tell."""
    if reading.header is not None:
        return reading.header
    if are_numbers(cells[:2]):
        # pandas names columns 0 and 1 if nobody does.
        return None if {*cells[:2]} == {"0", "1"} else False
    if any(name in cells for name in reading.requested.values()):
        return True
    if end_columns(cells, CERTAIN_PAIRS) is not None:
        return True
    return False if len(cells) == 3 and are_numbers(cells[2:]) else None


def are_numbers(cells: Sequence[str]) -> bool:
    read = Numbers().read
    return not any(math.isnan(read(cell)) for cell in cells)


def find_columns(table: Table, reading: EdgeFormat, *, refuse_unused: bool = True) -> EdgeColumns:
    """Finds the columns; raises if one that is not used has a name like a weight or a length, unless told otherwise."""
    names = table.names if table.names is not None else [str(k + 1) for k in range(table.width)]
    requested = {argument: _requested(table, names, argument, name) for argument, name in reading.requested.items()}
    notes = []
    if "source_column" in requested:
        ends = requested["source_column"], requested["target_column"]
        if ends[0] == ends[1]:
            value = f"{reading.source_column!r} for both"
            raise InputError("target_column", "differ from `source_column`", value, "Change one.")
    else:
        ends = _named_ends(table) if table.names is not None else _first_two(table, requested)
        if table.names is not None and end_columns(names, CERTAIN_PAIRS[:1]) != ends:
            notes.append(f"{ENDS_FROM} {names[ends[0]]!r} to column {names[ends[1]]!r}.")
    column = requested.get("weight", requested.get("length"))
    if column is None:
        column = _unrequested_weight(table, names, ends, reading)
        if column is not None and table.names is None:
            notes.append("The third column was read as weights: larger means closer (option `length` for lengths).")
    _check_unique(table, [*ends, *([] if column is None else [column])])
    unused = [k for k in range(len(names)) if k not in (*ends, column) and names[k] not in reading.ignore]
    if refuse_unused and "weight" not in requested and "length" not in requested:
        _refuse_suggestive(table, [names[k] for k in unused])
    if unused:
        notes.append(f"Columns of edges that were not used: {listed([names[k] or str(k + 1) for k in unused])}.")
    return EdgeColumns(ends, column, "length" in requested, tuple(notes))


def _requested(table: Table, names: Sequence[str], argument: str, name: str) -> int:
    if name not in names:
        remedy = suggestion(name, list(names), "Check the spelling.")
        if table.names is None:
            remedy = "Columns are numbered from 1, because the first line does not name them."
        raise InputError(argument, f"be a column of `{table.path}` ({listed(list(names))})", repr(name), remedy)
    return list(names).index(name)


def _named_ends(table: Table) -> tuple[int, int]:
    names = table.names or []
    ends = end_columns(names, (*CERTAIN_PAIRS, *LIKELY_PAIRS, *SHORT_PAIRS))
    if ends is None:
        raise unknown_header_error(table, names)
    return ends


def unknown_header_error(table: Table, names: Sequence[str]) -> InputError:
    """The first line has names of columns, but not those of the ends."""
    hints = column_hints(names)
    remedy = "Add {source_column} {target_column}" if hints else "Add these columns"
    remedy += ", or name the columns source and target."
    return InputError(
        table.path, "have a column named source and one named target", listed(list(names)), remedy, hints=hints
    )


def column_hints(names: Sequence[str]) -> dict[str, str]:
    """Arguments that name the first two columns as ends."""
    if len(names) < 2:
        return {}
    return {"source_column": f"source_column={names[0]!r}", "target_column": f"target_column={names[1]!r}"}


def _first_two(table: Table, requested: dict[str, int]) -> tuple[int, int]:
    if table.width not in (0, 2, 3) and not (requested and table.width > 2):
        hints = {"source_column": "source_column='1'", "target_column": "target_column='2'"}
        remedy = "Name the columns in a first line such as source,target,weight, check the delimiter, or add "
        rule = "have 2 or 3 columns (source, target, weight)"
        raise InputError(
            table.path, rule, table.width, remedy + "{source_column} {target_column} to use two of them.", hints=hints
        )
    return 0, 1


def _unrequested_weight(table: Table, names: Sequence[str], ends: tuple[int, int], reading: EdgeFormat) -> int | None:
    """The column called weight or w; without names the third of three."""
    if table.names is None:
        return 2 if table.width == 3 and ends == (0, 1) and "3" not in reading.ignore else None
    free = [k for k, name in enumerate(names) if k not in ends and name not in reading.ignore]
    plain = [normalized(names[k]) for k in free]
    return next((free[plain.index(name)] for name in WEIGHT_NAMES if name in plain), None)


def _check_unique(table: Table, used: Sequence[int]) -> None:
    names = table.names or []
    for name in (names[k] for k in used if k < len(names)):
        if names.count(name) > 1:
            raise InputError(f"{table.path}, column {name!r}", "have a unique name", f"{name!r} again", "Rename one.")


def _refuse_suggestive(table: Table, unused: Sequence[str]) -> None:
    """Raises for columns that would change every distance if they were read."""
    for name in unused:
        words = {word.lower() for word in WORDS.findall(name)} | {normalized(name)}
        far, near = bool(words & LENGTHS), bool(words & SIMILARITIES)
        if far or near:
            kind = "a length" if far else "a weight"
            hints = {argument: f"{argument}={name!r}" for argument in ("length", "weight")}
            hints["ignore"] = f"ignore={[name]!r}"
            length, weight = "{length} (longer means farther)", "{weight} (larger means closer)"
            choice = f"{length}, {weight}" if far else f"{weight}, {length}"
            raise InputError(
                f"{table.path}, column {name!r}", f"be used or ignored, because its name suggests {kind}",
                remedy=f"Add {choice} or {{ignore}} (not used).", hints=hints,
            )  # fmt: skip
