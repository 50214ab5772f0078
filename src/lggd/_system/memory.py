"""Memory: estimates, an error with a remedy when it runs out, tensors on disk, mapped files, and caches of results."""

from __future__ import annotations

import gc
import hashlib
import math
import mmap
import os
import re
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Generic, TypeVar
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd._system.files import size_in_words, write_errors
from lggd.errors import InputError, NotEnoughMemoryError

T = TypeVar("T")

MEMINFO = Path("/proc/meminfo")
# Smaller tensors stay in memory.
MIN_ON_DISK = 2**26
# While edges are read in any order, pages are given back when this many bytes of them are resident, checked at this
# interval in seconds.
MAX_RESIDENT, SECONDS_PER_LOOK = 2**29, 0.02
STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Memory:
    """An estimate of the peak memory of a computation on one device; `str()` formats it.

    Attributes
    ----------
    parts : mapping of str to int
        Bytes by purpose, all allocated at the same time.
    device : torch.device

    Examples
    --------
    >>> print(Memory({"graph": 3 * 2**20, "states": 2**21}, torch.device("cpu")))
    about 5.0 MiB (graph 3.0 MiB, states 2.0 MiB)
    """

    parts: Mapping[str, int]
    device: torch.device

    @property
    def total(self) -> int:
        """Total in bytes."""
        return sum(self.parts.values())

    @property
    def free(self) -> int | None:
        """Free memory of the device in bytes; None where unknown."""
        return free_memory(self.device)

    @property
    def fits(self) -> bool | None:
        """Whether the device has that much free memory now; None where unknown."""
        return None if self.free is None else self.total <= self.free

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {size_in_words(size)}" for name, size in self.parts.items() if size)
        return f"about {size_in_words(self.total)} ({parts})"


def read_size(argument: str, text: str) -> int:
    """Bytes from a text such as 4GiB, 500MB or 2G, where G means GiB.

    >>> read_size("memory", "4GiB"), read_size("memory", "1.5 GB")
    (4294967296, 1500000000)
    """
    size = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])?(I?)(B?)\s*", text.upper())
    if size is None:
        raise InputError(argument, "be a size such as 4GiB or 500MiB", repr(text))
    number, prefix, binary, byte = size.groups()
    base = 1000 if byte and not binary else 1024
    return int(float(number) * base ** (" KMGT".index(prefix) if prefix else 0))


def free_memory(device: torch.device) -> int | None:
    """Free memory of a device in bytes; None where unknown."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    if device.type != "cpu":
        return None
    with suppress(OSError):  # Linux counts caches that it would give up, which `sysconf` does not
        if available := re.search(r"MemAvailable:\s*(\d+) kB", MEMINFO.read_text()):
            return int(available[1]) * 1024
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


@contextmanager
def explaining_shortage(what: str, estimate: Callable[[], Memory], remedy: str) -> Iterator[None]:
    """Turns out-of-memory errors into one that states the memory needed, the memory free and the remedy."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # Torch has an error class for GPUs; on a CPU, only the message of a RuntimeError identifies it.
        words = ("can't allocate memory", "not enough memory")
        is_shortage = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if not is_shortage and not any(phrase in str(error) for phrase in words):
            raise
        raise shortage(what, estimate(), remedy) from error


def shortage(what: str, needed: Memory, remedy: str) -> NotEnoughMemoryError:
    """The error about a computation, called `what`, that does not fit into memory."""
    free = "" if needed.free is None else f", where {size_in_words(needed.free)} are free"
    return NotEnoughMemoryError(f"{what} takes {needed} on {needed.device}{free}. {remedy}")


