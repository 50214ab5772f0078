"""MixUp (Wang et al.) for a GCN: training nodes are mixed in pairs, their neighbours are not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, batched_linear
from lggd.backbones.networks import Network
from lggd.backbones.propagation import Propagation
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.starting import starting_networks
from lggd.errors import InputError, InputTypeError
from lggd.training.progress import Callback
from lggd.training.targets import Targets


@dataclass(eq=False)
class MixUp(Baseline):
    """A GCN trained on mixtures λi + (1 - λ)π(i) of training nodes: contents, neighbourhoods and labels alike.

    In every epoch λ ~ Beta(α, α) is one number and π one permutation of the training nodes. A clean pass first gives
    every node h, as a GCN does. A second pass mixes: with O and s the entries of Â off and on its diagonal, layer by
    layer and with the same weights,

        a = σ(O h W + s m W + b)    b = σ((O h W)[π] + s[π] m W + b)    m ← dropout(λa + (1 - λ)b)

    from m = λx + (1 - λ)x[π] on; the last layer has no σ and no dropout. So neighbours take part as they are. The loss
    is λ·CE(m, y) + (1 - λ)·CE(m, y[π]). In evaluation nothing is mixed. The authors' own layer is another one, with a
    weight matrix for the node itself; here a node speaks to itself through its loop.

    Args:
        alpha: α. The larger, the nearer λ comes to a half; the paper on LGGD draws it from 1 to 5.
        backbone: a GCN().

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> MixUp(alpha=4, optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    alpha: float = 1.0
    backbone: GCN = GCN()

    def _check(self) -> None:
        if isinstance(self.alpha, bool) or not isinstance(self.alpha, Real) or not 0 < self.alpha < math.inf:
            raise InputError("alpha", "be positive and finite", repr(self.alpha), "Use 1 for a uniform λ.")
        if not isinstance(self.backbone, GCN):
            raise InputTypeError("backbone", "be GCN()", repr(self.backbone), "Mixing is written for its layers alone.")

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        modules, seeds = starting_networks(subject, problems, self.backbone)
        return _Mixing(modules, subject, [one.train for one in problems], seeds, self.alpha)


class _Mixing(StackedBackbones):
    """Networks that descend on mixtures, each on its own, and answer about nodes as they are."""

    def __init__(
        self,
        modules: Sequence[Network],
        subject: BaselineData,
        train: Sequence[Tensor],
        seeds: Sequence[int],
        alpha: float,
    ) -> None:
        super().__init__(modules, subject.x, subject.edge_index, subject.edge_weight, seeds)
        self.trained = [(labels >= 0).nonzero().squeeze(1) for labels in train]
        self.nodes = torch.arange(subject.num_nodes, device=self.x.device).repeat(len(train), 1)
        self.alphas = torch.full((2,), float(alpha), dtype=torch.float64, device=self.x.device)
        edges, entry = self.graph.edges, self.graph.value
        loop = edges.source == edges.target
        self.from_others = Propagation(edges, entry.masked_fill(loop, 0))
        self.from_itself = edges.sums((entry * loop).unsqueeze(1))

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        share, partner = self._shares(), self._partners()
        losses = self._losses(asked, self._mixed_logits(share, partner, self._dropout), share, partner)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def _shares(self) -> Tensor:
        """λ of each problem, `[Q]`: a part of the sum of two numbers with a Gamma(α) distribution."""
        gammas = torch.stack([torch._standard_gamma(self.alphas, generator=one) for one in self.generators])
        return (gammas[:, 0] / gammas.sum(1)).to(self.x.dtype)

    def _partners(self) -> Tensor:
        """π of each problem, `[Q, N]`: a permutation of its training nodes that leaves all others where they are."""
        partner = self.nodes.clone()
        for row, trained, generator in zip(partner, self.trained, self.generators, strict=True):
            row[trained] = trained[torch.rand(len(trained), generator=generator, device=row.device).argsort()]
        return partner

    def _mixed_logits(self, share: Tensor, partner: Tensor, drop: Drop) -> Tensor:
        """What the second pass ends with, `[Q, N, K]`. A sparse product a layer serves both passes and branches."""
        weights, biases = (
            [self.stacked[f"{layer}.{of}"] for layer in ("first", "second")] for of in ("lin.weight", "bias")
        )
        own = share.view(-1, 1, 1)
        itself_of_partner = self.from_itself[partner]

        def branches(heard: Tensor, centre: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            bias = bias.unsqueeze(1)
            other = _rows(heard, partner) + itself_of_partner * centre + bias
            return heard + self.from_itself * centre + bias, other

        values = batched_linear(self.x, weights[0])
        heard = self.from_others(values)
        clean = drop(functional.relu(heard + self.from_itself * values + biases[0].unsqueeze(1)))
        # The weights are linear: contents may be mixed after them as well as before.
        first, second = branches(heard, _mixed(values, _rows(values, partner), own), biases[0])
        mixed = drop(_mixed(functional.relu(first), functional.relu(second), own))
        heard = self.from_others(batched_linear(clean, weights[1]))
        return _mixed(*branches(heard, batched_linear(mixed, weights[1]), biases[1]), own)

    def _losses(self, asked: Targets, logits: Tensor, share: Tensor, partner: Tensor) -> Tensor:
        # Node i is asked for the label of π(i), so the label of node j is asked of the node before it under π.
        before = torch.empty_like(partner).scatter_(1, partner, self.nodes)
        return share * asked.losses(logits) + (1 - share) * asked.losses(_rows(logits, before))


def _mixed(one: Tensor, other: Tensor, share: Tensor) -> Tensor:
    return share * one + (1 - share) * other


def _rows(values: Tensor, chosen: Tensor) -> Tensor:
    """values[q, chosen[q]] for each q: `[Q, N, C]` and a permutation each, `[Q, N]`."""
    problems, nodes, channels = values.shape
    offset = torch.arange(problems, device=values.device).unsqueeze(1) * nodes
    return values.reshape(-1, channels).index_select(0, (chosen + offset).flatten()).view(values.shape)
