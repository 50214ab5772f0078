"""A deterministic two-dimensional layout of a graph, with neighbours close together and clusters apart.

Each component starts from the hop distances to a few far-apart pivots, projected onto the plane (pivot MDS). Stochastic
gradient descent then attracts the ends of edges and repels random pairs, as LargeVis and UMAP do. At the end,
components are packed side by side. docs/layout.md compares this with libraries.
"""
# Functions compiled by numba have no annotations: numba infers their types.
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False, disallow-untyped-calls=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numba import njit
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from lggd.graph import Graph
from lggd.validation import read_seed

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]

# Maximum number of edge samples, which limits the epochs for large graphs: a few seconds in total.
EDGE_SAMPLES = 45_000_000
MIN_EPOCHS, MAX_EPOCHS = 20, 500
# Expected number of edges sampled per node and epoch. With all edges, dense parts and hubs would collapse to points.
SAMPLED_EDGES = 4.0
# Number of repelled nodes per sample, as in LargeVis and UMAP.
NEGATIVE_SAMPLES = 5
# Largest step of a node in one sample, in units of the distance between neighbours.
MAX_STEP = 4.0
# Components up to this size start on a circle, which is cheaper than pivot MDS.
SMALL_COMPONENT = 12
PIVOTS, PIVOTS_OF_LARGE_GRAPHS = 50, 16
LARGE_GRAPH = 100_000
# Radius of the initial layout, in the same units: small enough for clusters to pass each other.
INITIAL_RADIUS = 3.0
# Gap between packed components, in units in which one of n nodes has the radius √n.
GAP = 1.0
# Angle between consecutive points of a sunflower spiral, on which all points have equal area.
GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))
CANDIDATE_SPACING = 0.5
# Beyond this quantile, distances from the centre are compressed logarithmically, so that a few outliers do not shrink
# the whole component.
FULL_SIZE = 0.95


def layout_graph(graph: Graph, *, seed: int | torch.Generator = 0) -> NDArray[np.float32]:
    """Returns a position for each node, float32 `[N, 2]` within [-1, 1]; bit-identical for the same graph and seed.

    Edge directions are ignored; edges of larger weight are sampled more often. Graphs of more than about 50,000 nodes
    use fewer epochs, at least 20, and those of more than 100,000 nodes fewer pivots.

    >>> positions = layout_graph(Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", num_nodes=5))
    >>> positions.shape, bool(abs(positions).max() <= 1)
    ((5, 2), True)
    """
    seed = read_seed(seed)
    components = _Components.of(graph)
    positions = _initial_positions(components, seed)
    heads, tails, probability = components.edge_probabilities()
    if len(heads):
        epochs = int(np.clip(EDGE_SAMPLES / probability.sum(), MIN_EPOCHS, MAX_EPOCHS))
        _descend(positions, heads, tails, probability, components.first, components.end, epochs, seed)
    packed = pack(positions, components.starts)
    low, high = packed.min(0), packed.max(0)
    scale = max(float((high - low).max()) / 2, np.finfo(np.float32).tiny)
    result = np.empty((graph.num_nodes, 2), np.float32)
    result[components.nodes] = (packed - (low + high) / 2) / scale
    return result


class _Components(NamedTuple):
    """An undirected graph whose rows are sorted by component."""

    nodes: Integers  # the node of each row
    indptr: Integers
    indices: Integers
    weight: Floats
    starts: Integers  # component c has the rows starts[c] to starts[c + 1]
    first: Integers  # the component of row r has the rows first[r] to end[r]
    end: Integers

    @classmethod
    def of(cls, graph: Graph) -> _Components:
        graph = graph.to("cpu")
        if graph.is_directed:
            edges, count = graph.edge_index, graph.num_nodes
            graph = Graph.from_edges(edges, graph.weight, num_nodes=count, symmetrize="max", unbounded=True)
        component = graph.components.numpy()
        nodes = np.argsort(component, kind="stable")
        sizes = np.bincount(component)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        csr, _ = graph.csr.permuted(torch.from_numpy(nodes))
        weight = np.ones(csr.num_edges) if csr.weight is None else csr.weight.numpy().astype(np.float64)
        first, end = np.repeat(starts[:-1], sizes), np.repeat(starts[1:], sizes)
        return cls(nodes, csr.indptr.numpy(), csr.indices.numpy(), weight, starts, first, end)

    def edge_probabilities(self) -> tuple[Integers, Integers, Floats]:
        """Both ends of each undirected edge, and the probability that an epoch samples it."""
        degree = np.diff(self.indptr)
        heads = np.repeat(np.arange(len(self.nodes), dtype=np.int32), degree)
        once = heads < self.indices
        heads, tails, weight = heads[once], self.indices[once], self.weight[once]
        mean_degree = np.sqrt(degree[heads].astype(np.float64) * degree[tails])
        heaviest = weight.max(initial=np.finfo(float).tiny)
        return heads, tails, np.minimum(1.0, SAMPLED_EDGES / mean_degree) * weight / heaviest


