"""The same computation over and over: on a GPU it is recorded once and replayed, which spares a launch a kernel."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# Runs before recording: kernels are compiled and tried out, and optimizers bring their state into being.
WARM_UP = 2


class CUDAGraphStep:
    """Calls `compute`, time after time; gives the tensor that it returns.

    `compute` takes nothing, reads and writes tensors that stay where they are (`copy_`, never a new tensor in an old
    one's place), and never looks at a number from the device. On a CPU, and the first times everywhere, it is simply
    called. `generators` are all that it draws random numbers from.
    """

    def __init__(
        self, compute: Callable[[], Tensor], device: torch.device, generators: Iterable[torch.Generator]
    ) -> None:
        self.compute, self.device, self.generators = compute, device, list(generators)
        self._runs = 0
        self._recording: tuple[torch.cuda.CUDAGraph, Tensor] | None = None

    def __call__(self) -> Tensor:
        if self.device.type != "cuda":
            return self.compute()
        with torch.cuda.device(self.device):
            return self._call()

    def _call(self) -> Tensor:
        if self._runs < WARM_UP:
            self._runs += 1
            return self._warm_up()
        if self._recording is None:
            self._recording = self._record()
        graph, result = self._recording
        graph.replay()
        return result

    def reset(self) -> None:
        """Drops the recording: tensors that `compute` uses have been replaced, or it will not be called again."""
        self._runs, self._recording = 0, None

    def _warm_up(self) -> Tensor:
        # Beside the usual stream, as recordings are: what libraries set up a stream is then there.
        usual, aside = torch.cuda.current_stream(self.device), _stream_aside(self.device)
        aside.wait_stream(usual)
        with torch.cuda.stream(aside):
            result = self.compute()
        usual.wait_stream(aside)
        return result

    def _record(self) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        # Our own stream: torch's usual one for recordings lies on the device of the first of them.
        stream = _stream_aside(self.device)
        with _no_garbage_collected(), torch.cuda.graph(graph, stream=stream):
            result = self.compute()
        # Beginning a recording sets the generators' numbers on the device back, on that stream. On a busy device this
        # can come after a replay has set them anew, which would then draw other numbers.
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return graph, result


_streams = threading.local()


def _stream_aside(device: torch.device) -> torch.cuda.Stream:
    """One stream a thread and device: libraries keep memory for each that they have ever seen."""
    known = _streams.__dict__.setdefault("known", {})
    if device not in known:
        known[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return known[device]  # type: ignore[no-any-return]


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """What is garbage goes before: an earlier recording that is thrown away in the middle of one would spoil it."""
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
