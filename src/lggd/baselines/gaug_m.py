"""GAug-M (Zhao et al.): a network on a graph that an edge predictor has edited, with edges removed and added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from lggd.backbones import GCN, Backbone
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.edge_predictor import VariationalEncoder, joined_pairs, row_blocks
from lggd.baselines.made_graphs import Kept, check_backbone, check_symmetric, digests, stack_on, with_graph
from lggd.errors import InputError
from lggd.graph.edge_index import read_edges
from lggd.learning.contents import check_contents
from lggd.training.progress import Callback


@dataclass(eq=False)
class GAugM(Baseline):
    """A backbone on an edited graph, in training and in evaluation.

    A variational autoencoder of the whole graph gives each node a vector zᵢ (see `VariationalEncoder`); a pair is the
    more likely an edge, the larger zᵢ·zⱼ. The `remove` least likely of the edges go, and the most likely of the pairs
    that are not joined, `add` times as many as there are edges, become edges. Both shares are of the undirected edges
    that are given, rounded down. What is kept keeps its weight, and what is added weighs 1. No label is looked at, and
    the edited graph is the same for all splits.

    The edges must go in both directions; loops stay and are not counted.

    Args:
        remove: the share of edges to remove, in [0, 1].
        add: how many edges to add, for each that is given.
        predictor_epochs: how long the edge predictor learns.
        predictor_seed: of the edge predictor.
        backbone: GCN(), GAT(), ChebNet() or JKNet().

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> GAugM(remove=0.5, add=1.0, predictor_epochs=10).transform(data).num_edges == 2 * (78 - 39 + 78)
    True
    """

    remove: float = 0.0
    add: float = 0.0
    predictor_epochs: int = 200
    predictor_seed: int = 7
    backbone: Backbone = GCN()

    def transform(self, data: Any) -> Any:
        """A shallow copy of PyG data with the edited edges, and with `edge_weight` where it had weights."""
        self._check()
        x = check_contents(data)
        x = (x if x.layout == torch.strided else x.to_dense()).float()
        edges, weight = self._edited(x, *read_edges(data, len(x)), None)
        # Copies, because what is kept must not change with what is given away.
        return with_graph(data, edges.clone(), None if weight is None else weight.clone())

    def _check(self) -> None:
        for name in ("remove", "add"):
            share = getattr(self, name)
            if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < math.inf:
                raise InputError(name, "be 0 or above", repr(share), "It is a share of the edges.")
        if self.remove > 1:
            raise InputError("remove", "be at most 1", repr(self.remove), "No more than all edges can go.")
        epochs = self.predictor_epochs
        if isinstance(epochs, bool) or not isinstance(epochs, Integral) or epochs < 1:
            raise InputError("predictor_epochs", "be a whole number from 1", repr(epochs), "Use 200.")
        seed = self.predictor_seed
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise InputError("predictor_seed", "be a whole number from 0", repr(seed), "Use 7.")
        check_backbone(self.backbone)

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        edited = self._edited(subject.x, subject.edge_index, subject.edge_weight, callback)
        return stack_on(*edited, subject, problems, self.backbone)

    def _edited(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, callback: Callback | None
    ) -> tuple[Tensor, Tensor | None]:
        if not self.remove and not self.add:
            return edge_index, edge_weight
        graph = digests(x, edge_index, edge_weight), int(self.predictor_epochs), self.predictor_seed

        def vectors() -> Tensor:
            check_symmetric(edge_index, edge_weight, len(x))
            encoder = VariationalEncoder(x, edge_index, edge_weight, seed=self.predictor_seed)
            return encoder.train(int(self.predictor_epochs), callback=callback)

        return _EDITED(
            (graph, float(self.remove), float(self.add)),
            lambda: edited(_VECTORS(graph, vectors), edge_index, edge_weight, self.remove, self.add),
        )


# Sweeps come back to the same predictor for all shares, and to the same edit for each split.
_VECTORS: Kept[Tensor] = Kept(most=8)
_EDITED: Kept[tuple[Tensor, Tensor | None]] = Kept(most=8)


def edited(
    z: Tensor, edge_index: Tensor, edge_weight: Tensor | None, remove: float, add: float
) -> tuple[Tensor, Tensor | None]:
    """The edges `[2, E']` and weights after the edit that products of node vectors `[N, D]` suggest.

    Those that are kept come first, in their order; the added ones follow, in both directions.
    """
    pairs = joined_pairs(edge_index, len(z))
    kept = _kept(edge_index, least_likely(z, pairs, int(remove * pairs.shape[1])), len(z))
    added = most_likely(z, pairs, int(add * pairs.shape[1]))
    new = torch.cat([edge_index[:, kept], added, added.flip(0)], dim=1)
    if edge_weight is None:
        return new, None
    return new, torch.cat([edge_weight[kept], edge_weight.new_ones(2 * added.shape[1])])


def least_likely(z: Tensor, pairs: Tensor, count: int) -> Tensor:
    """The `count` pairs of those given with the smallest products, the first of equals: `[2, count]`."""
    score = (z[pairs[0]] * z[pairs[1]]).sum(1)
    return pairs[:, score.argsort(stable=True)[:count]]


def most_likely(z: Tensor, pairs: Tensor, count: int) -> Tensor:
    """The `count` pairs i < j with the largest products among those not given: `[2, count]`, or all if fewer.

    `pairs` come in order. Some rows at a time, so that the products of all pairs are never there together.
    """
    size = len(z)
    count = min(count, size * (size - 1) // 2 - pairs.shape[1])
    best, place = z.new_empty(0), pairs.new_empty(0)
    for start, end in row_blocks(size, z.device):
        score = z[start:end] @ z.t()
        score.masked_fill_(torch.ones_like(score, dtype=torch.bool).tril_(start), -torch.inf)
        first, last = torch.searchsorted(pairs[0].contiguous(), torch.tensor([start, end], device=z.device)).tolist()
        score[pairs[0, first:last] - start, pairs[1, first:last]] = -torch.inf
        here, where = score.view(-1).topk(min(count, score.numel()))
        best, place = torch.cat([best, here]), torch.cat([place, where + start * size])
        best, order = best.topk(min(count, len(best)))
        place = place[order]
    return torch.stack([place // size, place % size])


def _kept(edge_index: Tensor, removed: Tensor, num_nodes: int) -> Tensor:
    """Which edges are not among the removed pairs, bool `[E]`."""
    pair = edge_index.amin(0) * num_nodes + edge_index.amax(0)
    return ~torch.isin(pair, removed[0] * num_nodes + removed[1])
