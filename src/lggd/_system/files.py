"""Files and folders: checked paths, locks, and writing completely or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from lggd.errors import DiskFullError, InputError, InputFileError

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from torch import Tensor

FULL, FORBIDDEN = (errno.ENOSPC, errno.EDQUOT), (errno.EROFS, errno.EACCES, errno.EPERM)
# A folder is written as `.NAME.lggd/new`, and the one that it replaces renamed to `.NAME.lggd/old` until it is deleted.
NEW, OLD = "new", "old"
# The files in this subfolder of a written folder are moved next to it.
SIDECARS = "sidecars"
# Checksums are of blocks of this many bytes, so that several threads compute them and an error names its place.
CHECKED_BYTES = 2**26
# Seconds until waiting for a lock is reported, and between two attempts.
PATIENCE, INTERVAL = 2.0, 0.05


def check_readable(path: str | Path) -> Path:
    """Returns the path if it is a file."""
    path = Path(path)
    if path.is_dir():
        raise InputFileError(str(path), "be a file", "a folder", "Name a file inside it.")
    if not path.exists():
        raise InputFileError(str(path), "be a file", but="there is none", remedy="Check the name and the folder.")
    return path


def check_extension(path: str | Path, allowed: Sequence[str]) -> str:
    """Returns the extension of a file name, which must be one of `allowed`; `.pq` is short for `.parquet`."""
    extension = Path(path).suffix.lower()
    extension = ".parquet" if extension == ".pq" else extension
    if extension not in allowed:
        choice = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
        raise InputError(path, f"end in {choice}", repr(extension), "Rename or convert it.")
    return extension


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
        raise _no_parent(path)
    if not os.access(path.parent, os.W_OK):
        raise _not_writable(path)


@contextmanager
def write_errors(path: str | Path, written: str | Path | None = None) -> Iterator[None]:
    """Turns errors about a full disk, or a folder that is read-only or missing, into one that names `path`.

    `written` is the temporary file or folder that becomes `path`: errors about a file inside are about one in `path`.
    """
    path = Path(path)
    try:
        yield
    except OSError as error:
        named = error.argument if isinstance(error, InputFileError) else error.filename
        if written is not None and isinstance(named, str) and Path(named).is_relative_to(written):
            path = path / Path(named).relative_to(written)
        if isinstance(error, DiskFullError) or error.errno in FULL:
            raise _disk_full(path, quota=error.errno == errno.EDQUOT) from error
        if isinstance(error, InputFileError):
            raise
        if error.errno in FORBIDDEN:
            raise _not_writable(path) from error
        if error.errno in (errno.ENOENT, errno.ENOTDIR) and not path.parent.is_dir():
            raise _no_parent(path) from error
        raise


def _no_parent(path: Path) -> InputFileError:
    return InputFileError(str(path), "lie in a folder that exists", path.parent, "Create it first.")


def _not_writable(path: Path) -> InputFileError:
    return InputFileError(str(path), "lie in a folder you may write to", path.parent, "Choose another one.")


def _disk_full(path: Path, *, quota: bool) -> DiskFullError:
    folder = next((parent for parent in path.absolute().parents if parent.is_dir()), Path.cwd())
    free = size_in_words(shutil.disk_usage(folder).free)
    clause = "it exceeds your quota there" if quota else f"it needs more than the {free} that are free there"
    remedy = "Free some space and run it again: what was written before is unchanged."
    return DiskFullError(str(path), "fit on its disk", but=clause, remedy=remedy)


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes copies of tensors as safetensors; errors of the operating system are `OSError`s."""
    from safetensors.torch import save  # `save_file` reports a full disk only as text, and makes files private

    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    path.write_bytes(save(copies, metadata))


def describe_file(path: Path) -> dict[str, Any]:
    """The size of a file, and the CRC-32 of each block of `CHECKED_BYTES`, computed by several threads."""
    size = path.stat().st_size

    def checksum(start: int) -> int:
        with path.open("rb") as file:
            file.seek(start)
            return zlib.crc32(file.read(CHECKED_BYTES))

    with ThreadPoolExecutor(2) as threads:
        return {"bytes": size, "crc32": list(threads.map(checksum, range(0, size, CHECKED_BYTES)))}


def check_size(path: Path, described: Mapping[str, Any], remedy: str) -> None:
    """Checks that a file is there and has the size in `described`."""
    size = path.stat().st_size if path.is_file() else None
    if size != described["bytes"]:
        clause = "there is none" if size is None else f"it has {size}"
        raise InputFileError(str(path), f"have {described['bytes']} bytes", but=clause, remedy=remedy)


