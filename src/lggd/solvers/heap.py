"""A four-way indexed heap for fronts: keys and nodes side by side, the place of each node known.

`place[node]` is the node's position in the heap, FAR before it enters and FINAL once it has left.
The heap holds only the front, which is far smaller than the graph, and grows as needed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FAR, FINAL = -1, -2


@njit
def sift_up(keys, nodes, place, at, key, node):  # type: ignore[no-untyped-def]
    """Puts (key, node) into the hole `at`, or above it."""
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
    """Takes the first entry of `size + 1` away, leaving `size`."""
    key, node, at = keys[size], nodes[size], 0
    while True:
        child = 4 * at + 1
        if child >= size:
            break
        least = child
        for other in range(child + 1, min(child + 4, size)):
            if keys[other] < keys[least]:
                least = other
        if keys[least] >= key:
            break
        keys[at] = keys[least]
        nodes[at] = nodes[least]
        place[nodes[at]] = at
        at = least
    if size > 0:
        keys[at] = key
        nodes[at] = node
        place[node] = at


@njit
def grown(values):  # type: ignore[no-untyped-def]
    """The same values with room for as many again."""
    larger = np.empty(2 * values.size, values.dtype)
    larger[: values.size] = values
    return larger
