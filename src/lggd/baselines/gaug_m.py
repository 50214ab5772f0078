"""GAug-M (Zhao et al., 2021): a backbone on a graph whose edges an edge predictor has removed or added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lggd.backbones import GCN, Backbone
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.baselines.graph_autoencoder import VariationalGraphAutoencoder, row_blocks, undirected_edges
from lggd.baselines.initialization import check_backbone_kind, stacked_backbones
from lggd.graph.edge_index import check_symmetric, read_edges, with_edges
from lggd.learning.node_features import check_node_features
from lggd.training.cache import Cache, content_key
from lggd.training.progress import Callback
from lggd.validation import check_int, check_real


@dataclass(eq=False, repr=False)
class GAugM(Baseline):
    """GAug-M (Zhao et al., 2021): a backbone trained and evaluated on a modified graph.

    A variational graph autoencoder embeds the nodes; the larger zᵢ·zⱼ, the more likely (i, j) is an edge. The least
    likely edges are removed, and the most likely other pairs are added with weight 1. Counts are fractions of the
    number of undirected edges, rounded down; self-loops remain and do not count. The graph must be undirected. Labels
    are not used, so that the modified graph is the same for all splits.

    Parameters
    ----------
    remove : float
        Fraction of edges to remove, in [0, 1].
    add : float
        Number of edges to add, as a multiple of the number of edges.
    predictor_epochs : int
        Training epochs of the autoencoder.
    predictor_seed : int
        Random seed of the autoencoder.
    backbone : GCN, GAT, ChebNet or JKNet
        The network.

    Examples
    --------
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
        """Return a shallow copy of PyG data with the modified edges, and with `edge_weight` if it had weights."""
        self._check()
        x = check_node_features(data)
        x = (x if x.layout == torch.strided else x.to_dense()).float()
        edges, weight = self._modified(x, *read_edges(data, len(x)), None)
        # Copies, so that users cannot modify the cache.
        return with_edges(data, edges.clone(), None if weight is None else weight.clone())

    def _check(self) -> None:
        check_real("remove", self.remove, 0, 1, remedy="It is a fraction of the edges.")
        check_real("add", self.add, 0, closed="left", rule="be 0 or above", remedy="It is a multiple of the edges.")
        check_int("predictor_epochs", self.predictor_epochs, 1, "Use 200.")
        check_int("predictor_seed", self.predictor_seed, 0, "Use 7.")
        check_backbone_kind(self.backbone)

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        edges = self._modified(data.x, data.edge_index, data.edge_weight, callback)
        return stacked_backbones(self.backbone, data, problems, *edges)

    def _modified(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, callback: Callback | None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the edges `[2, E']` and weights of the modified graph."""
        if not self.remove and not self.add:
            return edge_index, edge_weight
        key = content_key(x, edge_index, edge_weight), int(self.predictor_epochs), self.predictor_seed

        def embed() -> Tensor:
            check_symmetric(edge_index, edge_weight, len(x))
            autoencoder = VariationalGraphAutoencoder(x, edge_index, edge_weight, seed=self.predictor_seed)
            return autoencoder.train(int(self.predictor_epochs), callback=callback)

        return _GRAPHS(
            (key, float(self.remove), float(self.add)),
            lambda: modify_edges(_EMBEDDINGS(key, embed), edge_index, edge_weight, self.remove, self.add),
        )


# A comparison uses the same autoencoder for all fractions, and the same modified graph for every split.
_EMBEDDINGS: Cache[Tensor] = Cache(capacity=8)
_GRAPHS: Cache[tuple[Tensor, Tensor | None]] = Cache(capacity=8)


def modify_edges(
    z: Tensor, edge_index: Tensor, edge_weight: Tensor | None, remove: float, add: float
) -> tuple[Tensor, Tensor | None]:
    """Removes the least likely edges by embeddings `[N, D]` and adds the most likely other pairs in both directions."""
    size, pairs = len(z), undirected_edges(edge_index, len(z))
    # A stable sort removes the first of several equally likely pairs.
    order = (z[pairs[0]] * z[pairs[1]]).sum(1).argsort(stable=True)
    removed = pairs[:, order[: int(remove * pairs.shape[1])]]
    pair = edge_index.amin(0) * size + edge_index.amax(0)
    kept = ~torch.isin(pair, removed[0] * size + removed[1])
    added = most_likely(z, pairs, int(add * pairs.shape[1]))
    new = torch.cat([edge_index[:, kept], added, added.flip(0)], dim=1)
    if edge_weight is None:
        return new, None
    return new, torch.cat([edge_weight[kept], edge_weight.new_ones(2 * added.shape[1])])


def most_likely(z: Tensor, pairs: Tensor, count: int) -> Tensor:
    """The `count` pairs i < j with the largest products, or all if fewer, without the sorted `pairs`: `[2, count]`."""
    size = len(z)
    count = min(count, size * (size - 1) // 2 - pairs.shape[1])
    best, position = z.new_empty(0), pairs.new_empty(0)
    # In blocks of rows: the products of all pairs would need N² entries.
    for start, end in row_blocks(size, z.device):
        score = z[start:end] @ z.t()
        score.masked_fill_(torch.ones_like(score, dtype=torch.bool).tril_(start), -torch.inf)
        first, last = torch.searchsorted(pairs[0].contiguous(), torch.tensor([start, end], device=z.device)).tolist()
        score[pairs[0, first:last] - start, pairs[1, first:last]] = -torch.inf
        values, indices = score.view(-1).topk(min(count, score.numel()))
        best, position = torch.cat([best, values]), torch.cat([position, indices + start * size])
        best, order = best.topk(min(count, len(best)))
        position = position[order]
    return torch.stack([position // size, position % size])
