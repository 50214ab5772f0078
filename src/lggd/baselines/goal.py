"""GOAL: convolutions over a graph and over its complement, the graph of what it lacks (Zheng et al., 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from numbers import Integral, Real

import torch
from torch import Tensor

from lggd.backbones.layers import batched_linear, gcn_adjacency
from lggd.backbones.propagation import Propagation
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.goal_complement import Complement, complement_graphs, normalised_blocks
from lggd.baselines.goal_pretraining import pretrained
from lggd.errors import InputError, InputTypeError
from lggd.memory import free_memory
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback
from lggd.training.randomness import read_seed
from lggd.training.stacked_parameters import StackedParameter
from lggd.training.targets import Targets

# Rows whose square length is below this are taken for zeros: their direction would be rounding errors.
TINY = 1e-30
# What a pass may fill of the free memory, and what it takes: bytes an entry of the complement's matrix, with its
# transposed one and their sorting, and values of float32 a hidden unit of a node.
SHARE_TO_USE, ENTRY, VALUES = 0.6, 100, 16


@dataclass(eq=False)
class GOAL(Baseline):
    """Graph complementary learning, for graphs on which neighbours are mostly of one class.

    Three stages. An attention network is trained on the classes (`pretrain`). From its logits, or else from the
    contents, a complement is made: edges from each node to the `k` nodes least like it (`Complement`). Then two layers

        H ← α HW + β PW − γ rn(S_q H W) − δ rn(S_q P W)   with   P = S_h H,   H⁰ = rn(X)

    are trained on the contents X, where S_h is the normalised graph with loops, S_q the normalised complement without,
    and rn divides rows by their length. There is neither bias nor activation nor dropout. Edge weights are the entries
    of the graph in S_h. The authors take validation accuracy for the best even where it only equals an earlier one;
    here all methods stop by one rule. Their numbers for CiteSeer are the defaults of k and α to δ; they have published
    none for Cora.

    Args:
        k: how many nodes of the complement each node is joined to.
        alpha: the share of the node itself.
        beta: the share of its neighbours.
        gamma: the share of its neighbours in the complement, which is taken off.
        delta: the share of their neighbours in the graph, which is taken off.
        hidden: the width of the first layer.
        pretrain: whether the complement is made from class scores, in place of the contents.
        pretraining: how Adam is run for that.
        complement: how the complement is made.

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> few = lggd.Optimization(epochs=5)
    >>> model = GOAL(k=2, hidden=8, pretraining=few, complement=Complement(epochs=5), optimization=few).fit(data)
    >>> model.predict().shape
    torch.Size([34])
    """

    k: int = 100
    alpha: float = 1.0
    beta: float = 0.5
    gamma: float = 1.5
    delta: float = 0.5
    hidden: int = 512
    pretrain: bool = True
    pretraining: Optimization = Optimization(lr=0.005, weight_decay=5e-4, epochs=200, patience=50)
    complement: Complement = Complement()
    _: KW_ONLY
    optimization: Optimization = Optimization(lr=0.01, weight_decay=5e-4)

    def _check(self) -> None:
        for name in ("k", "hidden"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise InputError(name, "be a whole number from 1", repr(value))
        for name in ("alpha", "beta", "gamma", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
                raise InputError(name, "be 0 or above", repr(value), "Its sign is part of the method.")
        if not any((self.alpha, self.beta, self.gamma, self.delta)):
            raise InputError("alpha", "be positive where `beta`, `gamma` and `delta` are 0", "0", "Raise one.")
        if not isinstance(self.pretrain, bool):
            raise InputTypeError("pretrain", "be True or False", repr(self.pretrain))
        kinds = {"pretraining": Optimization, "complement": Complement, "optimization": Optimization}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InputTypeError(name, f"be {kind.__name__}(…)", repr(getattr(self, name)))

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        if self.complement.hidden < subject.num_classes:
            raise InputError(
                "complement.hidden",
                f"be at least the number of classes, {subject.num_classes}",
                self.complement.hidden,
                "The embedding is also read as scores of the classes.",
            )
        # Seeds drawn from the seeds, one a stage, so that no stage draws the numbers of another.
        drawing = [torch.Generator().manual_seed(one.seed) for one in problems]
        first, second, third = ([read_seed(one) for one in drawing] for _ in range(3))
        x = subject.x
        scores = pretrained(subject, problems, first, self.pretraining, callback) if self.pretrain else x
        train = torch.stack([one.train for one in problems])
        graphs = complement_graphs(self.complement, self.k, scores, x, train, second, callback)
        near = gcn_adjacency(subject.edge_index, subject.edge_weight, subject.num_nodes, x.dtype)
        shares = Shares(self.alpha, self.beta, self.gamma, self.delta)
        sizes = (x.shape[-1], self.hidden, subject.num_classes)
        return Convolutions(shares, x, near, normalised_blocks(graphs, subject.num_nodes), drawn_weights(sizes, third))

    def _capacity(self, subject: BaselineData) -> int:
        free, nodes = free_memory(subject.x.device), subject.num_nodes
        if free is None:
            return 2**62
        entries = 2 * nodes * min(self.k, max(1, int(self.complement.candidates * nodes)))
        each = entries * ENTRY + 4 * nodes * (VALUES * self.hidden + 8 * subject.x.shape[1])
        return max(1, int(free * SHARE_TO_USE / each))


@dataclass(frozen=True)
class Shares:
    """How much of each part a convolution takes: the node, its neighbours, and what is taken off for the complement."""

    alpha: float
    beta: float
    gamma: float
    delta: float


def drawn_weights(sizes: Sequence[int], seeds: Sequence[int]) -> list[Tensor]:
    """First weights `[Q, out, in]` of linear maps between these sizes, uniform in ±√(6 / (in + out))."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    weights = []
    for before, after in pairwise(sizes):
        bound = math.sqrt(6 / (before + after))
        weights.append(
            torch.stack([torch.empty(after, before).uniform_(-bound, bound, generator=g) for g in generators])
        )
    return weights


