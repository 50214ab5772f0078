"""Repeated computations as CUDA graphs: recorded once and replayed, which saves launching every kernel."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

# Calls before recording: kernels are compiled and tuned, and optimizers create their state.
WARM_UP = 2


class CUDAGraphStep:
    """Calls `compute` repeatedly and returns its tensor; on a GPU a recording of it is replayed.

    `compute` takes no arguments, reads and writes tensors in place, and reads no number from the device. It draws
    random numbers from `generators` only. On a CPU, and while warming up, it is simply called.
    """

    def __init__(
        self, compute: Callable[[], Tensor], device: torch.device, generators: Iterable[torch.Generator]
    ) -> None:
        self.compute, self.device, self.generators = compute, device, list(generators)
        self.reset()

    def reset(self) -> None:
        """Drops the recording: tensors that `compute` uses have been replaced, or it will not be called again."""
        self._runs = 0
        self._recording: tuple[torch.cuda.CUDAGraph, Tensor] | None = None

    def __call__(self) -> Tensor:
        if self.device.type != "cuda":
            return self.compute()
        with torch.cuda.device(self.device):
            if self._runs < WARM_UP:
                self._runs += 1
                return self._warm_up()
            if self._recording is None:
                self._recording = self._record()
            graph, result = self._recording
            graph.replay()
            return result

    def _warm_up(self) -> Tensor:
        # On the stream of recordings, so that libraries set up there what they need per stream.
        current, side = torch.cuda.current_stream(self.device), _side_stream(self.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            result = self.compute()
        current.wait_stream(side)
        return result

    def _record(self) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        # Our own stream: torch's default one for recordings lies on the device of the first of them.
        stream = _side_stream(self.device)
        with _no_garbage_collected(), torch.cuda.graph(graph, stream=stream):
            result = self.compute()
        # Starting a recording resets the generators' state on the device, on that stream. On a busy device this could
        # come after a replay has set it anew, which would then draw other numbers.
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return graph, result


_streams = threading.local()


def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One stream per thread and device: libraries keep memory for each that they have seen."""
    streams = _streams.__dict__.setdefault("by_device", {})
    if device not in streams:
        streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    return streams[device]  # type: ignore[no-any-return]


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Collects garbage before: an earlier recording that is freed during another one would invalidate it."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
