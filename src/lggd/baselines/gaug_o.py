"""GAug-O (Zhao et al.): an edge predictor and a classifier that learn together, on graphs drawn anew in every epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import batched_linear
from lggd.backbones.propagation import Propagation
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.drawn_graphs import DrawnGraphs
from lggd.baselines.edge_predictor import ENTRIES_AT_ONCE, Reconstruction, joined_pairs, row_shares, uniform_weight
from lggd.baselines.made_graphs import check_symmetric
from lggd.baselines.starting import starting_networks
from lggd.errors import InputError, InputTypeError
from lggd.memory import free_memory
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback, Progress
from lggd.training.randomness import read_seed
from lggd.training.targets import Targets

# How much of the free memory the graphs of a pass may take.
SHARE_OF_MEMORY = 0.3
# How many numbers a pair of nodes are kept for a problem, and how many for each that is being worked on.
KEPT_A_PAIR, WORKED_ON = 1.5, 6
# The parameters of the edge predictor, among those of the classifier.
FIRST, SECOND = "predictor.first", "predictor.second"


@dataclass(eq=False)
class GAugO(Baseline):
    """A GCN trained on graphs that an edge predictor draws, while both learn; it answers on the given graph.

    The predictor gives each node a vector: Z = ReLU(Â(ÂXW₀)W₁), without bias, rows of X scaled to a sum of 1. A pair is
    an edge with probability P = α ZZᵀ/max(ZZᵀ) + (1 - α) A. In every epoch each pair is drawn (see `DrawnGraphs`), the
    classifier runs on what was drawn, and the loss is its cross-entropy + β · (how badly ZZᵀ tells the edges of the
    given graph, see `Reconstruction`). The predictor learns by it too, without weight decay.

    Before that, the predictor learns the given graph alone, and the classifier learns on the given graph.

    The edges must go in both directions. Their weights count in Â and where the GCN answers; an edge that is drawn
    weighs 1. Memory and time grow with N².

    Args:
        alpha: how much of a probability is learned, in [0, 1].
        beta: how much the predictor's own loss counts, 0 or above.
        temperature: above 0; the smaller, the closer gradients are to those of a yes or no.
        pretrain_predictor: epochs of the predictor alone.
        pretrain_classifier: epochs of the classifier on the given graph.
        predictor_hidden, predictor_size: the widths of the predictor's two layers.
        backbone: the classifier, GCN().

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
        for name in ("alpha", "beta", "temperature"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
                raise InputError(name, "be 0 or above", repr(value))
        if self.alpha > 1:
            raise InputError("alpha", "lie in [0, 1]", repr(self.alpha), "It is the share that is learned.")
        if self.temperature == 0:
            raise InputError("temperature", "be above 0", "0", "Nothing could be learned from a mere yes or no.")
        for name, least in (
            ("pretrain_predictor", 0),
            ("pretrain_classifier", 0),
            ("predictor_hidden", 1),
            ("predictor_size", 1),
        ):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, Integral) or count < least:
                raise InputError(name, f"be a whole number from {least}", repr(count))
        if not isinstance(self.backbone, GCN):
            raise InputTypeError("backbone", "be GCN()", repr(self.backbone), "Only it learns from dense graphs here.")

    def _capacity(self, subject: BaselineData) -> int:
        free, size = free_memory(subject.x.device), subject.num_nodes
        if free is None:
            return 1
        working = min(size**2, max(size, ENTRIES_AT_ONCE[subject.x.device.type]))
        each = (KEPT_A_PAIR * size**2 + WORKED_ON * working) * 4
        return max(1, int(SHARE_OF_MEMORY * free / each))

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        check_symmetric(subject.edge_index, subject.edge_weight, subject.num_nodes)
        networks = _LearningTheirGraph(subject, problems, self)
        networks.pretrain(problems, self, callback)
        return networks