def check_checksums(path: Path, described: Mapping[str, Any], remedy: str) -> None:
    """Checks that a file of the right size has the checksums in `described`; this reads all of it."""
    actual, expected = describe_file(path)["crc32"], described["crc32"]
    if actual != expected:
        block = next(k for k, (one, other) in enumerate(zip_longest(actual, expected)) if one != other)
        start, end = block * CHECKED_BYTES, min((block + 1) * CHECKED_BYTES, described["bytes"])
        clause = f"it differs between byte {start} and byte {end}"
        raise InputFileError(str(path), "match its checksum", but=clause, remedy=remedy)


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path to write to; it replaces `path` at the end, and is deleted if anything fails."""
    path = check_writable(path)
    temporary = path.with_name(f".{path.stem}-{token_hex(4)}{path.suffix}")
    with write_errors(path):
        try:
            temporary.touch(exist_ok=False)
            yield temporary
            _flush(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes a file completely or not at all, in UTF-8 and with the same bytes on every system."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def replacing_folder(path: str | Path, marker: str) -> Iterator[Path]:
    """Yields a temporary folder to fill; it replaces `path` at the end, and is deleted if anything fails.

    Write a file called `marker` into it: only empty folders and folders with that file are ever replaced. Files in its
    subfolder `SIDECARS` are moved next to `path`.

    Holds the lock of `path`, see `locked_folder`. A process that is killed leaves the old folder, or the
    new one, or, between two renames, none under its name: `recover_folder` then restores the old one.
    """
    path = check_folder_writable(path, marker)
    staging = _staging(path)
    new = staging / NEW
    with locked_folder(path), write_errors(path, written=new):
        _recover(path)
        try:
            new.mkdir(parents=True)
            yield new
            if not (new / marker).is_file():
                raise InputFileError(str(path), f"contain {marker} when complete, or it could never be replaced")
            check_folder_writable(path, marker)  # hours may have passed
            for written in new.rglob("*"):
                if written.is_file():
                    _flush(written)
            if path.exists():
                path.rename(staging / OLD)
            new.rename(path)
        finally:
            _recover(path)


def recover_folder(path: str | Path) -> None:
    """Completes or undoes a replacement that a process was killed in, or waits for one that is about to end."""
    path = Path(path).resolve()
    if (_staging(path) / OLD).exists() or (path / SIDECARS).exists():
        with locked_folder(path), write_errors(path):
            _recover(path)


def _recover(path: Path) -> None:
    staging, sidecars = _staging(path), path / SIDECARS
    if (staging / OLD).is_dir() and not path.exists():
        (staging / OLD).rename(path)
    shutil.rmtree(staging, ignore_errors=True)
    if sidecars.is_dir():
        for file in sorted(sidecars.iterdir()):
            file.replace(path.parent / file.name)
        sidecars.rmdir()


def _staging(path: Path) -> Path:
    return path.with_name(f".{path.name}.lggd")


def _flush(path: Path) -> None:
    """Waits until a file is on the disk: only then has a full disk or quota been noticed everywhere."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def size_in_words(size: float) -> str:
    """Bytes in readable units.

    >>> size_in_words(3_500_000_000)
    '3.3 GiB'
    """
    if size < 1024:
        return f"{size:.0f} bytes"
    power = next((k for k in (1, 2, 3) if size < 1024 ** (k + 1)), 4)
    return f"{size / 1024**power:.1f} {' KMGT'[power]}iB"


@contextmanager
def locked_folder(path: str | Path) -> Iterator[None]:
    """Holds the lock of a folder, whose file is `.NAME.lock` next to it; waits while another process holds it.

    All who read a folder in order to change it hold its lock from reading to writing. A warning says so if
    that takes longer than `PATIENCE`. The file is empty and is deleted at the end; one that a killed process left
    locks nothing. A thread that holds a lock may take it again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent, locked_folder(f"{parent}/model"):
    ...     [path.name for path in Path(parent).iterdir()]
    ['.model.lock']
    """
    from filelock import FileLock  # importing it takes a tenth of a second

    path = Path(path).resolve()
    _check_parent(path)
    lock = FileLock(path.with_name(f".{path.name}.lock"), is_singleton=True)
    if not _acquire(lock, path, PATIENCE):
        warnings.warn(f"Waiting for another process that is changing {path}.", stacklevel=4)
        _acquire(lock, path, -1)
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            with suppress(OSError):  # Windows deletes no open file; there the lock deletes it after its release
                Path(lock.lock_file).unlink()
        lock.release()


def _acquire(lock: BaseFileLock, path: Path, timeout: float) -> bool:
    """Returns whether the lock is acquired before the timeout; one below 0 is none."""
    from filelock import Timeout

    try:
        with write_errors(path):
            lock.acquire(timeout=timeout, poll_interval=INTERVAL)
    except Timeout:
        return False
    except InputFileError:
        raise
    except (OSError, NotImplementedError) as error:
        clause, remedy = f"it cannot: {getattr(error, 'strerror', error)}", "Copy it to a local disk."
        raise InputFileError(str(path), "lie on a disk that can lock files", but=clause, remedy=remedy) from error
    return True


@contextmanager
def reading(path: Path | str, rule: str, *kinds: type[Exception], remedy: str = "") -> Iterator[None]:
    """Turns errors of these kinds, and otherwise of text that is not UTF-8, into one about the file."""
    try:
        yield
    except kinds as error:
        raise InputError(path, rule, but=f"reading it failed: {error}", remedy=remedy) from error
    except UnicodeDecodeError as error:
        byte = f"the byte 0x{error.object[error.start]:02x}"
        raise InputError(path, "be UTF-8 text", byte, "Save it in that encoding.") from error
