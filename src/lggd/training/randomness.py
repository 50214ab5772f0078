"""Seeds, and random numbers of a module's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lggd.errors import InputError


def read_seed(seed: int | torch.Generator) -> int:
    """A seed as a whole number: the given one, or the next that a generator draws."""
    if isinstance(seed, torch.Generator):
        return int(torch.randint(2**31 - 1, (1,), generator=seed, device=seed.device))
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("seed", "be a whole number from 0, or a torch.Generator", repr(seed))
    return seed


class RandomState:
    """Random numbers of one's own; `in_use()` makes them torch's global ones for a while.

    For modules that draw from nowhere else, as dropout and the initialisation of layers do.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.states = {"cpu": torch.Generator().manual_seed(seed).get_state()}
        self._devices = []
        if device.type == "cuda":
            self._devices = [device]
            self.states["cuda"] = torch.Generator(device).manual_seed(seed).get_state()

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
