"""Sparse matrices: products with exact gradients, reductions, and the normalised adjacency."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from lggd.backbones import convolutions
from lggd.graph.sparse import SparseMatrix, SparsePattern, normalized_adjacency, unit_rows, without_sparse_warnings
from support.small_data import random

Q, NODES = 3, 14


def untidy():
    """One-way edges among all nodes but the last, some of them twice, some of them loops, with weights."""
    edge_index = torch.randint(NODES - 1, (2, 50), generator=random(1))
    edge_index[1, :3] = edge_index[0, :3]
    edge_index[:, 3] = edge_index[:, 4]
    return edge_index, torch.rand(50, generator=random(2), dtype=torch.float64) + 0.1


def values(*shape, seed=3):
    return torch.randn(*shape, generator=random(seed), dtype=torch.float64)


def edges_with_loops():
    return convolutions.edges_with_loops(untidy()[0], None, NODES, torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reductions_by_row_and_column(dtype):
    edges = edges_with_loops()
    each = values(len(edges.columns), 3).to(dtype)
    into, out_of = (
        [each[ends == node] for node in range(NODES)] for ends in (edges.rows, edges.columns)
    )  # fmt: skip
    torch.testing.assert_close(edges.row_sum(each), torch.stack([one.sum(0) for one in into]))
    torch.testing.assert_close(edges.column_sum(each), torch.stack([one.sum(0) for one in out_of]))
    assert torch.equal(edges.row_max(each), torch.stack([one.amax(0) for one in into]))


@pytest.mark.parametrize("width", [1, 3, 8, 11])
def test_batched_products_have_exact_gradients(width):
    edge_index, weight = untidy()
    edges = SparsePattern.from_edges(edge_index, NODES)
    value, x = weight[edges.order].requires_grad_(), values(Q, NODES, width).requires_grad_()
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    matrix = matrix.index_put((edges.rows, edges.columns), value.detach(), accumulate=True)
    torch.testing.assert_close(SparseMatrix(edges, value)(x), matrix @ x, atol=1e-13, rtol=1e-13)
    moved = x.detach().transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(SparseMatrix(edges, value)(moved), matrix @ x, atol=1e-13, rtol=1e-13)
    assert torch.autograd.gradcheck(lambda value, x: SparseMatrix(edges, value)(x), (value, x))


def test_repeated_patterns_are_block_diagonal():
    edges, x = edges_with_loops(), values(Q, NODES, 4)
    value = values(Q, len(edges.columns), seed=5)
    expected = torch.stack([SparseMatrix(edges, of).csr @ one for of, one in zip(value, x, strict=True)])
    spread = SparseMatrix(edges.repeat(Q), value.flatten())
    torch.testing.assert_close(spread(x.view(1, -1, 4)).view(x.shape), expected, atol=1e-13, rtol=1e-13)
    assert edges.repeat(Q) is edges.repeat(Q)


def test_product_with_one_problem():
    edge_index, weight = untidy()
    edge_index = edge_index % 12
    edges, x = SparsePattern.from_edges(edge_index, 12), values(12, 6).requires_grad_()
    value = weight.double()[edges.order].requires_grad_()
    expected = (
        torch.zeros(12, 12, dtype=torch.float64).index_put((edge_index[1], edge_index[0]), weight, accumulate=True) @ x
    )
    torch.testing.assert_close(SparseMatrix(edges, value)(x[None])[0], expected, atol=1e-14, rtol=1e-14)
    assert torch.autograd.gradcheck(lambda value, x: SparseMatrix(edges, value)(x[None]), (value, x))


def test_a_rectangular_matrix_and_its_transpose():
    rows, columns = torch.randint(9, (40,), generator=random(1)), torch.randint(6, (40,), generator=random(2))
    matrix, x = SparseMatrix.from_entries(rows, columns, values(40), (9, 6)), values(6, 5).requires_grad_()
    assert torch.equal(matrix.transposed.csr.to_dense(), matrix.csr.to_dense().t())
    torch.testing.assert_close(matrix.transposed(values(9, 5)), matrix.csr.to_dense().t() @ values(9, 5))
    value = matrix.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda value, x: matrix.with_values(value)(x), (value, x))


def test_normalized_adjacency_of_a_path():
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    matrix = normalized_adjacency(edge_index, None, num_nodes=4).csr.to_dense()
    h, t, s = 1 / 2, 1 / 3, 1 / math.sqrt(6)
    torch.testing.assert_close(matrix, torch.tensor([[h, s, 0, 0], [s, t, s, 0], [0, s, h, 0], [0, 0, 0, 1.0]]))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_normalized_adjacency_has_the_bits_of_pyg(weighted):
    edge_index, weight = untidy()
    weight = weight.float() if weighted else None
    index, values = gcn_norm(edge_index, weight, NODES)
    expected = SparseMatrix.from_edges(index, values, NODES)
    assert torch.equal(normalized_adjacency(edge_index, weight, NODES).csr.to_dense(), expected.csr.to_dense())


@pytest.mark.parametrize("notice", ["Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly"])
def test_torchs_warnings_on_sparse_tensors_are_suppressed(notice, monkeypatch):
    """Some versions say it at their first sparse tensor, others when they are asked whether to check them."""

    def reminded():
        warnings.warn(f"{notice} disabled. To silence this warning …", UserWarning, stacklevel=1)
        return False

    monkeypatch.setattr(torch._C, "_check_sparse_tensor_invariants", reminded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = torch.tensor([0])
        matrix = SparseMatrix.from_entries(one, one + 1, torch.ones(1), (2, 2))
        assert matrix.csr.to_dense().tolist() == [[0, 1], [0, 0]]


@given(seed=st.integers(0, 999))
def test_rows_have_unit_length_dense_or_sparse(seed):
    draws = random(seed)
    x = torch.randn(7, 5, generator=draws).masked_fill(torch.rand(7, 5, generator=draws) < 0.5, 0)
    x[2] = 0
    expected = x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)
    torch.testing.assert_close(unit_rows(x), expected)
    torch.testing.assert_close(unit_rows(x.to_sparse_coo()).to_dense(), expected)
    with without_sparse_warnings():
        torch.testing.assert_close(unit_rows(x.to_sparse_csr()).to_dense(), expected)
