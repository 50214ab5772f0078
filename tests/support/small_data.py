"""Small graphs with node features and labels, as PyG data, for everything that learns."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

CLASSES = 3
# JKNet adds this number to all scores of a softmax, to which it is nothing. Its gradient is 0 but for rounding, and
# Adam makes whole steps of that.
WITHOUT_EFFECT = "jump.att.bias"


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blocks(
    each: int = 12,
    labelled: int = 4,
    validated: int = 3,
    weighted: bool = False,
    sparse: bool = False,
    lonely: int = 0,
    seed: int = 0,
    inside: float = 0.4,
    outside: float = 0.04,
    noise: float = 0.5,
) -> Data:
    """A stochastic block model of three classes (node i has class i % 3), whose node features depend on the class.

    The last `lonely` nodes of each class have no edges but a few among themselves, and no labels.
    """
    n, draws = CLASSES * each, random(seed)
    y = torch.arange(n) % CLASSES
    chance = torch.where(y[:, None] == y[None, :], inside, outside)
    adjacent = (torch.rand(n, n, generator=draws) < chance).triu(1)
    connected = n - CLASSES * lonely
    adjacent[:, connected:] = False
    if lonely:
        adjacent[n - 2, n - 1] = True
    weight = (torch.rand(n, n, generator=draws) * 0.8 + 0.2).triu(1)
    edge_index = (adjacent | adjacent.t()).nonzero().t().contiguous()
    x = torch.nn.functional.one_hot(y, CLASSES).float().repeat(1, 2)
    x = x + noise * torch.randn(n, 2 * CLASSES, generator=draws)
    if sparse:
        x = x.masked_fill(torch.rand(x.shape, generator=draws) < 0.5, 0).to_sparse_coo()
    place = torch.arange(n) // CLASSES
    data = Data(
        x=x,
        edge_index=edge_index,
        y=y,
        train_mask=place < labelled,
        val_mask=(place >= labelled) & (place < labelled + validated),
        test_mask=place >= labelled + validated,
        num_nodes=n,
    )
    if weighted:
        data.edge_weight = (weight + weight.t())[edge_index[0], edge_index[1]]
    return data


def changed(data: Data, **attributes: Any) -> Data:
    """A shallow copy with other attributes; None removes one."""
    other = copy.copy(data)
    for name, value in attributes.items():
        if value is None:
            delattr(other, name)
        else:
            setattr(other, name, value)
    return other


def splits(count: int, **settings: Any) -> list[Data]:
    """One graph with other masks each time."""
    data = blocks(**settings)
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    found = []
    for k in range(count):
        place = torch.randperm(data.num_nodes // CLASSES, generator=random(40 + k))
        nodes = (place[:, None] * CLASSES + torch.arange(CLASSES)).flatten()
        train, validation, test = masks[:, nodes].unbind(0)
        found.append(changed(data, train_mask=train, val_mask=validation, test_mask=test))
    return found


def permuted(data: Data, to: Tensor) -> Data:
    """The same with node i renamed to[i]."""
    back = to.argsort()
    by_node = {name: data[name][back] for name in ("x", "y", "train_mask", "val_mask", "test_mask")}
    return changed(data, edge_index=to[data.edge_index], **by_node)


def garbled(data: Data, seed: int = 5) -> Data:
    """With nonsense for every label that no mask for learning shows."""
    hidden = ~(data.train_mask | data.val_mask)
    nonsense = torch.randint(-50, 50, data.y.shape, generator=random(seed))
    return changed(data, y=torch.where(hidden, nonsense, data.y))


def unmasked(data: Data) -> Data:
    """With the training labels alone, and -1 for all other nodes."""
    y = torch.where(data.train_mask, data.y, -1)
    return changed(data, y=y, train_mask=None, val_mask=None, test_mask=None)


def snapshot(data: Data) -> dict[str, Any]:
    """Copies of all attributes."""
    return {
        name: value.clone() if isinstance(value, Tensor) else copy.copy(value) for name, value in data.to_dict().items()
    }


def same(one: Any, other: Any) -> bool:
    """Whether two dictionaries of tensors and numbers hold the same bits under the same names."""
    return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)


def equal(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor):
        return a == b
    if a.layout != b.layout or a.dtype != b.dtype:
        return False
    if a.layout == torch.strided:
        return torch.equal(a, b)
    return torch.equal(a.to_dense(), b.to_dense())


class Perceptron(nn.Module):
    """A module of the user's, with all that makes copying and resuming hard."""

    def __init__(self, features: int = 2 * CLASSES, dropout: float = 0.3) -> None:
        super().__init__()
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(11)
            self.layers = nn.Sequential(
                nn.Linear(features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, CLASSES)
            )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class Averages(nn.Module):
    """A backbone of the user's: a linear layer on a node and the mean of its neighbours."""

    def __init__(self, features: int) -> None:
        super().__init__()
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(12)
            self.layer = nn.Linear(2 * features, CLASSES)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        heard = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        count = torch.bincount(edge_index[1], minlength=len(x)).clamp(min=1).unsqueeze(1)
        out: Tensor = self.layer(torch.cat([x, heard / count], 1))
        return out
