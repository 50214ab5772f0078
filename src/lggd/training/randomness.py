"""Random numbers of each problem: seeds, generator states and dropout masks."""

# mypy: allow-untyped-decorators
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from numba import njit, prange
from torch import Tensor

from lggd.errors import InputError
from lggd.graph.csr import on_threads_that_pay


def read_seed(seed: int | torch.Generator) -> int:
    """Returns a seed as an integer: `seed` itself, or the next draw of a generator."""
    if isinstance(seed, torch.Generator):
        return int(torch.randint(2**31 - 1, (1,), generator=seed, device=seed.device))
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("seed", "be a whole number from 0, or a torch.Generator", repr(seed))
    return seed


def derived_seeds(seed: int | torch.Generator, count: int) -> list[int]:
    """Returns seeds derived from a seed, so that no stage repeats the random numbers of another."""
    generator = torch.Generator().manual_seed(read_seed(seed))
    return [read_seed(generator) for _ in range(count)]


def parameter_generators(generators: Sequence[torch.Generator]) -> list[torch.Generator]:
    """Generators for initial parameters: on the CPU, so that these are equal on every device."""
    # Not the seed itself: dropout must not draw the numbers that parameters were initialised with.
    return [torch.Generator().manual_seed((generator.initial_seed() + 1) % 2**63) for generator in generators]


class SeededGenerators:
    """Networks of many problems, each with its own generator, whose states can be saved."""

    generators: Sequence[torch.Generator]

    def random_state(self) -> dict[str, Tensor]:
        return {str(q): generator.get_state() for q, generator in enumerate(self.generators)}

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        for q, generator in enumerate(self.generators):
            generator.set_state(state[str(q)].cpu())


class RandomState:
    """A private state of torch's global random numbers; `in_use()` activates it temporarily.

    For modules that draw from the global generators, as dropout and the initialisation of layers do.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.states = {"cpu": torch.Generator().manual_seed(seed).get_state()}
        self._devices = [device] if device.type == "cuda" else []
        for cuda in self._devices:
            self.states["cuda"] = torch.Generator(cuda).manual_seed(seed).get_state()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, torch draws from here; afterwards its global state is restored."""
        with torch.random.fork_rng(self._devices):
            torch.set_rng_state(self.states["cpu"])
            for device in self._devices:
                torch.cuda.set_rng_state(self.states["cuda"], device)
            yield
            self.states = {"cpu": torch.get_rng_state()}
            for device in self._devices:
                self.states["cuda"] = torch.cuda.get_rng_state(device)


# Keep rates are rounded to this many levels: an entry is kept where its random byte is below the level.
LEVELS = 256


def keep_level(rate: float) -> int:
    """The level of a dropout rate; at least 1, because kept entries are scaled up by its inverse."""
    return max(1, round((1 - rate) * LEVELS))


def num_words(size: int) -> int:
    """The number of int64 words that hold one byte per entry."""
    return -(-size // 8)


def draw_random_bytes(words: Tensor, generator: torch.Generator) -> None:
    """Fills int64 `words [W]` with random bytes."""
    words.random_(-(2**63), None, generator=generator)


def draw_keep_mask(generators: Sequence[torch.Generator | None], shape: Sequence[int], level: int | Tensor) -> Tensor:
    """Which entries are kept, bool `[Q, *shape]`: each problem draws the same numbers as alone.

    `level` is one number for all, or int16 `[Q]`, with None instead of the generators that need not draw.
    """
    size = math.prod(shape)
    device = next(generator.device for generator in generators if generator is not None)
    words = torch.empty(len(generators), num_words(size), dtype=torch.int64, device=device)
    for row, generator in zip(words, generators, strict=True):
        if generator is not None:
            draw_random_bytes(row, generator)
    levels = level if isinstance(level, int) else level.unsqueeze(1)
    return (words.view(torch.uint8)[:, :size] < levels).view(-1, *shape)


def dropout(values: Tensor, generators: Sequence[torch.Generator], level: int) -> Tensor:
    """Dropout of `[Q, A, B]`, or of `[A, B]` shared by all problems: `[Q, A, B]`."""
    if level == LEVELS:
        return values
    keep = draw_keep_mask(generators, values.shape[-2:], level)
    # Through bytes: torch converts booleans far more slowly on a CPU.
    return values * keep.view(torch.uint8).to(values.dtype).mul_(LEVELS / level)


def dropout_(values: Tensor, level: int, random_bytes: Tensor) -> None:
    """Dropout in place on a CPU, by random bytes as `draw_random_bytes` draws them."""
    arrays = values.view(-1).numpy(), random_bytes.view(torch.uint8).numpy()
    on_threads_that_pay(values.numel(), _dropout_loop, *arrays, level, LEVELS / level)


@njit(parallel=True, fastmath={"contract", "reassoc", "nsz"}, cache=True)
def _dropout_loop(values: Any, random_bytes: Any, level: int, factor: float) -> None:
    zero, scale = values.dtype.type(0), values.dtype.type(factor)
    for i in prange(values.size):
        values[i] = scale * values[i] if random_bytes[i] < level else zero
