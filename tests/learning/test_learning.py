"""Learning distances: the flow against evolve, contents and networks against plain torch, and the learner."""

import copy
import gc
import itertools
import math
import sys
import warnings
import weakref
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

import zoo
from lggd import (
    MLP,
    RK4,
    SSPRK3,
    DegreePotential,
    Euler,
    Graph,
    LearnedEdgeWeights,
    LearnedPotential,
    LearnedTimeScale,
    PropagatedMLP,
    TorchDiffEq,
    evolve,
)
from lggd.learning import neighbourhood
from lggd.learning import networks as networking
from lggd.learning.contents import Dense, Sparse, compressed, read_contents, sparse
from lggd.learning.flow import Flow
from lggd.learning.learner import DistanceLearner
from lggd.learning.neighbourhood import Propagated, gcn_matrix, propagated
from lggd.learning.networks import ACTIVATIONS, FromModule, Stack
from lggd.learning.parameters import Equation
from lggd.learning.workspace import Workspace
from lggd.training import cuda_graph as replay
from lggd.training.checkpoint import Checkpoint
from lggd.training.dropout import LEVELS, draw_kept, draw_lots, kept_levels, words_for
from lggd.training.loop import learn
from lggd.training.optimization import Optimization
from small_data import CLASSES, blocks, random, same

TIMES = (0.5, 1.25, 2.0)
EACH, SHARED = [[0], [1], [2]], [[0, 1, 2]]
MIXED = [[1, 2], [0, 1], [0, 2]]
COEFFICIENTS = {
    "fixed": DegreePotential(-0.5),
    "none": None,
    "potential": LearnedPotential(DegreePotential(-0.5)),
    "weights": LearnedEdgeWeights(DegreePotential(-1.0)),
    "both": LearnedEdgeWeights(LearnedPotential()),
    "time": LearnedTimeScale(DegreePotential(-0.5)),
}
every_coefficient = pytest.mark.parametrize("coefficients", COEFFICIENTS.values(), ids=COEFFICIENTS)
ROUNDING = {"rtol": 2e-4, "atol": 2e-5}


def graph_of(weighted: bool = False, lonely: int = 1) -> Graph:
    """In pieces, with nodes that nothing touches."""
    return Graph.from_pyg(blocks(each=6, weighted=weighted, lonely=lonely), dtype=torch.float32)


def generators(count, first=0):
    return [random(first + q) for q in range(count)]


def equation_on(graph, coefficients, problems, scatter=1.0):
    """With parameters all different, as after some learning."""
    equation = Equation(graph, coefficients, generators(problems))
    with torch.no_grad():
        for k, owned in enumerate(equation.owned()):
            owned.value.add_(scatter * torch.randn(owned.value.shape, generator=random(20 + k)))
    return equation


def start_of(graph, problems, seed=3):
    return (torch.rand(graph.num_nodes, problems, CLASSES, generator=random(seed)) * 3).requires_grad_()


def held_of(graph, problems, seed=4):
    """Another boundary for every problem and class."""
    drawn = torch.rand(graph.num_nodes, problems, CLASSES, generator=random(seed))
    return (drawn < 0.1) | (drawn == drawn.amin(0))


def sources_of(boundary_mask):
    """Of one problem, `[N, K]`."""
    return [boundary_mask[:, k].nonzero().squeeze(1).tolist() for k in range(boundary_mask.shape[1])]


def one_at_a_time(graph, equation, flow, start, boundary_mask, p, scheme=None):
    """What the flow must give, from `evolve`: problem after problem, with tensors for what was learned."""
    found = []
    for q, horizons in enumerate(flow.horizons):
        rho, root = equation.rho(), equation.root_weight()
        weight = None
        if equation.theta_edges is not None:
            weight = root[:, q] ** 2
        value = evolve(
            graph,
            None if boundary_mask is None else sources_of(boundary_mask[:, q]),
            start=start[:, q],
            times=TIMES[: horizons[-1] + 1],
            p=p,
            potential=rho[:, min(q, rho.shape[1] - 1)],
            weight=weight,
            scheme=scheme or RK4(step=flow.step, force=True),
        ).value
        found.append(value[horizons])
    return torch.stack(found, 2)


