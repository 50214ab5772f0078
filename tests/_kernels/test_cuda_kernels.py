"""Triton's kernels against the plain ones: on a GPU, and elsewhere through Triton's interpreter on tiny graphs."""

import contextlib
import gc
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lggd import RK4, DegreePotential, Graph, evolve
from lggd._kernels import backend_for, cuda, reference
from lggd.equation import Field
from lggd.training import cuda_graph as replay
from lggd.training.cuda_graph import WARM_UP, CUDAGraphStep
from support.fields import DTYPES, EXPONENTS, SHAPES, check_stage, close, on, random_field

pytest.importorskip("triton", reason="needs triton, which runs on Linux")

HAS_GPU = torch.cuda.is_available()
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device")]
interpreted = pytest.mark.skipif(HAS_GPU, reason="Triton compiles where there is a CUDA device")
NODES = {"cpu": 16, "cuda": 60}
# The interpreter takes a second a case: it sees every exponent, kind of weights and direction, but not all together.
CASES = [
    pytest.param("cpu", directed, True, torch.float64, shape, p, marks=interpreted)
    for directed, shapes in ((False, [(1, 1, None), (6, 3, 1), (6, 1, 3)]), (True, [(3, 1, 1), (6, 6, 6)]))
    for shape in shapes
    for p in EXPONENTS
] + [
    pytest.param("cuda", directed, boundary_mask, dtype, shape, p, marks=needs_gpu)
    for directed in (False, True)
    for boundary_mask in (False, True)
    for dtype in DTYPES
    for shape in [*SHAPES, (33, 1, None), (33, 11, 3), (300, 1, 1), (300, 100, 100)]
    for p in EXPONENTS
]
cases = pytest.mark.parametrize(("device", "directed", "boundary_mask", "dtype", "shape", "p"), CASES)
devices = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=interpreted), pytest.param("cuda", marks=needs_gpu)]
)


def a_field(device, p, dtype, shape, **how):
    field, y = random_field(p, dtype, shape, n=NODES[device], **how)
    return on(device, field), y.to(device)


def normal(like, *first, seed=1):
    drawn = np.random.default_rng(seed).normal(size=(*first, *like.shape))
    return torch.from_numpy(drawn).to(like)


@cases
def test_all_three_operations_agree_with_the_reference(device, directed, boundary_mask, dtype, shape, p):
    field, y = a_field(device, p, dtype, shape, directed=directed, boundary_mask=boundary_mask)
    close(cuda.norm(field, y), reference.norm(field, y))

    check_stage(cuda, field, y)
    terms, factors = list(normal(y, 3)), [0.3, -1.0, 2.0]
    gradients = cuda.vjp(field, y, terms, factors, True, True)
    for gradient, target in zip(gradients, reference.vjp(field, y, terms, factors, True, True), strict=True):
        close(gradient, target)
    alone, *nothing = cuda.vjp(field, y, terms, factors, False, False)
    assert torch.equal(alone, gradients[0])
    assert nothing == [None, None]


@devices
@pytest.mark.parametrize("p", EXPONENTS)
def test_weights_may_differ_between_the_directions_of_an_edge(device, p):
    field, y = a_field(device, p, torch.float64, (6, 3, 3), symmetric=False)
    expected = reference.vjp(field, y, [y], [1.0], True, True)
    for found, target in zip(cuda.vjp(field, y, [y], [1.0], True, True), expected, strict=True):
        close(found, target)


@devices
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("directed", [False, True])
def test_long_rows_get_tiles_of_their_own(device, p, directed, monkeypatch):
    """Hubs beside rows of two: with a limit of 3 most of this graph's rows count as long."""
    monkeypatch.setattr(cuda, "LONG_ROW", 3)
    monkeypatch.setattr(cuda, "LONGER_THAN_MEAN", 0)
    field, y = a_field(device, p, torch.float64, (5, 1, 1), directed=directed)
    schedule = cuda._schedule(field.csr)
    assert 0 < schedule.num_long < field.csr.num_nodes
    assert sorted(schedule.order.tolist()) == list(range(field.csr.num_nodes))
    close(cuda.norm(field, y), reference.norm(field, y))
    expected = reference.vjp(field, y, [y], [1.0], True, True)
    for found, target in zip(cuda.vjp(field, y, [y], [1.0], True, True), expected, strict=True):
        close(found, target)


@devices
@pytest.mark.parametrize("p", EXPONENTS)
def test_a_constant_state_has_no_gradient(device, p):
    field, y = a_field(device, p, torch.float64, (2, 1, 1))
    for gradient in cuda.vjp(field, torch.ones_like(y), [y], [1.0], True, True):
        assert (gradient == 0).all()


