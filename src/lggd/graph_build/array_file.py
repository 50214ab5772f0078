"""Arrays that are written piece by piece, before their length is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

HEADER_BYTES = 128


class ArrayFile:
    """An array `[length, *tail]` in a `.npy` file that grows at its end; `close` writes its length.

    Unlike an array that is mapped into memory, it raises an error where the disk is full.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.npy")
    >>> file = ArrayFile(path, np.int32)
    >>> file.append(np.arange(3)); file.append(np.arange(2)); file.close()
    >>> np.load(path)
    array([0, 1, 2, 0, 1], dtype=int32)
    """

    def __init__(self, path: Path, dtype: DTypeLike, tail: tuple[int, ...] = ()) -> None:
        self.dtype, self.tail, self.length = np.dtype(dtype), tail, 0
        self._file = path.open("wb")
        self._file.write(bytes(HEADER_BYTES))

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Writes the header; without it the file is no array."""
        description = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length, *self.tail)}
        magic = np.lib.format.magic(1, 0)
        text = repr(description).ljust(HEADER_BYTES - len(magic) - 3) + "\n"
        self._file.seek(0)
        self._file.write(magic + (len(text)).to_bytes(2, "little") + text.encode())
        self._file.close()
