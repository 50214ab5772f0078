"""GraphMix (Verma et al.): a GCN and a plain network share their weights; the plain one learns from mixtures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, batched_linear, gcn_adjacency
from lggd.backbones.networks import Network, check_counts, check_share
from lggd.backbones.propagation import Propagation
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.starting import dropout_seeds, starting_modules
from lggd.errors import InputError
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback
from lggd.training.stacked_parameters import StackedParameter
from lggd.training.targets import Targets

# Contents of so many entries, those of all problems together, are dropped from at once.
ENTRIES_AT_ONCE = 2**29


@dataclass(eq=False)
class GraphMix(Baseline):
    """A GCN Â ReLU(Â dropout(x) W₁) W₂ that learns in turn with a plain network ReLU(dropout(x) W₁) W₂.

    A fair coin decides each epoch. Heads: cross-entropy of the GCN on the training nodes. Tails: binary cross-entropy
    of the plain network's softmax, averaged over nodes and classes, on training nodes that are mixed in pairs, hidden
    values and labels alike, with λ ~ Beta(1, 1); plus w(e) times the same on as many unlabelled nodes, drawn at random
    with replacement. These have for labels what the GCN answers with dropout, averaged over `predictions` times and
    sharpened to p^(1/T)/Σp^(1/T). w(e) = w·exp(-5(1 - t)²), where t goes from 0 to 1 between the epochs of `ramp`. The
    GCN answers in evaluation. Without the authors' moving average of the weights, which they only watch.

    Args:
        hidden: the width of the hidden layer.
        dropout: the share of inputs that is dropped in training.
        predictions: how many answers of the GCN are averaged.
        temperature: T; the smaller, the sharper.
        unlabelled_weight: w; the authors take 10 for Cora and CiteSeer and 1 for PubMed.
        ramp: the first and the last epoch of the rise of w(e).

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> GraphMix(optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    hidden: int = 16
    dropout: float = 0.5
    predictions: int = 10
    temperature: float = 0.1
    unlabelled_weight: float = 10.0
    ramp: tuple[int, int] = (500, 1000)
    optimization: Optimization = field(default=Optimization(weight_decay=5e-4), kw_only=True)

    def _check(self) -> None:
        check_counts(hidden=self.hidden, predictions=self.predictions)
        check_share(dropout=self.dropout)
        if not _is_number(self.temperature) or not 0 < self.temperature < math.inf:
            raise InputError("temperature", "be positive", repr(self.temperature), "Use 1 to sharpen nothing.")
        if not _is_number(self.unlabelled_weight) or not 0 <= self.unlabelled_weight < math.inf:
            raise InputError(
                "unlabelled_weight", "be 0 or above", repr(self.unlabelled_weight), "Use 0 for labels alone."
            )
        ordered = isinstance(self.ramp, tuple) and len(self.ramp) == 2 and all(map(_is_whole, self.ramp))
        if not ordered or not 0 <= self.ramp[0] < self.ramp[1]:
            raise InputError("ramp", "be two epochs in order, from 0, as a tuple", repr(self.ramp))

    def _capacity(self, subject: BaselineData) -> int:
        return max(1, ENTRIES_AT_ONCE // subject.x.numel())

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        def make() -> _SharedNetwork:
            return _SharedNetwork(self, subject.x.shape[1], subject.num_classes)

        modules = starting_modules(problems, make, subject.x.device)
        train = torch.stack([one.train for one in problems])
        return _InTurn(self, modules, subject, train, dropout_seeds(problems))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


class _SharedNetwork(Network):
    def __init__(self, model: GraphMix, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv

        # A stack asks a choice for its dropout, and whether two are equal; of this network GCN says enough.
        super().__init__(GCN(model.hidden, model.dropout), gcn_adjacency)
        self.first = GCNConv(in_channels, model.hidden, bias=False)
        self.second = GCNConv(model.hidden, num_classes, bias=False)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: Propagation, drop: Drop) -> Tensor:
        return _convolutional(batched_linear(drop(x), parameters["first.lin.weight"]), parameters, graph)


def _convolutional(values: Tensor, parameters: Mapping[str, Tensor], spread: Propagation) -> Tensor:
    """The answers of the GCN, `[Q, N, K]`, from xW₁ `[Q, N, C]`."""
    return spread(batched_linear(functional.relu(spread(values)), parameters["second.lin.weight"]))


def _plain(values: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The answers of the plain network, `[Q, N, K]`, from xW₁ `[Q, N, C]`."""
    return batched_linear(functional.relu(values), parameters["second.lin.weight"])


class _InTurn(StackedBackbones):
    """Networks that descend by one loss or the other, as each one's coin falls.

    The nodes of all problems stand in one list, problem by problem: node n of problem q is q·N + n. As many nodes are
    mixed in each problem as it has training nodes.
    """

    def __init__(
        self, model: GraphMix, modules: Sequence[Network], subject: BaselineData, train: Tensor, seeds: Sequence[int]
    ) -> None:
        super().__init__(modules, subject.x, subject.edge_index, subject.edge_weight, seeds)
        self.model = model
        self.epoch = torch.zeros(len(train), dtype=torch.int64, device=train.device)
        place = torch.arange(train.numel(), device=train.device).view(train.shape)
        labelled = train >= 0
        self.labelled, self.owner = place[labelled], labelled.nonzero()[:, 0]
        self.counts: list[int] = labelled.sum(1).tolist()
        self.count = labelled.sum(1)
        self.label = functional.one_hot(train[labelled], subject.num_classes).to(self.x.dtype)
        # Where all nodes are labelled there is nothing to draw from; what is drawn from them all then counts for 0.
        self.unlabelled = [row[free] if bool(free.any()) else row for row, free in zip(place, ~labelled, strict=True)]
        self.some_unlabelled = (~labelled).any(1)

    def parameters(self) -> list[StackedParameter]:
        """All that learning changes; the number of the epoch, too."""
        return [*super().parameters(), StackedParameter("epoch", self.epoch)]

    def load_state(self, values: Mapping[str, Tensor]) -> None:
        """Goes on from such values of what is owned."""
        super().load_state(values)
        self.epoch.copy_(values["epoch"])

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        # Both may see the same inputs, for only one of them counts.
        values = batched_linear(self._dropout(self.x), self.stacked["first.lin.weight"])
        by_graph = asked.losses(_convolutional(values, self.stacked, self.graph))
        losses = torch.where(self._heads(), by_graph, self._plain_losses(_plain(values, self.stacked)))
        losses.sum().backward()  # type: ignore[no-untyped-call]
        self.epoch.add_(1)
        return losses.detach()

    def _heads(self) -> Tensor:
        """Whose coin says that it is the GCN's turn, bool `[Q]`."""
        return self._uniform() < 0.5

    def _uniform(self) -> Tensor:
        """A number from 0 to 1 for each problem, `[Q]`."""
        return torch.cat([torch.rand(1, generator=one, device=self.x.device) for one in self.generators])

    def _plain_losses(self, logits: Tensor) -> Tensor:
        """The loss of the plain network, `[Q]`, from its answers `[Q, N, K]`."""
        guessed = self._guessed().flatten(0, 1)
        drawn = self._draw_unlabelled()
        on_labelled = self._mixed_losses(logits, self.labelled, self.label)
        return on_labelled + self._weight() * self._mixed_losses(logits, drawn, guessed[drawn])

    def _weight(self) -> Tensor:
        """w(e), `[Q]`; 0 where there is no unlabelled node."""
        first, last = self.model.ramp
        risen = ((self.epoch - first) / (last - first)).clamp(0, 1)
        return self.model.unlabelled_weight * torch.exp(-5 * (1 - risen).square()) * self.some_unlabelled

    def _guessed(self) -> Tensor:
        """The probabilities that stand for labels, `[Q, N, K]`."""
        with torch.no_grad():
            total = torch.zeros((), device=self.x.device)
            for _ in range(self.model.predictions):
                total = total + torch.softmax(self._forward(self._dropout), dim=2)
            # By way of logarithms: high powers of small numbers would be 0.
            return torch.softmax((total / self.model.predictions).log() / self.model.temperature, dim=2)

    def _draw_unlabelled(self) -> Tensor:
        """As many unlabelled nodes of each problem as it has training nodes, some of them perhaps twice."""
        each = zip(self.unlabelled, self.counts, self.generators, strict=True)
        return torch.cat(
            [pool[torch.randint(len(pool), (n,), generator=one, device=pool.device)] for pool, n, one in each]
        )

    def _mixed_losses(self, logits: Tensor, nodes: Tensor, target: Tensor) -> Tensor:
        """Binary cross-entropy on these nodes, `[n]`, mixed in pairs within each problem, `[Q]`; `target` is `[n, K]`.

        The last weights are linear: what is mixed after them are the hidden values before them.
        """
        share, partner = self._uniform()[self.owner].unsqueeze(1), self._partners()
        # Not by index_select, whose gradient would add up nodes that are there twice in an order that changes on a GPU.
        chosen = logits.reshape(-1, logits.shape[2])[nodes]
        mixed = share * chosen + (1 - share) * chosen.index_select(0, partner)
        wanted = share * target + (1 - share) * target.index_select(0, partner)
        each = functional.binary_cross_entropy(torch.softmax(mixed, dim=1), wanted, reduction="none").mean(1)
        # Unsafe means unchecked: a check would wait for the device, and the counts are ours.
        total = torch.segment_reduce(each, "sum", lengths=self.count, axis=0, unsafe=True, initial=0)
        return total / self.count

    def _partners(self) -> Tensor:
        """For each of the nodes that are mixed another one of the same problem, `[n]`: a permutation."""
        orders, start = [], 0
        for count, generator in zip(self.counts, self.generators, strict=True):
            orders.append(torch.rand(count, generator=generator, device=self.x.device).argsort() + start)
            start += count
        return torch.cat(orders)
