"""An order of the nodes in which neighbours lie close to each other, found with a few numbers per node in memory.

Nodes are grouped first: each takes the label that most of its neighbours have, a few times over, as long as the group
is small enough for its values to stay in the cache (label propagation with a limit of size). Then groups are listed
from neighbour to neighbour (breadth first), each with all its members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lggd.graph.csr import CSR

# Nodes of a group: the values of four classes take 128 KiB.
MAX_MEMBERS = 2**13
# Neighbours that are asked for their label, at most about twice as many; sweeps, unless few labels change before.
NEIGHBOURS_ASKED, MAX_SWEEPS, MIN_CHANGES = 32, 5, 0.01
# A new order is worth its cost if it lowers the mean of log2(1 + gap) by this fraction.
MIN_GAIN = 0.05

Array = NDArray[Any]


def neighbour_order(csr: CSR, progress: Callable[[int, int], None]) -> Array:
    """Order int32 `[N]`: row r holds the node `order[r]` of these rows."""
    indptr, indices = csr.indptr.numpy(), csr.indices.numpy()
    nodes = csr.num_nodes
    label, size, count = np.arange(nodes, dtype=np.int32), np.ones(nodes, np.int32), np.zeros(nodes, np.int32)
    for sweep in range(MAX_SWEEPS):
        changes = 0
        for first, last in csr.blocks():
            changes += _spread(indptr, indices, label, size, count, first, last, NEIGHBOURS_ASKED, MAX_MEMBERS)
        progress(sweep + 1, MAX_SWEEPS + 1)
        if changes < MIN_CHANGES * nodes:
            break
    group = np.cumsum(size > 0, dtype=np.int32) - np.int32(1)
    label = group[label]
    starts = np.concatenate([[0], np.cumsum(size[size > 0], dtype=np.int64)])
    members = np.argsort(label, kind="stable").astype(np.int32)
    order = _breadth_first(indptr, indices, label, members, starts, NEIGHBOURS_ASKED)
    if csr.mapped is not None:
        csr.mapped.release()
    progress(MAX_SWEEPS + 1, MAX_SWEEPS + 1)
    return np.asarray(order)


@njit(cache=True)
def _spread(indptr, indices, label, size, count, first, last, asked, most):  # pragma: no cover
    """One sweep over some rows, in place; returns how many labels changed. `count` is zero before and after."""
    changes = 0
    touched = np.empty(2 * asked + 2, np.int32)
    for i in range(first, last):
        begin, end = indptr[i], indptr[i + 1]
        step = max(1, (end - begin) // asked)
        seen = 0
        for e in range(begin, end, step):
            one = label[indices[e]]
            if count[one] == 0:
                touched[seen] = one
                seen += 1
            count[one] += 1
        old = label[i]
        best, most_votes = old, count[old]
        for k in range(seen):
            if count[touched[k]] > most_votes and size[touched[k]] < most:
                best, most_votes = touched[k], count[touched[k]]
        for k in range(seen):
            count[touched[k]] = 0
        if best != old:
            size[old] -= 1
            size[best] += 1
            label[i] = best
            changes += 1
    return changes


@njit(cache=True)
def _breadth_first(indptr, indices, label, members, starts, asked):  # pragma: no cover
    """All nodes, group by group; each group before those that its members have as neighbours."""
    groups = starts.size - 1
    queue, seen = np.empty(groups, np.int32), np.zeros(groups, np.bool_)
    order = np.empty(members.size, np.int32)
    head, tail, position = 0, 0, 0
    for root in range(groups):
        if seen[root]:
            continue
        seen[root] = True
        queue[tail] = root
        tail += 1
        while head < tail:
            group = queue[head]
            head += 1
            for m in range(starts[group], starts[group + 1]):
                node = members[m]
                order[position] = node
                position += 1
                begin, end = indptr[node], indptr[node + 1]
                for e in range(begin, end, max(1, (end - begin) // asked)):
                    other = label[indices[e]]
                    if not seen[other]:
                        seen[other] = True
                        queue[tail] = other
                        tail += 1
    return order