def gradients(f: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Of a sum in which every entry counts, and counts differently."""
    weights = torch.linspace(1, 2, f.numel(), dtype=f.dtype).view_as(f)
    return list(torch.autograd.grad((f * weights).mean(), inputs))


def check_flow(graph, coefficients, horizons, p, boundary, scheme=RK4()):
    """Values and all gradients are those of evolve."""
    problems = len(horizons)
    equation = equation_on(graph, coefficients, problems)
    flow = Flow(graph, equation, TIMES, horizons, p, scheme)
    start = start_of(graph, problems)
    boundary_mask = held_of(graph, problems) if boundary else None
    value = flow(equation, start, boundary_mask)
    expected = one_at_a_time(graph, equation, flow, start, boundary_mask, p, type(scheme)(step=flow.step, force=True))
    assert value.shape == (len(horizons[0]), graph.num_nodes, problems, CLASSES)
    torch.testing.assert_close(value, expected, **ROUNDING)
    if boundary_mask is not None:
        assert bool((value[:, boundary_mask] == 0).all())
    inputs = [start, *(owned.value for owned in equation.owned())]
    for ours, theirs in zip(gradients(value, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-7)


# -- The flow ----------------------------------------------------------------------------------------------------------


@every_coefficient
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("horizons", [EACH, SHARED, MIXED], ids=["each", "shared", "mixed"])
@pytest.mark.parametrize("boundary", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_the_flow_is_evolve(coefficients, p, horizons, boundary, weighted):
    check_flow(graph_of(weighted), coefficients, horizons, p, boundary)


@pytest.mark.parametrize("scheme", [Euler(), SSPRK3(), RK4(step=0.01), RK4(step=0.2, force=True)], ids=repr)
def test_the_flow_is_evolve_with_any_scheme(scheme):
    check_flow(graph_of(True), COEFFICIENTS["both"], EACH, 1.0, True, scheme)


@pytest.mark.parametrize("problems", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("name", ["fixed", "both"])
def test_any_number_of_columns_is_fine(problems, name):
    check_flow(graph_of(), COEFFICIENTS[name], [[2]] * problems, 1.0, True)


def test_a_graph_without_edges_only_grows():
    graph = Graph.from_edges([], num_nodes=3, symmetrize="max", dtype=torch.float32)
    for coefficients in COEFFICIENTS.values():
        equation = Equation(graph, coefficients, generators(3))
        start = torch.rand(3, 3, CLASSES)
        value = Flow(graph, equation, TIMES, EACH, 1.0, RK4())(equation, start)
        torch.testing.assert_close(value[0], start + torch.tensor(TIMES)[None, :, None])


class AlwaysMirrored(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho, root, boundary_mask, symmetric=True)


class SpreadsInTurns(Flow):
    def _parameters(self, rho, root, classes):
        given = [x if x is None or x.shape[1] == 1 else x.repeat(1, classes) for x in (rho, root)]
        return given[0].contiguous(), given[1]


class NeverSorts(Flow):
    def __call__(self, equation, start, boundary_mask=None):
        return super().__call__(equation, start.flip(1), None if boundary_mask is None else boundary_mask.flip(1))


class HoldsNothing(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho, root, None, symmetric)


class StopsEarly(Flow):
    def __init__(self, graph, equation, times, *rest):
        super().__init__(graph, equation, [t - 0.01 * (t == times[-1]) for t in times], *rest)


class OnePotentialForAll(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho[:, :1].expand_as(rho), root, boundary_mask, symmetric)


class ForgetsTheGradientOfRho(Flow):
    def _advance(self, plan, state, rho, root, boundary_mask, symmetric):
        return super()._advance(plan, state, rho.detach() + 0 * rho, root, boundary_mask, symmetric)


@pytest.mark.parametrize(
    "wrong",
    [AlwaysMirrored, SpreadsInTurns, NeverSorts, HoldsNothing, StopsEarly, OnePotentialForAll, ForgetsTheGradientOfRho],
)
def test_the_check_on_flows_catches_a_wrong_one(wrong, monkeypatch):
    check_flow(graph_of(True), COEFFICIENTS["both"], EACH, 1.0, True)
    monkeypatch.setitem(globals(), "Flow", wrong)
    with pytest.raises(AssertionError):
        check_flow(graph_of(True), COEFFICIENTS["both"], EACH, 1.0, True)


@every_coefficient
@pytest.mark.parametrize("horizons", [EACH, SHARED], ids=["each", "shared"])
def test_torchdiffeq_agrees_with_values_and_gradients(coefficients, horizons):
    pytest.importorskip("torchdiffeq")
    graph = graph_of(True)
    equation = equation_on(graph, coefficients, len(horizons))
    flow = Flow(graph, equation, TIMES, horizons, 1.0, RK4(step=0.25, force=True))
    start, boundary_mask = start_of(graph, len(horizons)), held_of(graph, len(horizons))
    value = flow(equation, start, boundary_mask)
    expected = one_at_a_time(graph, equation, flow, start, boundary_mask, 1.0, TorchDiffEq("rk4", step=0.25))
    torch.testing.assert_close(value, expected, **ROUNDING)
    inputs = [start, *(owned.value for owned in equation.owned())]
    for ours, theirs in zip(gradients(value, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=1e-6)


@dataclass
class ExactEquation:
    """What a flow asks of an equation, in float64."""

    potential: Tensor
    root: Tensor

    @property
    def theta_edges(self):
        return self.root

    def rho(self):
        return self.potential

    def root_weight(self):
        return self.root

    def limits(self):
        return self.potential.detach().amax(1, keepdim=True), self.root.detach().amax(1, keepdim=True)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("boundary", [False, True], ids=["free", "held"])
def test_gradients_agree_with_finite_differences(p, boundary):
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    graph = Graph.from_edges(edges, num_nodes=5, symmetrize="max", dtype=zoo.F64)

    def draw(seed, *shape):
        return (0.3 + torch.rand(shape, generator=random(seed), dtype=zoo.F64)).requires_grad_()

    start, rho, root = draw(1, 5, 2, 2), draw(2, 5, 2), draw(3, graph.num_edges, 2)
    flow = Flow(graph, ExactEquation(rho, root), (0.25, 0.5), [[0], [1]], p, RK4(step=0.125))
    boundary_mask = None
    if boundary:
        boundary_mask = torch.zeros(5, 2, 2, dtype=torch.bool)
        boundary_mask[[0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1]] = True
    zoo.check_gradient(lambda s, r, w: flow(ExactEquation(r, w), s, boundary_mask), start, rho, root)


@every_coefficient
@pytest.mark.parametrize("horizons", [EACH, SHARED, MIXED], ids=["each", "shared", "mixed"])
def test_variants_at_once_are_variants_one_at_a_time(coefficients, horizons):
    graph, problems = graph_of(True), len(horizons)
    equation = equation_on(graph, coefficients, problems)
    flow = Flow(graph, equation, TIMES, horizons, 1.0, RK4())
    starts = [start_of(graph, problems, seed) for seed in range(4)]
    helds = [held_of(graph, problems, seed) for seed in range(4)]
    at_once = flow(equation, torch.cat(starts, 1), torch.cat(helds, 1))
    in_turn = torch.cat(
        [flow(equation, start, boundary_mask) for start, boundary_mask in zip(starts, helds, strict=True)], 2
    )
    torch.testing.assert_close(at_once, in_turn, **ROUNDING)


def test_a_flow_counts_its_passes_and_knows_its_step():
    graph = graph_of()
    equation = Equation(graph, DegreePotential(-1.0), generators(1))
    flow = Flow(graph, equation, TIMES, SHARED, 1.0, RK4(step=0.25))
    assert (flow.step, flow.evaluations, flow.may_overshoot) == (0.25, 8 * 4, False)
    assert Flow(graph, equation, TIMES, SHARED, 1.0, RK4(step=2.0)).may_overshoot
    with pytest.raises(ValueError, match="`step`"):
        Flow(graph, equation, TIMES, SHARED, 1.0, RK4(step=5.0))


def test_the_step_is_the_same_before_and_after_learning_and_is_safe():
    graph = graph_of(True)
    for coefficients in COEFFICIENTS.values():
        before = Equation(graph, coefficients, generators(3))
        after = equation_on(graph, coefficients, 3, scatter=8.0)
        one, other = (Flow(graph, equation, TIMES, EACH, 1.0, RK4()) for equation in (before, after))
        assert one.step == other.step
        rho, root = after.rho().detach(), after.root_weight().detach()
        cfl_number = rho * torch.zeros(graph.num_nodes, root.shape[1]).index_add(0, graph.edge_index[0], root)
        assert float(cfl_number.max()) * one.step <= 1 + 1e-5


# -- The equation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_coefficients_are_what_they_are_said_to_be(weighted):
    graph = graph_of(weighted)
    base, root = DegreePotential(-0.5)(graph), graph.weight.sqrt()
    fixed = Equation(graph, DegreePotential(-0.5), generators(2))
    torch.testing.assert_close(fixed.rho(), base[:, None])
    assert fixed.owned() == []
    assert (fixed.root_weight() is None) == (not weighted)
    nodes = equation_on(graph, LearnedPotential(DegreePotential(-0.5)), 2)
    torch.testing.assert_close(nodes.rho(), 2 / (1 + torch.exp(-nodes.theta_nodes.t())) * base[:, None])
    edges = equation_on(graph, LearnedEdgeWeights(LearnedPotential(DegreePotential(-0.5))), 2)
    expected = root[:, None] * (1 / (1 + torch.exp(-edges.theta_edges.t()))).sqrt()
    torch.testing.assert_close(edges.root_weight(), expected)
    assert [owned.name for owned in edges.owned()] == ["theta_nodes", "theta_edges"]
    whole = equation_on(graph, LearnedTimeScale(DegreePotential(-0.5)), 2)
    assert whole.theta_nodes.shape == (2, 1)
    torch.testing.assert_close(whole.rho(), base[:, None] * (2 * torch.sigmoid(whole.theta_nodes)).t())


def test_a_factor_of_the_potential_is_a_scale_of_time():
    graph, tau = graph_of(weighted=True), 1.7
    start = 3 * torch.rand(graph.num_nodes, 2, generator=random(1))
    given = {"sources": [[0, 1], [2]], "scheme": RK4(step=0.01)}
    potential = DegreePotential(-0.5)(graph)
    slow = evolve(graph, start=start, times=[tau], potential=potential, **given).value
    fast = evolve(graph, start=start / tau, times=[1.0], potential=tau * potential, **given).value
    torch.testing.assert_close(tau * fast, slow, rtol=1e-3, atol=1e-3)


def test_learned_coefficients_start_where_they_are_said_to():
    graph = graph_of()
    nodes = Equation(graph, LearnedPotential(DegreePotential(-0.5)), generators(2))
    torch.testing.assert_close(nodes.rho(), DegreePotential(-0.5)(graph)[:, None].repeat(1, 2))
    edges = Equation(graph, LearnedEdgeWeights(), generators(2)).theta_edges
    assert edges.shape == (2, graph.num_edges)
    assert bool((edges < -0.9).any() & (edges > 0.9).any() & (edges.abs() <= 1).all())
    alone = Equation(graph, LearnedEdgeWeights(), generators(1, first=1)).theta_edges
    assert torch.equal(edges[1], alone[0])


# -- Contents ----------------------------------------------------------------------------------------------------------


def dense_contents(x, graph, hops, normalize):
    """[x, Âx, Â²x, …], formed."""
    n = graph.num_nodes
    a = torch.eye(n, dtype=torch.float64)
    a[graph.edge_index[0], graph.edge_index[1]] += graph.weight.double()
    root = a.sum(1).rsqrt()
    a = root[:, None] * a * root[None, :]
    built = [x.double()]
    for _ in range(hops):
        built.append(a @ built[-1])
    if normalize:
        built = [block / block.norm(dim=1, keepdim=True).clamp(min=1e-30) for block in built]
    return torch.cat(built, 1).float()


def contents_of(kind, x, graph, normalize):
    data = Data(x=x, edge_index=graph.edge_index, num_nodes=graph.num_nodes)
    if kind == "plain":
        return MLP(normalize=normalize).contents(data, graph), dense_contents(x.to_dense(), graph, 0, normalize)
    hops = int(kind[0])
    made = PropagatedMLP(hops=hops, normalize=normalize).contents(data, graph)
    return made, dense_contents(x.to_dense(), graph, hops, normalize)


@pytest.mark.parametrize("kind", ["plain", "1 hop", "2 hops", "3 hops"])
@pytest.mark.parametrize("given", ["dense", "mostly 0", "coo", "csr"])
@pytest.mark.parametrize("normalize", [False, True], ids=["", "normalised"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_contents_times_weights_are_the_product_with_what_they_stand_for(kind, given, normalize):
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 40, generator=random(1))
    if given != "dense":
        x = x.masked_fill(torch.rand(x.shape, generator=random(2)) < 0.97, 0)
    x[0] = 0
    if given in ("coo", "csr"):
        x = x.to_sparse_coo() if given == "coo" else x.to_sparse_csr()
    contents, expected = contents_of(kind, x, graph, normalize)
    base = contents.base if isinstance(contents, Propagated) else contents
    assert isinstance(base, Dense if given == "dense" else Sparse)
    assert contents.num_features == expected.shape[1]
    weight = torch.randn(expected.shape[1], 4, generator=random(3), requires_grad=True)
    product = contents.times(weight)
    torch.testing.assert_close(product, expected @ weight, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(gradients(product, [weight]), gradients(expected @ weight, [weight]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    bias, grad = torch.randn(4, generator=random(4)), torch.randn(len(expected), 4, generator=random(5))
    answer, for_weight = torch.full((len(expected), 4), math.nan), torch.full_like(weight, math.nan)
    contents.multiply(weight.detach(), bias, answer, Workspace())
    torch.testing.assert_close(answer, expected @ weight.detach() + bias, rtol=1e-4, atol=1e-5)
    contents.vjp(grad, for_weight.detach(), Workspace())
    torch.testing.assert_close(for_weight, expected.t() @ grad, rtol=1e-4, atol=1e-5)


def test_rows_whose_neighbours_cancel_stay_0():
    """Their length is 0, and nothing may be divided by it, however large the terms that cancel."""
    graph = Graph.from_edges([(0, 1), (0, 2)], num_nodes=3, symmetrize="max", dtype=torch.float32)
    x = torch.tensor([[0.0] * 40, [1.0] + [0.0] * 39, [-1.0] + [0.0] * 39])
    contents = propagated(Sparse(x.to_sparse_coo().to_sparse_csr()), graph, 1, normalize=True)
    product = contents.times(torch.full((80, 3), 1e3))
    assert torch.equal(product[0], torch.zeros(3))
    assert torch.isfinite(product).all()


def test_lengths_are_the_same_a_few_columns_at_a_time(monkeypatch):
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(1))
    one = Propagated(Dense(x), gcn_matrix(graph), 2, True).lengths
    monkeypatch.setattr(neighbourhood, "ENTRIES_AT_ONCE", 2 * graph.num_nodes)
    for a, b in zip(one, Propagated(Dense(x), gcn_matrix(graph), 2, True).lengths, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("given", ["dense", "coo"])
def test_columns_of_0_are_appended(given):
    x = torch.rand(5, 3, generator=random()) + 0.1
    data = Data(x=x if given == "dense" else x.to_sparse_coo(), num_nodes=5)
    contents = read_contents(data, normalize=False, zeros=2)
    weight = torch.randn(5, 4, generator=random(1))
    assert contents.num_features == 5
    torch.testing.assert_close(contents.times(weight), x @ weight[:3])


def test_sparse_contents_are_never_made_dense(monkeypatch):
    graph = graph_of()
    x = torch.eye(graph.num_nodes).to_sparse_coo()

    def refuse(*_, **__):
        raise MemoryError

    for name in ("to_dense", "todense"):
        monkeypatch.setattr(torch.Tensor, name, refuse, raising=False)
    contents, weight = read_contents(Data(x=x, num_nodes=len(x)), True), torch.ones(len(x), 2, requires_grad=True)
    Propagated(contents, gcn_matrix(graph), 2, True).times(weight.repeat(3, 1)).sum().backward()
    assert torch.isfinite(weight.grad).all()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64, torch.float16])
def test_contents_of_any_real_type_are_read(dtype):
    x = (torch.rand(6, 4, generator=random()) < 0.5).to(dtype)
    times = read_contents(Data(x=x, num_nodes=6), normalize=False).times(torch.eye(4))
    assert times.dtype == torch.float32
    assert torch.equal(times, x.float())


def test_the_gcn_matrix_has_self_loops_and_both_sides_normalised():
    graph = Graph.from_edges([(0, 1), (1, 2)], symmetrize="max", num_nodes=4, dtype=torch.float32)
    a = gcn_matrix(graph).rows.to_dense()
    h, t, s = 1 / 2, 1 / 3, 1 / math.sqrt(6)
    torch.testing.assert_close(a, torch.tensor([[h, s, 0, 0], [s, t, s, 0], [0, s, h, 0], [0, 0, 0, 1.0]]))


# -- Networks ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0, 2**62], ids=["in turn", "at once"])
def turns(request, monkeypatch):
    """Networks one after the other, as large ones are evaluated, and all at once, as small ones are."""
    monkeypatch.setattr(networking, "WORTH_A_TURN", request.param)


both_ways = pytest.mark.usefixtures("turns")


def linear_stack(stack, q, activation):
    """The network of problem q as torch would build it."""
    layers = []
    for weight, bias in zip(stack.weights, stack.biases, strict=True):
        layer = nn.Linear(*weight.shape[1:])
        with torch.no_grad():
            layer.weight.copy_(weight[q].t())
            layer.bias.copy_(bias[q, 0])
        layers += [layer, activation]
    return nn.Sequential(*layers[:-1])


MODULES = {
    "relu": nn.ReLU(),
    "elu": nn.ELU(),
    "gelu": nn.GELU(),
    "leaky_relu": nn.LeakyReLU(),
    "silu": nn.SiLU(),
    "tanh": nn.Tanh(),
}


@both_ways
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", [(), (5,), (6, 4)])
def test_networks_side_by_side_are_stacks_of_linear_layers(activation, hidden):
    x = torch.randn(9, 7, generator=random())
    choice = MLP(hidden, dropout=0.0, activation=activation)
    stack = choice.networks(Dense(x), CLASSES, generators(3))
    for training in (False, True):
        answer = stack(Dense(x), training=training)
        assert answer.shape == (9, 3, CLASSES)
        for q in range(3):
            torch.testing.assert_close(answer[:, q], linear_stack(stack, q, MODULES[activation])(x))


def test_a_network_starts_as_a_linear_layer_does_and_as_it_would_alone():
    stack = MLP((200,)).networks(Dense(torch.ones(2, 100)), CLASSES, generators(3))
    for weight, bias, fan_in in zip(stack.weights, stack.biases, (100, 200), strict=True):
        for value in (weight, bias):
            assert bool((value.abs() <= fan_in**-0.5).all())
        assert bool((weight.abs() > 0.98 * fan_in**-0.5).any())
    alone = MLP((200,)).networks(Dense(torch.ones(2, 100)), CLASSES, generators(1, first=2))
    assert torch.equal(stack.weights[0][2], alone.weights[0][0])
    assert torch.equal(stack.biases[1][2], alone.biases[1][0])
    assert not torch.equal(stack.weights[0][1], stack.weights[0][2])


def dropping(dropout, activation="relu", problems=4, width=101):
    """Networks whose hidden values would all be the activation of 1, and that answer with what is left of them."""
    stack = Stack((1, width, width), dropout, ACTIVATIONS[activation], generators(problems))
    with torch.no_grad():
        for weight, value in zip(stack.weights, (torch.ones(1, width), torch.eye(width)), strict=True):
            weight.copy_(value.expand_as(weight))
        for bias in stack.biases:
            bias.zero_()
    return stack


@both_ways
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_dropout_keeps_its_share_and_the_mean(dropout, activation):
    stack, x = dropping(dropout, activation), Dense(torch.ones(300, 1))
    one = float(ACTIVATIONS[activation](torch.tensor(1.0)))
    dropped = stack(x, training=True).detach().permute(1, 0, 2) / one
    kept = round((1 - dropout) * 256) / 256
    torch.testing.assert_close(dropped[dropped != 0], torch.full_like(dropped[dropped != 0], 1 / kept))
    for answer in dropped:
        assert float((answer != 0).float().mean()) == pytest.approx(kept, abs=0.01)
        assert float(answer.mean()) == pytest.approx(1, abs=0.05)
    for answer, other in itertools.pairwise(dropped):
        both = float(((answer != 0) & (other != 0)).float().mean())
        assert both == pytest.approx(kept**2, abs=0.015)
    assert not torch.equal(stack(x, training=True).permute(1, 0, 2) / one, dropped)


@both_ways
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_pass_what_was_kept_and_nothing_else(activation):
    x = torch.randn(40, 1, generator=random(7))
    kept = dropping(0.4, width=11)(Dense(torch.ones(40, 1)), training=True).detach().permute(1, 0, 2)
    stack = Stack((1, 11, 11), 0.4, ACTIVATIONS[activation], generators(4))
    for q, generator in enumerate(stack.generators):
        generator.set_state(dropping(0.4, width=11).generators[q].get_state())
    answer = stack(Dense(x), training=True)
    hidden = MODULES[activation](x @ stack.weights[0] + stack.biases[0]) * kept
    expected = (hidden @ stack.weights[1] + stack.biases[1]).permute(1, 0, 2)
    torch.testing.assert_close(answer, expected)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


@both_ways
@pytest.mark.parametrize("nodes", [7, 8])
def test_each_network_drops_what_it_would_drop_alone(nodes):
    x = Dense(torch.randn(nodes, 5, generator=random()))
    together = MLP((6, 3), 0.5).networks(x, CLASSES, generators(3))
    alone = [MLP((6, 3), 0.5).networks(x, CLASSES, [random(q)]) for q in range(3)]
    for _ in range(2):
        expected = torch.cat([network(x, training=True) for network in alone], 1)
        torch.testing.assert_close(together(x, training=True), expected)
    assert not torch.allclose(together(x, training=True), together(x, training=False))


@both_ways
def test_nothing_is_dropped_in_evaluation_nor_from_contents_nor_answers():
    x = Dense(torch.randn(50, 5, generator=random()))
    stack = MLP((), 0.9).networks(x, CLASSES, generators(2))
    assert torch.equal(stack(x, training=True), stack(x, training=False))


def thinning(contents, share, width, problems=3):
    """Networks that answer with what is left of the contents."""
    stack = Stack((width, width), 0.0, torch.relu, generators(problems), input_dropout=share)
    with torch.no_grad():
        stack.weights[0].copy_(torch.eye(width).expand_as(stack.weights[0]))
        stack.biases[0].zero_()
    return stack, stack(contents, training=True).detach().permute(1, 0, 2)


def stored(x, kind):
    return Dense(x) if kind == "dense" else Sparse(x.to_sparse_csr())


kinds_of_contents = pytest.mark.parametrize("kind", ["dense", "sparse"])


@both_ways
@kinds_of_contents
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_contents_are_dropped_by_their_share_with_the_mean_kept(share, kind):
    x = (torch.rand(300, 101, generator=random()) < 0.7).float()
    stack, seen = thinning(stored(x, kind), share, 101)
    kept = round((1 - share) * 256) / 256
    assert torch.equal(seen != 0, (seen != 0) & (x != 0))
    torch.testing.assert_close(seen[seen != 0], torch.full_like(seen[seen != 0], 1 / kept))
    for one in seen:
        assert float((one[x != 0] != 0).float().mean()) == pytest.approx(kept, abs=0.012)
    for one, other in itertools.pairwise(seen):
        both = (one[x != 0] != 0) & (other[x != 0] != 0)
        assert float(both.float().mean()) == pytest.approx(kept**2, abs=0.017)
    assert not torch.equal(stack(stored(x, kind), training=True).permute(1, 0, 2), seen)
    torch.testing.assert_close(stack(stored(x, kind), training=False), x[:, None].expand(-1, 3, -1))


@both_ways
@kinds_of_contents
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_gradients_see_the_contents_that_were_kept(kind, dropout):
    x = torch.randn(40, 9, generator=random(7)).masked_fill(torch.rand(40, 9, generator=random(8)) < 0.5, 0)
    _, seen = thinning(stored(torch.ones(40, 9), "dense") if kind == "dense" else stored(x, kind), 0.4, 9)
    seen = seen * x if kind == "dense" else seen
    after = Stack((9, 11, 5), dropout, torch.tanh, generators(3), input_dropout=0.4)
    given = after(stored(x, kind), training=True)
    # The same networks, told what is left of the contents instead, once they have drawn as much.
    told = Stack((9, 11, 5), dropout, torch.tanh, generators(3))
    for generator in told.generators:
        draw_lots(torch.empty(words_for(stored(x, kind).entries.numel()), dtype=torch.int64), generator)
    apart = [told.part(slice(q, q + 1)) for q in range(3)]
    expected = torch.cat([one(Dense(left), training=True) for one, left in zip(apart, seen, strict=True)], 1)
    torch.testing.assert_close(given, expected)
    theirs = gradients(expected, [value for one in apart for value in (*one.weights, *one.biases)])
    for k, ours in enumerate(gradients(given, [*after.weights, *after.biases])):
        torch.testing.assert_close(ours, torch.cat(theirs[k::4]))


@both_ways
@kinds_of_contents
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_each_network_drops_from_contents_what_it_would_drop_alone(kind):
    x = stored(torch.randn(7, 5, generator=random()), kind)
    choice = MLP((6, 3), 0.5, input_dropout=0.5)
    together = choice.networks(x, CLASSES, generators(3))
    alone = [choice.networks(x, CLASSES, [random(q)]) for q in range(3)]
    for _ in range(2):
        expected = torch.cat([network(x, training=True) for network in alone], 1)
        torch.testing.assert_close(together(x, training=True), expected)
        # A look ahead from validation must not be taken for what training sees.
        together(x, training=False, ahead=True)
        expected = torch.cat([network(x, training=True) for network in alone], 1)
        torch.testing.assert_close(together(x, training=True), expected)


def test_contents_that_are_never_formed_have_no_entries_to_drop():
    graph = graph_of()
    contents = Propagated(Dense(torch.ones(graph.num_nodes, 3)), gcn_matrix(graph), 1, True)
    with pytest.raises(TypeError, match="Propagated"):
        MLP((4,), input_dropout=0.5).networks(contents, CLASSES, generators(1))(contents, training=True)


def test_wrong_shares_of_contents_to_drop_are_refused():
    for wrong in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="`input_dropout`"):
            MLP(input_dropout=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden": [8]}, {"hidden": (0,)}, {"hidden": (2.5,)}, {"dropout": 1.0}, {"dropout": -0.1},
        {"dropout": math.nan}, {"activation": "sine"}, {"zeros": -1}, {"zeros": 1.5},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [MLP, PropagatedMLP])
def test_wrong_networks_are_refused_by_name(kind, wrong):
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
        kind(**wrong)


@pytest.mark.parametrize("hops", [0, -1, 1.5, True])
def test_wrong_hops_are_refused(hops):
    with pytest.raises(ValueError, match="`hops`"):
        PropagatedMLP(hops=hops)


# -- The learner -------------------------------------------------------------------------------------------------------


class Untidy(nn.Module):
    """Lazy layers, running statistics and dropout; contents alone."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.LazyLinear(8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4), nn.LazyLinear(CLASSES)
        )

    def forward(self, x):
        return self.layers(x)


