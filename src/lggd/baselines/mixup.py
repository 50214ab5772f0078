"""MixUp (Wang et al., 2021) for a GCN: training nodes are mixed in pairs, but not their neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from lggd.backbones import GCN
from lggd.backbones.layers import Drop, batched_linear
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems, check_backbone_kind
from lggd.graph.sparse import SparseMatrix
from lggd.training.engine import Callback
from lggd.training.optimization import Targets
from lggd.validation import check_positive


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

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        return _MixtureTraining(self, data, problems)


class _MixtureTraining(BaselineNetworks):
    """GCNs trained on mixtures, with different λ and π for each problem."""

    def __init__(self, model: MixUp, data: BaselineData, problems: Problems) -> None:
        super().__init__(model.backbone.build, data, problems)
        self.train_nodes = [(problem.train >= 0).nonzero().squeeze(1) for problem in problems]
        self.nodes = torch.arange(data.num_nodes, device=self.x.device).repeat(len(problems), 1)
        self.alphas = torch.full((2,), float(model.alpha), dtype=torch.float64, device=self.x.device)
        pattern, values = self.graph.pattern, self.graph.values
        is_loop = pattern.columns == pattern.rows
        self.off_diagonal = SparseMatrix(pattern, values.masked_fill(is_loop, 0))
        self.diagonal = pattern.row_sum((values * is_loop).unsqueeze(1))

    def _training_losses(self, targets: Targets) -> Tensor:
        ratio, partner = self._sample_ratios(), self._sample_partners()
        return self._losses(targets, self._mixed_logits(ratio, partner, self._dropout), ratio, partner)

    def _sample_ratios(self) -> Tensor:
        """λ of each problem, `[Q]`: G₁ / (G₁ + G₂) with two samples of Gamma(α)."""
        gammas = torch.stack([torch._standard_gamma(self.alphas, generator=rng) for rng in self.generators])
        return (gammas[:, 0] / gammas.sum(1)).to(self.x.dtype)

    def _sample_partners(self) -> Tensor:
        """π of each problem, `[Q, N]`: a permutation of its training nodes that leaves all others in place."""
        partner = self.nodes.clone()
        for row, nodes, generator in zip(partner, self.train_nodes, self.generators, strict=True):
            row[nodes] = nodes[torch.rand(len(nodes), generator=generator, device=row.device).argsort()]
        return partner

    def _mixed_logits(self, ratio: Tensor, partner: Tensor, drop: Drop) -> Tensor:
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

    def _losses(self, targets: Targets, logits: Tensor, ratio: Tensor, partner: Tensor) -> Tensor:
        # CE(m[i], y[π(i)]) summed over i is CE(m[π⁻¹(j)], y[j]) summed over j.
        inverse = torch.empty_like(partner).scatter_(1, partner, self.nodes)
        return ratio * targets.losses(logits) + (1 - ratio) * targets.losses(_permuted(logits, inverse))


def _permuted(values: Tensor, index: Tensor) -> Tensor:
    """values[q, index[q]] for each q, from `[Q, N, C]` and permutations `[Q, N]`."""
    problems, nodes, channels = values.shape
    offset = torch.arange(problems, device=values.device).unsqueeze(1) * nodes
    return values.reshape(-1, channels).index_select(0, (index + offset).flatten()).view(values.shape)