def release_memory() -> None:
    """Frees unreferenced and cached memory, so that the next computation does not fail for lack of it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class InMemory:
    """Creates tensors of the type and on the device of another one, in memory; `Scratch` creates them in files."""

    def __init__(self, like: Tensor) -> None:
        self._like = like

    def empty(self, *shape: int) -> Tensor:
        """A tensor to be filled."""
        return self._like.new_empty(shape)

    def parts(self, rows: int, size: int) -> Iterator[slice]:
        """Which rows to compute at a time: all of them; or `size` rows, where tensors are in files."""
        yield slice(0, rows)

    def release(self) -> None:
        """Gives back the memory that tensors in files occupy."""


class Scratch(InMemory):
    """Creates float32 tensors in temporary files (in TMPDIR), whose pages can be given back to the system.

    A file is deleted as soon as it is mapped: its space is free when the tensor is, even if the process is killed.

    Examples
    --------
    >>> scratch = Scratch()
    >>> scratch.empty(2, 3).shape
    torch.Size([2, 3])
    """

    def __init__(self) -> None:
        super().__init__(torch.empty(0))
        self._mappings: WeakSet[mmap.mmap] = WeakSet()

    def empty(self, *shape: int) -> Tensor:
        """A tensor to be filled: in a file, or in memory where it is small."""
        size = 4 * math.prod(shape)
        if size < MIN_ON_DISK:
            return super().empty(*shape)
        folder = tempfile.gettempdir()
        with write_errors(folder), tempfile.TemporaryFile(dir=folder, prefix="lggd-") as file:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and would be a crash later
                os.posix_fallocate(file.fileno(), 0, size)
            mapping = mmap.mmap(file.fileno(), size)
        self._mappings.add(mapping)
        return torch.from_numpy(np.frombuffer(mapping, np.float32).reshape(shape))

    def parts(self, rows: int, size: int) -> Iterator[slice]:
        for start in range(0, rows, size):
            yield slice(start, min(rows, start + size))
            self.release()

    def release(self) -> None:
        """Gives back all resident pages; their content stays in the files."""
        _give_back(*self._mappings)


def _give_back(*mappings: mmap.mmap) -> None:
    """Gives back the resident pages of mapped files, where the system can."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for mapping in mappings:
            mapping.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class MappedArrays:
    """Arrays mapped into memory, whose pages can be given back to the system when they have been used."""

    arrays: tuple[NDArray[Any], ...]

    def release(self) -> None:
        """Gives back all resident pages. They stay in the system's cache as long as nobody else needs the memory."""
        _give_back(*(array._mmap for array in self.arrays if isinstance(array, np.memmap)))  # type: ignore[attr-defined]  # NumPy's stubs lack it

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Within it, a thread gives back all pages whenever more than `MAX_RESIDENT` bytes of files have been read."""
        self.release()
        finished, before = Event(), _resident_file_bytes()

        def watch() -> None:
            while not finished.wait(SECONDS_PER_LOOK):
                if not before or _resident_file_bytes() - before > MAX_RESIDENT:
                    self.release()

        watcher = Thread(target=watch, name="pages of a graph on disk", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            finished.set()
            watcher.join()
            self.release()


def _resident_file_bytes() -> int:
    """The resident bytes of this process that are backed by files; 0 where unknown."""
    try:
        return int(STATM.read_text().split()[2]) * mmap.PAGESIZE
    except (OSError, IndexError, ValueError):
        return 0


def equal(one: Any, other: Any) -> bool:
    """Whether two settings or tensors are equal; tensors by their entries."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return _equal_tensors(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if is_dataclass(one) and not isinstance(one, type):
        return all(equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)


def _equal_tensors(one: Tensor, other: Tensor) -> bool:
    if (one.shape, one.dtype, one.layout, one.device) != (other.shape, other.dtype, other.layout, other.device):
        return False
    if one.layout == torch.strided:
        return torch.equal(one, other)
    # torch.equal does not take sparse tensors.
    a, b = (tensor.to_sparse_coo().coalesce() for tensor in (one, other))  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return torch.equal(a.indices(), b.indices()) and torch.equal(a.values(), b.values())


class Cache(Generic[T]):
    """An LRU cache of `capacity` results. A key of None is never cached; copies start empty.

    >>> cache: Cache[int] = Cache(capacity=2)
    >>> cache("two", lambda: 2), cache("two", lambda: 3)
    (2, 2)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._results: OrderedDict[Hashable, T] = OrderedDict()

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the cached result of a key; on a miss, calls `make` and caches its result."""
        result = self.get(key)
        if result is None:
            result = make()
            self.put(key, result)
        return result

    def get(self, key: Hashable) -> T | None:
        if key is None or key not in self._results:
            return None
        self._results.move_to_end(key)
        return self._results[key]

    def put(self, key: Hashable, result: T) -> None:
        """Caches a result, and evicts the least recently used one beyond the capacity."""
        if key is not None:
            self._results[key] = result
        if len(self._results) > self._capacity:
            self._results.popitem(last=False)

    def clear(self) -> None:
        self._results.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._capacity,)


class _Identity:
    """Equal for the same tensor objects in the same memory, not changed in place since the key was created."""

    def __init__(self, tensors: tuple[Tensor | None, ...]) -> None:
        # References to the tensors keep their ids from being reused. Sparse tensors have no address of their own.
        self.tensors = tensors
        self.state = [
            None if x is None else (x._version, x.data_ptr() if x.layout == torch.strided else None) for x in tensors
        ]

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.tensors)))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Identity)
            and [*map(id, self.tensors)] == [*map(id, other.tensors)]
            and self.state == other.state
        )


def identity_key(*tensors: Tensor | None) -> Hashable:
    """A key for these tensor objects, which any in-place change invalidates.

    None where changes cannot be detected: for inference tensors, and for tensors that are being trained.
    """
    present = [tensor for tensor in tensors if tensor is not None]
    return None if any(x.is_inference() or x.requires_grad for x in present) else _Identity(tensors)


def content_key(*tensors: Tensor | None) -> tuple[str, ...]:
    """A digest of the entries, dtype, shape, device and layout of each tensor."""
    return tuple("none" if x is None else f"{x.device} {x.layout} {fingerprint({'': x})}" for x in tensors)


def fingerprint(tensors: Mapping[str, Tensor], others: bytes = b"") -> str:
    """The SHA-256 of named tensors: of `others`, then of the names, types, shapes and entries, sorted by name."""
    digest = hashlib.sha256(others)
    for name, value in sorted(tensors.items()):
        digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
        dense = value.detach().cpu()
        dense = dense if dense.layout == torch.strided else dense.to_dense()
        digest.update(dense.contiguous().numpy().tobytes())
    return digest.hexdigest()
