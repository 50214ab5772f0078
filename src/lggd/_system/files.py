"""Files and folders: checked paths, locks, and writing completely or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lggd.errors import DiskFullError, InputError, InputFileError

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


if TYPE_CHECKING:
    from torch import Tensor

FULL, FORBIDDEN = (errno.ENOSPC, errno.EDQUOT), (errno.EROFS, errno.EACCES, errno.EPERM)
NEW, OLD, BLOCK = "new", "old", 2**20
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
    """Checks that a file is there and has the size that `describe_file` found."""
    size = path.stat().st_size if path.is_file() else None
    if size != described["bytes"]:
        clause = "there is none" if size is None else f"it has {size}"
        raise InputFileError(str(path), f"have {described['bytes']} bytes", but=clause, remedy=remedy)


def check_checksums(path: Path, described: Mapping[str, Any], remedy: str) -> None:
    """Checks that a file of the right size has the checksums that `describe_file` found; this reads all of it."""
    found, expected = describe_file(path)["crc32"], described["crc32"]
    if found != expected:
        block = next(k for k, (mine, its) in enumerate(zip_longest(found, expected)) if mine != its)
        start, end = block * CHECKED_BYTES, min((block + 1) * CHECKED_BYTES, described["bytes"])
        clause = f"it differs between byte {start} and byte {end}"
        raise InputFileError(str(path), "match its checksum", but=clause, remedy=remedy)


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


def write_text(path: str | Path, text: str) -> None:
    """Writes a file completely or not at all, in UTF-8 and with the same bytes on every system."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


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
        try:
            is_staging = {entry.name for entry in staging.iterdir()} <= {NEW, OLD}
        except OSError:  # a file, or a folder that another process has just removed
            continue
        handle = _open_folder(staging) if is_staging else None
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
    here, flag = -100, 2  # AT_FDCWD; RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
    one, other = os.fsencode(first), os.fsencode(second)
    try:
        system = ctypes.CDLL(None)
        if sys.platform == "linux":
            return int(system.renameat2(here, one, here, other, flag)) == 0
        return int(system.renamex_np(one, other, flag)) == 0
    except (OSError, TypeError, AttributeError):
        return False


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
        with suppress(OSError):  # Windows deletes no open file, and a replaced folder took it along
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
    with write_errors(path):
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    acquired = False
    try:
        # The one who held it may have deleted the file after it was opened here: then this is a lock on nothing.
        acquired = try_lock(handle) and _is_file(handle, lock)
    except OSError as error:
        clause, remedy = f"it cannot: {error.strerror}", "Copy it to a local disk."
        raise InputFileError(str(path), "lie on a disk that can lock files", but=clause, remedy=remedy) from error
    finally:
        if not acquired:
            os.close(handle)
    return handle if acquired else None


def _is_file(handle: int, path: Path) -> bool:
    """Whether an open file is the one at this path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


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
