"""The compiled kernels against the plain ones, their determinism, and what they cost in memory."""

import json
import math
import subprocess
import sys

import numba
import numpy as np
import pytest
import torch

from lggd import Graph
from lggd._kernels import backend_for, cpu, reference
from lggd.equation import Field
from support.command_line import environment
from support.fields import DTYPES, EXPONENTS, SHAPES, check_stage, close, random_field

cases = pytest.mark.parametrize(
    ("directed", "boundary_mask", "dtype", "shape", "p"),
    [(d, h, t, s, p) for d in (False, True) for h in (False, True) for t in DTYPES for s in SHAPES for p in EXPONENTS],
)


@cases
def test_norm_agrees_with_the_reference(p, dtype, shape, directed, boundary_mask):
    field, f = random_field(p, dtype, shape, directed=directed, boundary_mask=boundary_mask)
    close(cpu.norm(field, f), reference.norm(field, f))


@cases
def test_stage_agrees_with_the_reference(p, dtype, shape, directed, boundary_mask):
    field, y = random_field(p, dtype, shape, directed=directed, boundary_mask=boundary_mask)
    check_stage(cpu, field, y)


@cases
def test_vjp_agrees_with_the_reference(p, dtype, shape, directed, boundary_mask):
    field, y = random_field(p, dtype, shape, directed=directed, boundary_mask=boundary_mask)
    cotangent = torch.from_numpy(np.random.default_rng(1).normal(size=y.shape)).to(dtype)
    expected = reference.vjp(field, y, [cotangent], [1.0], True, True)
    for needs in [(False, False), (True, False), (False, True), (True, True)]:
        found = cpu.vjp(field, y, [cotangent], [1.0], *needs)
        close(found[0], expected[0])
        for gradient, target, needed in zip(found[1:], expected[1:], needs, strict=True):
            if needed:
                close(gradient, target)
            else:
                assert gradient is None


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (6, 3, 1), (6, 1, 3), (6, 6, 6)])
def test_weights_may_differ_between_the_directions_of_an_edge(p, shape):
    field, y = random_field(p, torch.float64, shape, symmetric=False)
    by_edge = {pair: k for k, pair in enumerate(zip(field.csr.rows.tolist(), field.csr.indices.tolist(), strict=True))}
    reverse = torch.tensor([by_edge[j, i] for i, j in by_edge])
    assert not torch.equal(field.root_weight, field.root_weight[reverse])
    assert torch.equal(field.root_weight_by_column, field.root_weight[reverse])
    cotangent = torch.from_numpy(np.random.default_rng(1).normal(size=y.shape))
    expected = reference.vjp(field, y, [cotangent], [1.0], True, True)
    for found, target in zip(cpu.vjp(field, y, [cotangent], [1.0], True, True), expected, strict=True):
        close(found, target)


@pytest.mark.parametrize("backend", [cpu, reference])
@pytest.mark.parametrize("p", EXPONENTS)
def test_a_constant_state_has_no_gradient(backend, p):
    """A kink: each backend may pick a subgradient, but all must pick the same, and a flat state is a common start."""
    field, y = random_field(p, torch.float64, (2, 1, 1))
    flat = torch.ones_like(y)
    for gradient in backend.vjp(field, flat, [y], [1.0], True, True):
        assert (gradient == 0).all()


@pytest.mark.parametrize("backend", [cpu, reference])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_only_the_first_of_equal_maxima_has_a_gradient(backend, sign):
    """p = ∞: of the two lowest neighbours of node 0, both or either may be gradients, by no more than 1 in total."""
    csr = Graph.from_edges([(0, 1), (0, 2)], directed=True).csr
    field = Field(csr, math.inf, torch.ones(3, 1, dtype=torch.float64), symmetric=False)
    y = torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64)
    cotangent = torch.tensor([[sign], [0.0], [0.0]], dtype=torch.float64)
    grad_y, _, grad_root = backend.vjp(field, y, [cotangent], [1.0], False, True)
    assert float(grad_y[0]) == pytest.approx(-sign)
    assert float(grad_y[1:].sum()) == pytest.approx(sign)
    assert float(grad_root.sum()) == pytest.approx(-sign)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_cfl_number_is_rho_times_the_norm_of_a_row(p, shape):
    field, _ = random_field(p, torch.float64, shape)
    groups = max(shape[1], shape[2] or 1)
    expected = np.zeros((40, groups))
    for g in range(groups):
        root = np.zeros((40, 40))
        own = 1.0 if shape[2] is None else field.root_weight[:, g * shape[2] // groups].numpy()
        root[field.csr.rows, field.csr.indices] = own
        rho = field.rho[:, g * shape[1] // groups].numpy()
        expected[:, g] = rho * (root.max(1) if math.isinf(p) else (root**p).sum(1) ** (1 / p))
    np.testing.assert_allclose(field.cfl_number(), expected)


@pytest.mark.parametrize("p", EXPONENTS)
def test_cfl_number_bounds_how_much_the_field_can_change(p):
    field, f = random_field(p, torch.float64, (6, 3, 3))
    g = f + torch.from_numpy(np.random.default_rng(2).uniform(-1, 1, f.shape))
    change = reference.by_column(field.rho, 6) * (cpu.norm(field, f) - cpu.norm(field, g))
    assert (change.abs() <= 2 * reference.by_column(field.cfl_number(), 6) + 1e-12).all()


def test_a_detached_field_has_no_gradient():
    field, _ = random_field(2.0, torch.float64, (6, 3, 3))
    field.rho.requires_grad_()
    field.root_weight.requires_grad_()
    detached = field.detached()
    assert not detached.rho.requires_grad
    assert not detached.root_weight.requires_grad
    assert detached.csr is field.csr


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (6, 1, None), (6, 3, 3)])
def test_results_are_bitwise_equal_on_any_number_of_threads(p, shape):
    field, y = random_field(p, torch.float32, shape, n=300)
    before, results = numba.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            numba.set_num_threads(threads)
            out = torch.empty_like(y)
            cpu.stage(field, y, [y], [out], [[1.0, 0.1]])
            results.append([cpu.norm(field, y), out, *cpu.vjp(field, y, [out], [1.0], True, True)])
    finally:
        numba.set_num_threads(before)
    for again in results[1:]:
        assert all(torch.equal(first, second) for first, second in zip(results[0], again, strict=True))