def _initial_positions(components: _Components, seed: int) -> Floats:
    rows, starts = len(components.nodes), components.starts
    angle = 2 * np.pi * (np.arange(rows) - components.first) / (components.end - components.first)
    positions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    pivots = PIVOTS if rows <= LARGE_GRAPH else PIVOTS_OF_LARGE_GRAPHS
    for c in np.flatnonzero(np.diff(starts) > SMALL_COMPONENT):
        start, end = starts[c], starts[c + 1]
        indptr = components.indptr[start : end + 1]
        indices = components.indices[indptr[0] : indptr[-1]] - start
        # SciPy's dijkstra before 1.15 refuses indices of 64 bits.
        parts = np.ones(len(indices)), indices.astype(np.int32), (indptr - indptr[0]).astype(np.int32)
        adjacency = sp.csr_array(parts, shape=(end - start, end - start))
        positions[start:end] = INITIAL_RADIUS * _pivot_mds(adjacency, pivots)
    # Noise separates nodes with equal hop distances, which would otherwise coincide forever.
    return positions + np.random.default_rng(seed).normal(scale=1e-2, size=positions.shape)


def _pivot_mds(adjacency: sp.csr_array, pivots: int) -> Floats:
    """Pivot MDS (Brandes and Pich): coordinates `[n, 2]` within [-1, 1] that approximate hop distances."""
    hops = np.empty((adjacency.shape[0], pivots))
    nearest = np.full(len(hops), np.inf)
    pivot = int(np.diff(adjacency.indptr).argmax())
    for k in range(pivots):
        hops[:, k] = dijkstra(adjacency, indices=pivot, unweighted=True)
        nearest = np.minimum(nearest, hops[:, k])
        pivot = int(nearest.argmax())  # far from all pivots so far
    squares = hops**2
    centred = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    # einsum sums in a fixed order, unlike BLAS on several threads.
    _, eigenvectors = np.linalg.eigh(np.einsum("np,nq->pq", centred, centred))
    leading = eigenvectors[:, -1:-3:-1]
    leading = leading * np.sign(leading[np.abs(leading).argmax(0), [0, 1]])  # the sign of an eigenvector is arbitrary
    projected = np.einsum("np,pd->nd", centred, leading)
    return np.asarray(projected / max(np.abs(projected).max(), np.finfo(float).tiny))


@njit(inline="always")
def _xorshift(state):  # pragma: no cover
    """Marsaglia's generator; the state is never 0."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@njit(inline="always")
def _clipped(step):  # pragma: no cover
    return min(max(step, -MAX_STEP), MAX_STEP)


@njit(nogil=True, cache=True)
def _descend(at, heads, tails, probability, first, end, epochs, seed):  # pragma: no cover
    """Moves the rows in place. The likelihood of an edge of length d is 1/(1 + d²), as in LargeVis and t-SNE."""
    state = np.uint64(seed) * np.uint64(2) + np.uint64(0x9E3779B97F4A7C15)
    for _ in range(16):  # decorrelates neighbouring seeds
        state = _xorshift(state)
    for epoch in range(epochs):
        rate = 1.0 - epoch / epochs
        for e in range(heads.size):
            state = _xorshift(state)
            if np.float64(state >> np.uint64(32)) >= probability[e] * 2.0**32:
                continue
            # The ends take turns in repelling other nodes.
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
            for _ in range(NEGATIVE_SAMPLES):
                state = _xorshift(state)
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


def pack(positions: Floats, starts: Integers) -> Floats:
    """Moves and scales components, rows `starts[c]` to `starts[c + 1]`, to equal density without overlap, `[N, 2]`."""
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
def _place_discs(radii, centres):  # pragma: no cover
    """Writes the centres `[n, 2]` of discs in order of decreasing radius, each at the first free point of a spiral."""
    step = 0
    for n in range(1, radii.size):
        if radii[n] < radii[n - 1]:  # a disc of equal size need not try the same points again
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
