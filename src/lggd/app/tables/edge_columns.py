"""The columns of a table of edges: whether the first line names them, which are source, target, weight or length."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from lggd.app.tables.table import Numbers, Table, find_column, normalized, read_table
from lggd.errors import InputError
from lggd.validation import listed

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
FIRST_LINE = "The first line of the edges was read as an edge; the option `header` says that it names columns."
ENDS_FROM = "Edges go from column"  # how the note on names other than source and target begins
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_]+")


@dataclass(frozen=True)
class EdgeFormat:
    """How a table of edges is read. Fields left None are detected.

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
            rule, remedy = "be omitted with `{length}`", "An edge has a weight or a length."
            value = f"{self.weight!r} beside {self.length!r}"
            raise InputError("weight", rule, value, remedy, hints={"length": "length"})
        if (self.source_column is None) != (self.target_column is None):
            argument, other = "source_column", "target_column"
            if self.source_column is None:
                argument, other = other, argument
            rule, hints = "be given together with `{other}`", {"other": other}
            raise InputError(argument, rule, remedy="Name both columns.", hints=hints)

    @property
    def requested(self) -> dict[str, str]:
        """The columns that are requested by name, by argument."""
        names = ("source_column", "target_column", "weight", "length")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


AS_DETECTED = EdgeFormat()


@dataclass(frozen=True)
class EdgeColumns:
    """The indices of the columns that are read, and sentences about them."""

    ends: tuple[int, int]
    value: int | None
    is_length: bool
    notes: tuple[str, ...]


