"""GAug-O (Zhao et al., 2021): an edge predictor and a classifier trained jointly, on graphs sampled in every epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Optimizer

from lggd.backbones import GCN
from lggd.backbones.layers import batched_linear
from lggd.backbones.training import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.baselines.graph_autoencoder import (
    BLOCK_ENTRIES,
    ReconstructionLoss,
    glorot_uniform,
    minimize,
    undirected_edges,
)
from lggd.baselines.initialization import adam_without_decay_of, build_backbones, check_backbone_kind, derived_seeds
from lggd.baselines.sampled_graphs import SampledGraphs
from lggd.graph.edge_index import check_symmetric
from lggd.memory import free_memory
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback
from lggd.training.targets import Targets
from lggd.validation import check_int, check_positive, check_real

# Fraction of the free memory that the sampled graphs of a pass may use.
MEMORY_FRACTION = 0.3
# Entries per pair of nodes and problem: stored for all pairs, and temporary for the pairs of a block.
STORED_PER_PAIR, TEMPORARY_PER_PAIR = 1.5, 6
# Names of the edge predictor's parameters, which are stacked with those of the classifier.
FIRST, SECOND = "predictor.first", "predictor.second"


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
        The classifier.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> model = GAugO(pretrain_predictor=5, pretrain_classifier=5, optimization=lggd.Optimization(epochs=5))
    >>> model.fit(data).predict().shape
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

    def _check(self) -> None:
        check_real("alpha", self.alpha, 0, 1)
        check_real("beta", self.beta, 0, closed="left", rule="be 0 or above")
        check_positive("temperature", self.temperature, "Towards 0 the gradients of the samples vanish.")
        for name in ("pretrain_predictor", "pretrain_classifier"):
            check_int(name, getattr(self, name), 0)
        for name in ("predictor_hidden", "predictor_size"):
            check_int(name, getattr(self, name), 1)
        check_backbone_kind(self.backbone, (GCN,), "Only GCN supports dense graphs.")

    def _capacity(self, data: BaselineData) -> int:
        free, size = free_memory(data.x.device), data.num_nodes
        if free is None:
            return 1
        block = min(size**2, max(size, BLOCK_ENTRIES[data.x.device.type]))
        bytes_per_problem = (STORED_PER_PAIR * size**2 + TEMPORARY_PER_PAIR * block) * 4
        return max(1, int(MEMORY_FRACTION * free / bytes_per_problem))

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        check_symmetric(data.edge_index, data.edge_weight, data.num_nodes)
        networks = _JointTraining(self, data, problems)
        networks.pretrain(torch.stack([problem.train for problem in problems]), callback)
        return networks


class _JointTraining(StackedBackbones):
    """Classifiers, each trained on graphs sampled by its own edge predictor."""

    def __init__(self, model: GAugO, data: BaselineData, problems: Problems) -> None:
        features, size = data.x.shape[1], data.num_nodes
        modules, seeds = build_backbones(model.backbone, data, problems)
        super().__init__(modules, data.x, data.edge_index, data.edge_weight, seeds)
        pairs = undirected_edges(data.edge_index, size)
        self.model = model
        self.normalized_x = functional.normalize(data.x, p=1, dim=1)
        self.reconstruction = ReconstructionLoss(pairs, size)
        self.sampled = SampledGraphs(pairs, size, self.generators, model.alpha, model.temperature)
        # The first derived seed is used for dropout.
        generators = [torch.Generator().manual_seed(derived_seeds(problem.seed, 2)[1]) for problem in problems]
        shapes = {FIRST: (model.predictor_hidden, features), SECOND: (model.predictor_size, model.predictor_hidden)}
        for name, shape in shapes.items():
            weights = torch.stack([glorot_uniform(*shape, generator) for generator in generators])
            self.stacked[name] = weights.to(data.x).requires_grad_()

    def optimizer(self, optimizations: Sequence[Optimization]) -> Optimizer:
        """Adam without weight decay for the predictors."""
        return adam_without_decay_of((FIRST, SECOND), self.stacked, optimizations[0])

    def training_step(self, targets: Targets, running: Sequence[bool]) -> Tensor:
        """Backpropagates the losses and returns them, `[Q]`."""
        z = self._embed()
        unit = _scaled_to_unit(z)
        self.sampled.sample(unit)
        classification = targets.losses(self.modules[0].logits(self.stacked, self.x, self.sampled, self._dropout))
        classification.sum().backward()  # type: ignore[no-untyped-call]
        reconstruction = self.model.beta * self.reconstruction(z)
        torch.autograd.backward([unit, reconstruction], [self.sampled.gradient(), torch.ones_like(reconstruction)])
        return (classification + reconstruction).detach()

    def _embed(self) -> Tensor:
        """Z = ReLU(Â(ÂXW₀)W₁), `[Q, N, D]`."""
        hidden = self.graph(batched_linear(self.normalized_x, self.stacked[FIRST]))
        return functional.relu(self.graph(batched_linear(hidden, self.stacked[SECOND]))).contiguous()

    def pretrain(self, train: Tensor, callback: Callback | None) -> None:
        """Trains the predictors to reconstruct the original graph, then the classifiers on it with labels `[Q, N]`."""
        model, targets = self.model, Targets(train, "train")
        predictor = torch.optim.Adam([self.stacked[FIRST], self.stacked[SECOND]], lr=model.optimization.lr, fused=True)
        minimize(
            lambda: self.reconstruction(self._embed()).sum(),
            predictor,
            model.pretrain_predictor,
            "pretraining of the edge predictor",
            callback,
        )
        minimize(
            lambda: targets.losses(self._forward(self._dropout)).sum(),
            self.optimizer([model.optimization]),
            model.pretrain_classifier,
            "pretraining of the classifier",
            callback,
        )


def _scaled_to_unit(z: Tensor) -> Tensor:
    """Z / √max(ZZᵀ) per problem; the maximum is attained on the diagonal."""
    largest = z.square().sum(2).amax(1).view(-1, 1, 1)
    # Keeps zeros if no unit is active any more.
    return z / largest.clamp(min=torch.finfo(z.dtype).tiny).sqrt()
