"""Repeated computations as CUDA graphs: captured once and replayed, which saves the kernel launches."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

# Warm-up calls before the capture: kernels are compiled and tuned, and optimizers create their state.
WARM_UP = 2


class CUDAGraphStep:
    """Calls `compute` repeatedly and returns its tensor; on a GPU, a captured CUDA graph of it is replayed.

    `compute` takes no arguments, reads and writes tensors in place, and copies nothing to the host. It draws random
    numbers from `generators` only. Where these are None, on a CPU, and while warming up, it is simply called.
    """

    def __init__(
        self, compute: Callable[[], Tensor], device: torch.device, generators: Sequence[torch.Generator] | None
    ) -> None:
        self.compute, self.device, self.generators = compute, device, generators
        self.reset()

    def reset(self) -> None:
        """Drops the captured graph, because tensors that `compute` uses were replaced, or to free memory."""
        self._runs = 0
        self._captured: tuple[torch.cuda.CUDAGraph, Tensor] | None = None

    def __call__(self) -> Tensor:
        if self.device.type != "cuda" or self.generators is None:
            return self.compute()
        with torch.cuda.device(self.device):
            if self._runs < WARM_UP:
                self._runs += 1
                return self._warm_up()
            if self._captured is None:
                self._captured = self._capture(self.generators)
            graph, result = self._captured
            graph.replay()
            return result

    def _warm_up(self) -> Tensor:
        # On the capture stream, so that libraries create their per-stream state there.
        current, side = torch.cuda.current_stream(self.device), _side_stream(self.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            result = self.compute()
        current.wait_stream(side)
        return result

    def _capture(self, generators: Sequence[torch.Generator]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        # A stream of our own: torch's default capture stream is on the device of the first capture.
        stream = _side_stream(self.device)
        with _no_garbage_collected(), torch.cuda.graph(graph, stream=stream):
            result = self.compute()
        # A capture begins by resetting the generators' device state on its stream. On a busy device, the reset could
        # otherwise come after a replay has set that state, which would then draw other numbers.
        torch.cuda.current_stream(self.device).wait_stream(stream)
        return graph, result


_streams = threading.local()


def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One stream per thread and device: libraries hold memory for every stream they have seen."""
    streams: dict[torch.device, torch.cuda.Stream] = _streams.__dict__.setdefault("by_device", {})
    if device not in streams:
        streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no type for it
    return streams[device]


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Collects garbage first, then disables the collector: freeing an earlier graph would invalidate a capture."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
