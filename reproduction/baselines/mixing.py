"""Networks that learn from nodes mixed in pairs: MixUp (Wang et al., 2021) and GraphMix (Verma et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.convolutions import batched_linear
from lggd.backbones.network import Drop, Network
from lggd.baselines.baseline import Baseline, BaselineNetworks, check_backbone_kind
from lggd.errors import InputError
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.training.problems import Optimization, StackedParameter, Targets
from lggd.validation import check_int, check_positive, check_real


@dataclass(eq=False, repr=False)
class MixUp(Baseline):
    """MixUp (Wang et al., 2021): a GCN trained on mixtures λi + (1 - λ)π(i) of training nodes.

    Features, neighbourhoods and labels are mixed. Every epoch draws one λ ~ Beta(α, α) and one permutation π of the
    training nodes. A first pass computes the hidden values h of a GCN. With O and s the off-diagonal part and the
    diagonal of Â, a second pass computes, layer by layer with the same weights,

        a = σ(O h W + s m W + b)    b = σ((O h W)[π] + s[π] m W + b)    m ← dropout(λa + (1 - λ)b)

    starting from m = λx + (1 - λ)x[π], without σ and dropout in the last layer. Neighbours are therefore not mixed. The
    loss is λ·CE(m, y) + (1 - λ)·CE(m, y[π]). Evaluation does not mix. The authors' layer has a separate weight matrix
    for the node itself; here the node contributes through its self-loop.

    Parameters
    ----------
    alpha : float
        α of the Beta distribution, above 0; the larger, the closer λ is to ½. The LGGD paper samples it from 1 to 5.
    backbone : GCN

    Examples
    --------
    >>> import lggd
    >>> model = MixUp(alpha=2.0, optimization=lggd.Optimization(epochs=5))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    alpha: float = 1.0
    backbone: GCN = GCN()

    def _check(self) -> None:
        check_positive("alpha", self.alpha, "Use 1 for a uniform λ.")
        check_backbone_kind(self.backbone, (GCN,), "Mixing is implemented for GCN layers only.")

    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        return MixtureTraining(self, nodes, labels, seeds)


