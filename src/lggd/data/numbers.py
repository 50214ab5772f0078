"""Numbers in tables: as computers write them, and with a decimal comma where that is what must be meant."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from lggd.errors import InputError

BOOLEANS = {"true": 1.0, "false": 0.0}
COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
# 1,234 is 1234 for some people and 1.234 for others.
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


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
        try:
            value = float(cell)
        except ValueError:
            return self._other(cell.strip())
        if "." in cell:
            self.with_point = self.with_point or cell.strip()
        return value

    def _other(self, text: str) -> float:
        if "," in text and COMMA.fullmatch(text):
            self.commas += 1
            if GROUPED.fullmatch(text):
                self.grouped += 1
            self.with_comma = self.with_comma or text
            return float(text.replace(",", "."))
        return BOOLEANS.get(text.lower(), math.nan)

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
        return (f"{path.name}: {self.commas} numbers such as {self.with_comma} were read with a decimal comma.",)
