"""Gradients of the evolution: those of the discrete scheme, exactly, for start, potential and weight."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lggd import RK4, SSPRK3, Euler, Graph, evolve
from lggd._kernels import cpu
from lggd.solvers import adjoint
from lggd.solvers.cauchy import CauchyProblem
from lggd.solvers.scheme import make_plan
from support import oracles, zoo

P = [1, 1.5, 2, zoo.inf]
SCHEMES = [Euler, SSPRK3, RK4]
SOURCES = [[0], [2, 5]]
STEP, TIMES = 0.125, (0.25, 0.5)

# Six nodes, a cycle with chords, and one node more that nothing touches.
KNOT = zoo.Instance(
    7, ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)), (0.9, 0.5, 0.7, 1.0, 0.3, 0.8, 0.6, 0.4), (0,)
)


def graph_of(directed: bool) -> Graph:
    return replace(KNOT, directed=directed).graph


def draw(seed: int, *shape: int) -> Tensor:
    """Uniform in [0.3, 1.3], so that no two differences tie and none is within a finite difference of a kink."""
    return (0.3 + torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=zoo.F64)).requires_grad_()


def learned(graph: Graph, potentials: int = 2, weights: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """A start, a potential and an asymmetric weight per column; the last two without that axis where 0."""
    n, e = graph.num_nodes, graph.num_edges
    return (
        draw(1, n, 2),
        draw(2, n, potentials) if potentials else draw(2, n),
        draw(3, e, weights) if weights else draw(3, e),
    )


def gradients(f: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Of a sum in which every entry of f counts, and counts differently."""
    grads = torch.autograd.grad((f * torch.linspace(1, 2, f.numel(), dtype=f.dtype).view_as(f)).sum(), inputs)
    return list(grads)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    ("scheme", "potentials", "weights"),
    [(Euler, 2, 2), (SSPRK3, 2, 2), (RK4, 2, 2), (RK4, 2, 0), (RK4, 0, 2), (RK4, 0, 0)],
)
def test_gradients_agree_with_finite_differences(p, scheme, directed, potentials, weights):
    graph = graph_of(directed)

    def f(start: Tensor, potential: Tensor, weight: Tensor) -> Tensor:
        given = {"start": start, "potential": potential, "weight": weight, "p": p}
        return evolve(graph, SOURCES, times=TIMES, scheme=scheme(step=STEP), **given).value

    zoo.check_gradient(f, *learned(graph, potentials, weights))


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("given", ["start", "potential", "weight"])
def test_each_gradient_can_be_computed_alone(p, directed, given):
    graph = graph_of(directed)
    values = dict(zip(("start", "potential", "weight"), learned(graph), strict=True))
    together = evolve(graph, SOURCES, times=TIMES, p=p, scheme=RK4(step=STEP), **values).value
    expected = gradients(together, values[given])[0]
    alone = {name: value if name == given else value.detach() for name, value in values.items()}
    f = evolve(graph, SOURCES, times=TIMES, p=p, scheme=RK4(step=STEP), **alone).value
    zoo.assert_close(gradients(f, values[given])[0], expected)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_gradients_through_the_graphs_own_weights(p, weighted, directed):
    graph = replace(KNOT, directed=directed, weight=KNOT.weight if weighted else (1.0,) * 8).graph
    start, rho, _ = learned(graph)
    f = evolve(graph, SOURCES, start=start, potential=rho, p=p, times=[0.5], scheme=RK4(step=STEP)).value[0]
    expected = oracles.plain_evolve(graph, SOURCES, start, p, "RK4", STEP, 4, rho)
    for ours, theirs in zip(gradients(f, start, rho), gradients(expected, start, rho), strict=True):
        zoo.assert_close(ours, theirs)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sources", [SOURCES, None], ids=["boundary", "free"])
