"""How much memory work takes: an estimate to read, and an error that names the remedy when there is too little."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Memory:
    """Bytes by what they are for, all held at the same time, on one device. As text it is a sentence.

    >>> print(Memory({"graph": 3 * 2**20, "states": 2**21}, torch.device("cpu")))
    about 5.0 MiB (graph 3.0 MiB, states 2.0 MiB)
    """

    parts: Mapping[str, int]
    device: torch.device

    @property
    def total(self) -> int:
        """All of it, in bytes."""
        return sum(self.parts.values())

    @property
    def free(self) -> int | None:
        """What the device could give now, in bytes; None where that cannot be found out."""
        return free_memory(self.device)

    @property
    def fits(self) -> bool | None:
        """Whether the device could give that much now; None where that cannot be found out."""
        return None if self.free is None else self.total <= self.free

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {size_in_words(size)}" for name, size in self.parts.items() if size)
        return f"about {size_in_words(self.total)} ({parts})"


def size_in_words(size: float) -> str:
    """Bytes as people read them.

    >>> size_in_words(3_500_000_000)
    '3.3 GiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def free_memory(device: torch.device) -> int | None:
    """What the device could give now, in bytes; None where that cannot be found out."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    if device.type != "cpu":
        return None
    if MEMINFO.exists():
        # Of a line such as "MemAvailable:   24049952 kB".
        told = dict(line.split(":") for line in MEMINFO.read_text().splitlines() if ":" in line)
        if "MemAvailable" in told:
            return int(told["MemAvailable"].split()[0]) * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


@contextmanager
def explaining_shortage(what: str, estimate: Callable[[], Memory], remedy: str) -> Iterator[None]:
    """Lets work that runs out of memory say how much it takes, how much there is, and what to do."""
    try:
        yield
    except (MemoryError, RuntimeError) as short:
        if not _is_shortage(short):
            raise
        needed = estimate()
        there = "" if needed.free is None else f", of which {size_in_words(needed.free)} are free"
        raise MemoryError(f"{what} takes {needed} on {needed.device}{there}. {remedy}") from short


def _is_shortage(error: Exception) -> bool:
    """Torch has an error of its own for GPUs; on a CPU only its words tell."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return any(words in str(error) for words in ("can't allocate memory", "not enough memory"))


def give_memory_back() -> None:
    """Lets go of what nobody holds any more, so that the next work does not fail for want of it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