class Neighbours(nn.Module):
    """Contents and edges."""

    def __init__(self, features=6):
        super().__init__()
        with torch.random.fork_rng([]):
            torch.manual_seed(1)
            self.layer = nn.Linear(2 * features, CLASSES)

    def forward(self, x, edge_index):
        heard = torch.zeros_like(x).index_add(0, edge_index[0], x[edge_index[1]])
        return self.layer(functional.dropout(torch.cat([x, heard], 1), 0.2, self.training))


INITIALS = {
    "MLP": MLP((8, 5), dropout=0.5),
    "contents dropped": MLP((8,), dropout=0.3, input_dropout=0.5),
    "propagated": PropagatedMLP((8,), dropout=0.3),
    "untidy": FromModule(Untidy()),
    "edges": FromModule(Neighbours()),
}
QUICK = Optimization(lr=0.02, weight_decay=0.01, epochs=6, patience=None)


def labels_of(data, problems, share, seed):
    """Other labels for every problem, at least one of each class."""
    y = data.y.expand(problems, -1).clone()
    hidden = torch.rand(y.shape, generator=random(seed)) > share
    hidden[:, :CLASSES] = False
    return y.masked_fill(hidden, -1)


def learner_of(
    data,
    initial=INITIALS["MLP"],
    coefficients=COEFFICIENTS["fixed"],
    horizons=EACH,
    which=None,
    optimization=QUICK,
    train=None,
    validation=None,
    p=1.0,
    scheme=RK4(),
):
    """A learner of all problems, or of some of them as if they were alone."""
    everyone = range(len(horizons))
    which = list(everyone if which is None else which)
    graph = Graph.from_pyg(data, dtype=torch.float32)
    train = labels_of(data, len(horizons), 0.3, 1) if train is None else train
    validation = labels_of(data, len(horizons), 0.2, 2) if validation is None else validation
    draws = [random(100 + q) for q in which]
    contents = initial.contents(data, graph)
    networks = initial.networks(contents, CLASSES, draws)
    equation = Equation(graph, coefficients, draws)
    last = max(horizons[q][-1] for q in which)
    flow = Flow(graph, equation, TIMES[: last + 1], [horizons[q] for q in which], p, scheme)
    names = [f"problem {q}" for q in which]
    if isinstance(optimization, list):
        optimization = [optimization[q] for q in which]
    return DistanceLearner(
        networks, contents, equation, flow, train[which], validation[which], CLASSES, optimization, names
    )


