"""`python -m benchmarks.revisions REVISION [TABLE …]`: tables of `make bench` at another revision and at this one.

Only lggd is timed, not its peers, in two processes, one per revision. Before every repetition each process waits until
the other one waits as well, and then has the machine to itself. Several pairs of processes show how much times of the
same code differ between processes. Prints ratios of times, this revision / the other one: below 1, this one is faster.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import MagicMock

ROOT = Path(__file__).parent.parent
TABLES = ("steady", "right_hand_side", "evolution", "memory", "learning", "growth")
PAIRS = 5
# Peers that the tables import; they need not be installed, as they are not timed.
PEERS = ("graphlearning", "skfmm")
PEER_SECONDS = 1e3  # instead of their times
READY, RESULT = "ready", "result "

# The time of each row, by table and row.
Times = dict[tuple[str, str], float]


# -- one process per revision ------------------------------------------------------------------------------------------


def wait_for_turn() -> None:
    print(READY, flush=True)
    sys.stdin.readline()


def race_in_turns(repeats: dict[str, int], **runners: Callable[[], object]) -> dict[str, float]:
    """`benchmarks.timing.race` of lggd alone, with each repetition in a turn of its own."""
    best = dict.fromkeys(runners, PEER_SECONDS)
    for name in {"ours", "stage"} & runners.keys():
        runners[name]()
        for _ in range(max(2, repeats[name])):
            wait_for_turn()
            began = time.perf_counter()
            runners[name]()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def in_turn(measure: Callable[..., float]) -> Callable[..., float]:
    """A function that measures its own time, in a turn."""

    def measure_in_turn(*args: Any, **kwargs: Any) -> float:
        wait_for_turn()
        return measure(*args, **kwargs)

    return measure_in_turn


def measure_here(name: str) -> None:
    """Measures a table with the lggd and the benchmarks that are imported first, and prints its rows."""
    import torch

    sys.modules.update((peer, MagicMock()) for peer in PEERS)
    timing = importlib.import_module("benchmarks.timing")
    timing.race = race_in_turns  # before other modules import it
    record, module = (importlib.import_module(f"benchmarks.{each}") for each in ("record", name))
    run = record.Run(quick=False, device=torch.device("cpu"), out=Path(tempfile.mkdtemp()))
    rows = [(table.name, row.what, row.ours) for table in module.tables(run) for row in table.rows]
    print(RESULT + json.dumps(rows), flush=True)


# -- both revisions ----------------------------------------------------------------------------------------------------


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(folder / "src"), str(folder)])
    command, pipe = [sys.executable, __file__, "--here", name], subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, cwd=folder)


def messages(process: subprocess.Popen[str]) -> Iterator[list[Any] | None]:
    """What a process prints: None where it waits for its turn, and its rows at the end."""
    for line in process.stdout or ():
        if line.startswith(RESULT):
            yield json.loads(line.removeprefix(RESULT))
            return
        if line.strip() == READY:
            yield None
    raise RuntimeError(f"a process ended without a result: {process.args}")


def measure_pair(folders: list[Path], name: str) -> list[Times]:
    """The times of a table in one process per revision, which take turns."""
    processes = [start(folder, name) for folder in folders]
    printed = [messages(process) for process in processes]
    found: dict[int, Times] = {}
    order = list(range(len(folders)))
    latest = {k: next(printed[k]) for k in order}
    while len(found) < len(order):
        for k in order:
            rows = latest[k]
            if rows is not None:
                found.setdefault(k, {(table, what): ours for table, what, ours in rows})
                continue
            print(file=processes[k].stdin, flush=True)
            latest[k] = next(printed[k])
        order.reverse()  # no revision is always the first to find the memory free
    for process in processes:
        process.communicate()
    return [found[k] for k in range(len(folders))]


def show(times: list[list[Times]]) -> None:
    """Prints a row per operation: the best times, their ratio, and the median and the range of the ratios of pairs."""
    print("| table | what | before | now | best | median | range | pairs |\n|---|---|---|---|---|---|---|---|")
    rows: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for before, now in times:
        for key in before.keys() & now.keys():
            rows[key].append((before[key], now[key]))
    for (table, what), pairs in rows.items():
        ratios = sorted(now / before for before, now in pairs if before > 0 and math.isfinite(before))
        if not ratios or "slope" in what or "bandwidth" in what:
            continue
        old, new = (min(each) for each in zip(*pairs, strict=True))
        spread = f"{median(ratios):.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} | {len(ratios)}"
        print(f"| {table.split(':')[0]} | {what} | {old:,.3g} | {new:,.3g} | {new / old:.2f} | {spread} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.revisions", description=__doc__)
    parser.add_argument("revision", help="a commit, such as main~10, or a folder with its files")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"by default {', '.join(TABLES)}")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of processes per table")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no pair after so many minutes")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(chosen.revision).resolve()
        if not folder.is_dir():
            folder = Path(temporary)
            archive = subprocess.run(["git", "archive", chosen.revision], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        end = time.monotonic() + 60 * chosen.minutes
        for name in chosen.tables or TABLES:
            pairs: list[list[Times]] = []
            while not pairs or (len(pairs) < chosen.pairs and time.monotonic() < end):
                pairs.append(measure_pair([folder, ROOT], name))
            show(pairs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        measure_here(sys.argv[2])
    else:
        main()
