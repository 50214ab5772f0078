"""Checks of paths, and writing a file or folder completely or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lggd.errors import InputFileError


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
def replacing(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path to write to; it replaces `path` at the end, and is deleted if anything fails."""
    path = check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~umask())  # temporary files are private; the result has the usual permissions
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """Yields a temporary folder to fill; it replaces `path` at the end, and is deleted if anything fails.

    Write a file called `marker` into it: only empty folders and folders with that file are ever replaced.

    Swapping two folders atomically is not portable: the old one is renamed to `.NAME-XXXX/old` next to it, then the new
    one from `.NAME-XXXX/new` to `path`, then `.NAME-XXXX` is deleted. An exception in between, Ctrl-C included, undoes
    the first step; a process that is killed there leaves both folders, complete, in `.NAME-XXXX`.
    """
    path = check_folder_writable(path, marker)
    staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    new, old = staging / "new", staging / "old"
    try:
        new.mkdir()
        yield new
        if not (new / marker).is_file():
            raise InputFileError(str(path), f"contain {marker} when complete, or it could never be replaced")
        check_folder_writable(path, marker)  # hours may have passed
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(staging, ignore_errors=True)


def umask() -> int:
    """Returns the umask of the process, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
