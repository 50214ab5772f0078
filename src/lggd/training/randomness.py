"""Seeds, and random number generators per problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from lggd.errors import InputError


def read_seed(seed: int | torch.Generator) -> int:
    """Returns a seed as an integer: `seed` itself, or the next draw of a generator."""
    if isinstance(seed, torch.Generator):
        return int(torch.randint(2**31 - 1, (1,), generator=seed, device=seed.device))
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("seed", "be a whole number from 0, or a torch.Generator", repr(seed))
    return seed


def parameter_generators(generators: Sequence[torch.Generator]) -> list[torch.Generator]:
    """Generators for initial parameters: on the CPU, so that these are equal on every device."""
    # Not the seed itself: dropout must not draw the numbers that parameters were initialised with.
    return [torch.Generator().manual_seed((generator.initial_seed() + 1) % 2**63) for generator in generators]


def generator_states(generators: Sequence[torch.Generator]) -> dict[str, Tensor]:
    """The states of generators by their index."""
    return {str(q): generator.get_state() for q, generator in enumerate(generators)}


def load_generator_states(generators: Sequence[torch.Generator], states: Mapping[str, Tensor]) -> None:
    """Restores states returned by `generator_states`."""
    for q, generator in enumerate(generators):
        generator.set_state(states[str(q)].cpu())


class RandomState:
    """A private state of torch's global random numbers; `in_use()` activates it temporarily.

    For modules that draw from the global generators, as dropout and the initialisation of layers do.
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