@devices
def test_only_the_first_of_equal_maxima_has_a_gradient(device):
    csr = Graph.from_edges([(0, 1), (0, 2)], directed=True).csr.to(device)
    field = Field(csr, math.inf, torch.ones(3, 1, dtype=torch.float64, device=device), symmetric=False)
    y = torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64, device=device)
    cotangent = torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64, device=device)
    grad_y, _, grad_root = cuda.vjp(field, y, [cotangent], [1.0], False, True)
    assert grad_y.flatten().tolist() == [-1, 1, 0]
    assert grad_root.flatten().tolist() == [-1, 0]


@devices
@pytest.mark.parametrize("p", [1.0, 2.0, 20.0, math.inf])
@pytest.mark.parametrize("scale", [1e6, 1e-6, 1e-25])
def test_powers_of_large_and_small_differences_stay_finite_in_float32(device, p, scale):
    field, y = a_field(device, p, torch.float32, (2, 1, 1))
    exact, _ = a_field(device, p, torch.float64, (2, 1, 1))
    norm = cuda.norm(field, scale * y)
    torch.testing.assert_close(norm.double(), reference.norm(exact, scale * y.double()), rtol=2e-5, atol=0)
    for gradient in cuda.vjp(field, scale * y, [y], [1.0], True, True):
        assert torch.isfinite(gradient).all()


@devices
@pytest.mark.parametrize("p", EXPONENTS)
def test_graphs_without_edges_and_states_without_columns(device, p):
    csr = Graph.from_edges([], num_nodes=3).csr.to(device)
    field = Field(csr, p, torch.ones(3, 1, device=device))
    y = torch.rand(3, 2, device=device)
    assert cuda.norm(field, y).tolist() == [[0, 0]] * 3
    grad_y, grad_rho, grad_root = cuda.vjp(field, y, [y], [1.0], True, True)
    assert (grad_y.abs().sum(), grad_rho.abs().sum(), grad_root.numel()) == (0, 0, 0)
    assert cuda.norm(field, y[:, :0]).shape == (3, 0)


@devices
@pytest.mark.parametrize("wrong", ["weights", "numbers", "mirror"])
def test_a_planted_bug_is_caught(device, wrong, monkeypatch):
    """The comparisons above must catch these."""
    field, y = a_field(device, 2.0, torch.float64, (6, 3, 3), symmetric=False)
    target = [reference.norm(field, y), *reference.vjp(field, y, [y], [1.0], True, True)]
    if wrong == "weights":
        monkeypatch.setattr(cuda, "_weights", lambda field: (field.rho, 1, 0))
    elif wrong == "numbers":
        plain = cuda._numbers
        monkeypatch.setattr(cuda, "_numbers", lambda p, c, *where: plain(p, tuple(1.1 * x for x in c), *where))
    else:
        field = replace(field, symmetric=True)
    found = [cuda.norm(field, y), *cuda.vjp(field, y, [y], [1.0], True, True)]
    with pytest.raises(AssertionError):
        close(torch.cat([x.flatten() for x in found]), torch.cat([x.flatten() for x in target]))


@pytest.mark.parametrize("name", ["norm", "vjp"])
@interpreted
def test_the_backend_of_a_gpu_is_this_one(name):
    assert getattr(backend_for(torch.device("cuda")), name) is getattr(cuda, name)


@interpreted
def test_operations_run_on_the_device_of_the_state(monkeypatch):
    """The present device may be another: what a machine with two GPUs would show."""
    asked = []

    def device_of(tensor):
        asked.append(tensor)
        return contextlib.nullcontext()

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    field, y = a_field("cpu", 1.0, torch.float64, (2, 1, 1))
    cuda.norm(field, y)
    cuda.stage(field, y, [y], [torch.empty_like(y)], [[1.0, 0.1]])
    cuda.vjp(field, y, [y], [1.0], False, False)
    assert all(tensor is y for tensor in asked)
    assert len(asked) == 3


