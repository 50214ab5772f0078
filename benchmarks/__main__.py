"""`python -m benchmarks [TABLE …] [--device cuda] [--quick] [--out FOLDER]`: tables of speed.

Writes results/speed-cpu.{json,md}, or speed-gpu with `--device cuda`; tables of earlier runs are kept.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table as Sheet

from benchmarks.record import HEAD, Run, cells, provenance, write
from benchmarks.timing import Table

# The tables that run by default. Any table can be requested on any device, except for those that measure CPU code.
TABLES = {
    "cpu": ("steady", "right_hand_side", "growth", "evolution", "memory", "learning", "arrival"),
    "gpu": ("product", "large", "growth", "cora", "datasets", "labels"),
}
ONLY_CPU = ("steady", "right_hand_side", "evolution", "memory", "learning")


def show(table: Table, console: Console) -> None:
    sheet = Sheet(*HEAD, title=table.name, title_justify="left", caption=table.about, caption_justify="left")
    for row in table.rows:
        sheet.add_row(*cells(row))
    console.print(sheet)


def measure(name: str, run: Run) -> list[Table]:
    """Measures the tables of one module, and frees its GPU memory."""
    began = time.perf_counter()
    try:
        found = importlib.import_module(f"benchmarks.{name}").tables(run)
    finally:
        gc.collect()
        if run.kind == "gpu":
            torch.cuda.empty_cache()
    about = provenance(run, name, time.perf_counter() - began)
    return [Table(table.name, table.rows, about) for table in found]


def arguments() -> tuple[list[str], Run]:
    """The requested tables, and the options of the run."""
    known = list(dict.fromkeys(name for names in TABLES.values() for name in names))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("tables", nargs="*", default=[], metavar="TABLE", help=f"one or more of {', '.join(known)}")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu or cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes, as a smoke test; writes only to --out")
    parser.add_argument("--out", type=Path, help="folder to write to, instead of results/ and docs/")
    chosen = parser.parse_args()
    if chosen.device.type == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no CUDA device")
    run = Run(chosen.quick, torch.empty(0, device=chosen.device).device, chosen.out)
    allowed = [name for name in known if run.kind == "cpu" or name not in ONLY_CPU]
    unknown = [name for name in chosen.tables if name not in allowed]
    if unknown:
        parser.error(f"unknown table {unknown[0]!r}; choose from {', '.join(allowed)}")
    return chosen.tables or list(TABLES[run.kind]), run


def main() -> None:
    names, run = arguments()
    console, failed = Console(width=180), []
    for name in names:
        try:
            found = measure(name, run)
        except Exception:  # one failure must not stop the other tables
            console.print_exception()
            failed.append(name)
            continue
        for table in found:
            show(table, console)
        if run.writes:
            console.print(f"Written to {write(found, run)}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
