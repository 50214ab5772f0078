"""Sums of Chebyshev polynomials for few columns, against NumPy's with dense matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import chebval

from lggd.closed_form import arrival
from lggd.closed_form.arrival import REGISTER, narrow_sums
from lggd.graph.sparse import normalized_adjacency
from small_data import blocks, random


def expected_sums(matrix, x, series):
    """By eigenvalues."""
    values, vectors = np.linalg.eigh(matrix.csr.to_dense().double().numpy())
    return [vectors @ (chebval(values, own)[:, None] * (vectors.T @ x.double().numpy())) for own in series]


def check(seed, columns, lengths):
    draws, data = random(seed), blocks(weighted=True, lonely=2, seed=seed)
    matrix = normalized_adjacency(data.edge_index, data.edge_weight, data.num_nodes)
    x = torch.randn(data.num_nodes, columns, generator=draws)
    series = [torch.randn(length, generator=draws).tolist() for length in lengths]
    before = x.clone()
    for found, expected in zip(narrow_sums(matrix, x, series), expected_sums(matrix, x, series), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-4 * max(lengths))
    assert torch.equal(x, before)


@given(
    seed=st.integers(0, 99),
    columns=st.sampled_from([1, 3, REGISTER, 2 * REGISTER]),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=3),
)
def test_sums_are_those_of_dense_matrices(seed, columns, lengths):
    check(seed, columns, lengths)


def test_the_check_catches_a_missing_term(monkeypatch):
    cut = arrival._cached_sums
    monkeypatch.setattr(arrival, "_cached_sums", lambda m, x, series: cut(m, x, [own[:-1] for own in series]))
    with pytest.raises(AssertionError):
        check(0, REGISTER, [5])


def test_both_ways_agree(monkeypatch):
    data = blocks(each=30)
    matrix, x = normalized_adjacency(data.edge_index, None, 90), torch.randn(90, REGISTER, generator=random())
    series = [[0.5, 0.2, 0.0, 0.1], [1.0, -1.0]]
    cached = narrow_sums(matrix, x, series)
    monkeypatch.setattr(arrival, "MOST_CACHED", 0)
    for one, other in zip(cached, narrow_sums(matrix, x, series), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
