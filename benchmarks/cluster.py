"""`python -m benchmarks.cluster [--nodes N] [--degree D]`: a stored graph on one process and on Ray nodes.

The single process has two threads, the two nodes on the same machine one each. Writes
results/cluster.json and results/cluster.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import lggd
from benchmarks.record import RESULTS, Run, machine
from lggd.cluster.team import INTERVAL
from lggd.graph.stored_graph import StoredGraphWriter, writing_graph

COLUMNS, STEPS, ROUNDS = 4, 2, 3
ADDRESS = "127.0.0.2"  # Ray replaces 127.0.0.1 by an address of the network
SHARE = 0.7


def write_local(folder: Path, nodes: int, degree: int, far: float, seed: int = 0) -> None:
    """A graph in a good order: neighbours at random within a window, and a share `far` of them anywhere.

    Rows are drawn independently: a directed graph, which costs what an undirected one does.
    """
    draw = np.random.default_rng(seed)
    window = 50 * degree
    with writing_graph(folder) as writer:
        _fill(writer, nodes, degree, far, window, draw)
        writer.finish(directed=True)


def _fill(
    writer: StoredGraphWriter, nodes: int, degree: int, far: float, window: int, draw: np.random.Generator
) -> None:
    kinds = {"indptr": (np.int64, nodes + 1), "indices": (np.int32, nodes * degree), "degree": (np.float32, nodes)}
    indptr, indices, degrees = (
        np.lib.format.open_memmap(writer.folder / f"{name}.npy", mode="w+", dtype=kind, shape=(count,))
        for name, (kind, count) in kinds.items()
    )
    indptr[:] = np.arange(nodes + 1) * degree
    degrees[:] = degree
    rows = max(1, 2**22 // degree)
    for first in range(0, nodes, rows):
        own = np.arange(first, min(nodes, first + rows))
        near = own[:, None] + draw.integers(1, window, (len(own), degree)) * draw.choice([-1, 1], (len(own), degree))
        columns = np.where(draw.random(near.shape) < far, draw.integers(0, nodes, near.shape), near) % nodes
        columns[columns == own[:, None]] -= 1
        indices[first * degree : (first + len(own)) * degree] = np.sort(columns % nodes, axis=1).ravel()


def one_process(folder: Path, sources: list[int], times: tuple[float, ...]) -> tuple[float, torch.Tensor]:
    """Seconds of an evaluation after the first step, and the values."""
    evolution = lggd.Evolution(lggd.Graph.open(folder, verify=False), [[s] for s in sources], initial_value=100.0)
    evolution.step()
    size = evolution.step_size
    began = time.perf_counter()
    for _ in range(STEPS):
        evolution.step(size)
    return (time.perf_counter() - began) / (4 * STEPS), evolution.state


def on_cluster(folder: Path, sources: list[int], steps: int, **options: object) -> tuple[list[float], object]:
    """Seconds of each interval of `INTERVAL` steps, and the solution after `steps` steps."""
    moments: list[float] = []
    size = lggd.Evolution(lggd.Graph.open(folder, verify=False), [[s] for s in sources], initial_value=100.0).step_size
    solution = lggd.cluster.evolve(
        folder, [[s] for s in sources], initial_value=100.0, times=(steps * size,), verify=False,
        callback=lambda *_: moments.append(time.perf_counter()), **options,
    )  # fmt: skip
    return list(np.diff(moments)), solution


def patiently(start: Callable[[], Any], attempts: int = 5) -> Any:
    """Starts a node; on a busy machine Ray may give up after half a minute."""
    for _ in range(attempts - 1):
        try:
            return start()
        except Exception as error:
            print(f"once more: {error}", flush=True)
    return start()


def cluster(nodes: int, store: int):
    from ray.cluster_utils import Cluster

    # Workers are nice by default, and would wait for the other processes of this machine.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    common = {"object_store_memory": store, "node_ip_address": ADDRESS, "include_dashboard": False}
    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    head = {**common, "num_cpus": 0, "_system_config": health}
    started = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    for _ in range(nodes):
        patiently(lambda: started.add_node(num_cpus=1, **common))
    return started


def rates(folder: Path, sources: list[int]) -> dict[str, object]:
    """Evaluations on one process and on two nodes in turn; medians, and the ratio of each pair."""
    one, two, halo = [], [], 0
    for _ in range(ROUNDS):
        one.append(one_process(folder, sources, ())[0])
        options = {"blocks": 2, "threads": 1}
        intervals, solution = on_cluster(folder, sources, INTERVAL * (STEPS + 1), **options)
        two.append(statistics.median(intervals) / (4 * INTERVAL))
        halo = solution.statistics.halo
    edges = lggd.Graph.open(folder, verify=False).num_edges
    return {
        "edges": edges, "nodes": lggd.Graph.open(folder, verify=False).num_nodes, "columns": COLUMNS, "halo": halo,
        "one_process_edges_per_second": edges / statistics.median(one),
        "two_nodes_edges_per_second": edges / statistics.median(two),
        "ratio": statistics.median(a / b for a, b in zip(one, two, strict=True)),
        "ratios": [a / b for a, b in zip(one, two, strict=True)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_500_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    torch.set_num_threads(2)
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as temporary:
        folders = {"local, 1 % of edges far": Path(temporary) / "local", "random order": Path(temporary) / "random"}
        for folder, far in zip(folders.values(), (0.01, 1.0), strict=True):
            write_local(folder, chosen.nodes, chosen.degree, far)
        sources = [rng.randrange(chosen.nodes) for _ in range(COLUMNS)]
        record = {"date": datetime.date.today().isoformat(), "machine": machine(Run(False, torch.device("cpu")))}
        record |= {"load": os.getloadavg()[0], "rates": {}}
        started = cluster(2, store=2**29)
        try:
            with lggd.cluster.connect(started.address):
                for name, folder in folders.items():
                    record["rates"][name] = rates(folder, sources)
                    write(record, chosen.out)
        finally:
            started.shutdown()
    write(record, chosen.out)


def write(record: dict[str, object], out: Path) -> None:
    (out / "cluster.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "cluster.md").write_text(page(record))
    print(page(record), flush=True)


def page(record: dict[str, object]) -> str:
    lines = [
        f"# Ray on one machine\n\nMeasured {record['date']} by `python -m benchmarks.cluster`; "
        f"p = 1, K = {COLUMNS}, RK4.",
        "One process with two threads beside two Ray nodes with one CPU each, on the same two cores, medians of "
        f"{ROUNDS} rounds in turn. Other processes ran as well: a load of {record['load']:.0f} on two cores.\n",
        ", ".join(f"{key} {value}" for key, value in record["machine"].items()) + "\n",
        "| graph | edges | halo | one process, M edges/s | two nodes, M edges/s | ratio | at least | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in record["rates"].items():
        cells = [name, f"{row['edges']:,}", f"{row['halo']:,} values a column"]
        cells += [f"{row[key] / 1e6:.1f}" for key in ("one_process_edges_per_second", "two_nodes_edges_per_second")]
        cells += [f"{row['ratio']:.2f}", f"{SHARE}", "pass" if row["ratio"] >= SHARE else "**fail**"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
