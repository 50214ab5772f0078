"""The dialect of a text table: separators, lines before the table, decimal commas. Never guessed silently."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from lggd.errors import InputError
from lggd.text import counted
from lggd.validation import check_name

# The separator that an extension stands for. BLANKS stands for any run of spaces and tabs.
BLANKS = " "
TEXT_TABLES = {".csv": ",", ".tsv": "\t", ".txt": BLANKS}
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", BLANKS: "spaces"}
# Other names of separators, which are easier to type in a shell.
SEPARATOR_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": BLANKS}
# The first lines decide: at most this many, and at most this many characters.
LINES_SAMPLED, CHARACTERS_SAMPLED = 200, 2**17
EXCEL_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
# Lines before the table in lists of edges of network collections; "#cats" is a name.
COMMENT = re.compile(r"\s*$|#\s|%")
QUOTED = re.compile(r'"(?:[^"]|"")*"')
AROUND = re.compile(r"\s*[,;|]\s*")
DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
BOOLEANS = {"true": 1.0, "false": 0.0}
NUMBER_WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
# 1,234 is 1234 for some people and 1.234 for others.
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


@dataclass(frozen=True)
class Dialect:
    """The separator of a text table, the number of lines before the table, and sentences about both."""

    delimiter: str
    skipped: int = 0
    notes: tuple[str, ...] = ()

    def reader(self, file: TextIO) -> Any:
        """The `csv.reader` of a file from its start; its line numbers begin after the skipped lines."""
        return _split(islice(file, self.skipped, None), self.delimiter, strict=True)


def find_dialect(path: Path, delimiter: str | None = None, *, blanks: bool = False) -> Dialect:
    """Finds what separates the columns: the one separator that splits all of the first lines into equally many cells.

    Where that is not the separator of the extension, a note says so; where two fit, an error asks for `delimiter`.
    `blanks` allows spaces in files other than `.txt`: useful where a table of one column would make no sense.
    """
    usual, chosen = TEXT_TABLES[path.suffix.lower()], delimiter
    if delimiter is not None and delimiter not in SEPARATORS:
        chosen = SEPARATOR_NAMES[check_name("delimiter", delimiter, SEPARATOR_NAMES)]
    lines, notes, skipped = _sample(path), list[str](), 0
    declared = EXCEL_LINE.fullmatch(lines[0]) if lines else None
    if declared:
        skipped, chosen = 1, chosen or declared[1]
        notes.append(f"{path.name}: the first line, {lines[0].strip()}, declares the separator.")
    elif usual == BLANKS:
        skipped = next((k for k, line in enumerate(lines) if not COMMENT.match(line)), len(lines))
        if any(line.strip() for line in lines[:skipped]):
            first = "line" if skipped == 1 else f"{skipped} lines"
            notes.append(f"{path.name}: the comments in the first {first} were skipped.")
    separator = chosen or _choose(path, lines[skipped:], usual, blanks)
    if separator not in SEPARATORS:
        raise InputError(f"{path}, line 1", "declare a separator such as sep=;", repr(separator), "Remove the line.")
    if separator != usual and chosen is None:
        notes.append(f"{path.name}: columns are separated by {SEPARATORS[separator]}.")
    return Dialect(separator, skipped, tuple(notes))


def _sample(path: Path) -> list[str]:
    """The first lines of the file, without a last one that may be cut off."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = list(StringIO(file.read(CHARACTERS_SAMPLED), newline=""))
        return lines[:-1] if len(lines) > 1 and file.read(1) else lines


