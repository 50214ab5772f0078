"""Random weights, and comparisons of graphs."""

import numpy as np
import torch


def dense(graph):
    return graph.to_scipy().toarray()


def random_weights(n=40, density=0.15, seed=0, symmetric=True):
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((n, n)) < density, rng.uniform(0.1, 1, (n, n)), 0)
    np.fill_diagonal(matrix, 0)
    return np.maximum(matrix, matrix.T) if symmetric else matrix


def same(first, second):
    return (
        torch.equal(first.edge_index, second.edge_index)
        and torch.equal(first.weight, second.weight)
        and (first.num_nodes, first.is_directed, first.dtype) == (second.num_nodes, second.is_directed, second.dtype)
    )
