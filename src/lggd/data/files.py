"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_writable(path: str | Path) -> Path:
    """The path, if a file can be put there. Asked before long work whose result would otherwise be lost."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`{path}` must name a file to write, got a folder. Add a file name.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"`{path}` must lie in a folder that exists, got {path.parent}. Create it first.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"`{path}` must lie in a folder you may write to, got {path.parent}. Choose another one.")
    return path


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes its place at the end, and vanishes if anything fails."""
    path = check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # a temporary file is private; the result should be as open as any other
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