def _choose(path: Path, lines: Sequence[str], usual: str, blanks: bool) -> str:
    widths = {separator: _widths(lines, separator) for separator in SEPARATORS}
    # A separator inside quotes separates nothing.
    bare = [line for line in QUOTED.sub("", "".join(lines)).splitlines() if line.strip()]
    even = [each for each in SEPARATORS if len(set(widths[each])) == 1 and widths[each][0] > 1]
    fitting = [each for each in even if each != BLANKS and all(each in line for line in bare)]
    if usual == "\t" and usual in fitting:  # names in a .tsv file often contain other separators
        return usual
    only_decimal_commas = all(len(DECIMAL_COMMA.findall(line)) == line.count(",") for line in lines)
    if "," in fitting and len(fitting) > 1 and only_decimal_commas:
        fitting.remove(",")
    if (usual == BLANKS or fitting == ["|"]) and BLANKS in even and widths[BLANKS] != widths["\t"]:
        # In "a, b" and "a | b" blanks are no separators.
        fitting += [BLANKS] if any(" " in AROUND.sub(",", line.strip()) for line in lines) else []
    if len(fitting) > 1:
        both = " and by ".join(SEPARATORS[each] for each in fitting[:2])
        named = {separator: name for name, separator in reversed(SEPARATOR_NAMES.items())}
        hints = {"delimiter": f"delimiter={named[fitting[0]]!r}", "other": f"delimiter={named[fitting[1]]!r}"}
        value = f"lines that can be split by {both}"
        raise InputError(path, "have one separator", value, "Add {delimiter} or {other}.", hints=hints)
    if fitting:
        return fitting[0]
    if BLANKS in even and (usual == BLANKS or (blanks and not any(usual in line for line in bare))):
        return BLANKS
    # No separator fits all lines: the first line decides, and the error reports the first line that differs.
    first = {
        each: max(widths[each][:1], default=0) for each in SEPARATORS if each != BLANKS and each in "".join(bare[:1])
    }
    return usual if usual in first or not first else max(first, key=first.__getitem__)


def _widths(lines: Sequence[str], separator: str) -> list[int]:
    """The number of cells of each line, except empty lines."""
    try:
        rows = _split(lines, separator, strict=False)
        return [len(cells) for cells in islice(rows, LINES_SAMPLED) if any(cell.strip() for cell in cells)]
    except csv.Error:
        return []


def _split(lines: Iterable[str], separator: str, strict: bool) -> Any:
    if separator == BLANKS:
        lines = (line.strip() + "\n" if '"' in line else " ".join(line.split()) + "\n" for line in lines)
    return csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=strict)


class Numbers:
    """Reads the numbers of one table, and remembers whether they have decimal commas or points.

    >>> numbers = Numbers()
    >>> numbers.read("0,5"), numbers.read("true"), numbers.read("red"), numbers.read("1_000")
    (0.5, 1.0, nan, nan)
    """

    def __init__(self) -> None:
        self.commas = self.grouped = 0
        self.with_comma = self.with_point = ""

    def read(self, cell: Any) -> float:
        """Returns a cell as a number, 1 and 0 for true and false, NaN for anything else."""
        if not isinstance(cell, str):
            try:
                return float(cell)
            except (TypeError, ValueError, OverflowError):
                return math.nan
        if "_" in cell:  # Python reads 1_000 as 1000, nobody else does
            return math.nan
        text = cell.strip()
        try:
            value = float(text)
        except ValueError:
            if "," not in text or not NUMBER_WITH_COMMA.fullmatch(text):
                return BOOLEANS.get(text.lower(), math.nan)
            self.commas += 1
            self.grouped += GROUPED.fullmatch(text) is not None
            self.with_comma = self.with_comma or text
            return float(text.replace(",", "."))
        if "." in text:
            self.with_point = self.with_point or text
        return value

    def notes(self, path: Path) -> tuple[str, ...]:
        """A sentence if numbers have decimal commas; raises if commas may separate thousands."""
        if not self.commas:
            return ()
        remedy = "Write numbers with a decimal point and without separators of thousands."
        if self.with_point:
            value = f"{self.with_comma!r} and {self.with_point!r}"
            raise InputError(path, "have numbers with either decimal commas or points", value, remedy)
        if self.commas == self.grouped:
            value = f"{self.with_comma!r}, which may be a thousand times larger or smaller"
            raise InputError(path, "have clear numbers", value, remedy)
        read = counted(self.commas, f"number, {self.with_comma}, was", f"numbers such as {self.with_comma} were")
        return (f"{path.name}: {read} read with a decimal comma.",)