class MixtureTraining(BaselineNetworks):
    """GCNs trained on mixtures, with different λ and π for each problem."""

    def __init__(self, model: MixUp, nodes: NodeData, labels: Labels, seeds: Sequence[int]) -> None:
        super().__init__(model.backbone.build, nodes, labels, seeds)
        self.train_nodes = (labels.train >= 0).nonzero().squeeze(1)
        self.nodes = torch.arange(nodes.num_nodes, device=self.x.device).repeat(len(seeds), 1)
        self.alphas = torch.full((2,), float(model.alpha), dtype=torch.float64, device=self.x.device)
        pattern, values = self.graph.pattern, self.graph.values
        is_loop = pattern.columns == pattern.rows
        self.off_diagonal = SparseMatrix(pattern, values.masked_fill(is_loop, 0))
        self.diagonal = pattern.row_sum((values * is_loop).unsqueeze(1))

    def _training_losses(self, targets: Targets) -> Tensor:
        ratio, partner = self.sample_ratios(), self.sample_partners()
        return self.losses(targets, self.mixed_logits(ratio, partner, self._dropout), ratio, partner)

    def sample_ratios(self) -> Tensor:
        """λ of each problem, `[Q]`: G₁ / (G₁ + G₂) with two samples of Gamma(α)."""
        gammas = torch.stack([torch._standard_gamma(self.alphas, generator=rng) for rng in self.generators])
        return (gammas[:, 0] / gammas.sum(1)).to(self.x.dtype)

    def sample_partners(self) -> Tensor:
        """π of each problem, `[Q, N]`: a permutation of its training nodes that leaves all others in place."""
        partner, nodes = self.nodes.clone(), self.train_nodes
        for row, generator in zip(partner, self.generators, strict=True):
            row[nodes] = nodes[torch.rand(len(nodes), generator=generator, device=row.device).argsort()]
        return partner

    def mixed_logits(self, ratio: Tensor, partner: Tensor, drop: Drop) -> Tensor:
        """m of the last layer, `[Q, N, K]`. One sparse product per layer serves both passes and both branches."""
        weights = [self.stacked[f"{layer}.lin.weight"] for layer in ("first", "second")]
        biases = [self.stacked[f"{layer}.bias"].unsqueeze(1) for layer in ("first", "second")]
        ratio, partner_diagonal = ratio.view(-1, 1, 1), self.diagonal[partner]

        def mix(first: Tensor, second: Tensor) -> Tensor:
            return ratio * first + (1 - ratio) * second

        def branches(neighbours: Tensor, centre: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
            other = _permuted(neighbours, partner) + partner_diagonal * centre + bias
            return neighbours + self.diagonal * centre + bias, other

        values = batched_linear(self.x, weights[0])
        neighbours = self.off_diagonal(values)
        clean = drop(functional.relu(neighbours + self.diagonal * values + biases[0]))
        # A linear layer commutes with mixing, so that features are mixed after it.
        first, second = branches(neighbours, mix(values, _permuted(values, partner)), biases[0])
        mixed = drop(mix(functional.relu(first), functional.relu(second)))
        neighbours = self.off_diagonal(batched_linear(clean, weights[1]))
        return mix(*branches(neighbours, batched_linear(mixed, weights[1]), biases[1]))

    def losses(self, targets: Targets, logits: Tensor, ratio: Tensor, partner: Tensor) -> Tensor:
        """The loss of each problem, `[Q]`."""
        # CE(m[i], y[π(i)]) summed over i is CE(m[π⁻¹(j)], y[j]) summed over j.
        inverse = torch.empty_like(partner).scatter_(1, partner, self.nodes)
        return ratio * targets.losses(logits) + (1 - ratio) * targets.losses(_permuted(logits, inverse))


def _permuted(values: Tensor, index: Tensor) -> Tensor:
    """values[q, index[q]] for each q, from `[Q, N, C]` and permutations `[Q, N]`."""
    problems, nodes, channels = values.shape
    offset = torch.arange(problems, device=values.device).unsqueeze(1) * nodes
    return values.reshape(-1, channels).index_select(0, (index + offset).flatten()).view(values.shape)


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
        check_positive("temperature", self.temperature, "Use 1 for no sharpening.")
        remedy = "Use 0 to ignore unlabelled nodes."
        check_real("unlabelled_weight", self.unlabelled_weight, 0, closed="left", rule="be 0 or above", remedy=remedy)
        if not isinstance(self.ramp, tuple) or len(self.ramp) != 2:
            raise InputError("ramp", "be a tuple of two epochs", repr(self.ramp))
        check_int("ramp[1]", self.ramp[1], check_int("ramp[0]", self.ramp[0], 0) + 1)

    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        return AlternatingTraining(self, nodes, labels, seeds)


class _SharedNetwork(Network):
    def __init__(self, model: GraphMix, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__(model.dropout, normalized_adjacency)
        self.first = GCNConv(in_channels, model.hidden, bias=False)
        self.second = GCNConv(model.hidden, num_classes, bias=False)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparseMatrix, drop: Drop) -> Tensor:
        return _gcn_logits(batched_linear(drop(x), parameters["first.lin.weight"]), parameters, graph)


def _gcn_logits(values: Tensor, parameters: Mapping[str, Tensor], adjacency: SparseMatrix) -> Tensor:
    """The logits of the GCN, `[Q, N, K]`, from xW₁ `[Q, N, C]`."""
    return adjacency(batched_linear(functional.relu(adjacency(values)), parameters["second.lin.weight"]))


def mlp_logits(values: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The logits of the MLP, `[Q, N, K]`, from xW₁ `[Q, N, C]`."""
    return batched_linear(functional.relu(values), parameters["second.lin.weight"])


class AlternatingTraining(BaselineNetworks):
    """Networks that minimize the loss of the GCN or of the MLP. Node n of problem q has the position q·N + n."""

    def __init__(self, model: GraphMix, nodes: NodeData, labels: Labels, seeds: Sequence[int]) -> None:
        super().__init__(partial(_SharedNetwork, model), nodes, labels, seeds)
        self.model, train = model, labels.train.expand(len(seeds), -1)
        self.epoch = torch.zeros(len(train), dtype=torch.int64, device=train.device)
        self.targets, unlabelled = Targets(train, "train"), train < 0
        self.classes = functional.one_hot(self.targets.classes, labels.num_classes).to(self.x.dtype)
        position = torch.arange(train.numel(), device=train.device).view(train.shape)
        # If all nodes are labelled, any nodes are drawn and have weight 0.
        self.unlabelled = [row[own] if len(row[own]) else row for row, own in zip(position, unlabelled, strict=True)]
        self.has_unlabelled = unlabelled.any(1)

    def parameters(self) -> list[StackedParameter]:
        return [*super().parameters(), StackedParameter("epoch", self.epoch)]

    def _training_losses(self, targets: Targets) -> Tensor:
        # Both networks may share the dropout of x, because only one of the losses is used.
        values = batched_linear(self._dropout(self.x), self.stacked["first.lin.weight"])
        gcn_losses = targets.losses(_gcn_logits(values, self.stacked, self.graph))
        from_mlp, train_gcn = mlp_logits(values, self.stacked), self.sample_uniform() < 0.5
        pseudo_labels = self.pseudo_labels().flatten(0, 1)
        sampled = self.sample_unlabelled()
        mlp_losses = self.mixed_losses(from_mlp, self.targets.position, self.classes)
        mlp_losses = mlp_losses + self.ramp_weight() * self.mixed_losses(from_mlp, sampled, pseudo_labels[sampled])
        self.epoch.add_(1)
        return torch.where(train_gcn, gcn_losses, mlp_losses)

    def sample_uniform(self) -> Tensor:
        """A uniform number in [0, 1) per problem, `[Q]`."""
        return torch.cat([torch.rand(1, generator=rng, device=self.x.device) for rng in self.generators])

    def ramp_weight(self) -> Tensor:
        """w(e), `[Q]`; 0 where there is no unlabelled node."""
        first, last = self.model.ramp
        t = ((self.epoch - first) / (last - first)).clamp(0, 1)
        return self.model.unlabelled_weight * torch.exp(-5 * (1 - t).square()) * self.has_unlabelled

    def pseudo_labels(self) -> Tensor:
        """Sharpened probabilities of all nodes, `[Q, N, K]`."""
        with torch.no_grad():
            total = torch.zeros((), device=self.x.device)
            for _ in range(self.model.predictions):
                total = total + torch.softmax(self._logits(training=True), dim=2)
            # In logarithms, because high powers of small numbers would underflow.
            return torch.softmax((total / self.model.predictions).log() / self.model.temperature, dim=2)

    def sample_unlabelled(self) -> Tensor:
        """Positions of as many unlabelled nodes as training nodes, with replacement."""
        sampled = []
        for pool, count, rng in zip(self.unlabelled, self.targets.counts, self.generators, strict=True):
            sampled.append(pool[torch.randint(len(pool), (count,), generator=rng, device=pool.device)])
        return torch.cat(sampled)

    def mixed_losses(self, logits: Tensor, nodes: Tensor, labels: Tensor) -> Tensor:
        """Binary cross-entropy `[Q]` of nodes at positions `[n]` with labels `[n, K]`, mixed in pairs per problem."""
        # The second layer is linear, so that mixing its outputs equals mixing its inputs.
        ratio, partner = self.sample_uniform()[self.targets.problem].unsqueeze(1), self.sample_partners()
        # Not index_select: its gradient is not deterministic on a GPU for nodes that occur twice.
        chosen = logits.reshape(-1, logits.shape[2])[nodes]
        mixed = ratio * chosen + (1 - ratio) * chosen.index_select(0, partner)
        mixed_labels = ratio * labels + (1 - ratio) * labels.index_select(0, partner)
        each = functional.binary_cross_entropy(torch.softmax(mixed, dim=1), mixed_labels, reduction="none").mean(1)
        return self.targets.mean_by_problem(each)

    def sample_partners(self) -> Tensor:
        """A permutation within the mixed nodes of each problem, `[n]`."""
        orders, start = [], 0
        for count, generator in zip(self.targets.counts, self.generators, strict=True):
            orders.append(torch.rand(count, generator=generator, device=self.x.device).argsort() + start)
            start += count
        return torch.cat(orders)
