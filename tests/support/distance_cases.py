"""Problems of learned distances, and what their tests share."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from lggd import (
    MLP,
    RK4,
    DegreePotential,
    Graph,
    LearnedEdgeWeights,
    LearnedPotential,
    PropagatedMLP,
    evolve,
)
from lggd.features.distance_training import DistanceProblems
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.inputs import NodeData
from lggd.learning import stacked_mlps
from lggd.learning.flow import Equation, Flow
from lggd.learning.networks import FromModule
from lggd.learning.node_features import DenseFeatures, SparseFeatures
from lggd.training.engine import Engine
from lggd.training.problems import LEVELS, Optimization, draw_keep_mask, keep_level
from support.small_data import CLASSES, blocks, random

TIMES = (0.5, 1.25, 2.0)


EACH, SHARED = [[0], [1], [2]], [[0, 1, 2]]


MIXED = [[1, 2], [0, 1], [0, 2]]


COEFFICIENTS = {
    "fixed": DegreePotential(-0.5),
    "none": None,
    "potential": LearnedPotential(DegreePotential(-0.5)),
    "weights": LearnedEdgeWeights(DegreePotential(-1.0)),
    "both": LearnedEdgeWeights(LearnedPotential()),
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
        for k, owned in enumerate(equation.parameters()):
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


def by_evolve(*problem, step, scheme=RK4, **given):
    return evolve(*problem, scheme=scheme(step=step, force=True), **given).value


def one_at_a_time(graph, equation, flow, start, boundary_mask, p, solve=by_evolve):
    """The values of the flow from `solve`: problem after problem, with tensors for what was learned."""
    solved = []
    for q, horizons in enumerate(flow.horizons):
        rho, root = equation.rho(), equation.root_weight()
        weight = None
        if equation.theta_edges is not None:
            weight = root[:, q] ** 2
        value = solve(
            graph,
            None if boundary_mask is None else sources_of(boundary_mask[:, q]),
            start=start[:, q],
            times=TIMES[: horizons[-1] + 1],
            p=p,
            potential=rho[:, min(q, rho.shape[1] - 1)],
            weight=weight,
            step=flow.step,
        )
        solved.append(value[horizons])
    return torch.stack(solved, 2)


def gradients(f: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Of a sum in which every entry counts, and counts differently."""
    weights = torch.linspace(1, 2, f.numel(), dtype=f.dtype).view_as(f)
    return list(torch.autograd.grad((f * weights).mean(), inputs))


def dense_features(x, graph, hops, normalize):
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


@pytest.fixture(params=[0, 2**62], ids=["in turn", "at once"])
def turns(request, monkeypatch):
    """Networks one after the other, as large ones are evaluated, and all at once, as small ones are."""
    monkeypatch.setattr(stacked_mlps, "SEQUENTIAL_FROM", request.param)


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


def stored(x, kind):
    return DenseFeatures(x) if kind == "dense" else sparse_features(x)


class Untidy(nn.Module):
    """Lazy layers, running statistics and dropout; node features alone."""

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
    "node features dropped": MLP((8,), dropout=0.3, input_dropout=0.5),
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
    features = initial.node_features(NodeData.read(data), graph)
    networks = initial.networks(features, CLASSES, draws)
    equation = Equation(graph, coefficients, draws)
    last = max(horizons[q][-1] for q in which)
    flow = Flow(equation, TIMES[: last + 1], [horizons[q] for q in which], p, scheme)
    names = [f"problem {q}" for q in which]
    problems = DistanceProblems(initial, features, networks, flow, CLASSES)
    return Engine(problems, train[which], validation[which], optimization, names, lowest_loss=True)


LOOSE = {"rtol": 2e-3, "atol": 5e-4}


def believe(learner, losses):
    """Lets the learner believe that these are its validation losses, a row an epoch."""
    rows = iter(losses)
    learner.trainable.validate = lambda validation: (torch.tensor(next(rows)), None)


def scripted(learner, losses):
    """Trains as long as there are losses; returns the parameters after each epoch, at the end the best."""
    believe(learner, losses)
    snapshots = []
    for _ in losses:
        learner.step()
        snapshots.append([owned.value.detach().clone() for owned in learner.trainable.parameters()])
    learner.load_best()
    return snapshots


def by_autograd(stack, x, dropout, activation):
    """The formula, with what each network keeps drawn from a generator like its own."""
    rates = dropout if isinstance(dropout, tuple) else [dropout] * len(stack.generators)
    answers = []
    for q, rate in enumerate(rates):
        draws, share = random(q), keep_level(rate) / LEVELS
        h = x @ stack.weights[0][q] + stack.biases[0][q]
        for weight, bias in zip(stack.weights[1:], stack.biases[1:], strict=True):
            kept = draw_keep_mask([draws], h.shape, keep_level(rate))[0] if rate else torch.ones_like(h)
            h = (MODULES[activation](h) * kept / share) @ weight[q] + bias[q]
        answers.append(h)
    return torch.stack(answers, 1)


def interrupt_at(epoch):
    def callback(progress):
        if progress.done == epoch:
            raise KeyboardInterrupt

    return callback


def pageranked(x, graph, restart, steps=10):
    """By the definition: Σ_k restart (1 − restart)^k Â^k x, and the rest of the walk at its end."""
    dense = adjacency_of(graph).csr.to_dense()
    powers = [torch.linalg.matrix_power(dense, k) @ x for k in range(steps + 1)]
    weights = [restart * (1 - restart) ** k for k in range(steps)] + [(1 - restart) ** steps]
    return sum(weight * power for weight, power in zip(weights, powers, strict=True))


def sparse_features(x):
    rows, columns = x.nonzero().unbind(1)
    return SparseFeatures(SparseMatrix.from_entries(rows, columns, x[rows, columns], tuple(x.shape)))


def adjacency_of(graph):
    return normalized_adjacency(graph.edge_index.flip(0), graph.weight, graph.num_nodes)
