"""A block of rows on a worker: holds its part of the state, and exchanges boundary values with other blocks.

What it computes is a `Program`: a generator that yields a tensor whenever it is about to read the values of the halo.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd.cluster.rows import BlockRows
from lggd.graph.stored_graph import StoredGraph

Array = NDArray[Any]


class Program(Protocol):
    """A computation on the rows of a block."""

    def run(self, units: Sequence[Any]) -> Iterator[Tensor]:
        """Does some units of work. Yields a tensor `[owned + halo, C]` before it reads the rows of its halo."""

    def state(self) -> list[Array]:
        """All that the units so far have changed, own rows only."""

    def load(self, state: Sequence[Array]) -> None:
        """Continues from a state."""


class Block:
    """The rows [bounds[number], bounds[number + 1]) of a stored graph. Ray runs it as an actor."""

    def __init__(self, folder: str, bounds: Sequence[int], number: int, threads: int, verify: bool) -> None:
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
        torch.set_num_threads(threads)
        self.bounds, self.number, self._graph = list(bounds), number, (folder, verify)
        self._outgoing: list[Array] = []
        self._program: Any = None
        self._running: Iterator[Tensor] = iter(())
        self._open: Tensor | None = None  # the tensor whose halo is filled next

    def open(self) -> None:
        """Reads its rows. Not done when it is created: Ray would not pass on what is wrong with the graph."""
        folder, verify = self._graph
        stored = StoredGraph.open(folder, verify=verify)
        self.rows = BlockRows.cut(stored, self.bounds[self.number], self.bounds[self.number + 1])
        self._halo = self.rows.slices(self.bounds)

    def halo_sizes(self) -> list[int]:
        """The number of nodes that it reads from each block."""
        return [end - begin for begin, end in self._halo]

    def wanted(self) -> list[Array]:
        """The nodes that it reads from each block, by their numbers in the graph."""
        return [self.rows.halo[a - self.rows.owned : b - self.rows.owned] for a, b in self._halo]

    def serve(self, *wanted: Array) -> None:
        """Notes which nodes the blocks that read from this one want, in the order of these blocks."""
        self._outgoing = [nodes - self.rows.first for nodes in wanted]

    def prepare(self, program: type[Any], arguments: Sequence[Any]) -> None:
        """Starts a program: `program(rows, *arguments)`."""
        self._program = program(self.rows, *arguments)
        self._running, self._open = iter(()), None

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a method of the program."""
        return getattr(self._program, name)(*arguments)

    def start(self, units: Sequence[Any]) -> Any:
        """Begins some units of work; returns the values that the other blocks need first."""
        self._running = self._program.run(units)
        return self._advance()

    def resume(self, *values: Array) -> Any:
        """Continues with the values of the halo, from each block that it reads from; returns those needed next."""
        tensor = self._open
        if tensor is None:
            raise RuntimeError("A block was resumed that has not been started.")
        filled, ranges = tensor.numpy(), [each for each in self._halo if each[0] < each[1]]
        for (begin, end), received in zip(ranges, values, strict=True):
            filled[begin:end] = received
        return self._advance()

    def _advance(self) -> Any:
        self._open = next(self._running, None)
        if self._open is None:
            return () if len(self._outgoing) != 1 else None
        values = self._open.numpy()
        sent = [values[nodes] for nodes in self._outgoing]
        return sent[0] if len(sent) == 1 else tuple(sent)

    def state(self) -> list[Array]:
        """The state of the program."""
        state: list[Array] = self._program.state()
        return state

    def save(self, path: str) -> None:
        """Writes the state of the program into a file, completely or not at all."""
        handle, temporary = tempfile.mkstemp(dir=Path(path).parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, *self.state())  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def load(self, state: Sequence[Array] | str) -> None:
        """Continues from a state, or from that in a file."""
        self._running, self._open = iter(()), None
        if isinstance(state, str):
            with np.load(state, allow_pickle=False) as arrays:
                state = [arrays[f"arr_{k}"] for k in range(len(arrays.files))]
        self._program.load(state)

    def ping(self) -> int:
        """Answers with the number of the block."""
        return self.number
