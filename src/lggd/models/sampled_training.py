"""Backbones on a graph on disk: trained on a sampled neighbourhood of the labels, applied to the whole graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lggd.backbones.convolutions import scaled_laplacian
from lggd.backbones.network import no_dropout
from lggd.graph import Graph
from lggd.graph.neighbourhood import induced_edges, sample_neighbourhood
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
