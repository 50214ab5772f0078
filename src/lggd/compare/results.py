"""Results on disk: a line of JSON each, only ever added to, so that nothing finished is lost."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lggd.errors import InputError

ENDING = ".jsonl"


class Results:
    """The lines of every experiment, in `FOLDER/EXPERIMENT.jsonl`. Several processes may add to one file.

    >>> import tempfile
    >>> results = Results(tempfile.mkdtemp())
    >>> results.append("table1", {"row": "01", "dataset": "cora"})
    >>> results.lines("table1")
    ([{'row': '01', 'dataset': 'cora'}], 0)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(f"`{self.folder}` must be a folder, got a file. Choose another name.")

    def path(self, experiment: str) -> Path:
        """The file of an experiment."""
        if not re.fullmatch(r"[\w-]+", experiment):
            raise InputError("experiment", "be letters, digits, - and _", repr(experiment), "It names a file.")
        return self.folder / f"{experiment}{ENDING}"

    def prepare(self) -> None:
        """Makes the folder. Asked before long work whose result would otherwise be lost."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(f"`{self.folder}` must be a folder you may write to. Choose another one.")

    def append(self, experiment: str, line: Mapping[str, Any]) -> None:
        """Adds a line; when this returns, it is on disk."""
        path = self.path(experiment)
        written = json.dumps(line, allow_nan=False, ensure_ascii=False).encode() + b"\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_torn(handle):
                written = b"\n" + written
            _write_whole(handle, written)
            os.fsync(handle)
        finally:
            os.close(handle)  # which gives the lock back

    def lines(self, experiment: str) -> tuple[list[dict[str, Any]], int]:
        """All whole lines, oldest first, and how many were skipped because a writer died in them."""
        path = self.path(experiment)
        if not path.exists():
            return [], 0
        found, torn = [], 0
        for text in path.read_bytes().split(b"\n"):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except ValueError:  # broken JSON, or bytes that are no text
                line = None
            if isinstance(line, dict):
                found.append(line)
            else:
                torn += 1
        return found, torn


def _is_torn(handle: int) -> bool:
    """Whether the last line lacks its end, because whoever wrote it was killed."""
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"


def _write_whole(handle: int, written: bytes) -> None:
    """One write; where the disk takes only a part of it, what it took is taken back."""
    size = os.fstat(handle).st_size
    count = os.write(handle, written)
    if count < len(written):
        os.ftruncate(handle, size)
        raise OSError(f"Only {count} of {len(written)} bytes of a result could be written. Is the disk full?")
