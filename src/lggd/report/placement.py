"""Where to draw the nodes of a graph: clusters apart, neighbours together, the same picture every time.

Each component starts from its hop distances to a few far-apart pivots, projected onto the plane (pivot MDS). Then edges
pull their ends together and random pairs push each other apart, in the manner of LargeVis and UMAP. At the end the
components are packed side by side, the largest in the middle, lone nodes around.
"""
# Loops for the compiler are written without annotations; numba infers their types.
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from lggd.errors import InputError
from lggd.graph import Graph
from lggd.report.packing import pack

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

# A graph is drawn in about this many looks at an edge: a few seconds, however large it is. Between these epochs.
LOOKS_AT_EDGES = 45_000_000
FEWEST_EPOCHS, MOST_EPOCHS = 20, 500
# About how many of its edges a node follows in an epoch. If it followed all, the dense parts of a graph, and its hubs,
# would shrink into points.
FOLLOWED_EDGES = 4.0
# Nodes that each look pushes away. Five is what LargeVis and UMAP draw.
PUSHES = 5
# No single look moves a node farther than this, in units where neighbours lie about 1 apart.
LONGEST_MOVE = 4.0
# Components up to this size start on a circle: descent unfolds them, and pivots would cost more than they bring.
SMALL_COMPONENT = 12
PIVOTS, PIVOTS_OF_LARGE_GRAPHS = 50, 16
LARGE_GRAPH = 100_000
# The size of the starting picture, in the same units: small enough for clusters to pass each other.
STARTING_RADIUS = 3.0


def place(graph: Graph, *, seed: int = 0) -> NDArray[np.float32]:
    """A point of the plane for each node, float32 `[N, 2]` within [-1, 1]: the same bits for the same graph and seed.

    Arrows are ignored; heavier edges pull more often. Work is bounded: graphs beyond some 50,000 nodes get fewer epochs
    of descent, at least 20, and beyond 100,000 they start from fewer pivots, so they are drawn more roughly.

    >>> positions = place(Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", num_nodes=5))
    >>> positions.shape, bool(abs(positions).max() <= 1)
    ((5, 2), True)
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError("seed", "be a whole number from 0 and below 2⁶³", repr(seed))
    neighbours = _Neighbours.of(graph)
    at = _start(neighbours, seed)
    heads, tails, chance = neighbours.pairs()
    if len(heads):
        epochs = int(np.clip(LOOKS_AT_EDGES / chance.sum(), FEWEST_EPOCHS, MOST_EPOCHS))
        _descend(at, heads, tails, chance, neighbours.first, neighbours.end, epochs, seed)
    packed = pack(at, neighbours.starts)
    placed = np.empty((graph.num_nodes, 2), np.float32)
    placed[neighbours.nodes] = _into_unit_square(packed)
    return placed


class _Neighbours(NamedTuple):
    """A graph without arrows, its nodes numbered component after component.

    `nodes[r]` is the node that row r stands for. Component c has the rows `starts[c]` to `starts[c + 1]`; the row r
    lies in the component of the rows `first[r]` to `end[r]`.
    """

    nodes: Integers
    indptr: Integers
    indices: Integers
    weight: Floats
    starts: Integers
    first: Integers
    end: Integers

    @classmethod
    def of(cls, graph: Graph) -> _Neighbours:
        graph = graph.to("cpu")
        if graph.is_directed:
            graph = Graph.from_edges(
                graph.edge_index, graph.weight, num_nodes=graph.num_nodes, symmetrize="max", unbounded=True
            )
        component = graph.components.numpy()
        nodes = np.argsort(component, kind="stable")
        sizes = np.bincount(component)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        csr, _ = graph.csr.permuted(torch.from_numpy(nodes))
        weight = np.ones(csr.num_edges) if csr.weight is None else csr.weight.numpy().astype(np.float64)
        return cls(
            nodes, csr.indptr.numpy(), csr.indices.numpy(), weight, starts,
            np.repeat(starts[:-1], sizes), np.repeat(starts[1:], sizes),
        )  # fmt: skip

    def pairs(self) -> tuple[Integers, Integers, Floats]:
        """Both ends of each edge, listed once, and the chance that an epoch looks at it."""
        degree = np.diff(self.indptr)
        heads = np.repeat(np.arange(len(self.nodes), dtype=np.int32), degree)
        once = heads < self.indices
        heads, tails, weight = heads[once], self.indices[once], self.weight[once]
        crowd = np.sqrt(degree[heads].astype(np.float64) * degree[tails])
        heaviest = weight.max(initial=np.finfo(float).tiny)
        return heads, tails, np.minimum(1.0, FOLLOWED_EDGES / crowd) * weight / heaviest


def _start(neighbours: _Neighbours, seed: int) -> Floats:
    """Rough positions `[N, 2]` of the rows, each component around the origin."""
    rows = len(neighbours.nodes)
    turn = 2 * np.pi * (np.arange(rows) - neighbours.first) / (neighbours.end - neighbours.first)
    at = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    pivots = PIVOTS if rows <= LARGE_GRAPH else PIVOTS_OF_LARGE_GRAPHS
    starts = neighbours.starts
    for c in np.flatnonzero(np.diff(starts) > SMALL_COMPONENT):
        span = slice(starts[c], starts[c + 1])
        hops = np.empty((starts[c + 1] - starts[c], pivots), np.int32)
        _hops_to_pivots(neighbours.indptr, neighbours.indices, starts[c], hops)
        at[span] = STARTING_RADIUS * _project(hops)
    # Nodes with equal hops would lie on each other, where nothing says which way to part.
    return at + np.random.default_rng(seed).normal(scale=1e-2, size=at.shape)


def _project(hops: Integers) -> Floats:
    """Pivot MDS (Brandes and Pich): coordinates `[n, 2]` up to 1 whose distances resemble the hops `[n, pivots]`."""
    squares = hops.astype(np.float64) ** 2
    centred = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    # einsum adds in a fixed order, as BLAS on several threads does not.
    _, directions = np.linalg.eigh(np.einsum("np,nq->pq", centred, centred))
    leading = directions[:, -1:-3:-1]
    largest = np.abs(leading).argmax(0)
    leading = leading * np.sign(leading[largest, [0, 1]])  # an eigenvector's sign is the library's whim
    projected = np.einsum("np,pd->nd", centred, leading)
    return np.asarray(projected / max(np.abs(projected).max(), np.finfo(float).tiny))


def _into_unit_square(at: Floats) -> Floats:
    low, high = at.min(0), at.max(0)
    return np.asarray((at - (low + high) / 2) / max(float((high - low).max()) / 2, np.finfo(np.float32).tiny))


@njit(nogil=True, cache=True)
def _hops_to_pivots(indptr, indices, start, hops):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Fills `hops [n, pivots]` of the component that begins at `start`. Each pivot is far from those before it."""
    rows = hops.shape[0]
    queue = np.empty(rows, np.int32)
    nearest = np.full(rows, rows, np.int32)
    pivot = 0
    for r in range(rows):
        if indptr[start + r + 1] - indptr[start + r] > indptr[start + pivot + 1] - indptr[start + pivot]:
            pivot = r
    for column in range(hops.shape[1]):
        reached = hops[:, column]
        reached[:] = -1
        reached[pivot] = 0
        queue[0] = pivot
        taken, waiting = 0, 1
        while taken < waiting:
            r = queue[taken]
            taken += 1
            for e in range(indptr[start + r], indptr[start + r + 1]):
                j = indices[e] - start
                if reached[j] < 0:
                    reached[j] = reached[r] + 1
                    queue[waiting] = j
                    waiting += 1
        for r in range(rows):
            nearest[r] = min(nearest[r], reached[r])
        pivot = int(nearest.argmax())


