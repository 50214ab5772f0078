"""Writing a file or a folder whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_readable(path: str | Path) -> Path:
    """The path, if there is a file."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`{path}` must be a file, got a folder. Name a file inside it.")
    if not path.exists():
        raise FileNotFoundError(f"`{path}` must be a file, but there is none. Check the name and the folder.")
    return path


def check_writable(path: str | Path) -> Path:
    """The path, if a file can be put there. Asked before long work whose result would otherwise be lost."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`{path}` must name a file to write, got a folder. Add a file name.")
    _check_parent(path)
    return path


def check_folder_writable(path: str | Path, marker: str) -> Path:
    """The path, links followed, if a folder can be put there: nothing is there, or an empty folder, or one of ours.

    Ours is a folder that holds a file called `marker`. Nobody else's is ever deleted.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"`{path}` must name a folder to write, got a file. Choose another name.")
    if path.is_dir() and any(path.iterdir()) and not (path / marker).is_file():
        raise FileExistsError(
            f"`{path}` must be new, empty or hold {marker}, got a folder with other things in it. "
            "Choose another name, or remove it yourself."
        )
    _check_parent(path)
    return path


def _check_parent(path: Path) -> None:
    if not path.parent.is_dir():
        raise FileNotFoundError(f"`{path}` must lie in a folder that exists, got {path.parent}. Create it first.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"`{path}` must lie in a folder you may write to, got {path.parent}. Choose another one.")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes its place at the end, and vanishes if anything fails."""
    path = check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~umask())  # a temporary file is private; the result should be as open as any other
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """A temporary folder beside `path` to fill; it takes its place at the end, and vanishes if anything fails.

    Put a file called `marker` into it: only a folder that has one, or is empty, is ever replaced.

    No file system swaps two folders in one step everywhere, so this takes three, all renames inside `path`'s own
    parent, with both folders complete all the while: (1) the old folder moves from `path` to `.NAME-XXXX/old`,
    (2) the new one moves from `.NAME-XXXX/new` to `path`, (3) `.NAME-XXXX` is deleted with the old one in it.
    An exception, Ctrl-C among them, undoes (1) if (2) has not happened. A process killed outright leaves the old folder
    at `path` before (1), both in `.NAME-XXXX` between (1) and (2), and the new one at `path` after (2); what it leaves
    of `.NAME-XXXX` nobody reads, and it may be deleted by hand. Where no folder was at `path`, (2) is all there is.
    """
    path = check_folder_writable(path, marker)
    staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    new, old = staging / "new", staging / "old"
    try:
        new.mkdir()
        yield new
        if not (new / marker).is_file():
            raise FileNotFoundError(f"`{path}` must hold {marker} when it is done, or nothing could ever replace it.")
        check_folder_writable(path, marker)  # hours may have passed
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        shutil.rmtree(staging, ignore_errors=True)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
