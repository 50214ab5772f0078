"""Backbones, small graphs and engines that several tests share."""

import pytest
import torch
from torch import nn

from lggd import Optimization
from lggd.backbones import APPNP, GAT, GCN, GPR, ChebNet, JKNet, build_seeded, trainable_backbones
from lggd.training.engine import Engine

FEATURES, CLASSES = 6, 3


OF_THE_PAPER = [GCN(hidden=8), GAT(hidden=4, heads=2), ChebNet(hidden=8), ChebNet(hidden=8, terms=4), JKNet(hidden=6)]
BACKBONES = [*OF_THE_PAPER, GPR(8, 3), APPNP(0.1, 3, 8)]


backbones_of_the_paper = pytest.mark.parametrize("backbone", OF_THE_PAPER, ids=repr)
every_backbone = pytest.mark.parametrize("backbone", BACKBONES, ids=repr)


no_edges = torch.zeros(2, 0, dtype=torch.int64)


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def initialised(backbone, seed=0, in_channels=FEATURES, num_classes=CLASSES):
    return build_seeded(backbone, in_channels, num_classes, seed)


def undirected(num_nodes=20, num_edges=40, isolated=2, seed=0):
    """Edges in both directions without loops; the last `isolated` nodes have none."""
    edges = torch.randint(num_nodes - isolated, (2, num_edges), generator=random(seed))
    edges = edges[:, edges[0] != edges[1]]
    return torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)


def untidy(num_nodes=12):
    """One-way edges, some of them twice, some of them loops, with weights."""
    edge_index = torch.randint(num_nodes - 1, (2, 40), generator=random(1))
    edge_index[1, :3] = edge_index[0, :3]
    edge_index[:, 3] = edge_index[:, 4]
    return edge_index, torch.rand(40, generator=random(2)) + 0.1


def features(num_nodes=20, dtype=torch.float32):
    return torch.rand(num_nodes, FEATURES, generator=random(3), dtype=dtype)


def dense(edge_index, num_nodes, edge_weight=None, dtype=torch.float64):
    """A with entry (i, j) for the edge j → i."""
    weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
    matrix = torch.zeros(num_nodes, num_nodes, dtype=dtype)
    return matrix.index_put((edge_index[1], edge_index[0]), weight.to(dtype), accumulate=True)


def normalised(matrix):
    """D^-½ M D^-½, and 0 where a degree is 0."""
    root = matrix.sum(1).pow(-0.5)
    root[torch.isinf(root)] = 0
    return root[:, None] * matrix * root[None, :]


def same(state, other):
    return state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)


class Own(nn.Module):
    """Its forward records what it was given."""

    def __init__(self, width=CLASSES):
        super().__init__()
        self.linear, self.given = nn.Linear(FEATURES, width), []


class Plain(Own):
    def forward(self, x, edge_index):
        return self.linear(x)


def own_lazy():
    from torch_geometric.nn import GraphSAGE

    return GraphSAGE(-1, 8, num_layers=2, out_channels=2, dropout=0.5)


# Of the 80 nodes of `block_model`.
TRAIN, VALIDATION = torch.arange(0, 80, 4), torch.arange(1, 80, 4)


def block_model(seed=0):
    """Features, edges and labels of two blocks that keep to themselves; the features alone leave much in doubt."""
    labels = torch.arange(80) // 40
    chance = torch.where(labels[:, None] == labels[None, :], 0.25, 0.01)
    above = (torch.rand(chance.shape, generator=random(seed)) < chance).triu(1)
    x = torch.randn(80, FEATURES, generator=random(seed + 1)) + 0.8 * labels[:, None]
    return x, (above | above.T).nonzero().T.contiguous(), labels


def only(labels, nodes):
    """The labels of some nodes, and -1 elsewhere."""
    return torch.full_like(labels, -1).scatter(0, nodes, labels[nodes])


def sbm_learner(backbone, seed=0, labels=None, validated=True, engine=Engine, **settings):
    x, edge_index, truth = block_model()
    labels = truth if labels is None else labels
    module = initialised(backbone, seed, num_classes=2)
    made = backbone_engine(
        [module], x, edge_index, None, only(labels, TRAIN)[None], only(labels, VALIDATION)[None] if validated else None,
        Optimization(**{"epochs": 12, **settings}), [seed], engine=engine,
    )  # fmt: skip
    return made, truth


def present(learner):
    """Copies of the parameters and buffers of a learner's problems as they are now."""
    return {parameter.name: parameter.value.detach().clone() for parameter in learner.trainable.parameters()}


on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def backbone_engine(
    modules, x, edge_index, edge_weight, train, validation=None, optimization=Optimization(), seeds=(0,), names=("",),
    engine=Engine,
):  # fmt: skip
    networks = trainable_backbones(modules, x, edge_index, edge_weight, seeds)
    return engine(networks, train, validation, optimization, names)


def exported(engine):
    """The modules in their best states."""
    engine.load_best()
    return engine.trainable.export()
