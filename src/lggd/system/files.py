"""Checks of paths, and writing a file or folder completely or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lggd.errors import DiskFullError, InputFileError
from lggd.system.locks import try_lock

if TYPE_CHECKING:
    from torch import Tensor

FULL, FORBIDDEN = (errno.ENOSPC, errno.EDQUOT), (errno.EROFS, errno.EACCES, errno.EPERM)
NEW, OLD, BLOCK = "new", "old", 2**20


def check_readable(path: str | Path) -> Path:
    """Returns the path if it is a file."""
    path = Path(path)
    if path.is_dir():
        raise InputFileError(str(path), "be a file", "a folder", "Name a file inside it.")
    if not path.exists():
        raise InputFileError(str(path), "be a file", but="there is none", remedy="Check the name and the folder.")
    return path


def check_writable(path: str | Path) -> Path:
    """Returns the path if a file can be written there. Call it before a long computation."""
    path = Path(path)
    if path.is_dir():
        raise InputFileError(str(path), "name a file to write", "a folder", "Add a file name.")
    _check_parent(path)
    return path


def check_folder_writable(path: str | Path, marker: str) -> Path:
    """Returns the resolved path if it is new, an empty folder, or one with the file `marker`: no other is replaced."""
    path = Path(path).resolve()
    if path.exists() and not path.is_dir():
        raise InputFileError(str(path), "name a folder to write", "a file", "Choose another name.")
    if path.is_dir() and any(path.iterdir()) and not (path / marker).is_file():
        remedy = "Choose another name, or remove it yourself."
        raise InputFileError(str(path), f"be new, empty or contain {marker}", "a folder with other files in it", remedy)
    _check_parent(path)
    return path


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputFileError(str(path), "lie in a folder that exists", path.parent, "Create it first.")
    if not os.access(path.parent, os.W_OK):
        raise InputFileError(str(path), "lie in a folder you may write to", path.parent, "Choose another one.")


@contextmanager
def write_errors(path: str | Path, written: str | Path | None = None) -> Iterator[None]:
    """Turns errors about a full disk, or a folder that is read-only or missing, into one that names `path`.

    `written` is the temporary file or folder that becomes `path`: errors about a file inside are about one in `path`.
    """
    try:
        yield
    except OSError as error:
        found = write_error(path, error, written)
        if found is None:
            raise
        raise found from error


def write_error(path: str | Path, error: OSError, written: str | Path | None = None) -> InputFileError | None:
    """Returns an error in the user's words about writing `path`, or None for an error of another kind."""
    named = error.argument if isinstance(error, InputFileError) else error.filename
    if written is not None and isinstance(named, str) and Path(named).is_relative_to(written):
        path = Path(path) / Path(named).relative_to(written)
    path = Path(path)
    if isinstance(error, DiskFullError) or error.errno in FULL:
        return _disk_full(path, quota=error.errno == errno.EDQUOT)
    if isinstance(error, InputFileError):
        return error
    if error.errno in FORBIDDEN:
        return InputFileError(str(path), "lie in a folder you may write to", path.parent, "Choose another one.")
    if error.errno == errno.ENOENT and not path.parent.is_dir():
        return InputFileError(str(path), "lie in a folder that exists", path.parent, "Create it first.")
    return None


def _disk_full(path: Path, *, quota: bool) -> DiskFullError:
    from lggd.system.memory import size_in_words  # imports torch

    folder = next((parent for parent in path.absolute().parents if parent.is_dir()), Path.cwd())
    free = size_in_words(shutil.disk_usage(folder).free)
    clause = "it exceeds your quota there" if quota else f"it needs more than the {free} that are free there"
    remedy = "Free some space and run it again: what was written before is unchanged."
    return DiskFullError(str(path), "fit on its disk", but=clause, remedy=remedy)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes copies of tensors as safetensors; errors of the operating system are `OSError`s."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    try:
        save_file(copies, path, metadata)
    except SafetensorError:
        _check_written(path, sum(value.nbytes for value in copies.values()))
        raise
    path.chmod(0o666 & ~umask())  # safetensors makes files private; others get the usual permissions