@pytest.fixture(scope="module")
def data():
    return blocks(each=8)


@both_ways
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("coefficients", ["fixed", "both"])
def test_an_epoch_is_that_of_plain_torch(p, coefficients, data):
    """Linear layers, evolve, cross-entropy and Adam: the losses and the parameters after three epochs."""
    initial = MLP((8, 5), dropout=0.0)
    learner = learner_of(data, initial, COEFFICIENTS[coefficients], p=p)
    graph = learner.flow.graph
    train, validation = labels_of(data, 3, 0.3, 1), labels_of(data, 3, 0.2, 2)
    modules = [linear_stack(learner.networks, q, nn.ReLU()) for q in range(3)]
    equation = copy.copy(learner.equation)
    thetas = [owned.value.detach().clone().requires_grad_() for owned in equation.owned()]
    if thetas:
        equation.theta_nodes, equation.theta_edges = thetas
    parameters = [one for module in modules for one in module.parameters()] + thetas
    adam = torch.optim.Adam(parameters, lr=QUICK.lr, weight_decay=QUICK.weight_decay)

    def loss(q, labels, boundary_mask):
        start = torch.stack([module(data.x).abs() for module in modules], 1)
        f = one_at_a_time(graph, equation, learner.flow, start, boundary_mask, p)[0, :, q]
        near = torch.exp(-f) / torch.exp(-f).sum(1, keepdim=True)
        nodes = (labels[q] >= 0).nonzero().squeeze(1)
        return -near[nodes, labels[q, nodes]].log().mean()

    boundary_mask = torch.stack([torch.stack([train[q] == k for k in range(CLASSES)], 1) for q in range(3)], 1)
    for _ in range(3):
        measured = learner.step()
        losses = torch.stack([loss(q, train, None) for q in range(3)])
        adam.zero_grad()
        losses.sum().backward()
        adam.step()
        for q in range(3):
            assert measured[f"train_loss problem {q}"] == pytest.approx(losses.tolist()[q], rel=1e-4)
            expected = float(loss(q, validation, boundary_mask).detach())
            assert measured[f"validation_loss problem {q}"] == pytest.approx(expected, rel=1e-3)
    for q, module in enumerate(modules):
        layers = [layer for layer in module if isinstance(layer, nn.Linear)]
        for k, layer in enumerate(layers):
            torch.testing.assert_close(learner.networks.weights[k][q].t(), layer.weight, rtol=1e-2, atol=2e-3)
    for owned, theta in zip(learner.equation.owned(), thetas, strict=True):
        torch.testing.assert_close(owned.value, theta, rtol=1e-2, atol=2e-3)


