"""GraphMix (Verma et al., 2021): a GCN and an MLP share their weights, and the MLP learns from mixed nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, batched_linear
from lggd.backbones.network import Network
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.errors import InputError
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.training.engine import Callback
from lggd.training.optimization import Optimization, StackedParameter, Targets
from lggd.validation import check_fraction, check_int, check_positive, check_real


@dataclass(eq=False, repr=False)
class GraphMix(Baseline):
    """GraphMix (Verma et al., 2021): a GCN Â ReLU(Â dropout(x) W₁) W₂ and an MLP ReLU(dropout(x) W₁) W₂ share weights.

    Every epoch trains one of them, with probability ½ each. The loss of the GCN is cross-entropy on the training nodes.
    The loss of the MLP is the binary cross-entropy of its softmax, averaged over nodes and classes, on training nodes
    whose hidden values and labels are mixed in pairs with λ ~ Beta(1, 1); plus w(e) times the same loss on equally many
    unlabelled nodes, drawn with replacement. Their pseudo-labels are the GCN's predictions with dropout, averaged over
    `predictions` passes and sharpened to p^(1/T)/Σp^(1/T). w(e) = w·exp(-5(1 - t)²), where t increases from 0 to 1
    between the epochs of `ramp`. Evaluation uses the GCN. The authors' moving average of the weights is omitted: they
    only monitor it.

    Parameters
    ----------
    hidden, predictions : int
        Width of the hidden layer, and number of forward passes averaged for a pseudo-label.
    dropout : float
        Dropout rate of the inputs.
    temperature : float
        T of the sharpening, above 0; 1 leaves pseudo-labels unchanged.
    unlabelled_weight : float
        w, 0 or above; the authors use 10 for Cora and CiteSeer and 1 for PubMed.
    ramp : tuple of int
        First and last epoch in which w(e) increases.

    Examples
    --------
    >>> import lggd
    >>> model = GraphMix(ramp=(1, 5), optimization=lggd.Optimization(epochs=5))
    >>> model.fit(lggd.load("karate")).predict().shape
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
        for name in ("hidden", "predictions"):
            check_int(name, getattr(self, name), 1)
        check_fraction("dropout", self.dropout)
        check_positive("temperature", self.temperature, "Use 1 for no sharpening.")
        remedy = "Use 0 to ignore unlabelled nodes."
        check_real("unlabelled_weight", self.unlabelled_weight, 0, closed="left", rule="be 0 or above", remedy=remedy)
        if not isinstance(self.ramp, tuple) or len(self.ramp) != 2:
            raise InputError("ramp", "be a tuple of two epochs", repr(self.ramp))
        check_int("ramp[1]", self.ramp[1], check_int("ramp[0]", self.ramp[0], 0) + 1)

    def _capacity(self, data: BaselineData) -> int:
        return data.capacity_with_input_dropout

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return _AlternatingTraining(self, data, problems)


class _SharedNetwork(Network):
    def __init__(self, model: GraphMix, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv

        # GCN provides the settings that stacking needs: the dropout rate, and whether two networks are equal.
        super().__init__(GCN(model.hidden, model.dropout), normalized_adjacency)
        self.first = GCNConv(in_channels, model.hidden, bias=False)
        self.second = GCNConv(model.hidden, num_classes, bias=False)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparseMatrix, drop: Drop) -> Tensor:
        return _gcn_logits(batched_linear(drop(x), parameters["first.lin.weight"]), parameters, graph)


def _gcn_logits(values: Tensor, parameters: Mapping[str, Tensor], adjacency: SparseMatrix) -> Tensor:
    """The logits of the GCN, `[Q, N, K]`, from xW₁ `[Q, N, C]`."""
    return adjacency(batched_linear(functional.relu(adjacency(values)), parameters["second.lin.weight"]))