VJP = """
import hashlib, torch
from lggd import Graph
from lggd.equation import Field
from lggd._kernels import cpu
rng = torch.Generator().manual_seed(0)
csr = Graph.from_edges(torch.randperm(120, generator=rng).view(2, 60) % 40, symmetrize="max").csr
y, cotangent = torch.rand(2, csr.num_nodes, 8, generator=rng)
root = torch.rand(csr.num_edges, 8, generator=rng)  # every column has its own weights
grad, _, _ = cpu.vjp(Field(csr, 1.0, torch.rand(y.shape, generator=rng), root), y, [cotangent], [1.0], False, False)
print(hashlib.sha256(grad.numpy().tobytes()).hexdigest())
"""


def test_compiled_and_cached_kernels_compute_the_same_bits(tmp_path):
    # The first process compiles, the second loads what it has compiled.
    command = [sys.executable, "-W", "ignore", "-c", VJP]
    env = environment(NUMBA_CACHE_DIR=str(tmp_path))
    found = [subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert found[0] == found[1] != ""


@pytest.mark.parametrize("backend", [cpu, reference])
@pytest.mark.parametrize("p", [1.0, 2.0, 20.0, math.inf])
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_powers_of_large_and_small_differences_stay_finite_in_float32(backend, p, scale):
    field, y = random_field(p, torch.float32, (6, 1, 1))
    norm = backend.norm(field, scale * y)
    exact = backend.norm(random_field(p, torch.float64, (6, 1, 1))[0], scale * y.double())
    torch.testing.assert_close(norm.double(), exact, rtol=1e-5, atol=0)
    for gradient in backend.vjp(field, scale * y, [y], [1.0], True, True):
        assert torch.isfinite(gradient).all()


def test_a_graph_without_edges():
    csr = Graph.from_edges([], num_nodes=3).csr
    for p in EXPONENTS:
        field = Field(csr, p, torch.ones(3, 1))
        assert cpu.norm(field, torch.rand(3, 2)).tolist() == [[0, 0]] * 3
        assert field.cfl_number().tolist() == [[0]] * 3
        grad_y, grad_rho, grad_root = cpu.vjp(field, torch.rand(3, 2), [torch.ones(3, 2)], [1.0], True, True)
        assert (grad_y.abs().sum(), grad_rho.abs().sum(), grad_root.numel()) == (0, 0, 0)


def test_each_device_has_its_backend():
    assert backend_for(torch.device("cpu")) is cpu
    assert backend_for(torch.device("meta")) is reference


# What a solve adds to the peak of resident memory, in MiB. The graph arrives as arrays, since building one takes more
# than any solve, and a small graph first loads the compiled code. VmHWM: ru_maxrss begins with the peak of the parent.
MEASURE = """
import json, sys
from pathlib import Path
import numpy as np, torch
import lggd
from lggd.graph.csr import CSR
from lggd.graph.graph import Layout

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

def solve(graph):
    lggd.distance(graph, [0])
    after_distance = peak()
    columns, potential = [[k] for k in range(10)], lggd.DegreePotential(-1)
    took = lggd.evolve(graph, columns, potential=potential, scheme=lggd.RK4(step=1.0), times=[3.0]).statistics
    return after_distance, peak(), took.steps

solve(lggd.Graph.from_points(np.random.default_rng(0).random((100, 2)), k=5))
indptr, indices = (torch.from_numpy(np.load(path)) for path in sys.argv[1:])
order = torch.arange(len(indptr) - 1)
graph = lggd.Graph(Layout(CSR(indptr, indices, None, symmetric=True), order), torch.float32)
before = peak()
after_distance, after_evolve, steps = solve(graph)
print(json.dumps({"distance": after_distance - before, "evolve": after_evolve - before, "steps": steps}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_no_solver_allocates_memory_proportional_to_the_edges(tmp_path):
    csr = Graph.from_points(np.random.default_rng(0).random((200_000, 2)), epsilon=0.00895).layout().csr
    paths = [str(tmp_path / "indptr.npy"), str(tmp_path / "indices.npy")]
    for path, part in zip(paths, (csr.indptr, csr.indices), strict=True):
        np.save(path, part.numpy())
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    added = json.loads(done.stdout)
    edges, state = csr.num_edges * 4 / 2**20, csr.num_nodes * 16 * 4 / 2**20  # ten columns are carried as sixteen
    assert added["steps"] == 3
    assert edges > 35
    # One float32 number per edge would be 38 MiB, and 381 MiB with the ten columns of the evolution; a state is 12 MiB.
    assert 0 < added["distance"] < 32
    assert state < added["evolve"] < 12 * state
