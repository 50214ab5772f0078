"""The paper's operators against their formulas over dense matrices."""

import math

import numpy as np
import pytest
import torch

from lggd import Graph, distance
from lggd import equation as op

EXPONENTS = [1, 1.5, 2, 3, 10, math.inf]


def random_matrix(kind, n=25, seed=0):
    """Weights [N, N], 0 where there is no edge; node 3 is isolated."""
    rng = np.random.default_rng(seed)
    matrix = np.where(rng.random((n, n)) < 0.2, rng.uniform(0.05, 1, (n, n)), 0)
    np.fill_diagonal(matrix, 0)
    matrix[3], matrix[:, 3] = 0, 0
    if kind == "unweighted":
        matrix = (matrix > 0).astype(float)
    return matrix if kind == "directed" else np.maximum(matrix, matrix.T)


@pytest.fixture(params=["unweighted", "weighted", "directed", "no edges"])
def matrix(request):
    return np.zeros((4, 4)) if request.param == "no edges" else random_matrix(request.param)


@pytest.fixture
def graph(matrix):
    return Graph.from_scipy(matrix, directed=not np.array_equal(matrix, matrix.T), dtype=torch.float64)


@pytest.fixture(params=[(), (3,)], ids=["one", "columns"])
def f(request, matrix):
    return torch.from_numpy(np.random.default_rng(1).normal(size=(len(matrix), *request.param)))


def rises(matrix, f):
    """√w(i, j)(f(j) − f(i)) for all pairs, [N, N] or [N, N, C]."""
    root = np.sqrt(matrix).reshape(*matrix.shape, *[1] * (f.ndim - 1))
    return root * (f[None, :] - f[:, None])


def norms(values, p):
    """The p-norm over the second axis."""
    return values.max(1) if math.isinf(p) else (values**p).sum(1) ** (1 / p)


def test_differences_along_edges(graph, matrix, f):
    on_edges = rises(matrix, f.numpy())[np.nonzero(matrix)]
    np.testing.assert_allclose(op.difference(graph, f), on_edges)
    np.testing.assert_allclose(op.upwind_difference(graph, f), np.maximum(-on_edges, 0))


@pytest.mark.parametrize("p", EXPONENTS)
def test_p_norms_of_differences(graph, matrix, f, p):
    rise = rises(matrix, f.numpy())
    np.testing.assert_allclose(op.p_norm(graph.csr, op.difference(graph, f).abs(), p), norms(np.abs(rise), p))
    np.testing.assert_allclose(op.upwind_gradient_norm(graph, f, p), norms(np.maximum(-rise, 0), p))


@pytest.mark.parametrize("p", EXPONENTS)
def test_residual(graph, matrix, f, p):
    potential = torch.linspace(0.5, 2, len(f), dtype=torch.float64).reshape(-1, *[1] * (f.dim() - 1))
    expected = norms(np.maximum(-rises(matrix, f.numpy()), 0), p)
    np.testing.assert_allclose(op.residual(graph, f, p), expected - 1)
    np.testing.assert_allclose(op.residual(graph, f, p, potential), potential.numpy() * expected - 1)


@pytest.mark.parametrize("p", EXPONENTS)
def test_residual_of_a_distance_is_zero_off_the_boundary(p):
    graph = Graph.from_points(np.random.default_rng(0).random((200, 2)), k=6, kernel=lambda length: np.exp(-length))
    assert int(graph.components.max()) == 0
    residual = op.residual(graph, distance(graph, [0], p=p).value, p)
    assert float(residual[0]) == -1
    assert float(residual[1:].abs().max()) < 1e-9


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_residual_is_nan_where_f_is_infinite(p):
    """In the component of nodes 2 and 3 and on the isolated node 4."""
    graph = Graph.from_edges([(0, 1), (2, 3)], num_nodes=5, symmetrize="max")
    f = distance(graph, [0], p=p).value
    assert torch.isinf(f).tolist() == [False, False, True, True, True]
    assert torch.isnan(op.residual(graph, f, p)).tolist() == torch.isinf(f).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_p_norm_neither_overflows_nor_underflows(dtype, scale):
    graph = Graph.from_edges([(0, 1), (0, 2), (0, 3)], symmetrize="max")
    f = scale * torch.tensor([1.0, 0.0, 0.0, 0.5], dtype=dtype)
    norm = op.upwind_gradient_norm(graph, f, 50)
    assert float(norm[0]) == pytest.approx(scale * 2 ** (1 / 50), rel=1e-5)
    assert norm[1:3].tolist() == [0, 0]


@pytest.mark.parametrize("p", [1, 2, 50, math.inf])
def test_p_norm_is_zero_without_edges_or_lower_neighbours(p):
    graph = Graph.from_edges([(0, 1)], num_nodes=3, symmetrize="max")
    assert op.upwind_gradient_norm(graph, torch.ones(3), p).tolist() == [0, 0, 0]


@pytest.mark.parametrize("p", [1.5, 2, 3, 10])
def test_p_norm_is_differentiable(p):
    graph = Graph.from_scipy(random_matrix("weighted", n=8), dtype=torch.float64)
    f = torch.from_numpy(np.random.default_rng(2).normal(size=8)).requires_grad_()
    assert torch.autograd.gradcheck(lambda f: op.p_norm(graph.csr, op.difference(graph, f).abs(), p), f)


@pytest.mark.parametrize("p", [1, 2, 5, math.inf])
def test_gradient_of_p_norm_is_finite_where_f_is_constant(p):
    graph = Graph.from_edges([(0, 1)], num_nodes=3, symmetrize="max")
    f = torch.ones(3, requires_grad=True)
    op.upwind_gradient_norm(graph, f, p).sum().backward()
    assert torch.isfinite(f.grad).all()


@pytest.mark.parametrize("p", [1, 2.5, math.inf, 7])
def test_check_p_returns_a_float(p):
    assert isinstance(op.check_p(p), float)
    assert op.check_p(p) == p
