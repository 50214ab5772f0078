"""Claims on work: processes that share a folder of results share the work, and do none of it twice."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = ".claims"


class Claims:
    """Claims on pieces of work, by name: locks on single bytes of an empty file. They end with the process.

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
        """Yields whether the claim is ours, for as long as the block lasts; with `wait`, waits until it is."""
        place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
        try:
            fcntl.lockf(self._handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, place)
        except (BlockingIOError, PermissionError):  # another process has it; which of the two depends on the system
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, place)

    def close(self) -> None:
        """Releases all claims."""
        os.close(self._handle)
