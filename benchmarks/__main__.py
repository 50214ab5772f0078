"""`python -m benchmarks [TABLE …] [--quick]`: tables beside their rivals, written to results/speed-cpu.{json,md}."""

from __future__ import annotations

import argparse
import datetime
import importlib
import importlib.metadata
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table as Sheet

from benchmarks.timing import Row, Table

TABLES = ("steady", "right_hand_side", "evolution", "memory", "learning")
PACKAGES = ("lggd", "torch", "numba", "numpy", "scipy", "graphlearning", "scikit-fmm", "torchdiffeq")
RESULTS = Path(__file__).parent.parent / "results"


def machine() -> dict[str, str]:
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    cores = str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else str(os.cpu_count())
    return {"cpu": model, "cores": cores, "system": platform.system(), "python": platform.python_version(), **versions}


def verdict(row: Row) -> str:
    return "" if row.met is None else "met" if row.met else "MISSED"


def cells(row: Row) -> list[str]:
    peer = "" if row.peer is None else f"{row.peer:,.2f} {row.unit}"
    ratio = "" if row.ratio is None else f"{row.ratio:,.1f}x"
    bar = "" if row.bar is None else f"{row.bar:g}x" if row.ratio is not None else f"{row.bar:g} {row.unit}"
    return [row.what, f"{row.ours:,.2f} {row.unit}", row.against, peer, ratio, bar, verdict(row), row.note]


HEAD = ["what", "lggd", "peer", "time", "ratio", "bar", "", "note"]


def show(table: Table, console: Console) -> None:
    sheet = Sheet(*HEAD, title=table.name, title_justify="left")
    for row in table.rows:
        sheet.add_row(*cells(row))
    console.print(sheet)


def kept(about: dict[str, str]) -> dict[str, Table]:
    """The tables of an earlier run on the same machine with the same versions, by name."""
    path = RESULTS / "speed-cpu.json"
    record = json.loads(path.read_text()) if path.exists() else {"machine": None}
    if record["machine"] != about:
        return {}
    return {table["name"]: Table(table["name"], [Row(**row) for row in table["rows"]]) for table in record["tables"]}


def write(measured: list[Table], about: dict[str, str]) -> None:
    """Puts what was measured in the place of what it measures anew."""
    RESULTS.mkdir(exist_ok=True)
    found = list((kept(about) | {table.name: table for table in measured}).values())
    when = datetime.date.today().isoformat()
    record = {"date": when, "machine": about, "tables": [asdict(table) for table in found]}
    (RESULTS / "speed-cpu.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = [
        "# Speed on the CPU",
        "",
        f"Measured {when} by `make bench`, best of interleaved runs: trust the ratios.",
        "",
    ]
    lines += [", ".join(f"{key} {value}" for key, value in about.items()), ""]
    for table in found:
        lines += [f"## {table.name}", "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in table.rows] + [""]
    (RESULTS / "speed-cpu.md").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("tables", nargs="*", default=[], metavar="TABLE", help=f"one or more of {', '.join(TABLES)}")
    parser.add_argument("--quick", action="store_true", help="small graphs only; writes nothing")
    chosen = parser.parse_args()
    unknown = set(chosen.tables) - set(TABLES)
    if unknown:
        parser.error(f"unknown table {sorted(unknown)[0]!r}; choose from {', '.join(TABLES)}")
    console, found = Console(width=160), []
    for name in chosen.tables or TABLES:
        for table in importlib.import_module(f"benchmarks.{name}").tables(chosen.quick):
            show(table, console)
            found.append(table)
    if not chosen.quick:
        write(found, machine())
        console.print(f"Written to {RESULTS}/speed-cpu.md")


if __name__ == "__main__":
    main()
