"""`python -m benchmarks.own_data [compare] [killed] [tables] [--tables N]`: own tables, into results/own-data.md.

compare: `lggd compare` on tables of 2,000 nodes, eight methods, five splits, no search, in a process per core; a
plug-in that fails takes part. killed: the same command, without the slowest method, is killed (SIGKILL) in the middle
and started again. tables: random tables in many dialects, compared with pandas by tests/fuzzed_tables.py. What was
measured is kept in results/own-data.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.record import RESULTS, ROOT, Run, machine

PARTS = ("compare", "killed", "tables")
METHODS = ("gcn", "gdc-ppr", "gpr-gnn", "appnp", "correct-and-smooth", "closed-form", "evolved-ridge", "lggd+")
FAILING = "always-fails"
NODES, CLASSES, FEATURES, SPLITS = 2000, 5, 40, 5
BAR_SECONDS = 180.0
PLUG_IN = "class AlwaysFails:\n    def fit(self, data):\n        raise ValueError('this method always fails')\n\n" + (
    "    def predict_proba(self):\n        raise NotImplementedError\n"
)


# -- lggd compare -------------------------------------------------------------------------------------------------


def write_tables(folder: Path, seed: int = 0) -> None:
    """A graph of five classes: a quarter of the edges join different ones, and features hardly tell them apart."""
    draws = np.random.default_rng(seed)
    kinds = draws.integers(CLASSES, size=NODES)
    members = [np.flatnonzero(kinds == k) for k in range(CLASSES)]
    lines = ["source,target"]
    for node in range(NODES):
        for _ in range(3):
            alike = draws.random() < 0.75
            other = int(draws.choice(members[kinds[node]])) if alike else int(draws.integers(NODES))
            lines += [f"v{node},v{other}"] if other != node else []
    (folder / "edges.csv").write_text("\n".join(lines) + "\n")
    x = draws.normal(size=(NODES, FEATURES)) + 0.35 * draws.normal(size=(CLASSES, FEATURES))[kinds]
    rows = [["id", *(f"f{k}" for k in range(FEATURES)), "kind"]]
    rows += [[f"v{k}", *(f"{value:.3f}" for value in x[k]), f"kind {kinds[k]}"] for k in range(NODES)]
    (folder / "nodes.csv").write_text("\n".join(map(",".join, rows)) + "\n")


def install_plug_in(folder: Path) -> None:
    """A package with an entry point, as pip would install it."""
    (folder / "always_fails.py").write_text(PLUG_IN)
    about = folder / "always_fails-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: always-fails\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[lggd.methods]\n{FAILING} = always_fails:AlwaysFails\n")


@contextmanager
def comparing(methods: Sequence[str] = METHODS) -> Iterator[tuple[list[str], dict[str, str], Path]]:
    """The command, its environment and the file of its lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        install_plug_in(folder)
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        jobs = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        command = [
            sys.executable, "-m", "lggd", "compare", "--edges", str(folder / "edges.csv"), "--nodes",
            str(folder / "nodes.csv"), "--label", "kind", "--methods", ",".join((*methods, FAILING)), "--splits",
            str(SPLITS), "--labels", "2.5%", "--jobs", str(jobs), "--out", str(folder / "found"), "--json",
        ]  # fmt: skip
        yield command, {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, folder / "found" / "comparison.jsonl"


def compare(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Runs the command to its end."""
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    return {**facts, "fitting": round(facts["seconds"], 1), "seconds": round(time.perf_counter() - began, 1)}


def measure_compare() -> dict[str, Any]:
    with comparing() as (command, environment, _):
        found = compare(command, environment)
    table = [{name: row[name] for name in ("method", "accuracy", "sd", "seconds", "verdict")} for row in found["table"]]
    kept = ("seconds", "fitting", "facts", "protocol", "fits", "failed", "recommendation")
    return {**{name: found[name] for name in kept}, "table": table, "load": round(os.getloadavg()[0], 1)}


def measure_killed() -> dict[str, Any]:
    with comparing(METHODS[:-1]) as (command, environment, path):
        first = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while len(lines_of(path)) < len(METHODS) * SPLITS // 2 and first.poll() is None:
            time.sleep(0.1)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        before = lines_of(path)
        found = compare(command, environment)
        after = lines_of(path)
    identity = ("method", "split", "share", "labels", "trials", "seed")
    measured = Counter(tuple(line[name] for name in identity) for line in after if "error" not in line)
    return {
        "before": len(before), "kept": after[: len(before)] == before, "after": len(after),
        "twice": sum(count > 1 for count in measured.values()), "seconds": found["seconds"],
        "methods": len(found["table"]),
    }  # fmt: skip


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a file that somebody may be writing to."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


# -- tables -------------------------------------------------------------------------------------------------------


def measure_tables(count: int) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "tests" / "fuzzed_tables.py"), str(count)]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    found = {name: int(number.replace(",", "")) for number, name in re.findall(r"^ *([\d,]+) (.+)$", done.stdout, re.M)}
    return {"count": count, "outcomes": found, "seconds": round(time.perf_counter() - began), "failed": done.returncode}


# -- results ------------------------------------------------------------------------------------------------------


def page_of(found: dict[str, Any]) -> str:
    lines = ["# Own data", "", "Measured by `python -m benchmarks.own_data`.", ""]
    if one := found.get("compare"):
        size = ", ".join(f"{value:,} {name}" for name, value in one["facts"].items())
        verdict = "met" if one["seconds"] <= BAR_SECONDS else "missed"
        lines += [
            "## `lggd compare` on tables", "",
            f"{size}. {one['protocol']}, and learning curves: {one['fits']} fits, {one['fitting']:g} s. The whole "
            f"command, from starting Python to the page: **{one['seconds']:g} s**, at most {BAR_SECONDS:g} s: {verdict}"
            f" (load average {one['load']:g}). {one.get('note', '')}".rstrip(), "",
            "| method | accuracy (%) | seconds per fit | |", "|---" * 4 + "|",
        ]  # fmt: skip
        for row in one["table"]:
            values = f"{row['accuracy']:.1f} ± {row['sd']:.1f}", f"{row['seconds']:.2g}", row["verdict"]
            lines.append(f"| {row['method']} | " + " | ".join(values) + " |")
        lines += ["", "A plug-in that raises an error leaves a line, and stops nothing:", ""]
        lines += [f"- {name}: {reason}" for name, reason in one["failed"].items()]
        lines += ["", f"The recommendation: {one['recommendation']}", ""]
    if one := found.get("killed"):
        lines += [
            "## Killed in the middle", "",
            f"After {one['before']} lines of results all processes were killed (SIGKILL). The same command went on: "
            f"{'all' if one['kept'] else 'NOT ALL'} of these lines are still there, {one['after'] - one['before']} "
            f"were added, {one['twice']} fits were measured twice, and {one['methods']} methods are in the table.", "",
        ]  # fmt: skip
    if one := found.get("tables"):
        wrong = sum(count for name, count in one["outcomes"].items() if "WRONG" in name or "TRACE" in name)
        lines += [
            "## Random tables", "",
            f"{one['count']:,} tables of edges and nodes, seeds 0 to {one['count'] - 1:,}, in random dialects, beside "
            "what pandas reads when it is told the dialect. A table that is not damaged must be read as pandas does or "
            "be refused in a sentence; a damaged one must raise nothing else. Read as something else, or a traceback: "
            f"**{wrong}**.", "", "| what happened | tables |", "|---|---|",
        ]  # fmt: skip
        lines += [f"| {name} | {count:,} |" for name, count in one["outcomes"].items()]
        lines += [""]
    lines += [", ".join(f"{k} {v}" for k, v in found["machine"].items()), ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.own_data", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    parts, record = chosen.parts or PARTS, chosen.out / "own-data.json"
    chosen.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    measures = {"compare": measure_compare, "killed": measure_killed, "tables": lambda: measure_tables(chosen.tables)}
    for part in parts:
        found[part] = measures[part]()
        found["machine"] = machine(Run(False, torch.device("cpu")))
        record.write_text(json.dumps(found, indent=1) + "\n")
        (chosen.out / "own-data.md").write_text(page_of(found))
    print(page_of(found))


if __name__ == "__main__":
    main()
