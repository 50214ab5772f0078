"""Times of rivals taken in turns, so that a noisy moment of the machine hits all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

# How long a GPU is kept busy while the calls that it is to be timed on queue up behind: some ten milliseconds.
HEAD_START_CYCLES = 2 * 10**7


@dataclass(frozen=True)
class Row:
    """One line of a table: what was done, how fast each did it, and the bar that was set.

    With a peer the bar is the least ratio of its time to ours, without one it is the most that ours may be.
    """

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
    """Rows under a name; `about` says when and by which command they were measured."""

    name: str
    rows: list[Row] = field(default_factory=list)
    about: str = ""


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


def race_on(
    device: torch.device, calls: dict[str, int], turns: int = 5, **runners: Callable[[], object]
) -> dict[str, float]:
    """Best seconds of a call of each runner, after a warm-up, over so many turns.

    On a GPU a turn is `calls` calls that queue up while the GPU is held busy, with events before and after them: what
    comes out is the time that the device needs, without that of launching kernels from Python. Elsewhere a turn is
    one call.
    """
    if device.type != "cuda":
        return race(dict.fromkeys(runners, max(2, turns)), **runners)
    best = dict.fromkeys(runners, float("inf"))
    for run in runners.values():
        run()
    for _ in range(turns):
        for name, run in runners.items():
            best[name] = min(best[name], _device_seconds(run, calls[name]))
    return best


def _device_seconds(run: Callable[[], object], calls: int) -> float:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(HEAD_START_CYCLES)
    before.record()
    for _ in range(calls):
        run()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3 / calls


def elapsed(device: torch.device, run: Callable[[], object]) -> float:
    """Seconds on the clock of one call, all that it left to a GPU done."""
    wait_for(device)
    began = time.perf_counter()
    run()
    wait_for(device)
    return time.perf_counter() - began


def wait_for(device: torch.device) -> None:
    """Returns when the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