def test_the_loss_of_a_shared_model_is_the_mean_over_its_times(data):
    learner = learner_of(data, MLP((8,), dropout=0.0), horizons=SHARED)
    train = labels_of(data, 1, 0.3, 1)[0]
    f = learner.flow(learner.equation, learner.networks(learner.contents, training=False).abs())[:, :, 0]
    nodes = (train >= 0).nonzero().squeeze(1)
    each = [functional.cross_entropy(-f[k, nodes], train[nodes]) for k in range(3)]
    assert learner.step()["train_loss problem 0"] == pytest.approx(float(sum(each).detach()) / 3, rel=1e-5)


def check_as_if_alone(data, together=None, **settings):
    """All problems at once end in the best states that each of them finds by itself.

    `together` are the settings of Adam to learn all of them with; those of each where there are none.
    """
    together = learner_of(data, **settings if together is None else settings | {"optimization": together})
    histories = learn(together, "together")
    together.load_best()
    for q in range(3):
        alone = learner_of(data, which=[q], **settings)
        history = learn(alone, "alone")
        for name, values in history.items():
            torch.testing.assert_close(torch.tensor(histories[name][: len(values)]), torch.tensor(values), **LOOSE)
        alone.load_best()
        for mine, theirs in zip(together.owned(), alone.owned(), strict=False):
            if mine.owner is None:
                torch.testing.assert_close(mine.value[q], theirs.value[0], **LOOSE)
        if together.owned()[0].owner is not None:
            mine = {o.name.split(".", 2)[2]: o.value for o in together.owned() if o.owner == q}
            for name, value in {o.name.split(".", 2)[2]: o.value for o in alone.owned() if o.owner == 0}.items():
                torch.testing.assert_close(mine[name], value, **LOOSE)


LOOSE = {"rtol": 2e-3, "atol": 5e-4}


@both_ways
@pytest.mark.parametrize("initial", INITIALS)
@every_coefficient
def test_problems_learned_at_once_are_learned_as_if_alone(initial, coefficients, data):
    check_as_if_alone(data, initial=INITIALS[initial], coefficients=coefficients, scheme=RK4(step=0.1))


@pytest.mark.parametrize("patience", [1, 2])
def test_so_they_are_with_patience_of_their_own(patience, data):
    optimization = Optimization(lr=0.2, weight_decay=0.0, epochs=12, patience=patience)
    check_as_if_alone(data, optimization=optimization, coefficients=COEFFICIENTS["both"], scheme=RK4(step=0.1))


EACH_ITS_OWN = [
    Optimization(lr=0.2, weight_decay=0.0, epochs=12, patience=2),
    Optimization(lr=0.02, weight_decay=0.1, epochs=5, patience=None),
    Optimization(lr=0.2, weight_decay=0.0, epochs=9, patience=1),
]


# Not the untidy one: a bias before a BatchNorm1d has no gradient but rounding, which Adam makes a whole step of.
@pytest.mark.parametrize("initial", ["MLP", "propagated", "edges"])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_so_they_are_with_settings_of_their_own(initial, order, data):
    each = [EACH_ITS_OWN[k] for k in order]
    settings = {"initial": INITIALS[initial], "coefficients": COEFFICIENTS["both"], "scheme": RK4(step=0.1)}
    check_as_if_alone(data, optimization=each, **settings)
    if initial == "MLP":
        with pytest.raises(AssertionError):
            check_as_if_alone(data, optimization=each, together=each[0], **settings)


def test_a_problem_ends_after_its_own_epochs_and_is_no_longer_told_of(data):
    each = [Optimization(epochs=epochs, patience=None) for epochs in (2, 5, 3)]
    learner = learner_of(data, optimization=each)
    history = learn(learner, "stage")
    for q, one in enumerate(each):
        assert len(history[f"train_loss problem {q}"]) == len(history[f"validation_loss problem {q}"]) == one.epochs
    assert learner.epochs == 5
    assert learner.finished


def test_a_problem_that_has_ended_stops_nobody(data):
    each = [Optimization(epochs=epochs, patience=None) for epochs in (2, 5, 5)]
    learner, other = (learner_of(data, optimization=each) for _ in range(2))
    for epoch in range(5):
        if epoch == 2:
            with torch.no_grad():
                learner.networks.weights[0][0] = math.nan
        assert learner.step() == other.step()
    learner.load_best()
    other.load_best()
    assert all(torch.equal(a.value, b.value) for a, b in zip(learner.owned(), other.owned(), strict=True))


def test_only_problems_with_validation_nodes_tell_of_validation(data):
    validation = labels_of(data, 3, 0.2, 2)
    validation[1] = -1
    told = learner_of(data, validation=validation).step()
    assert [name for name in told if name.startswith("validation")] == [
        "validation_loss problem 0",
        "validation_loss problem 2",
    ]


def test_an_epoch_changes_tensors_where_they_lie(data):
    """A recorded epoch can do nothing else."""
    learner = learner_of(data, coefficients=COEFFICIENTS["both"])
    learner.step()
    boundary_mask = [learner.lowest, learner.waited, learner.epoch, *learner.best, *(o.value for o in learner.owned())]
    places = [value.data_ptr() for value in boundary_mask]
    learner.step()
    now = [learner.lowest, learner.waited, learner.epoch, *learner.best, *(o.value for o in learner.owned())]
    assert all(a is b for a, b in zip(boundary_mask, now, strict=True))
    assert places == [value.data_ptr() for value in now]


LOOKS = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "bincount")