def _mlp_logits(values: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The logits of the MLP, `[Q, N, K]`, from xW₁ `[Q, N, C]`."""
    return batched_linear(functional.relu(values), parameters["second.lin.weight"])


class _AlternatingTraining(BaselineNetworks):
    """Networks that minimize the loss of the GCN or of the MLP. Node n of problem q has the position q·N + n."""

    def __init__(self, model: GraphMix, data: BaselineData, problems: Problems) -> None:
        super().__init__(partial(_SharedNetwork, model), data, problems)
        self.model, train = model, self.labels("train")
        self.epoch = torch.zeros(len(train), dtype=torch.int64, device=train.device)
        position = torch.arange(train.numel(), device=train.device).view(train.shape)
        labelled = train >= 0
        self.labelled, self.problem = position[labelled], labelled.nonzero()[:, 0]
        self.count = labelled.sum(1)
        self.counts: list[int] = self.count.tolist()
        self.classes = functional.one_hot(train[labelled], data.num_classes).to(self.x.dtype)
        # If all nodes are labelled, any nodes are drawn and have weight 0.
        self.unlabelled = [row[~own] if len(row[~own]) else row for row, own in zip(position, labelled, strict=True)]
        self.has_unlabelled = ~labelled.all(1)

    def parameters(self) -> list[StackedParameter]:
        return [*super().parameters(), StackedParameter("epoch", self.epoch)]

    def _training_losses(self, targets: Targets) -> Tensor:
        # Both networks may share the dropout of x, because only one of the losses is used.
        values = batched_linear(self._dropout(self.x), self.stacked["first.lin.weight"])
        gcn_losses = targets.losses(_gcn_logits(values, self.stacked, self.graph))
        mlp_logits, train_gcn = _mlp_logits(values, self.stacked), self._train_gcn()
        pseudo_labels = self._pseudo_labels().flatten(0, 1)
        sampled = self._sample_unlabelled()
        mlp_losses = self._mixed_losses(mlp_logits, self.labelled, self.classes)
        mlp_losses = mlp_losses + self._ramp_weight() * self._mixed_losses(mlp_logits, sampled, pseudo_labels[sampled])
        self.epoch.add_(1)
        return torch.where(train_gcn, gcn_losses, mlp_losses)

    def _train_gcn(self) -> Tensor:
        """Which problems train the GCN in this epoch, bool `[Q]`."""
        return self._sample_uniform() < 0.5

    def _sample_uniform(self) -> Tensor:
        """A uniform number in [0, 1) per problem, `[Q]`."""
        return torch.cat([torch.rand(1, generator=rng, device=self.x.device) for rng in self.generators])

    def _ramp_weight(self) -> Tensor:
        """w(e), `[Q]`; 0 where there is no unlabelled node."""
        first, last = self.model.ramp
        t = ((self.epoch - first) / (last - first)).clamp(0, 1)
        return self.model.unlabelled_weight * torch.exp(-5 * (1 - t).square()) * self.has_unlabelled

    def _pseudo_labels(self) -> Tensor:
        """Sharpened probabilities of all nodes, `[Q, N, K]`."""
        with torch.no_grad():
            total = torch.zeros((), device=self.x.device)
            for _ in range(self.model.predictions):
                total = total + torch.softmax(self._forward(self._dropout), dim=2)
            # In logarithms, because high powers of small numbers would underflow.
            return torch.softmax((total / self.model.predictions).log() / self.model.temperature, dim=2)

    def _sample_unlabelled(self) -> Tensor:
        """Positions of as many unlabelled nodes as training nodes, with replacement."""
        sampled = []
        for pool, count, rng in zip(self.unlabelled, self.counts, self.generators, strict=True):
            sampled.append(pool[torch.randint(len(pool), (count,), generator=rng, device=pool.device)])
        return torch.cat(sampled)

    def _mixed_losses(self, logits: Tensor, nodes: Tensor, labels: Tensor) -> Tensor:
        """Binary cross-entropy `[Q]` of nodes at positions `[n]` with labels `[n, K]`, mixed in pairs per problem."""
        # The second layer is linear, so that mixing its outputs equals mixing its inputs.
        ratio, partner = self._sample_uniform()[self.problem].unsqueeze(1), self._sample_partners()
        # Not index_select: its gradient is not deterministic on a GPU for nodes that occur twice.
        chosen = logits.reshape(-1, logits.shape[2])[nodes]
        mixed = ratio * chosen + (1 - ratio) * chosen.index_select(0, partner)
        mixed_labels = ratio * labels + (1 - ratio) * labels.index_select(0, partner)
        each = functional.binary_cross_entropy(torch.softmax(mixed, dim=1), mixed_labels, reduction="none").mean(1)
        # `unsafe` skips a check of the lengths that would synchronize with the device.
        total = torch.segment_reduce(each, "sum", lengths=self.count, axis=0, unsafe=True, initial=0)
        return total / self.count

    def _sample_partners(self) -> Tensor:
        """A permutation within the mixed nodes of each problem, `[n]`."""
        orders, start = [], 0
        for count, generator in zip(self.counts, self.generators, strict=True):
            orders.append(torch.rand(count, generator=generator, device=self.x.device).argsort() + start)
            start += count
        return torch.cat(orders)
