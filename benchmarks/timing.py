"""Times of several methods, measured in turns so that noise affects all of them equally."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

# How long a GPU is kept busy while the calls to be timed are queued: about ten milliseconds.
HEAD_START_CYCLES = 2 * 10**7


@dataclass(frozen=True)
class Row:
    """One row of a table: what was measured, our time, the peer's time, and the target (bar).

    With a peer the bar is a lower bound of the ratio of its time to ours; without one, an upper bound of ours.
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
    """Rows with a title; `about` records when and by which command they were measured."""

    name: str
    rows: list[Row] = field(default_factory=list)
    about: str = ""


def race(repeats: dict[str, int], **runners: Callable[[], object]) -> dict[str, float]:
    """The best time of each runner, in seconds. Runners that repeat warm up once; then all take turns."""
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
    """The best time of one call of each runner, in seconds, over several turns after a warm-up.

    On a GPU a turn is `calls` calls that are queued while the GPU is busy, with events before and after them: this is
    device time, without launching kernels from Python. Elsewhere a turn is one call.
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
    """Wall-clock seconds of one call, GPU work included."""
    synchronize(device)
    began = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - began


def synchronize(device: torch.device) -> None:
    """Waits until the device has finished all work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
