"""Components of a layout side by side: the largest in the middle, smaller ones in the gaps, isolated nodes around."""
# Loops for the compiler are written without annotations; numba infers their types.
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

# Lengths are in units in which a component of n nodes has the radius √n.
GAP = 1.0
# Points of a sunflower: equal area for each, no two in line.
GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
CANDIDATE_SPACING = 0.5
# Beyond this quantile of the distances from the centre, distances grow logarithmically: a few outliers should not
# shrink a whole component.
FULL_SIZE = 0.95


def pack(positions: Floats, starts: Integers) -> Floats:
    """Moves and scales components so that they are equally dense and do not overlap; returns positions `[N, 2]`.

    Component c has the rows `starts[c]` to `starts[c + 1]`.
    """
    sizes = np.diff(starts)
    order = np.argsort(-sizes, kind="stable")
    several, single = order[sizes[order] > 1], order[sizes[order] == 1]
    packed = np.zeros_like(positions)
    radii = np.sqrt(sizes[several].astype(np.float64))
    centres = np.zeros((len(several), 2))
    _place_discs(radii + GAP / 2, centres)
    for c, radius, centre in zip(several, radii, centres, strict=True):
        span = slice(starts[c], starts[c + 1])
        packed[span] = centre + radius * _into_unit_disc(positions[span])
    if len(single):
        others = np.delete(packed, starts[single], axis=0)
        middle = (others.min(0) + others.max(0)) / 2 if len(others) else 0.0
        hole = np.hypot(*(others - middle).T).max() + GAP if len(others) else 0.0
        k = np.arange(len(single)) + 0.5
        radius, angle = np.sqrt(hole**2 + k), GOLDEN_ANGLE * k
        packed[starts[single]] = middle + np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return packed


def _into_unit_disc(positions: Floats) -> Floats:
    centred = positions - positions.mean(0)
    distance = np.hypot(*centred.T)
    size = max(float(np.quantile(distance, FULL_SIZE)), np.finfo(float).tiny)
    far = distance > size
    centred[far] *= ((1 + np.log(distance[far] / size) / 2) * size / distance[far])[:, None]
    return np.asarray(centred / max(np.hypot(*centred.T).max(), np.finfo(float).tiny))


@njit(nogil=True, cache=True)
def _place_discs(radii, centres):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fills in the centres `[n, 2]` of discs of falling radius, each at the first free point of a spiral."""
    step = 0
    for n in range(1, radii.size):
        if radii[n] < radii[n - 1]:  # where a disc does not fit, an equal one does not fit either
            step = int((radii[0] / CANDIDATE_SPACING) ** 2)
        free = False
        while not free:
            away = CANDIDATE_SPACING * np.sqrt(step)
            x, y = away * np.cos(GOLDEN_ANGLE * step), away * np.sin(GOLDEN_ANGLE * step)
            free = True
            for m in range(n - 1, -1, -1):
                reach = radii[n] + radii[m]
                if (x - centres[m, 0]) ** 2 + (y - centres[m, 1]) ** 2 < reach * reach:
                    free = False
                    step += 1
                    break
        centres[n, 0], centres[n, 1] = x, y
