"""The graphs of the tables: uniform points in the unit disk, connected within a radius, and the paper's datasets."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

import lggd

# Number of nodes, and radius. The first three have about 49, 50 and 20 neighbours per node; the others have 20.
DISKS = {
    "d20k": (20_000, 0.05),
    "d200k": (200_000, 0.0159),
    "d2M": (2_000_000, 0.00316),
    "d5k": (5_000, 0.0645),
    "d50k": (50_000, 0.0202),
    "d500k": (500_000, 0.00635),
    "d5M": (5_000_000, 0.002005),
}


def disk_points(count: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    radius, angle = np.sqrt(random.random(count)), 2 * np.pi * random.random(count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


@cache
def disk(name: str) -> tuple[lggd.Graph, np.ndarray]:
    """A graph and its boundary: the points within the radius of the unit circle."""
    count, epsilon = DISKS[name]
    points = disk_points(count)
    boundary = np.flatnonzero(np.linalg.norm(points, axis=1) > 1 - epsilon)
    return lggd.Graph.from_points(points, epsilon=epsilon), boundary


def splits(name: str, count: int, device: torch.device) -> list[Any]:
    """The first splits of a dataset, on the device."""
    return [lggd.load(name, split=split).to(device) for split in range(count)]
