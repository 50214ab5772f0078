"""Compressed sparse rows against SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphs import random_weights
from lggd import Graph
from lggd.graph.csr import inverse


@pytest.mark.parametrize("directed", [False, True])
def test_transposed_rows_are_those_of_scipy(directed):
    matrix = random_weights(symmetric=not directed)
    csr = Graph.from_scipy(matrix, directed=directed).csr
    transposed = csr.transposed
    expected = sp.csr_array(matrix.T)
    assert np.array_equal(transposed.indptr, expected.indptr)
    assert np.array_equal(transposed.indices, expected.indices)
    assert np.array_equal(csr.weight[transposed.edge.long()], expected.data)


@pytest.mark.parametrize("directed", [False, True])
def test_permuted_rows_are_those_of_scipy(directed):
    matrix = random_weights(symmetric=not directed)
    csr = Graph.from_scipy(matrix, directed=directed).csr
    order = torch.from_numpy(np.random.default_rng(1).permutation(40))
    moved, position = csr.permuted(order)
    expected = sp.csr_array(matrix[order][:, order])
    assert np.array_equal(moved.indptr, expected.indptr)
    assert np.array_equal(moved.indices, expected.indices)
    assert np.array_equal(moved.weight, expected.data)
    assert torch.equal(csr.weight[position.long()], moved.weight)
    assert torch.equal(inverse(order)[order], torch.arange(40))