class _LearningTheirGraph(StackedBackbones):
    """Classifiers, each with an edge predictor of its own that draws what it is trained on."""

    def __init__(self, subject: BaselineData, problems: Sequence[BaselineProblem], model: GAugO) -> None:
        modules, seeds = starting_networks(subject, problems, model.backbone)
        super().__init__(modules, subject.x, subject.edge_index, subject.edge_weight, seeds)
        pairs = joined_pairs(subject.edge_index, subject.num_nodes)
        self.beta = model.beta
        self.shares = row_shares(subject.x)
        self.reconstruction = Reconstruction(pairs, subject.num_nodes)
        self.drawn = DrawnGraphs(pairs, subject.num_nodes, self.generators, model.alpha, model.temperature)
        self.stacked.update(_predictors(subject, problems, model))

    # -- what is learned -----------------------------------------------------------------------------------------

    @property
    def _predictor(self) -> list[Tensor]:
        return [self.stacked[FIRST], self.stacked[SECOND]]

    def optimizer(self, optimizations: Sequence[Optimization]) -> torch.optim.Adam:
        """One Adam for all, which lets only the classifiers decay."""
        classifiers = [value for name, value in self.stacked.items() if name not in (FIRST, SECOND)]
        groups = [
            {"params": classifiers, "weight_decay": optimizations[0].weight_decay},
            {"params": self._predictor, "weight_decay": 0.0},
        ]
        return torch.optim.Adam(groups, lr=optimizations[0].lr, fused=True, capturable=self.x.is_cuda)

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        vectors = self._vectors()
        unit = _at_most_unit(vectors)
        self.drawn.draw(unit)
        answered = asked.losses(self.modules[0].logits(self.stacked, self.x, self.drawn, self._dropout))
        answered.sum().backward()  # type: ignore[no-untyped-call]
        predicted = self.beta * self.reconstruction(vectors)
        torch.autograd.backward([unit, predicted], [self.drawn.gradient(), torch.ones_like(predicted)])
        return (answered + predicted).detach()

    def _vectors(self) -> Tensor:
        """Z = ReLU(Â(ÂXW₀)W₁), `[Q, N, D]`."""
        spread: Propagation = self.graph
        hidden = spread(batched_linear(self.shares, self.stacked[FIRST]))
        return functional.relu(spread(batched_linear(hidden, self.stacked[SECOND]))).contiguous()

    # -- before they learn together ------------------------------------------------------------------------------

    def pretrain(self, problems: Sequence[BaselineProblem], model: GAugO, callback: Callback | None) -> None:
        """Lets the predictors learn the given graph, and then the classifiers on the given graph."""
        adam = torch.optim.Adam(self._predictor, lr=model.optimization.lr, fused=True)
        for epoch in range(model.pretrain_predictor):
            adam.zero_grad()
            self.reconstruction(self._vectors()).sum().backward()  # type: ignore[no-untyped-call]
            adam.step()
            _tell(callback, "edge predictor", epoch + 1, model.pretrain_predictor)
        asked, adam = (
            Targets(torch.stack([one.train for one in problems]), "target"),
            self.optimizer([model.optimization]),
        )
        for epoch in range(model.pretrain_classifier):
            adam.zero_grad()
            super().training_step(asked, [True] * len(problems))
            adam.step()
            _tell(callback, "classifier", epoch + 1, model.pretrain_classifier)
        adam.zero_grad()


def _at_most_unit(vectors: Tensor) -> Tensor:
    """Z / √max(ZZᵀ) of each problem. No product exceeds the largest of a vector with itself."""
    largest = vectors.square().sum(2).amax(1).view(-1, 1, 1)
    # Where all vectors have died, they stay 0.
    return vectors / largest.clamp(min=torch.finfo(vectors.dtype).tiny).sqrt()


def _predictors(subject: BaselineData, problems: Sequence[BaselineProblem], model: GAugO) -> Mapping[str, Tensor]:
    """First parameters, `[Q, hidden, F]` and `[Q, size, hidden]`, each problem's from its own seed."""
    shapes = {
        FIRST: (model.predictor_hidden, subject.x.shape[1]),
        SECOND: (model.predictor_size, model.predictor_hidden),
    }
    generators = [_beside(one.seed) for one in problems]
    return {
        name: torch.stack([uniform_weight(*shape, one) for one in generators]).to(subject.x).requires_grad_()
        for name, shape in shapes.items()
    }


def _beside(seed: int) -> torch.Generator:
    """Random numbers other than those that the classifier starts from, and other than those that drop values."""
    draws = torch.Generator().manual_seed(seed)
    return torch.Generator().manual_seed([read_seed(draws) for _ in range(2)][1])


def _tell(callback: Callback | None, stage: str, epoch: int, epochs: int) -> None:
    if callback is not None:
        callback(Progress(f"pretraining of the {stage}", epoch, epochs))
