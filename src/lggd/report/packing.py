"""Pieces of a drawing side by side: the largest in the middle, smaller ones where there is room, lone points around."""
# Loops for the compiler are written without annotations; numba infers their types.
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

# Lengths here are in units in which a piece of n points has the radius √n.
GAP = 1.0
# Points of a sunflower: equal area for each, no two in line.
GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
CANDIDATE_SPACING = 0.5
SINGLE_SPACING = 1.0
# A few stragglers do not shrink a whole piece: beyond this quantile of the distances from its middle, distances grow
# as a logarithm only.
FULL_SIZE = 0.95


def pack(at: Floats, starts: Integers) -> Floats:
    """The points `[N, 2]` again, the pieces moved and scaled so that they do not overlap and are equally dense.

    Piece c has the rows `starts[c]` to `starts[c + 1]`.
    """
    sizes = np.diff(starts)
    order = np.argsort(-sizes, kind="stable")
    several = order[sizes[order] > 1]
    single = order[sizes[order] == 1]
    packed = np.zeros_like(at)
    radii = np.sqrt(sizes[several].astype(np.float64))
    centres = np.zeros((len(several), 2))
    if len(several) > 1:
        _put_discs(radii + GAP / 2, centres)
    for c, radius, centre in zip(several, radii, centres, strict=True):
        span = slice(starts[c], starts[c + 1])
        packed[span] = centre + radius * _into_unit_disc(at[span])
    if len(single):
        drawn = np.delete(packed, starts[single], axis=0)
        middle = (drawn.min(0) + drawn.max(0)) / 2 if len(drawn) else 0.0
        hole = np.hypot(*(drawn - middle).T).max() + GAP if len(drawn) else 0.0
        packed[starts[single]] = middle + _sunflower(len(single), hole)
    return packed


def _into_unit_disc(piece: Floats) -> Floats:
    centred = piece - piece.mean(0)
    distance = np.hypot(*centred.T)
    size = max(float(np.quantile(distance, FULL_SIZE)), np.finfo(float).tiny)
    far = distance > size
    centred[far] *= ((1 + np.log(distance[far] / size) / 2) * size / distance[far])[:, None]
    return np.asarray(centred / max(np.hypot(*centred.T).max(), np.finfo(float).tiny))


def _sunflower(count: int, hole: float) -> Floats:
    """Evenly spread points `[count, 2]` around a hole of that radius."""
    k = np.arange(count) + 0.5
    radius = np.sqrt(hole**2 + SINGLE_SPACING**2 * k)
    return np.stack([radius * np.cos(GOLDEN_ANGLE * k), radius * np.sin(GOLDEN_ANGLE * k)], axis=1)


def _put_discs(radii: Floats, centres: Floats) -> None:
    """Fills in the centres `[n, 2]` of discs of falling radius, each as near to the first as there is room."""
    reach = 2 * np.sqrt((radii**2).sum()) + 2 * radii[0] + 2
    side = 2 * int(np.ceil(reach)) + 1
    _put_on_raster(radii, centres, np.zeros((side, side), np.bool_))


@njit(inline="always")
def _any_taken(taken, x, y, radius):  # type: ignore[no-untyped-def]  # pragma: no cover
    for row in range(int(y - radius), int(y + radius) + 1):
        half = np.sqrt(max(radius * radius - (row - y) ** 2, 0.0))
        for column in range(int(np.ceil(x - half)), int(x + half) + 1):
            if taken[row, column]:
                return True
    return False


@njit(nogil=True, cache=True)
def _put_on_raster(radii, centres, taken):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Tries the points of a sunflower from the inside out. Where a disc has no room, an equal one has none."""
    middle = taken.shape[0] // 2
    step = 0
    for n in range(radii.size):
        radius = radii[n]
        if n > 0:
            if radius < radii[n - 1]:
                step = int((radii[0] / CANDIDATE_SPACING) ** 2)
            while True:
                away = CANDIDATE_SPACING * np.sqrt(step)
                x = middle + away * np.cos(GOLDEN_ANGLE * step)
                y = middle + away * np.sin(GOLDEN_ANGLE * step)
                if not _any_taken(taken, x, y, radius):
                    break
                step += 1
            centres[n, 0] = x - middle
            centres[n, 1] = y - middle
        x, y = centres[n, 0] + middle, centres[n, 1] + middle
        for row in range(int(y - radius), int(y + radius) + 2):
            for column in range(int(x - radius), int(x + radius) + 2):
                if (row - y) ** 2 + (column - x) ** 2 <= radius * radius:
                    taken[row, column] = True
