"""Tensors in temporary files, for intermediate results that may be larger than memory."""

from __future__ import annotations

import mmap
import os
import tempfile

import numpy as np
import torch
from torch import Tensor

from lggd.system.files import write_errors

# Smaller tensors stay in memory.
SMALLEST_ON_DISK = 2**26


class Scratch:
    """Creates float32 tensors in temporary files (in TMPDIR), whose pages can be given back to the system.

    A file is deleted as soon as it is mapped: its space is free when the tensor is, even if the process is killed.

    Examples
    --------
    >>> scratch = Scratch()
    >>> scratch.empty(2, 3).shape
    torch.Size([2, 3])
    """

    def __init__(self) -> None:
        self._mappings: list[mmap.mmap] = []

    def empty(self, *shape: int) -> Tensor:
        """A tensor to be filled: in a file, or in memory where it is small."""
        size = 4 * int(np.prod(shape))
        if size < SMALLEST_ON_DISK:
            return torch.empty(shape)
        folder = tempfile.gettempdir()
        with write_errors(folder), tempfile.TemporaryFile(dir=folder, prefix="lggd-") as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, and would be a crash later
            mapping = mmap.mmap(file.fileno(), size)
        self._mappings.append(mapping)
        return torch.from_numpy(np.frombuffer(mapping, np.float32).reshape(shape))

    def release(self) -> None:
        """Gives back all resident pages; their content stays in the files."""
        for mapping in self._mappings:
            mapping.madvise(mmap.MADV_DONTNEED)
