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


def draw_kept(generators: Sequence[torch.Generator], shape: Sequence[int], levels: int) -> Tensor:
    """Which entries to keep, bool `[Q, *shape]`: each problem draws what it would draw alone."""
    size = math.prod(shape)
    words = torch.empty(len(generators), -(-size // 8), dtype=torch.int64, device=generators[0].device)
    for row, generator in zip(words, generators, strict=True):
        row.random_(-(2**63), None, generator=generator)
    return words.view(torch.uint8)[:, :size].reshape(-1, *shape) < levels
