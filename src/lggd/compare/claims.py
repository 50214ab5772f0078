"""Claims on work: processes that share a results folder divide the work among them."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = ".claims"


class Claims:
    """Claims on units of work by name, as locks on single bytes of an empty file. They end with the process.

    >>> import tempfile
    >>> claims = Claims(tempfile.mkdtemp())
    >>> with claims.on("table1 GCN on cora") as mine:
    ...     mine
    True
    """

    def __init__(self, folder: Path | str) -> None:
        self._handle = os.open(Path(folder) / FILE, os.O_RDWR | os.O_CREAT, 0o666)

    @contextmanager
    def on(self, name: str, wait: bool = False) -> Iterator[bool]:
        """Yields whether this process has the claim while the block runs; with `wait`, waits until it has."""
        offset = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, offset)
        except (BlockingIOError, PermissionError):  # another process has it; the error depends on the system
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, offset)

    def close(self) -> None:
        """Releases all claims."""
        os.close(self._handle)
