"""Three problems on one graph, trained together and alone."""

import pytest
import torch
from torch import nn

from lggd import Optimization
from lggd.backbones import APPNP, GAT, GCN, GPR, ChebNet, JKNet, Perceptron, build_seeded
from lggd.training.engine import train
from lggd.training.problems import draw_keep_mask
from support.backbone_cases import backbone_engine, exported
from support.small_data import CLASSES, WITHOUT_EFFECT, blocks, random

FEATURES = 2 * CLASSES


EPOCHS, PATIENCE = 15, 4


NAMES = ("one", "two", "three")


CLOSE = {"rtol": 1e-4, "atol": 1e-5}


class Own(nn.Module):
    """A module of one's own that drops values, and has buffers that training changes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout()

    def forward(self, x, edge_index):
        return self.second(self.dropout(torch.relu(self.norm(self.first(x)))))


class Lazy(Own):
    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(8)


with torch.random.fork_rng([]):
    torch.manual_seed(0)
    OWN = [Own(), Lazy()]


OURS = [GCN(hidden=8), GAT(hidden=4, heads=2), ChebNet(hidden=8, terms=3), JKNet(hidden=8), GPR(8, 3),
        APPNP(0.1, 3, 8), Perceptron(8)]  # fmt: skip


every_backbone = pytest.mark.parametrize("backbone", OURS, ids=repr)


every_kind = pytest.mark.parametrize("backbone", [*OURS, *OWN], ids=lambda one: repr(one).split("(\n")[0])


def problems(seed=0):
    """Features `[3, N, F]`, edges, weights, training and validation labels `[3, N]` of three problems on one graph.

    They have different features and labels. The second has labels of chance, so that it soon runs out of patience. The
    third has no validation nodes.
    """
    data = blocks(each=40, noise=1.0, weighted=True, inside=0.05, outside=0.01, seed=seed)
    x = torch.stack([data.x, torch.randn(data.x.shape, generator=random(1)), data.x.flip(1) + 0.1])
    target, validation = torch.full((2, 3, data.num_nodes), -1)
    for q in range(3):
        order = torch.randperm(data.num_nodes, generator=random(q))
        truth = data.y if q != 1 else torch.randint(CLASSES, data.y.shape, generator=random(9))
        for labels, nodes in ((target, order[: 30 + q]), (validation, order[30 + q : 120 if q == 0 else 34])):
            labels[q, nodes] = truth[nodes]
    validation[2] = -1
    return x, data.edge_index, data.edge_weight, target, validation


def made(backbone, chosen=(0, 1, 2), x=None, device="cpu", **settings):
    """A learner of the chosen ones of the problems."""
    own_x, edge_index, edge_weight, target, validation = (each.to(device) for each in problems())
    x = own_x[list(chosen)] if x is None else x.to(device)
    modules = [build_seeded(backbone, FEATURES, CLASSES, seed=10 + q) for q in chosen]
    optimization = Optimization(**{"lr": 0.02, "epochs": EPOCHS, "patience": PATIENCE, **settings})
    return backbone_engine(
        modules, x, edge_index, edge_weight, target[list(chosen)], validation[list(chosen)], optimization,
        [10 + q for q in chosen], [NAMES[q] for q in chosen],
    )  # fmt: skip


def told_of(history, name):
    """The part of a history that belongs to one problem."""
    return {key.removesuffix(f" {name}"): values for key, values in history.items() if key.endswith(f" {name}")}


def same(state, other):
    return state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)


def state_of(module):
    """A module's state, but for the one number that counts for nothing."""
    return {name: value for name, value in module.state_dict().items() if name != WITHOUT_EFFECT}


def check_alone(backbone, device="cpu", close=CLOSE, **settings):
    """Each problem learns together with the others what it learns alone."""
    together = made(backbone, device=device, **settings)
    history = train(together, "backbone")
    modules = exported(together)
    for q, name in enumerate(NAMES):
        alone = made(backbone, [q], device=device, **settings)
        of_it = train(alone, "backbone")
        expected, found = told_of(of_it, name), told_of(history, name)
        assert {key: len(values) for key, values in found.items()} == {key: len(v) for key, v in expected.items()}
        for key, values in expected.items():
            assert found[key] == pytest.approx(values, rel=close["rtol"], abs=close["atol"])
        assert together.best_epoch[q] == alone.best_epoch[0]
        torch.testing.assert_close(state_of(modules[q]), state_of(exported(alone)[0]), **close)
    return together, history


class DrawTheSame:
    """Planted: all problems drop what the first drops."""

    def __call__(self, generators, shape, levels):
        kept = draw_keep_mask(generators, shape, levels)
        return kept[:1].expand(kept.shape).contiguous()


class Counting:
    """Counts how often a module reads its graph."""

    def __init__(self, module):
        self.read, self.times = module.graph_reader, 0
        module.graph_reader = self

    def __call__(self, *graph):
        self.times += 1
        return self.read(*graph)
