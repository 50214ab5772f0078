"""Results on disk, one line of JSON each, never overwritten; and the machine and versions that a line names."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import FileIO
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from lggd._system.files import write_errors
from lggd.app.runs.methods import installed_versions
from lggd.app.runs.run import now
from lggd.errors import InputError, InputFileError

LOCK = ".lock"
CPU_INFO = Path("/proc/cpuinfo")
Line = dict[str, Any]


class Results:
    """The lines of every experiment, in `FOLDER/EXPERIMENT.jsonl`. Several processes may append to a file."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputFileError(str(self.folder), "be a folder", "a file", "Choose another name.")

    def path(self, experiment: str) -> Path:
        if not re.fullmatch(r"[\w-]+", experiment):
            raise InputError("experiment", "be letters, digits, - and _", repr(experiment), "It names a file.")
        return self.folder / f"{experiment}.jsonl"

    def prepare(self) -> None:
        """Creates the folder and checks that it is writable; call it before long computations."""
        with write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise InputFileError(str(self.folder), "be a writable folder", remedy="Choose another one.")

    def append(self, experiment: str, line: Mapping[str, Any]) -> None:
        """Appends a line and flushes it to disk."""
        path, written = self.path(experiment), json.dumps(line, allow_nan=False, ensure_ascii=False).encode() + b"\n"
        with write_errors(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / LOCK), path.open("ab+", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                if size and not self._ends_a_line(file, size):  # the process that wrote the last line was killed
                    written = b"\n" + written
                if os.write(file.fileno(), written) < len(written):
                    file.truncate(size)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
                os.fsync(file.fileno())

    @staticmethod
    def _ends_a_line(file: FileIO, size: int) -> bool:
        file.seek(size - 1)
        return file.read(1) == b"\n"

    def lines(self, experiment: str) -> tuple[list[Line], int]:
        """Returns all complete lines, oldest first, and the number of incomplete ones, whose process was killed."""
        path, complete, incomplete = self.path(experiment), [], 0
        for text in path.read_bytes().split(b"\n") if path.exists() else ():
            try:
                line = json.loads(text) if text.strip() else {}
            except ValueError:  # truncated JSON, or invalid UTF-8
                line = None
            if not isinstance(line, dict):
                incomplete += 1
            elif line:
                complete.append(line)
        return complete, incomplete


def run_metadata(device: str, seconds: float) -> dict[str, Any]:
    """The last part of a line of results: duration, machine, versions and time."""
    versions = installed_versions()
    with suppress(PackageNotFoundError):
        versions["triton"] = version("triton")
    return {"seconds": seconds, "device": device, "machine": machine(device), "versions": versions, "when": now()}


def machine(device: str) -> dict[str, str | int]:
    """Returns the CPU and the number of usable cores; for CUDA also the GPU and the precision of matrix products."""
    info = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    cpu = models[0] if models else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not device.startswith("cuda"):
        return {"cpu": cpu, "cores": cores}
    products = {"highest": "float32", "high": "TF32"}.get(torch.get_float32_matmul_precision(), "bfloat16")
    return {"cpu": cpu, "cores": cores, "gpu": torch.cuda.get_device_name(device), "products": products}
