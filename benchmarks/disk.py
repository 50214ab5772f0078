"""Evaluations and distances on graphs on disk: rate and resident memory from 10⁶ to 2·10⁸ edges.

    python -m benchmarks.disk [--edges 1e6 1e7 …] [--scratch FOLDER] [--out FOLDER]

Writes results/disk.{json,md}. Every graph is written in chunks, measured in a process of its own, and deleted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.operation import Operation
from benchmarks.record import RESULTS, Run, machine
from lggd.graph import Graph
from lggd.graph.stored_graph import writing_graph

COLUMNS, REPEATS = 4, 5
SIZES = (10**6, 10**7, 10**8, 2 * 10**8)
# Half of the neighbours of a node lie so far behind it, half before it: close, as in an order that keeps them close.
OFFSETS = np.array([1, 7, 60, 500, 4000])
NODES_AT_ONCE = 2**20
MOST_EDGES_MARCHED = 10**8


def write_ring(folder: Path, edges: int) -> None:
    """A graph of ten neighbours per node, written in chunks."""
    degree = 2 * len(OFFSETS)
    nodes = edges // degree
    with writing_graph(folder) as writer:
        kinds = {"indptr": (np.int64, nodes + 1), "indices": (np.int32, nodes * degree), "degree": (np.float32, nodes)}
        arrays = {
            name: np.lib.format.open_memmap(writer.folder / f"{name}.npy", mode="w+", dtype=kind, shape=(count,))
            for name, (kind, count) in kinds.items()
        }
        for low in range(0, nodes, NODES_AT_ONCE):
            here = np.arange(low, min(nodes, low + NODES_AT_ONCE))
            neighbours = (here[:, None] + np.r_[-OFFSETS, OFFSETS]) % nodes
            neighbours.sort(axis=1)
            arrays["indices"][low * degree : (low + len(here)) * degree] = neighbours.ravel()
            arrays["indptr"][low + 1 : low + 1 + len(here)] = (here + 1) * degree
            arrays["degree"][low : low + len(here)] = degree
        for array in arrays.values():
            array.flush()
        writer.finish(directed=False)


def resident(key: str) -> float:
    """A line of /proc/self/status in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


def measure(folder: Path) -> dict[str, Any]:
    """Times and peak memory on one graph, in this process."""
    import lggd

    small = Graph.from_edges([(0, 1)], symmetrize="max", dtype=torch.float32)
    Operation(small, COLUMNS).stage()
    lggd.distance(small, [0])
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    graph = Graph.open(folder, verify=False)
    operation = Operation(graph, COLUMNS)
    operation.stage()
    seconds, processor = [], time.process_time()
    for _ in range(REPEATS):
        began = time.perf_counter()
        operation.stage()
        seconds.append(time.perf_counter() - began)
    processor = (time.process_time() - processor) / REPEATS
    states = sum(x.nbytes for x in (operation.rows, operation.slope, operation.out)) / 2**20
    found = {
        "nodes": graph.num_nodes, "edges": graph.num_edges, "columns": COLUMNS, "seconds": sorted(seconds),
        "processor_seconds": processor, "states_mib": states,
        "above_states_mib": resident("VmHWM") - before - states, "libraries_mib": before,
    }  # fmt: skip
    del operation
    if graph.num_edges <= MOST_EDGES_MARCHED:
        Path("/proc/self/clear_refs").write_text("5")
        start, began = resident("VmRSS"), time.perf_counter()
        lggd.distance(graph, [0])
        found["distance_seconds"] = time.perf_counter() - began
        found["distance_bytes_per_node"] = (resident("VmHWM") - start) * 2**20 / graph.num_nodes
    return found


def page(record: dict[str, Any]) -> str:
    about, load = record["machine"], record["load"]
    lines = [
        "# Graphs on disk",
        "",
        f"Measured {record['date']} by `python -m benchmarks.disk` on {about['cores']} cores ({about['cpu']}), which",
        f"others used as well (load average {load:.1f} when it began). One evaluation and the update of a step,",
        f"float32, K = {COLUMNS}, p = 1. Rates are million edges per second.",
        "",
        "| edges | nodes | median | best | by processor time, two cores | states | above the states | distance |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        edges, seconds = row["edges"] / 1e6, row["seconds"]
        cells = [
            f"{row['edges']:,}",
            f"{row['nodes']:,}",
            f"{edges / float(np.median(seconds)):.0f}",
            f"{edges / min(seconds):.0f}",
            f"{2 * edges / row['processor_seconds']:.0f}",
            f"{row['states_mib']:.0f} MiB",
            f"{row['above_states_mib']:.0f} MiB",
            f"{row['distance_seconds']:.1f} s" if "distance_seconds" in row else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "States are the three of 4 · N · K bytes that are read and written. Peaks are of the resident set (VmHWM),",
        "above that of the process with its libraries before it opened the graph. Distances: one source, p = 1.",
        "Neighbours lie close in these graphs. In a random order the state is read from all over the memory:",
        "results/cluster.md has 30 million edges in both orders.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    import os

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, nargs="*", default=SIZES)
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure(given.measure)))
        return
    rows, load = [], os.getloadavg()[0]
    for edges in given.edges:
        with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
            write_ring(Path(folder) / "graph", int(edges))
            command = [sys.executable, "-m", "benchmarks.disk", "--measure", f"{folder}/graph"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    about = machine(Run(quick=False, device=torch.device("cpu")))
    record = {"date": datetime.date.today().isoformat(), "machine": about, "load": load, "rows": rows}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "disk.json").write_text(json.dumps(record, indent=1) + "\n")
    (given.out / "disk.md").write_text(page(record))


if __name__ == "__main__":
    main()
