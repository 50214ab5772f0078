"""Options of a run, the description of its machine, and its results: speed-cpu and speed-gpu, JSON and Markdown."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import lggd
from benchmarks.timing import Row, Table

ROOT = Path(__file__).parent.parent
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
PACKAGES = {
    "cpu": ("torch", "numba", "numpy", "scipy", "graphlearning", "scikit-fmm", "torchdiffeq"),
    "gpu": ("torch", "triton", "torch-geometric", "torchdiffeq", "numpy"),
}
HEAD = ["what", "lggd", "peer", "time", "ratio", "bar", "", "note"]
PREFACE = {
    "cpu": "# Speed on the CPU\n\nMeasured {when} by `make bench`, best of interleaved runs; rely on the ratios.\n",
    "gpu": "# Speed on a GPU\n\nMeasured {when} by `make bench-gpu`. docs/performance.md explains the numbers.\n",
}


@dataclass(frozen=True)
class Run:
    """The options of a run. `out` is the folder to write to; None means results/, and docs/ for figures."""

    quick: bool
    device: torch.device
    out: Path | None = None

    @property
    def kind(self) -> str:
        return "gpu" if self.device.type == "cuda" else "cpu"

    @property
    def writes(self) -> bool:
        """A quick run writes only to `out`."""
        return not self.quick or self.out is not None

    def path(self, name: str) -> Path:
        """The path of a file to write; those of a quick run have a prefix."""
        folder = self.out or (DOCS if name.endswith(".png") else RESULTS)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / ("quick-" * self.quick + name)

    def found(self, name: str) -> Path | None:
        """The path of an earlier run's file: in the output folder, else in results/."""
        places = [self.path(name)] if self.quick else [self.path(name), RESULTS / name]
        return next((place for place in places if place.exists()), None)


def machine(run: Run) -> dict[str, str]:
    """Everything that times depend on, by name."""
    cores = str(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else str(os.cpu_count())
    about = {"cpu": _cpu(), "cores": cores, "system": platform.system(), "python": platform.python_version()}
    if run.kind == "gpu":
        about = {"gpu": torch.cuda.get_device_name(run.device), "cuda": str(torch.version.cuda), **about}
    about["lggd"] = lggd.__version__
    return about | {name: version for name in PACKAGES[run.kind] if (version := _version(name))}


def _cpu() -> str:
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), platform.processor())
    return platform.processor()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        answer = []
    return f", driver {answer[0]}" if answer else ""


def provenance(run: Run, name: str, seconds: float) -> str:
    """When, by which command and for how long a table was measured; on a GPU also the driver."""
    device = " --device cuda" if run.kind == "gpu" else ""
    quick = " --quick" if run.quick else ""
    driver = _driver() if run.kind == "gpu" else ""
    when = datetime.date.today().isoformat()
    return f"{when}, `python -m benchmarks {name}{device}{quick}`, {seconds:.0f} s{driver}"


def earlier_tables(run: Run) -> dict[str, Table]:
    """The tables of an earlier run on the same machine with the same versions, by name."""
    path = run.found(f"speed-{run.kind}.json")
    record = {"machine": {}} if path is None else json.loads(path.read_text())
    if _comparable(record["machine"], run) != _comparable(machine(run), run):
        return {}
    return {
        table["name"]: Table(table["name"], [Row(**row) for row in table["rows"]], table.get("about", ""))
        for table in record["tables"]
    }


def _comparable(about: dict[str, str], run: Run) -> dict[str, str]:
    """What must be equal for times to be comparable; for a GPU the processor may differ."""
    return {key: value for key, value in about.items() if run.kind == "cpu" or key not in ("cpu", "cores")}


def write(measured: list[Table], run: Run) -> Path:
    """Replaces the tables that were measured again and keeps the others; returns the path of the page."""
    found = list((earlier_tables(run) | {table.name: table for table in measured}).values())
    when, about = datetime.date.today().isoformat(), machine(run)
    record = {"date": when, "machine": about, "tables": [asdict(table) for table in found]}
    run.path(f"speed-{run.kind}.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = [PREFACE[run.kind].format(when=when), ", ".join(f"{key} {value}" for key, value in about.items()), ""]
    for table in found:
        lines += [f"## {table.name}", ""] + ([table.about, ""] if table.about else [])
        lines += ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in table.rows] + [""]
    page = run.path(f"speed-{run.kind}.md")
    page.write_text("\n".join(lines))
    return page


def cells(row: Row) -> list[str]:
    """The row as text, one cell per name in HEAD."""
    peer = "" if row.peer is None else f"{row.peer:,.2f} {row.unit}"
    ratio = "" if row.ratio is None else f"{row.ratio:,.2f}x" if row.ratio < 1 else f"{row.ratio:,.1f}x"
    bar = "" if row.bar is None else f"{row.bar:.3g}x" if row.ratio is not None else f"{row.bar:g} {row.unit}"
    verdict = "" if row.met is None else "met" if row.met else "MISSED"
    return [row.what, f"{row.ours:,.2f} {row.unit}", row.against, peer, ratio, bar, verdict, row.note]
