"""Shortest paths: p = ∞, where the edge (i, j) is 1/(ρ(i)√w(i, j)) long; and the heap that holds a front."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from lggd.errors import InputError
from lggd.results import Solution
from lggd.solvers.eikonal_problem import EikonalProblem

if TYPE_CHECKING:
    from jaxtyping import Float64

# Beyond this ratio of the longest to the shortest edge most buckets would be empty, and a heap is faster.
MAX_LENGTH_RATIO = 64
NONE = -1
# A front is a 4-ary indexed heap: keys and nodes side by side. `place[node]` is the node's position in the heap, FAR
# before it enters and FINAL once it has left. The three keys behind the last entry are always infinite (PADDING), so
# that four children are compared without a bounds check.
FAR, FINAL = -1, -2
PADDING = 3


@dataclass(frozen=True)
class Dijkstra:
    """Dijkstra's algorithm: exact, for p = ∞ only.

    Breadth-first search where all edges are equally long, buckets where the longest edge is at most 64 times the
    shortest, a heap otherwise.

    Examples
    --------
    >>> import lggd
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> lggd.distance(path, [0], p=math.inf, solver=Dijkstra()).value.tolist()
    [0.0, 1.0, 2.0]
    """

    def solve(self, problem: EikonalProblem) -> Solution:
        if not math.isinf(problem.p):
            rule = "be inf for Dijkstra, which finds shortest paths"
            raise InputError("p", rule, problem.p, "Use {solver}.", hints={"solver": "FastMarching()"})
        slowness = problem.slowness
        if problem.layout.csr.weight is None and (slowness == slowness[:1]).all():
            return problem.solution(hops(problem) * torch.from_numpy(slowness[0]), self)
        return problem.solution(shortest(problem), self)


def shortest(problem: EikonalProblem) -> Float64[Tensor, "n k"]:
    """Lengths of the shortest paths to the boundary by row `[N, K]`, float64; inf where there is none."""
    csr, (indptr, indices, weight, stride) = problem.layout.csr, problem.incoming
    shortest, longest = csr.length_range
    # On disk, lengths are computed where they are used: all of them may not fit into memory.
    loops, length = compiled(csr.mapped is not None), weight
    if csr.mapped is None:
        length = csr.transposed.length.numpy()

    def solve(starts: np.ndarray, slowness: np.ndarray, u: np.ndarray) -> None:
        low, high = shortest * slowness.min(), longest * slowness.max()
        if high <= MAX_LENGTH_RATIO * low:
            # Slightly narrower than the shortest edge, so that rounding cannot put both its ends into one bucket.
            width = 0.999 * low
            loops.with_buckets(indptr, indices, length, stride, starts, slowness, width, int(high / width) + 2, u)
        else:
            loops.with_heap(indptr, indices, length, stride, starts, slowness, u)

    return problem.solve_columns(solve)[0]


def hops(problem: EikonalProblem) -> Float64[Tensor, "n k"]:
    """The number of edges to the boundary by row `[N, K]`, float64; inf where it cannot be reached."""
    indptr, indices, _, _ = problem.incoming
    return problem.solve_columns(lambda starts, slowness, u: _breadth_first(indptr, indices, starts, u))[0]


@njit(nogil=True, cache=True)
def _breadth_first(indptr, indices, starts, u):
    seen = np.zeros(u.size, np.uint8)  # one byte per node stays in cache where u does not
    queue = np.empty(u.size, np.int32)
    queue[: starts.size] = starts
    for i in starts:
        seen[i] = 1
        u[i] = 0.0
    level, first, last = 0.0, 0, starts.size
    # Once every node is seen, the edges of the last level need not be read.
    while first < last < u.size:
        level += 1.0
        end = last
        for n in range(first, end):
            i = queue[n]
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if seen[j] == 0:
                    seen[j] = 1
                    u[j] = level
                    queue[last] = j
                    last += 1
        first = end


@njit
def fill(keys, nodes, place, starts):
    """Builds a heap of the nodes `starts`, all with key 0, and returns its size."""
    for n in range(starts.size):
        keys[n] = 0.0
        nodes[n] = starts[n]
        place[starts[n]] = n
    keys[starts.size : starts.size + PADDING] = np.inf
    return starts.size


@njit
def sift_up(keys, nodes, place, at, key, node):
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
def drop_first(keys, nodes, place, size):
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


class CompiledDijkstra(NamedTuple):
    with_heap: Callable[..., None]
    with_buckets: Callable[..., None]


@njit(inline="always")
def _length(from_weights, value):
    return 1.0 / np.sqrt(np.float64(value)) if from_weights else value


@cache
def compiled(from_weights: bool) -> CompiledDijkstra:
    """The two loops, which read lengths, or weights from which they compute them.

    Compiled at their first call, then cached on disk: as their only free variable is a plain constant. A compiled
    function would be another one in each process, and never found there.
    """

    @njit(nogil=True, cache=True)
    def with_heap(indptr, indices, length, stride, starts, slowness, u):
        place = np.full(u.size, FAR, np.int32)
        keys, nodes = np.empty(u.size + PADDING + 1), np.empty(u.size, np.int32)
        varies = 1 if slowness.size > 1 else 0
        size = fill(keys, nodes, place, starts)
        for i in starts:
            u[i] = 0.0
        while size > 0:
            i, ui = nodes[0], keys[0]
            size -= 1
            drop_first(keys, nodes, place, size)
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                # u holds tentative values, and final ones are at most ui: this skips edges that cannot improve.
                t = ui + slowness[j * varies] * _length(from_weights, length[e * stride])
                if t < u[j]:
                    u[j] = t
                    at = place[j]
                    if at == FAR:
                        at = size
                        size += 1
                        keys[size + PADDING - 1] = np.inf
                    sift_up(keys, nodes, place, at, t, j)

    @njit(nogil=True, cache=True)
    def with_buckets(indptr, indices, length, stride, starts, slowness, width, count, u):
        """Nodes are queued in buckets by value, each narrower than the shortest edge: within one no node can improve
        another, so they may be removed in any order. Buckets are reused cyclically, because no node is queued more than
        `count` of them ahead.

        A node that moves to a nearer bucket leaves a stale entry behind, which is skipped later. Entries are linked
        lists, and freed ones are reused, so that all of them stay in cache.
        """
        head = np.full(count, NONE, np.int32)
        # An edge causes at most one entry. Only the part of this memory that the front needs is ever touched.
        capacity = starts.size + indices.size
        node, after = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
        for n in range(starts.size):
            u[starts[n]] = 0.0
            node[n] = starts[n]
            after[n] = n - 1
        head[0] = starts.size - 1
        used, free, waiting, turn = starts.size, NONE, starts.size, 0
        varies = 1 if slowness.size > 1 else 0
        while waiting > 0:
            slot = turn % count
            while head[slot] != NONE:
                entry = head[slot]
                i = node[entry]
                head[slot] = after[entry]
                after[entry] = free
                free = entry
                waiting -= 1
                ui = u[i]
                if np.int64(ui / width) != turn:
                    continue
                for e in range(indptr[i], indptr[i + 1]):
                    j = indices[e]
                    t = ui + slowness[j * varies] * _length(from_weights, length[e * stride])
                    if t < u[j]:
                        bucket = np.int64(t / width)
                        if u[j] == np.inf or np.int64(u[j] / width) != bucket:
                            if free == NONE:
                                entry = used
                                used += 1
                            else:
                                entry = free
                                free = after[entry]
                            node[entry] = j
                            after[entry] = head[bucket % count]
                            head[bucket % count] = entry
                            waiting += 1
                        u[j] = t
            turn += 1

    return CompiledDijkstra(with_heap, with_buckets)
