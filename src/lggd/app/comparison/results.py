"""Results on disk, one line of JSON each, never overwritten; and claims on work by the processes that share them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lggd._system.files import write_errors
from lggd.errors import InputError, InputFileError

CLAIMS = ".claims"
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
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":  # the process that wrote the last line was killed
                    written = b"\n" + written
                if os.write(handle, written) < len(written):
                    os.ftruncate(handle, size)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
                os.fsync(handle)
            finally:
                os.close(handle)  # releases the lock

    def lines(self, experiment: str) -> tuple[list[Line], int]:
        """Returns all complete lines, oldest first, and the number of incomplete ones, whose process was killed."""
        path, found, incomplete = self.path(experiment), [], 0
        for text in path.read_bytes().split(b"\n") if path.exists() else ():
            try:
                line = json.loads(text) if text.strip() else {}
            except ValueError:  # truncated JSON, or invalid UTF-8
                line = None
            if not isinstance(line, dict):
                incomplete += 1
            elif line:
                found.append(line)
        return found, incomplete


class Claims:
    """Claims on units of work by name, as locks on single bytes of an empty file. They end with the process."""

    def __init__(self, folder: Path | str) -> None:
        path = Path(folder) / CLAIMS
        with write_errors(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

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
        os.close(self._handle)