class TestOnAGPU:
    pytestmark = needs_gpu

    @pytest.fixture
    def hub(self):
        """A star of 3,000 beside a path: one row as long as half the graph."""
        star, path = [(0, k) for k in range(1, 3001)], [(k, k + 1) for k in range(3000, 6000)]
        return Graph.from_edges(star + path, symmetrize="max", dtype=torch.float64).to("cuda")

    @pytest.mark.parametrize("width", [1, 10, 100, 350])
    def test_a_hub_beside_short_rows(self, hub, width):
        field = Field(hub.csr, 1.0, torch.ones(hub.num_nodes, 1, dtype=torch.float64, device="cuda"))
        y = torch.rand(hub.num_nodes, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cuda()
        assert cuda._schedule(hub.csr).num_long == 1
        close(cuda.norm(field, y), reference.norm(field, y))
        expected = reference.vjp(field, y, [y], [1.0], True, True)
        for found, target in zip(cuda.vjp(field, y, [y], [1.0], True, True), expected, strict=True):
            # Thousands of terms that nearly cancel: what is left of their rounding is not small beside their sum.
            torch.testing.assert_close(found, target, rtol=1e-12, atol=1e-10)

    @pytest.mark.parametrize("p", EXPONENTS)
    def test_the_same_bits_every_time(self, p):
        field, y = random_field(p, torch.float32, (40, 8, 8), n=500)
        field, y = on("cuda", field), y.cuda()
        first = [cuda.norm(field, y), *cuda.vjp(field, y, [y], [1.0], True, True)]
        for _ in range(5):
            again = [cuda.norm(field, y), *cuda.vjp(field, y, [y], [1.0], True, True)]
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))

    def test_no_temporaries_of_the_size_of_the_edges(self):
        graph = Graph.from_points(np.random.default_rng(0).random((20_000, 2)), k=40, dtype=torch.float32).to("cuda")
        y = torch.rand(graph.num_nodes, 16, device="cuda")
        field = Field(graph.layout(100).csr, 1.0, torch.ones(graph.num_nodes, 1, device="cuda"))
        cuda.vjp(field, y, [y], [1.0], False, False)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        cuda.vjp(field, y, [y], [1.0], False, False)
        cuda.norm(field, y)
        assert torch.cuda.max_memory_allocated() - before < 3 * y.nbytes

    def test_replays_draw_the_same_on_a_busy_device(self, monkeypatch):
        device = torch.device("cuda")

        def draws():
            generator = torch.Generator(device).manual_seed(3)
            replayed = CUDAGraphStep(lambda: torch.rand(8, device=device, generator=generator), device, [generator])
            return torch.stack([replayed().clone() for _ in range(WARM_UP + 3)])

        def keep_busy():
            # Called after a recording has waited for the device, and before it sets the generators back.
            with torch.cuda.stream(replay._side_stream(device)):
                torch.cuda._sleep(10**8)

        calm = draws()
        monkeypatch.setattr(torch.cuda, "empty_cache", keep_busy)
        assert torch.equal(draws(), calm)

    def test_what_is_recorded_replays_as_it_was_called(self):
        graph = Graph.from_points(np.random.default_rng(0).random((500, 2)), k=8, dtype=torch.float32).to("cuda")
        state = torch.rand(500, 7, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
        plain, recorded = state.clone(), state.clone()

        def advance(state):
            leaf = state.detach().clone().requires_grad_()
            field = DegreePotential(-1.0)
            end = evolve_unchecked(graph, leaf, field)
            end.square().sum().backward()
            state.copy_(end.detach() - 0.01 * leaf.grad)
            return state.sum()

        replayed = CUDAGraphStep(lambda: advance(recorded), recorded.device, [])
        for _ in range(WARM_UP + 4):
            expected = advance(plain)
            assert torch.equal(replayed(), expected)
        assert torch.equal(plain, recorded)

    def test_a_recording_survives_that_another_becomes_garbage(self):
        """Each goes round in a ring with itself, so that the collector finds it at an odd moment."""
        state = torch.zeros(1000, device="cuda")
        before = gc.get_threshold()
        gc.set_threshold(5, 1, 1)
        try:
            for _ in range(3):
                replayed = CUDAGraphStep(lambda: state.add_(1).clone().add_(0).sum(), state.device, [])
                replayed.itself = replayed
                for _ in range(WARM_UP + 3):
                    replayed()
        finally:
            gc.set_threshold(*before)
        assert float(state[0]) == 3 * (WARM_UP + 3)

    @pytest.mark.parametrize("p", [1, 2, 3.5, math.inf])
    def test_gradients_agree_with_the_cpu_through_many_steps(self, p):
        graph = Graph.from_points(np.random.default_rng(0).random((300, 2)), k=6, dtype=torch.float64)
        found = []
        for device in ("cpu", "cuda"):
            start = torch.rand(300, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
            leaf = start.to(device).requires_grad_()
            rho = torch.ones(300, dtype=torch.float64, device=device, requires_grad=True)
            run = evolve(graph.to(device), None, start=leaf, potential=rho, p=p, times=[0.5, 1.0], scheme=RK4())
            run.value.square().sum().backward()
            found.append([x.detach().cpu() for x in (run.value, leaf.grad, rho.grad)])
        for on_cpu, on_gpu in zip(*found, strict=True):
            torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-9, atol=1e-9)


def evolve_unchecked(graph, start, potential):
    """Two RK4 steps without the checks of `evolve`, which synchronize."""
    from lggd.solvers.adjoint import EvolveFunction
    from lggd.solvers.scheme import Plan

    field = Field(graph.layout(100).csr, 1.0, potential(graph).float().view(-1, 1))
    return EvolveFunction.apply(start, field.rho, None, field, Plan(RK4().tableau, (2,), (0.5,)))[0]
