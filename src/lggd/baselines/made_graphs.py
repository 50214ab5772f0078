"""Graphs that a method makes of the given one before it learns: made once and kept, then learned on as any other."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from lggd.backbones import Backbone
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import BaselineData, BaselineProblem
from lggd.baselines.starting import starting_networks
from lggd.errors import InputError, InputTypeError
from lggd.training.cache import content_key

T = TypeVar("T")


class Kept(Generic[T]):
    """The last few results of a computation, known again by a key that stands for all that went into them.

    >>> kept: Kept[int] = Kept(most=2)
    >>> kept("two", lambda: 2), kept("two", lambda: 3)
    (2, 2)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._results: OrderedDict[Hashable, T] = OrderedDict()

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key, or what `make` makes now."""
        if key not in self._results:
            self._results[key] = make()
        self._results.move_to_end(key)
        result = self._results[key]
        while len(self._results) > self._most:
            self._results.popitem(last=False)
        return result

    def forget(self) -> None:
        """Lets all results go."""
        self._results.clear()


def digests(*tensors: Tensor | None) -> tuple[str, ...]:
    """What stands for all of these tensors. By entries, because each split of a dataset is loaded as its own."""
    return content_key(*tensors)


def stack_on(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    subject: BaselineData,
    problems: Sequence[BaselineProblem],
    backbone: Backbone,
) -> StackedBackbones:
    """The networks of all problems on such a graph, as they would start on the given one."""
    modules, seeds = starting_networks(subject, problems, backbone)
    return StackedBackbones(modules, subject.x, edge_index, edge_weight, seeds)


def with_graph(data: Any, edge_index: Tensor, edge_weight: Tensor | None) -> Any:
    """A shallow copy of PyG data with these edges in place of its own."""
    other = copy.copy(data)
    for name in ("edge_attr", "edge_weight"):
        if getattr(other, name, None) is not None:
            delattr(other, name)
    other.edge_index = edge_index
    if edge_weight is not None:
        other.edge_weight = edge_weight
    return other


def check_symmetric(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
    """Refuses edges that do not weigh the same in both directions."""
    there, back = (_merged(one, edge_weight, num_nodes) for one in (edge_index, edge_index.flip(0)))
    if not torch.equal(there[0], back[0]) or not torch.allclose(there[1], back[1], rtol=1e-5, atol=0):
        raise InputError(
            "data.edge_index",
            "hold every edge in both directions, with equal weights",
            remedy="Apply torch_geometric.transforms.ToUndirected() to the data first.",
        )


def check_backbone(backbone: object) -> None:
    """Refuses what is no backbone of ours."""
    if not isinstance(backbone, Backbone):
        raise InputTypeError("backbone", "be GCN(), GAT(), ChebNet() or JKNet()", repr(backbone), "Give an object.")


def _merged(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Every pair of nodes once, with the sum of its weights."""
    pair, place = torch.unique(edge_index[0] * num_nodes + edge_index[1], return_inverse=True)
    weight = torch.ones(len(place), device=pair.device) if edge_weight is None else edge_weight
    total = torch.zeros(len(pair), dtype=torch.float64, device=pair.device)
    return pair, total.index_add_(0, place, weight.double())