class Looks(TorchDispatchMode):
    """Counts what would have to wait for the device to know a number."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in LOOKS or (name == "index" and any(one.dtype == torch.bool for one in args[1] if one is not None)):
            self.found.append(name)
        return function(*args, **kwargs or {})


@every_coefficient
@pytest.mark.parametrize("validated", [False, True])
def test_an_epoch_never_looks_at_a_number(coefficients, validated, data):
    validation = None if validated else torch.full((3, data.num_nodes), -1)
    learner = learner_of(data, PropagatedMLP((8,)), coefficients, optimization=EACH_ITS_OWN, validation=validation)
    learner.step()
    with Looks() as looks:
        learner._compute()
    assert looks.found == []


def test_the_check_on_looks_catches_one(data):
    learner = learner_of(data)
    right = learner._keep
    learner._keep = lambda better: right(better) if better.any() else None
    with Looks() as looks:
        learner._compute()
    assert looks.found == ["_local_scalar_dense"]


@every_coefficient
def test_a_part_of_an_equation_is_that_of_some_problems(coefficients):
    graph = graph_of(True)
    equation = equation_on(graph, coefficients, 5)
    part = equation.part(slice(1, 3))
    for mine, whole in zip(part.owned(), equation.owned(), strict=True):
        assert mine.name == whole.name
        assert mine.value.requires_grad
        assert mine.value.is_leaf
        assert torch.equal(mine.value, whole.value[1:3])
        with torch.no_grad():
            mine.value.zero_()
        assert not bool((whole.value[1:3] == 0).all())
    assert part.rho().shape == (graph.num_nodes, 1 if part.theta_nodes is None else 2)


def test_the_check_on_problems_at_once_catches_shared_random_numbers(data, monkeypatch):
    right = Stack.__init__

    def one_for_all(self, *given):
        right(self, *given)
        self.generators = self.generators[:1] * len(self.generators)

    monkeypatch.setattr(Stack, "__init__", one_for_all)
    with pytest.raises(AssertionError):
        check_as_if_alone(data, scheme=RK4(step=0.1))


def test_the_check_on_problems_at_once_catches_a_best_state_for_all(data, monkeypatch):
    optimization = Optimization(lr=0.2, weight_decay=0.0, epochs=12, patience=2)
    right = DistanceLearner._keep
    monkeypatch.setattr(DistanceLearner, "_keep", lambda self, better: right(self, better | better.any()))
    with pytest.raises(AssertionError):
        check_as_if_alone(data, optimization=optimization, scheme=RK4(step=0.1))


def scripted(learner, losses):
    """Lets the learner believe that these are its validation losses, a row an epoch."""
    rows = iter(losses)
    learner.checked.losses = lambda distances: torch.tensor(next(rows))
    snapshots = []
    for _ in losses:
        learner.step()
        snapshots.append([owned.value.detach().clone() for owned in learner.owned()])
    learner.load_best()
    return snapshots


def test_the_best_state_is_that_of_the_lowest_validation_loss_of_each(data):
    learner = learner_of(data, coefficients=COEFFICIENTS["both"])
    losses = [[3.0, 1.0, 2.0], [2.0, 2.0, math.nan], [4.0, 1.0, 0.5], [2.0, 3.0, 0.5], [5.0, 3.0, 0.7]]
    snapshots = scripted(learner, losses)
    for place, owned in enumerate(learner.owned()):
        for q, epoch in enumerate((1, 0, 2)):
            assert torch.equal(owned.value[q], snapshots[epoch][place][q])
            assert not torch.equal(owned.value[q], snapshots[4][place][q])


def test_a_problem_out_of_patience_keeps_what_it_has(data):
    learner = learner_of(data, optimization=Optimization(epochs=10, patience=2))
    finished = []
    losses = [[3.0, 3.0, 3.0], [4.0, 2.0, 2.0], [4.0, 5.0, 1.0], [1.0, 1.5, 2.0], [1.0, 0.0, 2.0]]
    rows = iter(losses)
    learner.checked.losses = lambda distances: torch.tensor(next(rows))
    snapshots = []
    for _ in losses:
        learner.step()
        finished.append(learner.finished)
        snapshots.append([owned.value.detach().clone() for owned in learner.owned()])
    learner.load_best()
    assert finished == [False, False, False, False, False]
    for place, owned in enumerate(learner.owned()):
        for q, epoch in enumerate((0, 4, 2)):
            assert torch.equal(owned.value[q], snapshots[epoch][place][q])


def test_learning_ends_when_all_are_out_of_patience(data):
    learner = learner_of(data, optimization=Optimization(epochs=50, patience=3))
    learner.checked.losses = lambda distances: torch.tensor([1.0, 1.0, 1.0])
    assert len(learn(learner, "stage")["train_loss problem 0"]) == 4


def test_without_validation_nodes_the_last_state_counts(data):
    nothing = torch.full((3, data.num_nodes), -1)
    learner = learner_of(data, validation=nothing, optimization=Optimization(epochs=5, patience=1))
    history = learn(learner, "stage")
    assert set(history) == {f"train_loss problem {q}" for q in range(3)}
    assert len(history["train_loss problem 0"]) == 5
    last = [owned.value.detach().clone() for owned in learner.owned()]
    learner.load_best()
    assert all(torch.equal(a, owned.value) for a, owned in zip(last, learner.owned(), strict=True))


def test_a_problem_without_validation_nodes_of_its_own_keeps_its_last_state(data):
    validation = labels_of(data, 3, 0.2, 2)
    validation[1] = -1
    learner = learner_of(data, validation=validation, optimization=Optimization(lr=0.3, epochs=6, patience=None))
    learn(learner, "stage")
    last = [owned.value.detach().clone() for owned in learner.owned()]
    learner.load_best()
    assert all(torch.equal(a[1], owned.value[1]) for a, owned in zip(last, learner.owned(), strict=True))


def test_a_loss_that_is_not_finite_stops_learning(data):
    learner = learner_of(data)
    with torch.no_grad():
        learner.networks.weights[0][1] = math.nan
    with pytest.raises(FloatingPointError, match="`lr`"):
        learner.step()


@pytest.mark.parametrize("training", [False, True])
def test_every_label_enters_and_nothing_else(training, data):
    train, validation = labels_of(data, 3, 0.3, 1), labels_of(data, 3, 0.2, 2)
    before = learn(learner_of(data, train=train, validation=validation), "stage")
    which = train if training else validation
    problem, node = (which < 0).nonzero()[0].tolist()
    which[problem, node] = 0
    after = learn(learner_of(data, train=train, validation=validation), "stage")
    for name, values in after.items():
        enters = name.endswith(str(problem)) and (training or name.startswith("validation"))
        assert (values != before[name]) == enters, name


SIZES = {"no hidden layer": (), "one": (20,), "two": (20, 5)}


def exact_stack(sizes, dropout, activation, problems=3):
    """In float64, with its answer on `contents` and all its gradients by plain autograd: layer after layer, as told."""
    stack = Stack(sizes, dropout, ACTIVATIONS[activation], generators(problems))
    for values in (stack.weights, stack.biases):
        values[:] = [value.detach().double().requires_grad_() for value in values]
    return stack


def by_autograd(stack, x, dropout, activation):
    """The formula, with what each network keeps drawn from a generator like its own."""
    rates = dropout if isinstance(dropout, tuple) else [dropout] * len(stack.generators)
    answers = []
    for q, rate in enumerate(rates):
        draws, share = random(q), kept_levels(rate) / LEVELS
        h = x @ stack.weights[0][q] + stack.biases[0][q]
        for weight, bias in zip(stack.weights[1:], stack.biases[1:], strict=True):
            kept = draw_kept([draws], h.shape, kept_levels(rate))[0] if rate else torch.ones_like(h)
            h = (MODULES[activation](h) * kept / share) @ weight[q] + bias[q]
        answers.append(h)
    return torch.stack(answers, 1)


@both_ways
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("hidden", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(
    "dropout", [0.0, 0.4, (0.5, 0.0, 0.25)], ids=["nothing dropped", "dropout", "rates of their own"]
)
@pytest.mark.parametrize("classes", [3, 17])
def test_networks_and_their_gradients_are_exact(activation, hidden, dropout, classes):
    x = torch.randn(37, 7, generator=random(50), dtype=zoo.F64)
    stack = exact_stack((7, *hidden, classes), dropout, activation)
    answer, expected = stack(Dense(x), training=True), by_autograd(stack, x, dropout, activation)
    torch.testing.assert_close(answer, expected)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


@both_ways
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_they_are_exact_with_sparse_contents_too():
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(50)).masked_fill(
        torch.rand(graph.num_nodes, 7, generator=random(51)) < 0.6, 0
    )
    sparse = Propagated(Sparse(x.to_sparse_csr()), gcn_matrix(graph), 2, True)
    stack = Stack((21, 8, 5, CLASSES), 0.5, torch.relu, generators(3))
    answer = stack(sparse, training=True)
    expected = by_autograd(stack, dense_contents(x, graph, 2, True), 0.5, "relu")
    torch.testing.assert_close(answer, expected, rtol=1e-4, atol=1e-5)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@both_ways
def test_rates_of_their_own_give_what_each_would_give_alone():
    x, rates = Dense(torch.randn(11, 5, generator=random())), (0.5, 0.0, 0.9)
    together = MLP((6, 3), 0.1).networks(x, CLASSES, generators(3), rates)
    alone = [MLP((6, 3), rate).networks(x, CLASSES, [random(q)]) for q, rate in enumerate(rates)]
    for _ in range(2):
        expected = torch.cat([network(x, training=True) for network in alone], 1)
        torch.testing.assert_close(together(x, training=True), expected)
    for q, network in enumerate(alone):
        assert torch.equal(together.random_state()[f"random.{q}"], network.random_state()["random.0"])


@both_ways
def test_passes_may_be_taken_back_in_any_order_and_twice():
    """Memory is used again only when nobody needs what is in it."""
    one, other = (Dense(torch.randn(9, 4, generator=random(k))) for k in range(2))
    stack = Stack((4, 6, 5, CLASSES), 0.0, torch.relu, generators(2))
    inputs = [*stack.weights, *stack.biases]
    expected = [gradients(stack(x, training=True), inputs) for x in (one, other)]
    answers = [stack(x, training=True) for x in (one, other)]
    weights = torch.linspace(1, 2, answers[0].numel()).view_as(answers[0])
    found = [torch.autograd.grad((f * weights).mean(), inputs, retain_graph=True) for f in reversed(answers)]
    again = [torch.autograd.grad((f * weights).mean(), inputs) for f in answers]
    for ours in (found[::-1], again):
        assert all(torch.equal(a, b) for x, y in zip(ours, expected, strict=True) for a, b in zip(x, y, strict=True))
    stack(one, training=True).sum().backward()
    once = [value.grad.clone() for value in inputs]
    stack(one, training=True).sum().backward()
    assert all(torch.equal(value.grad, 2 * first) for value, first in zip(inputs, once, strict=True))


# -- Memory that is used again -----------------------------------------------------------------------------------------


def test_memory_is_lent_again_when_nothing_uses_it():
    space = Workspace()
    one = space.empty((3, 4), torch.float64)
    assert (one.shape, one.dtype) == ((3, 4), torch.float64)
    place, view = one.data_ptr(), one[1].t()
    del one
    assert space.empty((3, 4), torch.float64).data_ptr() != place
    del view
    assert space.empty((2, 6), torch.float64).data_ptr() == place


def test_memory_of_a_gradient_is_lent_again_when_the_gradient_goes():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x.sum()

        @staticmethod
        def backward(ctx, grad):
            return space.empty((5,)).fill_(2)

    space, x = Workspace(), torch.ones(5, requires_grad=True)
    Doubled.apply(x).backward()
    place = x.grad.data_ptr()
    assert space.empty((5,)).data_ptr() != place
    x.grad = None
    lent = [space.empty((5,)) for _ in range(2)]
    assert place in [one.data_ptr() for one in lent]


def test_memory_let_go_is_not_lent_again():
    space = Workspace()
    one = space.empty((4,))
    one.fill_(3)
    space.let_go()
    assert torch.equal(one, torch.full((4,), 3.0))
    del one
    assert space.unused == 0


def test_copies_of_a_workspace_start_with_nothing():
    space = Workspace()
    space.empty((4,))
    assert space.unused == 1
    assert copy.deepcopy(space).unused == copy.copy(space).unused == 0


def test_memory_comes_back_without_a_line_of_python():
    """Where Python runs when an object goes, Ctrl-C is caught and lost."""
    space, ran = Workspace(), []
    one = space.empty((4,))
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_name) if event == "call" else None)
    del one
    sys.setprofile(None)
    assert ran == []
    assert space.unused == 1


def test_later_epochs_need_no_more_memory_and_evaluation_lets_it_go(data, monkeypatch):
    monkeypatch.setattr(networking, "WORTH_A_TURN", 0)
    learner = learner_of(data)
    space, counts = learner.networks._space, []
    for _ in range(4):
        learner.step()
        learner.load_best()
        counts.append(space.unused)
    assert counts[1] == counts[2] == counts[3] > 0
    learner.networks(learner.contents, training=False)
    assert space.unused == 0


# -- Some of the networks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("initial", ["MLP", "untidy", "edges"])
def test_a_part_of_networks_is_those_of_some_problems(initial, data):
    choice, graph = INITIALS[initial], Graph.from_pyg(data, dtype=torch.float32)
    contents = choice.contents(data, graph)
    networks = choice.networks(contents, CLASSES, generators(4))
    networks(contents, training=True)
    part = networks.part(slice(1, 3))
    for training in (False, True, True):
        whole, some = networks(contents, training=training), part(contents, training=training)
        assert some.shape == (data.num_nodes, 2, CLASSES)
        torch.testing.assert_close(some, whole[:, 1:3])
    state = {name: value.clone() for name, value in part.random_state().items()}
    assert {int(name.split(".")[1]) for name in state} == {0, 1}
    assert {owned.owner for owned in part.owned()} <= {None, 0, 1}
    first = part(contents, training=True)
    part.load_random_state(state)
    torch.testing.assert_close(part(contents, training=True), first)


@pytest.mark.parametrize("initial", ["MLP", "untidy", "edges"])
def test_it_shares_nothing_with_the_others(initial, data):
    choice, graph = INITIALS[initial], Graph.from_pyg(data, dtype=torch.float32)
    contents = choice.contents(data, graph)
    networks = choice.networks(contents, CLASSES, generators(4))
    part = networks.part(slice(1, 3))
    before, state = networks(contents, training=False).detach().clone(), networks.random_state()
    state = {name: value.clone() for name, value in state.items()}
    learned = [owned.value for owned in part.owned() if owned.value.requires_grad]
    assert learned
    assert all(value.is_leaf for value in learned)
    part(contents, training=True).sum().backward()
    with torch.no_grad():
        for owned in part.owned():
            owned.value.zero_()
    assert all(owned.value.grad is None for owned in networks.owned())
    torch.testing.assert_close(networks(contents, training=False), before)
    assert same(state, networks.random_state())


def test_a_part_has_the_rates_of_its_networks():
    x = Dense(torch.randn(200, 5, generator=random()))
    networks = Stack((5, 40, CLASSES), (0.9, 0.0, 0.5), torch.relu, generators(3))
    part = networks.part(slice(1, 2))
    assert torch.equal(part(x, training=True), part(x, training=False))
    assert not torch.equal(networks(x, training=True), networks(x, training=False))


# -- Putting it down and picking it up again ---------------------------------------------------------------------------


def interrupt_at(epoch):
    def callback(progress):
        if progress.epoch == epoch:
            raise KeyboardInterrupt

    return callback


@both_ways
@pytest.mark.parametrize("initial", INITIALS)
@pytest.mark.parametrize("epoch", [1, 2, 5, 6])
def test_resumed_learning_gives_the_same_bits(initial, epoch, data, tmp_path):
    settings = {"initial": INITIALS[initial], "coefficients": COEFFICIENTS["both"]}
    whole = learner_of(data, **settings)
    expected = learn(whole, "distances")
    with pytest.raises(KeyboardInterrupt):
        learn(learner_of(data, **settings), "distances", interrupt_at(epoch), Checkpoint(tmp_path, "key", every=0))
    resumed, heard = learner_of(data, **settings), []
    history = learn(resumed, "distances", heard.append, Checkpoint(tmp_path, "key", every=0))
    assert [one.epoch for one in heard] == list(range(epoch, 7))
    assert history == expected
    assert same(resumed.state(), whole.state())
    whole.load_best()
    resumed.load_best()
    for a, b in zip(whole.owned(), resumed.owned(), strict=True):
        assert torch.equal(a.value, b.value)


@pytest.mark.parametrize("forgotten", ["adam", "random", "best", "lowest"])
def test_the_check_on_resuming_catches_what_is_forgotten(forgotten, data, tmp_path, monkeypatch):
    right = DistanceLearner.restore

    def forgetful(self, state):
        fresh = self.state()
        kept = {name: value.clone() for name, value in fresh.items() if name.startswith(forgotten)}
        given = {name: value for name, value in state.items() if not name.startswith(forgotten)}
        right(self, {**given, **kept})

    monkeypatch.setattr(DistanceLearner, "restore", forgetful)
    with pytest.raises(AssertionError):
        test_resumed_learning_gives_the_same_bits("MLP", 5, data, tmp_path)


def test_a_state_is_not_changed_by_what_follows(data):
    learner = learner_of(data)
    learner.step()
    state = learner.state()
    before = {name: value.clone() for name, value in state.items()}
    learner.step()
    assert same(before, state)


def test_a_state_restored_twice_is_the_same_both_times(data):
    learner = learner_of(data)
    learner.step()
    state = {name: value.clone() for name, value in learner.state().items()}
    outcomes = []
    for _ in range(2):
        learner.restore(state)
        learner.step()
        outcomes.append({name: value.clone() for name, value in learner.state().items()})
    assert same(*outcomes)


# -- Modules of the user's ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["untidy", "edges"])
def test_a_module_of_the_users_learns_in_copies(name, data):
    module = INITIALS[name].module
    before = copy.deepcopy(module)
    learner = learner_of(data, INITIALS[name])
    history = learn(learner, "stage")
    assert all(values[0] != values[-1] for values in history.values())
    assert [type(one) for one in module.modules()] == [type(one) for one in before.modules()]
    for (_, a), (_, b) in zip(module.named_parameters(), before.named_parameters(), strict=True):
        assert nn.parameter.is_lazy(a) == nn.parameter.is_lazy(b)
        assert nn.parameter.is_lazy(a) or torch.equal(a, b)
    assert module.training == before.training


def test_a_module_is_called_with_edges_where_it_takes_them(data):
    graph = Graph.from_pyg(data, dtype=torch.float32)
    choice = INITIALS["edges"]
    contents = choice.contents(data, graph)
    answer = choice.networks(contents, CLASSES, generators(2))(contents, training=False)
    torch.testing.assert_close(answer[:, 1], choice.module.eval()(data.x, graph.edge_index))


class Optional(nn.Linear):
    def forward(self, x, scale=2.0):
        return super().forward(x) * scale


class Keyword(nn.Linear):
    def forward(self, x, edge_index=None):
        assert edge_index is not None
        return super().forward(x)


@pytest.mark.parametrize(("kind", "takes"), [(nn.Linear, False), (Optional, False), (Keyword, True)])
def test_other_arguments_of_a_module_keep_their_defaults(kind, takes, data):
    choice = FromModule(kind(6, CLASSES))
    contents = choice.contents(data, Graph.from_pyg(data, dtype=torch.float32))
    networks = choice.networks(contents, CLASSES, generators(1))
    assert networks.takes_edges is takes
    given = (data.x, data.edge_index) if takes else (data.x,)
    torch.testing.assert_close(networks(contents, training=False)[:, 0], choice.module(*given))


def test_running_statistics_are_learned_and_best_ones_kept(data):
    learner = learner_of(data, INITIALS["untidy"], horizons=[[0], [1], [2]])
    names = [owned.name for owned in learner.owned()]
    assert any("running_mean" in name for name in names)
    snapshots = scripted(learner, [[1.0, 3.0, 3.0], [2.0, 2.0, 1.0], [3.0, 1.0, 2.0]])
    for place, owned in enumerate(learner.owned()):
        assert torch.equal(owned.value, snapshots[(0, 2, 1)[owned.owner]][place])
    means = [owned.value for owned in learner.owned() if "running_mean" in owned.name]
    assert not torch.equal(means[0], torch.zeros_like(means[0]))
    assert not torch.equal(means[0], means[1])


def test_a_module_whose_parameters_are_frozen_keeps_them(data):
    module = Neighbours()
    module.layer.bias.requires_grad_(False)
    learner = learner_of(data, FromModule(module))
    learn(learner, "stage")
    for owned in learner.owned():
        assert torch.equal(owned.value, module.layer.bias) == owned.name.endswith("bias")


def test_global_random_numbers_stay_where_they_are(data):
    before = torch.get_rng_state()
    for initial in INITIALS.values():
        learn(learner_of(data, initial, COEFFICIENTS["both"]), "stage")
    assert torch.equal(torch.get_rng_state(), before)


@both_ways
def test_work_done_ahead_changes_no_bit():
    """Validation computes the first layer for the training step that follows; without that the step gives the same."""

    def trained(ahead):
        generators = [torch.Generator().manual_seed(q) for q in range(2)]
        networks = Stack((6, 8, 3), 0.5, torch.relu, generators)
        contents = Dense(torch.randn(12, 6, generator=torch.Generator().manual_seed(5)))
        optimizer = torch.optim.Adam([owned.value for owned in networks.owned()], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            networks(contents, training=True).square().sum().backward()
            optimizer.step()
            with torch.no_grad():
                networks(contents, training=False, ahead=ahead)
        return [owned.value.detach() for owned in networks.owned()]

    assert all(torch.equal(a, b) for a, b in zip(trained(True), trained(False), strict=True))


@both_ways
def test_work_done_ahead_is_not_used_for_other_parameters_or_contents():
    generators = [torch.Generator().manual_seed(0)]
    networks = Stack((4, 5, 2), 0.0, torch.relu, generators)
    one, other = Dense(torch.eye(4)), Dense(torch.eye(4) + 1)
    networks(one, training=False, ahead=True)
    assert torch.equal(networks(other, training=True), networks(other, training=False))
    networks(one, training=False, ahead=True)
    with torch.no_grad():
        networks.weights[0].add_(1)
    assert torch.equal(networks(one, training=True), networks(one, training=False))


@pytest.mark.parametrize("normalize", [False, True])
def test_blocks_formed_once_are_the_blocks_that_are_multiplied(normalize):
    graph = graph_of(True)
    x = Dense(torch.randn(graph.num_nodes, 7, generator=random(1)))
    blocks, formed = Propagated(x, gcn_matrix(graph), 2, normalize), propagated(x, graph, 2, normalize)
    assert isinstance(formed, Dense)
    weight = torch.randn(3, blocks.num_features, 4, generator=random(3))
    torch.testing.assert_close(formed.times(weight), blocks.times(weight), rtol=1e-4, atol=1e-5)


def pageranked(x, graph, restart, steps=10):
    """By the definition: Σ_k restart (1 − restart)^k Â^k x, and the rest of the walk at its end."""
    dense = gcn_matrix(graph).rows.to_dense()
    powers = [torch.linalg.matrix_power(dense, k) @ x for k in range(steps + 1)]
    weights = [restart * (1 - restart) ** k for k in range(steps)] + [(1 - restart) ** steps]
    return sum(weight * power for weight, power in zip(weights, powers, strict=True))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", [Dense, lambda x: Sparse(x.to_sparse_csr())])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_the_last_block_is_the_pagerank_of_the_contents(kind, normalize):
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(1)).relu()
    contents = propagated(kind(x), graph, 1, normalize, pagerank=0.15)
    expected = pageranked(x, graph, 0.15)
    if normalize:
        expected = torch.nn.functional.normalize(expected)
    assert contents.num_features == 21
    formed = contents.times(torch.eye(21))
    torch.testing.assert_close(formed[:, 14:], expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(formed[:, :14], propagated(kind(x), graph, 1, normalize).times(torch.eye(14)))


@both_ways
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_networks_on_a_pagerank_of_sparse_contents_are_exact():
    graph = graph_of(True)
    x = torch.randn(graph.num_nodes, 7, generator=random(50)).masked_fill(
        torch.rand(graph.num_nodes, 7, generator=random(51)) < 0.6, 0
    )
    sparse = Propagated(Sparse(x.to_sparse_csr()), gcn_matrix(graph), 2, True, 0.1)
    stack = Stack((28, 8, 5, CLASSES), 0.5, torch.relu, generators(3))
    answer = stack(sparse, training=True)
    far = torch.nn.functional.normalize(pageranked(x, graph, 0.1))
    expected = by_autograd(stack, torch.cat([dense_contents(x, graph, 2, True), far], 1), 0.5, "relu")
    torch.testing.assert_close(answer, expected, rtol=1e-4, atol=1e-5)
    inputs = [*stack.weights, *stack.biases]
    for ours, theirs in zip(gradients(answer, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("pagerank", [0, 1, -0.1, 2])
def test_a_chance_of_restart_lies_between_0_and_1(pagerank):
    with pytest.raises(ValueError, match="`pagerank` must lie between 0 and 1"):
        PropagatedMLP(pagerank=pagerank)


@pytest.mark.parametrize("kind", [Dense, lambda x: Sparse(x.to_sparse_csr())])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_many_weights_at_once_are_many_products(kind):
    contents = kind(torch.randn(9, 5, generator=random(1)))
    weight = torch.randn(3, 5, 4, generator=random(2), requires_grad=True)
    product, expected = contents.times(weight), torch.stack([contents.times(one) for one in weight])
    torch.testing.assert_close(product, expected)
    for ours, theirs in zip(gradients(product, [weight]), gradients(expected, [weight]), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_no_garbage_is_collected_while_an_epoch_is_recorded():
    """An earlier recording that went then would spoil the new one."""
    probe = _Probe()
    probe.itself, gone = probe, weakref.finalize(probe, list)
    del probe
    with replay._no_garbage_collected():
        assert not gone.alive
        assert not gc.isenabled()
    assert gc.isenabled()


class _Probe:
    """Garbage as soon as nobody else knows it, but only the collector can tell."""


@pytest.mark.parametrize("notice", ["Sparse CSR tensor support is in beta", "Sparse invariant checks are implicitly"])
def test_what_torch_says_of_sparse_tensors_is_not_passed_on(notice, monkeypatch):
    """Some versions say it at their first sparse tensor, others when they are asked whether to check them."""

    def reminded():
        warnings.warn(f"{notice} disabled. To silence this warning …", UserWarning, stacklevel=1)
        return False

    monkeypatch.setattr(torch._C, "_check_sparse_tensor_invariants", reminded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = sparse(torch.tensor([[0], [1]]), torch.ones(1), (2, 2))
        assert compressed(matrix.coalesce()).to_dense().tolist() == [[0, 1], [0, 0]]
