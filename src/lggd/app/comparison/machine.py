"""The machine and the versions that a measurement was made with."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from lggd.app.runs.methods import installed_versions
from lggd.app.runs.run import now

CPU_INFO = Path("/proc/cpuinfo")


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
