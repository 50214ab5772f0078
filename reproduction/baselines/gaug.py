"""GAug (Zhao et al., 2021): graphs modified by an edge predictor, once before training or sampled in every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Adam

from lggd._system.memory import Cache, content_key
from lggd.backbones import GCN, Backbone
from lggd.backbones.convolutions import batched_linear
from lggd.baselines.baseline import Baseline, BaselineNetworks, check_backbone_kind
from lggd.graph.edge_list import check_symmetric, with_edges
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.training.problems import Targets, adam, derived_seeds
from lggd.validation import check_positive, check_real
from reproduction.baselines.edge_prediction import (
    ReconstructionLoss,
    SampledGraphs,
    VariationalGraphAutoencoder,
    glorot_uniform,
    minimize,
    row_blocks,
    undirected_edges,
)

# Names of the edge predictor's parameters, which are stacked with those of the classifier.
FIRST, SECOND = "predictor.first", "predictor.second"


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
    predictor_epochs, predictor_seed : int
        Training epochs and random seed of the autoencoder.
    backbone : GCN, GAT, ChebNet, JKNet or GPR

    Examples
    --------
    >>> import lggd
    >>> GAugM(remove=0.5, add=1.0, predictor_epochs=10).transform(lggd.load("karate")).num_edges == 2 * (78 - 39 + 78)
    True
    """

    remove: float = 0.0
    add: float = 0.0
    predictor_epochs: int = 200
    predictor_seed: int = 7
    backbone: Backbone = GCN()
    _may_be_zero = ("predictor_seed",)

    def transform(self, data: Any) -> Any:
        """Return a shallow copy of PyG data with the modified edges, and with `edge_weight` if it had weights."""
        self.check_settings()
        nodes = NodeData.read(data)
        edges, weight = self._modified(nodes.features.to_dense(), *nodes.edges, None)
        # Copies, so that users cannot modify the cache.
        return with_edges(data, edges.clone(), None if weight is None else weight.clone())

    def _check(self) -> None:
        check_real("remove", self.remove, 0, 1, remedy="It is a fraction of the edges.")
        check_real("add", self.add, 0, closed="left", rule="be 0 or above", remedy="It is a multiple of the edges.")
        check_backbone_kind(self.backbone)

    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        edge_index, edge_weight = self._modified(nodes.features.to_dense(), *nodes.edges, callback)
        modified = replace(nodes, edge_index=edge_index, edge_weight=edge_weight)
        return BaselineNetworks(self.backbone.build, modified, labels, seeds)

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
            return autoencoder.train(int(self.predictor_epochs), callback)

        def modify() -> tuple[Tensor, Tensor | None]:
            return modify_edges(_EMBEDDINGS(key, embed), edge_index, edge_weight, self.remove, self.add)

        return _GRAPHS((key, float(self.remove), float(self.add)), modify)


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


