"""What a result was measured on: versions of software, and the machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from lggd.runs.run import installed_versions

CPU_INFO = Path("/proc/cpuinfo")


def versions() -> dict[str, str]:
    """Of everything that numbers may depend on; Triton only where it is installed."""
    found = installed_versions()
    try:
        return {**found, "triton": version("triton")}
    except PackageNotFoundError:
        return found


def machine(device: str) -> dict[str, str | int]:
    """The processor and how many cores of it we may use; the GPU where the device is one, and how it multiplies."""
    found: dict[str, str | int] = {"cpu": _processor(), "cores": _cores()}
    if not device.startswith("cuda"):
        return found
    products = {"highest": "float32", "high": "TF32"}.get(torch.get_float32_matmul_precision(), "bfloat16")
    return {**found, "gpu": torch.cuda.get_device_name(device), "products": products}


def _processor() -> str:
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
