"""Results on disk, one line of JSON each, never overwritten; and claims on work by the processes that share them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lggd._system.files import write_errors
from lggd.errors import InputError, InputFileError

CLAIMS, LOCK = ".claims", ".lock"
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


class Claims:
    """Claims on units of work by name, as locks of files in a folder. They end with the process."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder) / CLAIMS
        with write_errors(self._folder):
            self._folder.mkdir(exist_ok=True)

    @contextmanager
    def on(self, name: str, wait: bool = False) -> Iterator[bool]:
        """Yields whether this process has the claim while the block runs; with `wait`, waits until it has."""
        lock = FileLock(self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock")
        try:
            lock.acquire(blocking=wait)
        except Timeout:  # another process has it
            yield False
            return
        try:
            yield True
        finally:
            lock.release()
