"""`python -m benchmarks.disk_import [--lines N] [--scratch FOLDER]`, into results/disk-import.md.

`build_graph` on an edge list of 100 million lines, within a limit of memory, beside DuckDB's plain sort of the
same file within the same limit; kept in results/disk-import.json.

Builds and sorts run in processes of their own with the limit RLIMIT_DATA, which counts all memory but files that are
mapped to be read; the table has the largest resident part of it (RssAnon), sampled ten times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.record import RESULTS, Run, machine

LINES, NODES, MEMORY = 100_000_000, 10_000_000, 2**32
LINES_AT_ONCE = 4_000_000
BUILD = """
import sys, json
from lggd.app.tables.building import build_graph
built = build_graph(sys.argv[1], sys.argv[2], memory=int(sys.argv[3]))
print(json.dumps({"nodes": built.nodes, "edges": built.edges}))
"""
SORT = """
import sys, duckdb
limits = {"memory_limit": f"{int(sys.argv[3]) // 2**20}MiB", "temp_directory": sys.argv[2] + ".spilled", "threads": 2}
duckdb.connect(config=limits).execute(
    f"COPY (SELECT * FROM read_csv('{sys.argv[1]}') ORDER BY source, target) TO '{sys.argv[2]}' (FORMAT parquet)")
print("{}")
"""


def write_lines(path: Path, lines: int, seed: int = 0) -> None:
    """Edges as CSV: sources are skewed, a third of the nodes start two thirds of them; targets are uniform."""
    import pyarrow as pa
    from pyarrow import csv

    random, nodes = np.random.default_rng(seed), max(10, NODES * lines // LINES)
    names = random.permutation(nodes)
    with csv.CSVWriter(path, pa.schema({"source": pa.int64(), "target": pa.int64()})) as writer:
        for first in range(0, lines, LINES_AT_ONCE):
            count = min(LINES_AT_ONCE, lines - first)
            source = names[(random.random(count) ** 3 * nodes).astype(np.int64)]
            writer.write_table(pa.table({"source": source, "target": random.integers(0, nodes, count)}))


def measured(code: str, source: Path, target: Path, memory: int) -> dict[str, Any]:
    """The seconds and the peak of anonymous memory of a process, what it printed, or its error."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))

    began, before, peak = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN), 0
    command = [sys.executable, "-c", code, str(source), str(target), str(memory)]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, preexec_fn=limit)
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))])
            time.sleep(0.1)
        seconds = time.perf_counter() - began
        output.seek(0)
        said = output.read().strip().splitlines()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    load = os.getloadavg()[2]  # of a quarter of an hour: what else the machine did
    found = {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "load": load,
        "peak_gib": peak / 2**20,
        "failed": process.returncode != 0,
    }
    return found | ({"error": said[-1] if said else ""} if process.returncode else json.loads(said[-1]))


def lines(scratch: Path, count: int) -> dict[str, Any]:
    source = scratch / "edges.csv"
    write_lines(source, count)
    found = {"lines": count, "bytes": source.stat().st_size, "memory_gib": MEMORY / 2**30}
    try:
        found["build"] = measured(BUILD, source, scratch / "graph", MEMORY)
        shutil.rmtree(scratch / "graph", ignore_errors=True)
        found["sort"] = measured(SORT, source, scratch / "sorted.parquet", MEMORY)
    finally:
        for path in scratch.glob("*edges.csv"), scratch.glob("sorted*"):
            for each in path:
                shutil.rmtree(each) if each.is_dir() else each.unlink()
    return found


def page(record: dict[str, Any]) -> str:
    text = ["# Graphs on disk: the import", "", "Measured by `python -m benchmarks.disk_import`.", ""]
    text += [", ".join(f"{key} {value}" for key, value in record["machine"].items()), ""]
    if "lines" in record:
        one = record["lines"]
        text += [
            f"## {one['lines']:,} lines, {one['bytes'] / 1e9:.2f} GB of CSV, {one['memory_gib']:.0f} GiB of memory", "",
            "| what | seconds | lines/s | CPU seconds | lines per CPU second | peak memory (GiB) | |",
            "|---|---|---|---|---|---|---|",
        ]  # fmt: skip
        for name, what in (("build", "`build_graph`"), ("sort", "DuckDB, plain sort into Parquet")):
            row = one[name]
            rate = "" if row["failed"] else f"{one['lines'] / row['seconds']:,.0f}"
            note = f"failed: {row['error']}" if row["failed"] else ""
            text.append(
                f"| {what} | {row['seconds']:.0f} | {rate} | {row['cpu_seconds']:.0f} "
                f"| {one['lines'] / row['cpu_seconds']:,.0f} | {row['peak_gib']:.2f} | {note} |"
            )
        text += ["", "Peak memory is without files that are mapped (RssAnon); the limit is RLIMIT_DATA.", ""]
        text += [record["note"], ""] if record.get("note") else []
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--note", default="", help="A sentence about the circumstances.")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    path = given.out / "disk-import.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    record["note"] = given.note or record.get("note", "")
    record["machine"] = machine(Run(False, torch.device("cpu")))
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        record["lines"] = lines(Path(scratch), given.lines)
    path.write_text(json.dumps(record, indent=1) + "\n")
    (given.out / "disk-import.md").write_text(page(record))
    print(page(record))


if __name__ == "__main__":
    main()
