"""Locks between processes: one at a time changes a folder. The operating system releases them when a process ends."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lggd.errors import InputFileError

# Seconds until waiting is reported, and between two attempts to lock.
PATIENCE, INTERVAL = 2.0, 0.05

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked_folder(path: str | Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds the lock of a folder, whose file is `.NAME.lock` next to it; waits while another process holds it.

    All who read a folder in order to change it hold its lock from reading to writing. `on_wait` is called once if
    that takes longer than `PATIENCE`. The file is empty and is deleted at the end; one that a killed process left
    locks nothing. Locks are not reentrant.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent, locked_folder(f"{parent}/model"):
    ...     [path.name for path in Path(parent).iterdir()]
    ['.model.lock']
    """
    path = Path(path).resolve()
    lock = path.with_name(f".{path.name}.lock")
    started, reported = time.monotonic(), False
    while (handle := _acquire(lock, path)) is None:
        if not reported and time.monotonic() - started >= PATIENCE:
            reported = True
            if on_wait is not None:
                on_wait()
        time.sleep(INTERVAL)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows deletes no open file, and a replaced folder took it along
            if _is_file(handle, lock):
                lock.unlink()
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Locks an open file or folder; returns False if another process holds it."""
    try:
        _lock(handle)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _acquire(lock: Path, path: Path) -> int | None:
    """Opens and locks the file; returns None if another process holds it."""
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError as error:
        raise InputFileError(str(path), "lie in a folder that exists", path.parent, "Check its name.") from error
    except OSError as error:
        if isinstance(error, PermissionError) or not os.access(path.parent, os.W_OK):
            remedy = "Copy the model to another folder."
            raise InputFileError(str(path), "lie in a folder you may write to", path.parent, remedy) from error
        raise
    try:
        # The one who held it may have deleted the file after it was opened here: then this is a lock on nothing.
        if try_lock(handle) and _is_file(handle, lock):
            return handle
    except OSError as error:
        os.close(handle)
        clause = f"it cannot: {error.strerror}"
        remedy = "Copy the model to a local disk."
        raise InputFileError(str(path), "lie on a disk that can lock files", but=clause, remedy=remedy) from error
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _is_file(handle: int, path: Path) -> bool:
    """Whether an open file is the one at this path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
