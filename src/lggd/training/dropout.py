"""What to drop in training: decided by a random byte an entry, drawn by every problem from a generator of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Rates are rounded to this many levels: eight entries are decided by one random number of 64 bits.
LEVELS = 256


def kept_levels(rate: float) -> int:
    """How many of the levels are kept at this rate of dropping."""
    return round((1 - rate) * LEVELS)


def words_for(size: int) -> int:
    """How many numbers of 64 bits hold a byte for each of so many entries."""
    return -(-size // 8)


def draw_lots(words: Tensor, generator: torch.Generator) -> None:
    """Draws random bytes into int64 `words [W]`: the entries whose byte is below the level are kept."""
    words.random_(-(2**63), None, generator=generator)


def draw_kept(generators: Sequence[torch.Generator | None], shape: Sequence[int], levels: int | Tensor) -> Tensor:
    """Which entries to keep, bool `[Q, *shape]`: each problem draws what it would draw alone.

    `levels` is one number for all, or int16 `[Q]`: None in place of a generator where all levels are kept.
    """
    size = math.prod(shape)
    device = next(generator.device for generator in generators if generator is not None)
    words = torch.empty(len(generators), words_for(size), dtype=torch.int64, device=device)
    for row, generator in zip(words, generators, strict=True):
        if generator is not None:
            draw_lots(row, generator)
    lots = words.view(torch.uint8)[:, :size]
    kept = lots < (levels if isinstance(levels, int) else levels.unsqueeze(1))
    return kept.view(-1, *shape)