@njit(inline="always")
def _next(state):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Marsaglia's xorshift: 64 bits of state, never 0."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@njit(inline="always")
def _clipped(move):  # type: ignore[no-untyped-def]  # pragma: no cover
    return min(max(move, -LONGEST_MOVE), LONGEST_MOVE)


@njit(nogil=True, cache=True)
def _descend(at, heads, tails, chance, first, end, epochs, seed):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Moves the rows in place. The likelihood of an edge at distance d is 1/(1 + d²), as in LargeVis and t-SNE."""
    state = np.uint64(seed) * np.uint64(2) + np.uint64(0x9E3779B97F4A7C15)
    for _ in range(16):  # neighbouring seeds part ways
        state = _next(state)
    for epoch in range(epochs):
        rate = 1.0 - epoch / epochs
        for e in range(heads.size):
            state = _next(state)
            if np.float64(state >> np.uint64(32)) >= chance[e] * 2.0**32:
                continue
            # The ends take turns at being the one that pushes others away.
            i, j = (heads[e], tails[e]) if epoch % 2 == 0 else (tails[e], heads[e])
            xi, yi = at[i, 0], at[i, 1]
            dx, dy = xi - at[j, 0], yi - at[j, 1]
            force = 2.0 / (1.0 + dx * dx + dy * dy)
            mx, my = rate * _clipped(force * dx), rate * _clipped(force * dy)
            xi -= mx
            yi -= my
            at[j, 0] += mx
            at[j, 1] += my
            rows = np.uint64(end[i] - first[i])
            for _ in range(PUSHES):
                state = _next(state)
                other = first[i] + np.int64(((state >> np.uint64(32)) * rows) >> np.uint64(32))
                if other == i:
                    continue
                dx, dy = xi - at[other, 0], yi - at[other, 1]
                square = dx * dx + dy * dy
                force = 2.0 / ((0.001 + square) * (1.0 + square))
                xi += rate * _clipped(force * dx)
                yi += rate * _clipped(force * dy)
            at[i, 0] = xi
            at[i, 1] = yi