@dataclass(eq=False, repr=False)
class GAugO(Baseline):
    """GAug-O (Zhao et al., 2021): a GCN trained on graphs sampled by an edge predictor that is trained with it.

    The predictor embeds the nodes by Z = ReLU(Â(ÂXW₀)W₁), with rows of X divided by their L1 norm. A pair is an edge
    with probability P = α ZZᵀ/max(ZZᵀ) + (1 - α) A. Every epoch samples a graph, evaluates the classifier on it and
    minimizes its cross-entropy + β · (the reconstruction loss of ZZᵀ on the original graph). Gradients also flow
    through the samples. Only the classifier has weight decay. Both networks are pretrained on the original graph, which
    is also used in evaluation.

    The graph must be undirected. Edge weights are used in Â and in evaluation; sampled edges have weight 1. Memory and
    time grow with N².

    Parameters
    ----------
    alpha : float
        Weight of the predictor in the edge probabilities, in [0, 1].
    beta : float
        Weight of the reconstruction loss, 0 or above.
    temperature : float
        Temperature of the relaxed samples, above 0.
    pretrain_predictor, pretrain_classifier : int
        Pretraining epochs.
    predictor_hidden, predictor_size : int
        Widths of the predictor's two layers.
    backbone : GCN

    Examples
    --------
    >>> import lggd
    >>> model = GAugO(pretrain_predictor=3, pretrain_classifier=3, optimization=lggd.Optimization(epochs=3))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    alpha: float = 1.0
    beta: float = 0.8
    temperature: float = 1.2
    pretrain_predictor: int = 160
    pretrain_classifier: int = 30
    predictor_hidden: int = 128
    predictor_size: int = 32
    backbone: GCN = GCN()
    _may_be_zero = ("pretrain_predictor", "pretrain_classifier")

    def _check(self) -> None:
        check_real("alpha", self.alpha, 0, 1)
        check_real("beta", self.beta, 0, closed="left", rule="be 0 or above")
        check_positive("temperature", self.temperature, "Towards 0 the gradients of the samples vanish.")
        check_backbone_kind(self.backbone, (GCN,), "Only GCN supports dense graphs.")

    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        check_symmetric(*nodes.edges, nodes.num_nodes)
        networks = _JointTraining(self, nodes, labels, seeds)
        networks.pretrain(labels, callback)
        return networks


class _JointTraining(BaselineNetworks):
    """Classifiers, each trained on graphs sampled by its own edge predictor, which has no weight decay."""

    def __init__(self, model: GAugO, nodes: NodeData, labels: Labels, seeds: Sequence[int]) -> None:
        super().__init__(model.backbone.build, nodes, labels, seeds)
        self.without_decay = (FIRST, SECOND)
        size, pairs = nodes.num_nodes, undirected_edges(nodes.edges[0], nodes.num_nodes)
        self.model, self.normalized_x = model, functional.normalize(self.x, p=1, dim=1)
        self.reconstruction = ReconstructionLoss(pairs, size)
        self.sampled = SampledGraphs(pairs, size, self.generators, model.alpha, model.temperature)
        # The first derived seed is used for dropout.
        generators = [torch.Generator().manual_seed(derived_seeds(seed, 2)[1]) for seed in seeds]
        sizes = self.x.shape[1], model.predictor_hidden, model.predictor_size
        for name, columns, rows in zip((FIRST, SECOND), sizes, sizes[1:], strict=False):
            weights = torch.stack([glorot_uniform(rows, columns, generator) for generator in generators])
            self.stacked[name] = weights.to(self.x).requires_grad_()

    def training_step(self, targets: Targets) -> Tensor:
        z = self.embed()
        unit = scaled_to_unit(z)
        self.sampled.sample(unit)
        classification = targets.losses(self.modules[0].logits(self.stacked, self.x, self.sampled, self._dropout))
        classification.sum().backward()  # type: ignore[no-untyped-call]
        reconstruction = self.model.beta * self.reconstruction(z)
        torch.autograd.backward([unit, reconstruction], [self.sampled.gradient(), torch.ones_like(reconstruction)])
        return (classification + reconstruction).detach()

    def embed(self) -> Tensor:
        """Z = ReLU(Â(ÂXW₀)W₁), `[Q, N, D]`."""
        hidden = self.graph(batched_linear(self.normalized_x, self.stacked[FIRST]))
        return functional.relu(self.graph(batched_linear(hidden, self.stacked[SECOND]))).contiguous()

    def pretrain(self, labels: Labels, callback: Callback | None) -> None:
        """Trains the predictors to reconstruct the original graph, then the classifiers on it."""
        model, targets = self.model, Targets(labels.train.expand(len(self.modules), -1), "train")

        def reconstruction_loss() -> Tensor:
            return self.reconstruction(self.embed()).sum()

        def classification_loss() -> Tensor:
            return self._training_losses(targets).sum()

        first = Adam([self.stacked[FIRST], self.stacked[SECOND]], lr=model.optimization.lr, fused=True)
        minimize(reconstruction_loss, first, model.pretrain_predictor, "pretraining of the edge predictor", callback)
        optimizer = adam(self.parameters(), model.optimization)
        minimize(classification_loss, optimizer, model.pretrain_classifier, "pretraining of the classifier", callback)


def scaled_to_unit(z: Tensor) -> Tensor:
    """Z / √max(ZZᵀ) per problem; the maximum is attained on the diagonal."""
    largest = z.square().sum(2).amax(1).view(-1, 1, 1)
    # Keeps zeros if no unit is active any more.
    return z / largest.clamp(min=torch.finfo(z.dtype).tiny).sqrt()
