"""Memory of a solve in addition to the loaded graph, by the peak resident set size that Linux reports."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.graphs import disk
from benchmarks.record import Run
from benchmarks.timing import Row, Table

CHILD = """
import gc, pathlib, pickle, sys
import lggd
lggd.distance(lggd.Graph.from_edges([(0, 1)], symmetrize="max"), [0])  # loads the compiled solver
graph, boundary = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
gc.collect()
def status(key):
    line = next(x for x in pathlib.Path("/proc/self/status").read_text().splitlines() if x.startswith(key))
    return int(line.split()[1]) / 1024
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
solution = lggd.distance(graph, boundary)
print(status("VmHWM") - before)
"""


def above_graph(name: str) -> float:
    """Peak memory (MiB) of one p = 1 distance in addition to the graph, in a separate process."""
    graph, boundary = disk(name)
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "graph.pickle"
        stored.write_bytes(pickle.dumps((graph, np.asarray(boundary)), protocol=5))
        done = subprocess.run([sys.executable, "-c", CHILD, str(stored)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def tables(run: Run) -> list[Table]:
    table = Table("Memory above the graph")
    if not sys.platform.startswith("linux"):
        return []
    names = ("d20k",) if run.quick else ("d200k", "d2M")
    table.rows += [Row(f"p=1 distance, {n}", above_graph(n), bar=64 if n == "d2M" else None, unit="MiB") for n in names]
    return [table]