def directions(rows: Tensor) -> Tensor:
    """Rows divided by their length; zeros, and no gradient, where that is 0.

    >>> directions(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    square = (rows * rows).sum(-1, keepdim=True)
    return rows * (square.clamp(min=TINY).rsqrt() * (square > TINY))


class Convolutions:
    """Q networks of two GOAL convolutions each, on one graph and on complements of their own.

    As rn(rn(S_q H) W) = rn(S_q H W), the complement is only ever applied to the few channels that come out. What the
    first layer multiplies by its weights is constant and made once.

    Args:
        shares: α to δ.
        x: features `[N, F]`.
        near: the normalised graph.
        far: the normalised complements of all problems, one after the other, on Q·N nodes.
        weights: first weights of both layers, `[Q, hidden, F]` and `[Q, K, hidden]`.
    """

    # Nothing is drawn, so that an epoch can be recorded.
    generators: Sequence[torch.Generator] = ()

    def __init__(
        self, shares: Shares, x: Tensor, near: Propagation, far: Propagation, weights: Sequence[Tensor]
    ) -> None:
        self.shares, self.near, self.far = shares, near, far
        self.stacked = {
            name: weight.to(x.device).requires_grad_()
            for name, weight in zip(("first", "second"), weights, strict=True)
        }
        own = directions(x.detach()).unsqueeze(0)
        around = near(own)
        self.kept = (shares.alpha * own + shares.beta * around).squeeze(0)
        # Of all problems the same up to here; each has a complement of its own.
        problems = len(weights[0])
        self.opposed = self._opposed(own.expand(problems, -1, -1), around.expand(problems, -1, -1))

    def _opposed(self, own: Tensor, around: Tensor) -> list[tuple[float, Tensor]]:
        """What is taken off, before rn: the share of each part, and S_q times it."""
        parts = [(self.shares.gamma, own), (self.shares.delta, around)]
        asked = [(share, part) for share, part in parts if share]
        if not asked:
            return []
        wide = torch.cat([part for _, part in asked], dim=2)
        spread = self.far(wide.reshape(1, -1, wide.shape[2])).view(wide.shape).chunk(len(asked), dim=2)
        return [(share, part) for (share, _), part in zip(asked, spread, strict=True)]

    def logits(self) -> Tensor:
        """The logits of all nodes, `[Q, N, K]`."""
        with torch.no_grad():
            return self._forward()

    def _forward(self) -> Tensor:
        first, second = self.stacked["first"], self.stacked["second"]
        hidden = batched_linear(self.kept, first)
        for share, part in self.opposed:
            hidden = hidden - share * directions(batched_linear(part, first))
        own = batched_linear(hidden, second)
        around = self.near(own)
        logits = self.shares.alpha * own + self.shares.beta * around
        for share, part in self._opposed(own, around):
            logits = logits - share * directions(part)
        return logits

    # -- what a learner asks for ---------------------------------------------------------------------------------

    def parameters(self) -> list[StackedParameter]:
        """All that learning changes; the first dimension counts the problems."""
        return [StackedParameter(name, value) for name, value in self.stacked.items()]

    def optimizer(self, optimizations: Sequence[Optimization]) -> torch.optim.Adam:
        """One Adam for all: what it does to an entry depends on that entry alone."""
        learned, on_gpu = list(self.stacked.values()), self.kept.is_cuda
        lr, decay = optimizations[0].lr, optimizations[0].weight_decay
        return torch.optim.Adam(learned, lr=lr, weight_decay=decay, fused=True, capturable=on_gpu)

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        losses = asked.losses(self._forward())
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def validate(self, checked: Targets, running: Sequence[bool]) -> tuple[Tensor, Tensor]:
        """The loss and the number of right answers of each problem."""
        logits = self.logits()
        return checked.losses(logits), checked.correct(logits)

    def load_state(self, values: Mapping[str, Tensor]) -> None:
        """Goes on from such values of what is owned."""
        with torch.no_grad():
            for name, parameter in self.stacked.items():
                parameter.copy_(values[name])

    def random_state(self) -> dict[str, Tensor]:
        """Nothing: no random numbers are drawn."""
        return {}

    def load_random_state(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to do."""
