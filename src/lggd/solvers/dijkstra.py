"""Shortest paths: p = ∞, where the edge (i, j) is 1/(ρ(i)√w(i, j)) long."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from lggd.solvers.columns import solve_columns
from lggd.solvers.heap import FAR, PADDING, drop_first, fill, sift_up
from lggd.solvers.problem import Problem

# Beyond this ratio of the longest to the shortest edge most buckets would be empty, and a heap is faster.
WIDEST_RANGE = 64
NONE = -1


@dataclass(frozen=True)
class Dijkstra:
    """Exact, for p = ∞ alone. Breadth-first where every edge is equally long; with buckets where the longest edge is
    not many times the shortest; with a heap otherwise.
    """

    def solve(self, problem: Problem) -> tuple[Tensor, int | None]:
        if not math.isinf(problem.p):
            raise ValueError(
                f"`solver=Dijkstra()` finds shortest paths, p = inf, got p={problem.p}. Use FastMarching()."
            )
        csr, slowness = problem.layout.csr, problem.slowness
        if csr.weight is None and (slowness == slowness[:1]).all():
            return hops(problem) * torch.from_numpy(slowness[0]), None
        return shortest(problem), None


def shortest(problem: Problem) -> Tensor:
    """Lengths of the shortest paths to the boundary by row `[N, K]`, float64; inf where there is no way."""
    csr, (indptr, indices, _, stride) = problem.layout.csr, problem.incoming
    length = csr.incoming_length.numpy()
    shortest, longest = csr.length_range

    def one(column: int, starts: np.ndarray, slowness: np.ndarray, u: np.ndarray) -> int:
        least, most = shortest * slowness.min(), longest * slowness.max()
        if most <= WIDEST_RANGE * least:
            # A little narrower than the shortest edge, so that rounding cannot put both its ends into one bucket.
            width = 0.999 * least
            _with_buckets(indptr, indices, length, stride, starts, slowness, width, int(most / width) + 2, u)
        else:
            _with_heap(indptr, indices, length, stride, starts, slowness, u)
        return 0

    return solve_columns(problem, one)[0]


def hops(problem: Problem) -> Tensor:
    """The number of edges to the boundary by row `[N, K]`, float64; inf where there is no way."""
    indptr, indices, _, _ = problem.incoming

    def one(column: int, starts: np.ndarray, slowness: np.ndarray, u: np.ndarray) -> int:
        _breadth_first(indptr, indices, starts, u)
        return 0

    return solve_columns(problem, one)[0]


@njit(nogil=True, cache=True)
def _breadth_first(indptr, indices, starts, u):  # type: ignore[no-untyped-def]
    seen = np.zeros(u.size, np.uint8)  # a byte a node stays in the caches where u does not
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


@njit(nogil=True, cache=True)
def _with_heap(indptr, indices, length, stride, starts, slowness, u):  # type: ignore[no-untyped-def]
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
            # Tentative values stand in u, and final ones are no larger than ui: one look passes by what cannot improve.
            t = ui + slowness[j * varies] * length[e * stride]
            if t < u[j]:
                u[j] = t
                at = place[j]
                if at == FAR:
                    at = size
                    size += 1
                    keys[size + PADDING - 1] = np.inf
                sift_up(keys, nodes, place, at, t, j)


@njit(nogil=True, cache=True)
def _with_buckets(indptr, indices, length, stride, starts, slowness, width, count, u):  # type: ignore[no-untyped-def]
    """Nodes wait in buckets by value, each narrower than the shortest edge: within one no node can improve another, so
    they may leave it in any order. Buckets are used in turns, because no node waits more than `count` of them ahead.

    A node that moves on to a nearer bucket leaves its old entry behind, to be passed by there. Entries are linked, and
    freed ones are used again, so that all of them stay within the caches.
    """
    head = np.full(count, NONE, np.int32)
    # An edge can cause one entry at most. Of this memory only what the front needs is ever touched, and so resident.
    room = starts.size + indices.size
    node, after = np.empty(room, np.int32), np.empty(room, np.int32)
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
                t = ui + slowness[j * varies] * length[e * stride]
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
