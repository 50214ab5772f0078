"""Locks of folders: one process at a time, waiting is reported, and nothing is left behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lggd._system import files
from lggd._system.files import locked_folder
from lggd.errors import InputFileError
from support.processes import Forked, start

HOLD = """
import sys
from lggd._system.files import locked_folder
with locked_folder(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""
COUNT = """
import sys, time
from pathlib import Path
from lggd._system.files import locked_folder
counter = Path(sys.argv[2])
for _ in range(int(sys.argv[3])):
    with locked_folder(sys.argv[1]):
        count = int(counter.read_text())
        time.sleep(0.001)
        counter.write_text(str(count + 1))
"""


@contextmanager
def held_elsewhere(folder: Path) -> Iterator[Forked]:
    """Another process that holds the lock until it reads a line, or dies."""
    with start(folder, code=HOLD) as other:
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def test_processes_take_turns(tmp_path: Path) -> None:
    counter, times, processes = tmp_path / "counter", 20, 4
    counter.write_text("0")
    running = [start(tmp_path / "model", counter, times, code=COUNT) for _ in range(processes)]
    assert [process.wait() for process in running] == [0] * processes
    assert counter.read_text() == str(times * processes)
    assert list(tmp_path.iterdir()) == [counter]


def test_waiting_is_reported_once_and_ends_with_the_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    reports: list[str] = []
    with held_elsewhere(tmp_path / "model") as other:

        def release() -> None:
            while not reports:
                time.sleep(0.01)
            time.sleep(0.3)
            other.stdin.write("\n")
            other.stdin.flush()

        releasing = threading.Thread(target=release)
        releasing.start()
        with locked_folder(tmp_path / "model", lambda: reports.append("waiting")):
            releasing.join()
    assert reports == ["waiting"]


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    reports: list[str] = []
    with held_elsewhere(tmp_path / "model") as other:
        other.kill()
        other.wait()
        assert (tmp_path / ".model.lock").is_file()
        with locked_folder(tmp_path / "model", lambda: reports.append("waiting")):
            pass
    assert reports == []
    assert list(tmp_path.iterdir()) == []


def test_an_error_releases_the_lock(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), locked_folder(tmp_path / "model"):
            raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_a_deleted_file_is_none(tmp_path: Path) -> None:
    """Whoever opened the file before its holder deleted it must not believe in that lock."""
    lock = tmp_path / ".model.lock"
    opened, stat, attempts = os.open, Path.stat, []

    def deleting(path: Path, *arguments: int) -> int:
        handle = opened(path, *arguments)
        attempts.append(handle)
        if len(attempts) == 1:
            lock.unlink()  # as the holder does just now
        return handle

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", deleting)
        with locked_folder(tmp_path / "model"):
            assert len(attempts) == 2
            assert os.path.samestat(os.fstat(attempts[1]), stat(lock))


def test_folders_that_cannot_be_locked_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputFileError, match="must lie in a folder that exists"), locked_folder(tmp_path / "no" / "m"):
        pytest.fail("there is nothing to lock")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputFileError, match=r"`.*model` must lie in a folder you may write to"):
        locked_folder(tmp_path / "model").__enter__()


def test_disks_that_cannot_lock_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(handle: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(files, "_lock", unsupported)
    with pytest.raises(InputFileError, match="must lie on a disk that can lock files, but it cannot: Function not"):
        locked_folder(tmp_path / "model").__enter__()