def _end_columns(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[int, int] | None:
    """The first of these pairs among the names, as indices of columns."""
    plain = [normalized(name) for name in names]
    # Source_id, FromNodeId and "target node" mean the same without their last word.
    for plain_names in (plain, [re.sub(r"(node|vertex|id|name)+$", "", name) for name in plain]):
        for pair in pairs:
            if pair[0] in plain_names and pair[1] in plain_names:
                return plain_names.index(pair[0]), plain_names.index(pair[1])
    return None


def read_edge_table(
    path: Path, format: EdgeFormat, known: Container[str] | None = None, max_lines: int | None = None
) -> Table:
    """Reads the table after deciding whether its first line is a header, within the first `max_lines` lines."""
    undecided: list[list[str]] = []

    def is_header(cells: list[str]) -> bool:
        verdict = _first_line_is_header(cells, format)
        if verdict is None:
            undecided.append(cells)
        return bool(verdict)

    table = read_table(path, is_header, delimiter=format.delimiter, blanks=True)
    if undecided:
        verdict = _decide_header(table, undecided[0], known, max_lines)
        table = read_table(path, lambda _: verdict, delimiter=format.delimiter, blanks=True)
    if table.names and not table.has_header and format.header is None:
        return replace(table, notes=(*table.notes, FIRST_LINE))
    return table


def _first_line_is_header(cells: Sequence[str], format: EdgeFormat) -> bool | None:
    """Whether the first line of text names the columns; None if only the other lines can tell."""
    if format.header is not None:
        return format.header
    if _are_numbers(cells[:2]):
        # pandas names columns 0 and 1 if nobody does.
        return None if {*cells[:2]} == {"0", "1"} else False
    if any(name in cells for name in format.requested.values()) or _end_columns(cells, CERTAIN_PAIRS):
        return True
    return False if len(cells) == 3 and _are_numbers(cells[2:]) else None


def _are_numbers(cells: Sequence[str]) -> bool:
    return not any(math.isnan(Numbers().read(cell)) for cell in cells)


def _decide_header(table: Table, first: Sequence[str], known: Container[str] | None, max_lines: int | None) -> bool:
    """Whether a first line without numbers is a header: names of nodes occur again, names of columns do not."""
    if len(first) < 2:
        return False  # the error is about the number of columns
    likely, short = _end_columns(first, LIKELY_PAIRS), _end_columns(first, SHORT_PAIRS)
    ends = likely or short or (0, 1)
    names = {first[k] for k in ends}
    again, lines, similar = any(name in known for name in names) if known is not None else False, 0, False
    for _, cells in islice(table, 1, max_lines):
        lines += 1
        nodes = [cells[k] for k in ends]
        if known is not None or again:
            break
        if "" in nodes:
            return False  # the error is about this line
        again = any(name in names for name in nodes)
        similar = similar or any(len(name) <= 2 and not name.isdigit() for name in nodes)
    is_named = likely is not None or (short is not None and not similar)
    if again and likely is None:
        return False
    if not again and is_named and lines:
        return True
    if not lines and (known is None or again):
        return False
    hints = _hints([first[k] for k in ends]) | {"header": "header=False"}
    shown = ", ".join(map(repr, first[:4])) + (" …" if len(first) > 4 else "")
    why = "are neither known names of columns nor nodes that occur again"
    if again:
        why = "may name columns or nodes, because nodes have these names"
    raise InputError(
        f"{table.path}, line 1", "name the columns or be an edge", f"{shown}, which {why}",
        "Add {source_column} {target_column} if it names columns, or {header} if it is an edge.", hints=hints,
    )  # fmt: skip


def _hints(names: Sequence[str]) -> dict[str, str]:
    """Arguments that name the first two columns as ends."""
    return {f"{end}_column": f"{end}_column={name!r}" for end, name in zip(("source", "target"), names, strict=False)}


def find_columns(table: Table, format: EdgeFormat, *, refuse_unused: bool = True) -> EdgeColumns:
    """Finds the columns; raises if one that is not used has a name like a weight or a length, unless told otherwise."""
    names, notes = table.names, []
    requested = {argument: table.find(argument, name) for argument, name in format.requested.items()}
    if "source_column" in requested:
        ends = requested["source_column"], requested["target_column"]
        if ends[0] == ends[1]:
            value = f"{format.source_column!r} for both"
            rule, hints = "differ from `{source_column}`", {"source_column": "source_column"}
            raise InputError("target_column", rule, value, "Change one.", hints=hints)
    else:
        ends = _find_ends(table, bool(requested))
        if table.has_header and _end_columns(names, CERTAIN_PAIRS[:1]) != ends:
            notes.append(f"{ENDS_FROM} {names[ends[0]]!r} to column {names[ends[1]]!r}.")
    column = requested.get("weight", requested.get("length"))
    value_requested = column is not None
    if column is None:
        column = _unrequested_weight(table, ends, format)
        if column is not None and not table.has_header:
            notes.append("The third column was read as weights: larger means closer (option `length` for lengths).")
    used = [*ends] if column is None else [*ends, column]
    for name in (names[k] for k in used if k < len(names)):
        if names.count(name) > 1:
            raise InputError(f"{table.path}, column {name!r}", "have a unique name", f"{name!r} again", "Rename one.")
    unused = [k for k in range(len(names)) if k not in used and names[k] not in format.ignore]
    if refuse_unused and not value_requested:
        _refuse_suggestive(table, [names[k] for k in unused])
    if unused:
        notes.append(f"Columns of edges that were not used: {listed([names[k] or str(k + 1) for k in unused])}.")
    return EdgeColumns(ends, column, "length" in requested, tuple(notes))


def _find_ends(table: Table, requested: bool) -> tuple[int, int]:
    """The source and the target by their names, or the first two columns of a table without names."""
    names = table.names
    if table.has_header:
        ends = _end_columns(names, (*CERTAIN_PAIRS, *LIKELY_PAIRS, *SHORT_PAIRS))
        if ends is None:
            hints = _hints(names) if len(names) > 1 else {}
            add = "Add {source_column} {target_column}" if hints else "Add these columns"
            rule = "have a column named source and one named target"
            remedy = f"{add}, or name the columns source and target."
            raise InputError(table.path, rule, listed(names), remedy, hints=hints)
        return ends
    if len(names) not in (0, 2, 3) and not (requested and len(names) > 2):
        remedy = (
            "Name the columns in a first line such as source,target,weight, check the delimiter, or add "
            "{source_column} {target_column} to use two of them."
        )
        rule, hints = "have 2 or 3 columns (source, target, weight)", _hints(("1", "2"))
        raise InputError(table.path, rule, len(names), remedy, hints=hints)
    return 0, 1


def _unrequested_weight(table: Table, ends: tuple[int, int], format: EdgeFormat) -> int | None:
    """The column called weight or w; without names the third of three."""
    if not table.has_header:
        return 2 if len(table.names) == 3 and ends == (0, 1) and "3" not in format.ignore else None
    free = [k for k, name in enumerate(table.names) if k not in ends and name not in format.ignore]
    column = find_column([table.names[k] for k in free], WEIGHT_NAMES)
    return None if column is None else free[column]


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