def test_adjoint_is_autograd_through_the_scheme(p, scheme, directed, sources):
    graph = graph_of(directed)
    inputs = start, rho, weight = learned(graph)
    given = {"start": start, "potential": rho, "weight": weight, "p": p}
    f = evolve(graph, sources, times=[1.5], scheme=scheme(step=STEP), **given).value[0]
    expected = oracles.plain_evolve(graph, sources, start, p, scheme.__name__, STEP, 12, rho, weight)
    zoo.assert_close(f, expected)
    for ours, theirs in zip(gradients(f, *inputs), gradients(expected, *inputs), strict=True):
        zoo.assert_close(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("times", [(0.125,), (1.0,), (0.125, 0.25, 2.0)])
def test_checkpoints_give_bitwise_equal_gradients(p, scheme, times):
    graph = graph_of(True)
    inputs = start, rho, weight = learned(graph)
    given = {"start": start, "potential": rho, "weight": weight, "p": p, "times": times, "scheme": scheme(step=STEP)}
    all_kept, some_kept = (
        gradients(evolve(graph, SOURCES, checkpoints=checkpoints, **given).value, *inputs)
        for checkpoints in (False, True)
    )
    for a, b in zip(all_kept, some_kept, strict=True):
        assert torch.equal(a, b)


def test_backward_may_be_called_again():
    graph = graph_of(False)
    inputs = start, rho, weight = learned(graph)
    f = evolve(
        graph, SOURCES, start=start, potential=rho, weight=weight, scheme=RK4(step=STEP), times=TIMES
    ).value.sum()
    first, again = (torch.autograd.grad(f, inputs, retain_graph=True) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("directed", [False, True])
def test_gradients_are_those_through_torchdiffeq(p, directed):
    graph = graph_of(directed)
    inputs = start, rho, weight = learned(graph)
    given = {"start": start, "potential": rho, "weight": weight, "p": p, "times": (0.5, 1.5)}
    ours = gradients(evolve(graph, SOURCES, scheme=RK4(step=STEP), **given).value, *inputs)
    direct = gradients(oracles.torchdiffeq_evolve(graph, SOURCES, step=STEP, **given), *inputs)
    for a, b in zip(ours, direct, strict=True):
        zoo.assert_close(a, b, rtol=1e-10)


def test_continuous_adjoint_is_near_but_not_the_gradient():
    graph = graph_of(False)
    inputs = start, rho, weight = learned(graph)
    given = {"start": start, "potential": rho, "weight": weight, "p": 2, "times": (0.5, 1.5)}
    ours = gradients(evolve(graph, SOURCES, scheme=RK4(step=STEP), **given).value, *inputs)
    continuous = oracles.torchdiffeq_evolve(graph, SOURCES, step=STEP, adjoint=True, **given)
    for a, b in zip(ours, gradients(continuous, *inputs), strict=True):
        assert 1e-9 < float((a - b).norm() / a.norm()) < 1e-2


def test_the_start_on_the_boundary_has_no_gradient():
    graph = graph_of(False)
    start, _, _ = learned(graph)
    (grad,) = gradients(evolve(graph, SOURCES, start=start, times=[1]).value, start)
    assert bool((grad[[0, 2, 5], [0, 1, 1]] == 0).all())
    assert bool((grad[6] != 0).all())


def test_shared_inputs_sum_the_gradients_of_all_columns():
    graph = graph_of(False)
    start, rho, weight = draw(1, 7), draw(2, 7), draw(3, graph.num_edges)
    given = {"times": TIMES, "scheme": RK4(step=STEP)}
    shared = evolve(graph, SOURCES, start=start, potential=rho, weight=weight, **given).value
    own = [x.detach().unsqueeze(1).repeat(1, 2).requires_grad_() for x in (start, rho, weight)]
    spread = evolve(graph, SOURCES, start=own[0], potential=own[1], weight=own[2], **given).value
    for a, b in zip(gradients(shared, start, rho, weight), gradients(spread, *own), strict=True):
        zoo.assert_close(a, b.sum(1))


@pytest.mark.parametrize("p", P)
def test_gradients_in_float32_are_those_in_float64_but_for_rounding(p):
    graph = graph_of(True)
    exact = learned(graph)
    rough = [x.detach().float().requires_grad_() for x in exact]
    given = {"p": p, "times": TIMES, "scheme": RK4(step=STEP)}
    found = [
        gradients(evolve(graph, SOURCES, start=s, potential=r, weight=w, **given).value, s, r, w)
        for s, r, w in (exact, rough)
    ]
    for a, b in zip(*found, strict=True):
        assert b.dtype == torch.float32
        zoo.assert_close(b.double(), a, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize(("dtype", "difference"), [(torch.float32, 1e-23), (torch.float64, 1e-170)])
def test_a_difference_whose_square_underflows_has_a_finite_gradient(p, dtype, difference):
    graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", dtype=dtype)
    start = torch.tensor([0, difference, 1], dtype=dtype, requires_grad=True)
    f = evolve(graph, [0], start=start, times=[0.125], p=p, scheme=Euler(step=0.125)).value
    (grad,) = torch.autograd.grad(f.sum(), start)
    # ∂f(1)/∂t = 1 − f(1) and ∂f(2)/∂t = 1 − (f(2) − f(1)).
    assert grad.tolist() == [0, 1, 0.875]


# -- Large graphs are reordered inside; none of it may show outside ----------------------------------------------------


def assert_evolves_as_in_node_order(graph: Graph, p: float, columns: int, seed: int = 0) -> None:
    """Values and gradients against plain torch, which knows no order but that of the nodes."""
    n = graph.num_nodes
    sources = [[k, n // 2 + k] for k in range(columns)]
    inputs = start, rho, weight = draw(seed + 1, n, columns), draw(seed + 2, n), draw(seed + 3, graph.num_edges)
    given = {"start": start, "potential": rho, "weight": weight, "p": p}
    f = evolve(graph, sources, times=[0.25], scheme=RK4(step=STEP), **given).value[0]
    expected = oracles.plain_evolve(graph, sources, start, p, "RK4", STEP, 2, rho, weight)
    zoo.assert_close(f, expected)
    for ours, theirs in zip(gradients(f, *inputs), gradients(expected, *inputs), strict=True):
        zoo.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.fixture(scope="module", params=[False, True], ids=["undirected", "directed"])
def shuffled_ring(request) -> Graph:
    """A ring of 50,001 nodes whose neighbours lie far apart in memory."""
    n = 50_001
    name = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    ring = torch.stack([name, name.roll(1)])
    if request.param:
        return Graph.from_edges(ring, directed=True, dtype=zoo.F64)
    return Graph.from_edges(ring, 0.25 + 0.5 * torch.rand(n, dtype=zoo.F64), symmetrize="max")


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("p", [1, 2, zoo.inf])
@pytest.mark.parametrize("columns", [1, 2])
def test_reordering_does_not_change_gradients(shuffled_ring, p, columns):
    assert shuffled_ring.layout(100).order is not None
    assert_evolves_as_in_node_order(shuffled_ring, p, columns)


def test_large_reordered_graph_has_the_gradients_of_torchdiffeq(shuffled_ring):
    n = shuffled_ring.num_nodes
    inputs = start, rho, weight = draw(1, n, 1), draw(2, n), draw(3, shuffled_ring.num_edges)
    given = {"start": start, "potential": rho, "weight": weight, "times": [0.25]}
    ours = gradients(evolve(shuffled_ring, [7], scheme=RK4(step=STEP), **given).value, *inputs)
    theirs = gradients(oracles.torchdiffeq_evolve(shuffled_ring, [[7]], step=STEP, **given), *inputs)
    for a, b in zip(ours, theirs, strict=True):
        zoo.assert_close(a, b, rtol=1e-10)


@pytest.mark.usefixtures("all_threads")
@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("columns", [1, 2])
def test_morton_order_does_not_change_gradients(p, columns):
    points = torch.rand(400, 3, generator=torch.Generator().manual_seed(5), dtype=zoo.F64)
    graph = Graph.from_points(points, k=6, kernel=lambda d: 1 / (1 + d))
    assert graph.layout().order is not None
    assert_evolves_as_in_node_order(graph, p, columns)


def test_a_transposed_output_gradient_is_accepted():
    graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)], symmetrize="max", dtype=torch.float64)
    start = torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    problem = CauchyProblem(graph, [[0], [1], [2]], start, 1, None, None, 0.0)
    plan = make_plan(RK4(), (0.5,), 0.1, False)
    outputs = adjoint.EvolveFunction.apply(problem.start, problem.field.rho, None, problem.field, plan)
    arriving = torch.arange(12, dtype=torch.float64).view(1, 4, 3)
    transposed = arriving.mT.contiguous().mT
    assert not transposed.is_contiguous()
    found, compiled = [], cpu.KERNELS[cpu.SUM].vjp
    for gradient in (arriving, transposed):
        (back,) = torch.autograd.grad(outputs, start, gradient, retain_graph=True)
        found.append((back, len(compiled.signatures)))
    torch.testing.assert_close(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]  # no other layout was compiled


def test_second_derivatives_are_refused():
    graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", dtype=torch.float64)
    start = torch.full((3,), 3.0, dtype=torch.float64, requires_grad=True)
    value = evolve(graph, [0], start=start, times=[1.0]).value
    (first,) = torch.autograd.grad(value.square().sum(), start, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize(("steps", "most"), [(1, 1), (10, 4), (100, 10), (1000, 33)])
def test_checkpoints_save_about_the_root_of_the_number_of_steps(steps, most):
    graph = Graph.from_edges([(0, 1)], symmetrize="max", dtype=torch.float64)
    problem = CauchyProblem(graph, [0], None, 1, None, None, 1.0)
    for checkpoints, bound in ((True, most), (False, steps)):
        saved = []
        adjoint.run(problem.field, make_plan(RK4(), (float(steps),), 1.0, checkpoints), problem.start, saved)
        assert len(saved) <= bound