def _check_written(path: Path, size: int) -> None:
    """Raises an `OSError` if `size` bytes cannot be written: safetensors reports the reason only as text."""
    with path.open("wb") as file:
        for start in range(0, size, BLOCK):
            file.write(bytes(min(BLOCK, size - start)))
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path to write to; it replaces `path` at the end, and is deleted if anything fails."""
    path = check_writable(path)
    with write_errors(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~umask())  # temporary files are private; the result has the usual permissions
            _flush(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """Yields a temporary folder to fill; it replaces `path` at the end, and is deleted if anything fails.

    Write a file called `marker` into it: only empty folders and folders with that file are ever replaced.

    The two folders are swapped in one step where the system can: a process that is killed leaves the old folder or the
    new one. Elsewhere the old one is renamed to `.NAME-XXXX/old` next to it, then the new one from `.NAME-XXXX/new` to
    `path`. An exception in between, Ctrl-C included, undoes the first step; so does `restore_folder` where a process
    was killed there.
    """
    path = check_folder_writable(path, marker)
    restore_folder(path, marker)
    with write_errors(path):
        staging, handle = _make_staging(path)
    new, old = staging / NEW, staging / OLD
    with write_errors(path, written=new):
        try:
            new.mkdir()
            yield new
            if not (new / marker).is_file():
                raise InputFileError(str(path), f"contain {marker} when complete, or it could never be replaced")
            check_folder_writable(path, marker)  # hours may have passed
            for written in new.rglob("*"):
                if written.is_file():
                    _flush(written)
            if not (path.exists() and exchange(new, path)):
                if path.exists():
                    path.rename(old)
                new.rename(path)
        finally:
            try:
                if old.exists() and not path.exists():
                    old.rename(path)
                shutil.rmtree(staging, ignore_errors=True)
            finally:
                os.close(handle)


def restore_folder(path: str | Path, marker: str) -> None:
    """Clears up after processes that were killed in `replacing_folder`: a folder that was renamed gets its name back.

    Processes that are still at work hold a lock on their temporary folders, which are left alone.
    """
    path = Path(path).resolve()
    name = re.compile(rf"\.{re.escape(path.name)}-[a-z0-9_]{{8}}")  # as tempfile names them
    for staging in [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]:
        if not staging.is_dir() or not {entry.name for entry in staging.iterdir()} <= {NEW, OLD}:
            continue
        handle = _open_folder(staging)
        if handle is None:
            continue
        try:
            if try_lock(handle):
                if not path.exists() and (staging / OLD / marker).is_file():
                    (staging / OLD).rename(path)
                shutil.rmtree(staging, ignore_errors=True)
        finally:
            os.close(handle)


def exchange(first: Path, second: Path) -> bool:
    """Swaps two files or folders of one disk in one step; returns False where the system cannot."""
    rename = _exchange_function()
    return rename is not None and bool(rename(os.fsencode(first), os.fsencode(second)))


@cache
def _exchange_function() -> Any:
    """Linux has renameat2, macOS renamex_np; Python has neither."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "linux":
            here, flag, function = -100, 2, library.renameat2  # AT_FDCWD, RENAME_EXCHANGE
            arguments = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
        else:
            here, flag, function = 0, 2, library.renamex_np  # RENAME_SWAP
            arguments = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint)
    except (OSError, TypeError, AttributeError):
        return None
    function.argtypes = arguments

    def rename(first: bytes, second: bytes) -> bool:
        values = (here, first, here, second, flag) if sys.platform == "linux" else (first, second, flag)
        return int(function(*values)) == 0

    return rename


def _make_staging(path: Path) -> tuple[Path, int]:
    """A temporary folder next to `path`, and a handle that locks it until closed."""
    while True:
        staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
        handle = _open_folder(staging)
        if handle is None:  # not on Windows, where nothing clears up either
            return staging, os.open(os.devnull, os.O_RDONLY)
        if try_lock(handle) and staging.exists():  # else another process took it for a leftover
            return staging, handle
        os.close(handle)


def _open_folder(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError:
        return None


def _flush(path: Path) -> None:
    """Waits until a file is on the disk: only then has a full disk or quota been noticed everywhere."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def umask() -> int:
    """Returns the umask of the process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
