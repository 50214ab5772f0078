"""Graphs of strongest partners, against closed forms and PyG."""

import pytest
import torch
from torch_geometric import transforms
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from lggd import diffusion
from lggd.diffusion import DiffusionGraph, strongest_partners, transition_matrix
from lggd.filters import PPR, TOLERANCE, Heat
from support.small_data import blocks, changed

F64 = torch.float64
KERNELS = [PPR(0.05), PPR(0.3), PPR(1.0), Heat(0.1), Heat(5.0), Heat(40.0)]


def dense(edge_index, weight, num_nodes):
    return to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=num_nodes)[0]


def dense_weights(data):
    weight = torch.ones(data.num_edges) if data.edge_weight is None else data.edge_weight
    return dense(data.edge_index, weight.double(), data.num_nodes)


def closed_form(kernel, data):
    """S by the eigenvalues of T."""
    with_loops = dense_weights(data) + torch.eye(data.num_nodes, dtype=F64)
    scale = with_loops.sum(1).rsqrt()
    value, vector = torch.linalg.eigh(scale[:, None] * with_loops * scale[None, :])
    if isinstance(kernel, PPR):
        value = kernel.alpha / (1 - (1 - kernel.alpha) * value)
    else:
        value = torch.exp(-kernel.t * (1 - value))
    return (vector * value) @ vector.t()


def full_diffusion(kernel, data):
    """All entries of S by `strongest_partners`, `[N, N]` on the CPU."""
    n = data.num_nodes
    matrix = transition_matrix(data.edge_index, data.edge_weight, n)
    partner, strength = strongest_partners(matrix, kernel.chebyshev_coefficients(), n)
    return torch.zeros(n, n, dtype=F64).scatter_(1, partner.cpu(), strength.cpu())


def check_diffusion(kernel, data):
    computed = full_diffusion(kernel, data)
    torch.testing.assert_close(computed, closed_form(kernel, data), rtol=0, atol=2 * TOLERANCE)
    torch.testing.assert_close(computed, computed.t())
    root = (1 + dense_weights(data).sum(1)).sqrt()
    torch.testing.assert_close(computed @ root, root)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_diffusion_is_its_closed_form(kernel, weighted, monkeypatch):
    monkeypatch.setattr(diffusion, "BLOCK_ENTRIES", {"cpu": 64})
    check_diffusion(kernel, blocks(weighted=weighted, lonely=2))


@pytest.mark.parametrize("bug", [lambda terms: terms[:-10], lambda terms: [terms[0] / 2, *terms[1:]]])
def test_check_finds_wrong_coefficients(bug, monkeypatch):
    coefficients = PPR.chebyshev_coefficients
    monkeypatch.setattr(PPR, "chebyshev_coefficients", lambda self: bug(coefficients(self)))
    with pytest.raises(AssertionError):
        check_diffusion(PPR(0.05), blocks())


@pytest.mark.parametrize("kernel", [PPR(1.0), Heat(1e-12)], ids=str)
def test_diffusion_without_spread_is_the_identity(kernel):
    torch.testing.assert_close(full_diffusion(kernel, blocks()), torch.eye(36, dtype=F64))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kernel", [PPR(0.1), Heat(3.0)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_edges_are_those_of_pyg(kernel, dim, weighted):
    data = blocks(weighted=weighted)
    method = {"method": "ppr", "alpha": kernel.alpha} if isinstance(kernel, PPR) else {"method": "heat", "t": kernel.t}
    given = Data(edge_index=data.edge_index, num_nodes=data.num_nodes)
    if weighted:
        given.edge_attr = data.edge_weight.double()
    pyg = transforms.GDC(1, "sym", "col", method, {"method": "topk", "k": 7, "dim": dim}, exact=True)(given)
    ours = DiffusionGraph(kernel, neighbours=7, dim=dim).transform(data)
    theirs = dense(pyg.edge_index, pyg.edge_attr, data.num_nodes).float()
    torch.testing.assert_close(dense(ours.edge_index, ours.edge_weight, data.num_nodes), theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("dim", [0, 1])
def test_each_node_has_its_partners_and_weights_sum_to_one(dim):
    data = blocks()
    made = DiffusionGraph(neighbours=6, dim=dim).transform(data)
    assert torch.bincount(made.edge_index[1 - dim], minlength=36).tolist() == [6] * 36
    into = torch.zeros(36).index_add_(0, made.edge_index[1], made.edge_weight)
    torch.testing.assert_close(into[into > 0], torch.ones(int((into > 0).sum())))
    assert (made.edge_weight > 0).all()
    assert made.x is data.x
    assert data.edge_weight is None


def test_no_edges_between_components():
    made = DiffusionGraph(neighbours=100).transform(blocks(lonely=3))
    isolated = torch.arange(36) >= 27
    assert (isolated[made.edge_index[0]] == isolated[made.edge_index[1]]).all()
    assert torch.bincount(made.edge_index[1])[27] == 1


def test_diffusion_is_computed_once_per_graph(monkeypatch):
    data, calls = blocks(seed=23), []  # of no other test
    monkeypatch.setattr(diffusion, "strongest_partners", lambda *a: calls.append(1) or strongest_partners(*a))
    DiffusionGraph(neighbours=5).transform(data)
    DiffusionGraph(neighbours=5, dim=1).transform(data.clone())
    assert len(calls) == 1
    DiffusionGraph(neighbours=5).transform(changed(data, edge_index=data.edge_index[:, :0]))
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "ppr"}, "`kernel` must be PPR"),
        ({"neighbours": 0}, "`neighbours` must be a whole number from 1"),
        ({"neighbours": True}, "`neighbours` must be a whole number from 1"),
        ({"dim": 2}, "`dim` must be one of 0, 1"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ValueError, match=message):
        DiffusionGraph(**settings)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gpu_diffusion_is_that_of_the_cpu(kernel):
    data = blocks(weighted=True, lonely=2)
    torch.testing.assert_close(
        full_diffusion(kernel, data.clone().cuda()), full_diffusion(kernel, data), rtol=0, atol=1e-12
    )
