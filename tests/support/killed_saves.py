"""A program that saves changes of a model again and again and is killed in between; prints one line per time.

    python killed_saves.py RUN NODE CLASS TIMES

It forks, so that the library is imported once. The child adds and removes the label of the node in turn, and reports
what it acknowledged; another child looks at what the killed one left.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from lggd.app.runs.saved_model import SavedModel


def change(run: Path, node: str, label: str, acknowledged: int) -> None:
    while True:
        with SavedModel.open(run) as saved:
            is_labelled = int(saved.model.labels_[saved.ids.index(node)]) >= 0
            if is_labelled:
                saved.remove_labels([node])
            else:
                saved.add_labels(f"{node}={label}")
            saved.save()
        os.write(acknowledged, b"-" if is_labelled else b"+")


def look(run: Path, node: str, acknowledged: str) -> str:
    """Describes what is wrong, "" if nothing is."""
    wrong = []
    with SavedModel.open(run) as saved:
        is_labelled = bool(saved.model.labels_[saved.ids.index(node)] >= 0)
        with (run / "predictions.csv").open(newline="", encoding="utf-8") as file:
            rows = {row["node"]: row["labelled"] for row in csv.DictReader(file)}
        if bool(rows[node]) != is_labelled:
            wrong.append(f"predictions.csv says {rows[node]!r}")
        if json.loads((run / "run.json").read_text())["updated"]["labelled"] != saved.num_labelled:
            wrong.append("run.json counts other labels")
        # Each killed process may have done one more than it acknowledged.
        changes = len(saved.model.additions_)
        if not len(acknowledged) <= changes <= len(acknowledged) + TIMES:
            wrong.append(f"{changes} changes of {len(acknowledged)} acknowledged")
        saved.save()  # clears up
    left = [entry.name for entry in run.iterdir() if entry.name.startswith(".")]
    return "; ".join([*wrong, *left])


def main(run: Path, node: str, label: str, times: int) -> None:
    seen, random_number = "", random.Random(0)
    for _ in range(times):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            change(run, node, label, writing)
        os.close(writing)
        seen += os.read(reading, 1).decode()  # warm: compiled, and at least one change acknowledged
        time.sleep(random_number.uniform(0, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(reading, 4096).decode():
            seen += more
        os.close(reading)
        reader, result = os.pipe()
        if not os.fork():
            os.write(result, (look(run, node, seen) or "fine").encode())
            os._exit(0)
        os.close(result)
        os.wait()
        print(os.read(reader, 4096).decode(), flush=True)  # noqa: T201
        os.close(reader)


TIMES = int(sys.argv[4])
main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], TIMES)
