"""A 4-ary indexed heap for fronts: keys and nodes side by side, with the position of each node.

`place[node]` is the node's position in the heap, FAR before it enters and FINAL once it has left. The three keys behind
the last entry are always infinite (PADDING), so that four children are compared without a bounds check.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FAR, FINAL = -1, -2
PADDING = 3


@njit
def fill(keys, nodes, place, starts):  # type: ignore[no-untyped-def]
    """Builds a heap of the nodes `starts`, all with key 0, and returns its size."""
    for n in range(starts.size):
        keys[n] = 0.0
        nodes[n] = starts[n]
        place[starts[n]] = n
    keys[starts.size : starts.size + PADDING] = np.inf
    return starts.size


@njit
def sift_up(keys, nodes, place, at, key, node):  # type: ignore[no-untyped-def]
    """Moves (key, node) from the empty position `at` up to its place."""
    while at > 0:
        parent = (at - 1) >> 2
        if keys[parent] <= key:
            break
        keys[at] = keys[parent]
        nodes[at] = nodes[parent]
        place[nodes[at]] = at
        at = parent
    keys[at] = key
    nodes[at] = node
    place[node] = at


@njit
def drop_first(keys, nodes, place, size):  # type: ignore[no-untyped-def]
    """Removes the first of `size + 1` entries.

    The empty position moves to the bottom before the last entry fills it, which nearly always belongs there.
    """
    key, node, at = keys[size], nodes[size], 0
    keys[size] = np.inf
    child = 1
    while child < size:
        left, right = child, child + 2
        if keys[child + 1] < keys[left]:
            left = child + 1
        if keys[child + 3] < keys[right]:
            right = child + 3
        least = right if keys[right] < keys[left] else left
        keys[at] = keys[least]
        nodes[at] = nodes[least]
        place[nodes[at]] = at
        at = least
        child = 4 * at + 1
    if size > 0:
        sift_up(keys, nodes, place, at, key, node)
