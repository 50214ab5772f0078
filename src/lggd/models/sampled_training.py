"""Backbones on a graph on disk: trained on a sampled neighbourhood of the labels, applied to the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from lggd.backbones.convolutions import scaled_laplacian
from lggd.backbones.network import no_dropout
from lggd.graph import Graph
from lggd.graph.csr import CSR
from lggd.graph.sparse import normalized_adjacency
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.inputs import Labels

# Labels whose neighbourhood is sampled, and neighbours of each node in each hop: at most half a million nodes.
MAX_LABELS, FANOUTS = 4096, (10, 10)


def sample_labels(graph: Graph, labels: Labels, seed: int) -> tuple[Tensor, Tensor, Tensor | None, Labels]:
    """A neighbourhood of labelled nodes of every class, in proportion.

    Returns the nodes, ascending, the edges between them and their weights in PyG's format, and their labels.
    """
    generator = torch.Generator().manual_seed(seed)
    seeds = []
    for part in (labels.train, labels.validation):
        total = max(1, int((part >= 0).sum()))
        for k in range(labels.num_classes):
            members = (part == k).nonzero().squeeze(1)
            count = max(1, MAX_LABELS * len(members) // total)
            seeds.append(members[torch.randperm(len(members), generator=generator)[:count]])
    nodes = sample_neighbourhood(graph.csr, torch.cat(seeds), FANOUTS, seed)
    own = Labels(labels.train[nodes], labels.validation[nodes], labels.num_classes, labels.held_out)
    return nodes, *induced_edges(graph.csr, nodes), own


def streamed_logits(module: Any, graph: Graph, x: Tensor) -> Tensor:
    """The logits of all nodes `[N, K]` by a trained backbone, with one pass over the edges for each layer."""
    parameters = {name: parameter.detach().unsqueeze(0) for name, parameter in module.named_parameters()}
    matrix = _MATRICES[module.graph_reader](graph.csr)

    def propagate(values: Tensor) -> Tensor:
        product: Tensor = matrix(values.squeeze(0).contiguous())
        return product.unsqueeze(0)

    with torch.no_grad():
        logits: Tensor = module.logits(parameters, x, propagate, no_dropout)
    return logits.squeeze(0)


# The matrix that a network reads from edges in memory, as one that is read from disk.
_MATRICES: dict[Any, Any] = {
    normalized_adjacency: StreamedMatrix.normalized_adjacency,
    scaled_laplacian: lambda csr: StreamedMatrix.normalized_adjacency(csr, self_loops=False).scaled(-1.0),
}


def sample_neighbourhood(csr: CSR, nodes: Tensor, fanouts: Sequence[int], seed: int) -> Tensor:
    """These nodes and, hop by hop, at most `fanouts[h]` neighbours of each node reached before; int64, ascending.

    Neighbours are drawn without replacement. The same seed draws the same ones.
    """
    indptr, indices = csr.indptr.numpy(), csr.indices.numpy()
    reached = np.zeros(csr.num_nodes, np.bool_)
    frontier = np.unique(nodes.numpy())
    reached[frontier] = True
    with csr.bounded():
        for hop, fanout in enumerate(fanouts):
            frontier = _draw(indptr, indices, frontier, fanout, np.uint64(seed + 7919 * hop), reached)
    return torch.from_numpy(np.flatnonzero(reached))


def induced_edges(csr: CSR, nodes: Tensor) -> tuple[Tensor, Tensor | None]:
    """The edges between these ascending nodes, numbered by their position: `[2, E]`, and their weights."""
    place = np.full(csr.num_nodes, -1, np.int64)
    place[nodes.numpy()] = np.arange(len(nodes))
    arrays = (csr.indptr.numpy(), csr.indices.numpy(), nodes.numpy(), place)
    with csr.bounded():
        count = _list_edges(*arrays, np.empty((2, 0), np.int64), np.empty(0, np.int64))
        edges, position = np.empty((2, count), np.int64), np.empty(count, np.int64)
        _list_edges(*arrays, edges, position)
        weight = None if csr.weight is None else csr.weight[torch.from_numpy(position)]
    return torch.from_numpy(edges), weight


@njit(inline="always")
def _mixed(x):
    """A step of SplitMix64: random bits of a counter."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def _draw(indptr, indices, frontier, fanout, seed, reached):
    """Marks neighbours of the frontier in `reached`, and returns those that are new."""
    new = np.empty(frontier.size * fanout, np.int64)
    count = 0
    for n in range(frontier.size):
        i = frontier[n]
        neighbours = indices[indptr[i] : indptr[i + 1]].copy()
        for k in range(min(fanout, neighbours.size)):
            # Fisher and Yates: the k-th place gets one of those that are left.
            counter = (np.uint64(i) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(k) + (seed << np.uint64(20)))
            left = np.uint64(neighbours.size - k)
            other = k + np.int64(_mixed(counter) % left)
            j = neighbours[other]
            neighbours[other] = neighbours[k]
            if not reached[j]:
                reached[j] = True
                new[count] = j
                count += 1
    return np.sort(new[:count])


@njit(cache=True)
def _list_edges(indptr, indices, nodes, place, edges, position):
    """Counts the edges between nodes, and lists them where there is space for them."""
    count = 0
    for i in nodes:
        for e in range(indptr[i], indptr[i + 1]):
            j = place[indices[e]]
            if j >= 0:
                if position.size:
                    edges[0, count], edges[1, count], position[count] = place[i], j, e
                count += 1
    return count
