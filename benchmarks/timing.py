"""Times of rivals taken in turns, so that a noisy moment of the machine hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One line of a table: what was done, how fast each did it, and the bar that was set."""

    what: str
    ours: float
    peer: float | None = None
    against: str = ""
    bar: float | None = None
    note: str = ""
    unit: str = "ms"

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None else self.peer / self.ours

    @property
    def met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.ratio is not None else self.ours <= self.bar


@dataclass
class Table:
    name: str
    rows: list[Row] = field(default_factory=list)


def race(repeats: dict[str, int], **runners: Callable[[], object]) -> dict[str, float]:
    """Best seconds of each runner. Each runs once to warm up unless it runs once in all; then they take turns."""
    best = dict.fromkeys(runners, float("inf"))
    for name, run in runners.items():
        if repeats[name] > 1:
            run()
    for turn in range(max(repeats.values())):
        for name, run in runners.items():
            if turn < repeats[name]:
                began = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - began)
    return best
