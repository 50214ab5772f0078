"""Locks of folders: one process at a time, waiting is reported, and nothing is left behind."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from lggd._system import files
from lggd._system.files import locked_folder
from lggd.errors import InputFileError
from support.other_process import held_elsewhere
from support.processes import start

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
    monkeypatch.setattr("warnings.warn", lambda message, **_: reports.append(message))
    with held_elsewhere(tmp_path / "model") as other:

        def release() -> None:
            while not reports:
                time.sleep(0.01)
            time.sleep(0.3)
            other.stdin.write("\n")
            other.stdin.flush()

        releasing = threading.Thread(target=release)
        releasing.start()
        with locked_folder(tmp_path / "model"):
            releasing.join()
    assert reports == [f"Waiting for another process that is changing {tmp_path / 'model'}."]


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path / "model") as other:
        other.kill()
        other.wait()
        assert (tmp_path / ".model.lock").is_file()
        with locked_folder(tmp_path / "model"):
            pass
    assert list(tmp_path.iterdir()) == []


def test_an_error_releases_the_lock(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), locked_folder(tmp_path / "model"):
            raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_locked_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputFileError, match="must lie in a folder that exists"), locked_folder(tmp_path / "no" / "m"):
        pytest.fail("there is nothing to lock")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputFileError, match=r"`.*model` must lie in a folder you may write to"):
        locked_folder(tmp_path / "model").__enter__()


def test_disks_that_cannot_lock_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", unsupported)
    with pytest.raises(InputFileError, match="must lie on a disk that can lock files, but it cannot: No locks"):
        locked_folder(tmp_path / "model").__enter__()


def test_a_thread_may_take_its_lock_again_and_others_wait(tmp_path: Path) -> None:
    order: list[str] = []

    def wait() -> None:
        with locked_folder(tmp_path / "model"):
            order.append("other")

    with locked_folder(tmp_path / "model"):
        other = threading.Thread(target=wait)
        other.start()
        with locked_folder(tmp_path / "model"):
            time.sleep(0.1)
        time.sleep(0.1)
        order.append("first")
    other.join()
    assert order == ["first", "other"]
    assert list(tmp_path.iterdir()) == []
