"""DropEdge (Rong et al., 2020): every epoch trains a network on a random subset of the edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from lggd.backbones import GCN, ChebNet, JKNet
from lggd.backbones.training import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems
from lggd.baselines.initialization import build_backbones, check_backbone_kind, stacked_backbones
from lggd.graph.sparse import SparsePattern, multiply_each
from lggd.training.progress import Callback
from lggd.training.targets import Targets
from lggd.validation import check_real


@dataclass(eq=False, repr=False)
class DropEdge(Baseline):
    """DropEdge (Rong et al., 2020): a backbone trained on a random subset A' of the edges, evaluated on all of them.

    In every epoch, each direction of an edge is dropped independently with probability p, for all layers alike. The
    rest is normalized again, for a GCN to D̃^-½ (A' + I) D̃^-½, and not scaled by 1/(1 - p). Self-loops are never
    dropped. With p=0 the result equals that of the backbone alone, bit for bit.

    Parameters
    ----------
    p : float
        Probability of dropping an edge, in [0, 1]; the authors' code sets the probability of keeping it, 1 - p.
    backbone : GCN, JKNet or ChebNet
        The network.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> DropEdge(p=0.3, optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    p: float = 0.5
    backbone: GCN | JKNet | ChebNet = GCN()

    def _check(self) -> None:
        check_real("p", self.p, 0, 1, remedy="It is the probability of dropping an edge.")
        check_backbone_kind(self.backbone, (GCN, JKNet, ChebNet), "Only their edge weights can be normalized again.")

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        if self.p == 0:
            return stacked_backbones(self.backbone, data, problems, data.edge_index, data.edge_weight)
        return _EdgeDropout(self, data, problems)


class _EdgeDropout(StackedBackbones):
    """Networks trained on random subsets of the edges, a different one for each problem."""

    def __init__(self, model: DropEdge, data: BaselineData, problems: Problems) -> None:
        modules, seeds = build_backbones(model.backbone, data, problems)
        super().__init__(modules, data.x, data.edge_index, data.edge_weight, seeds)
        matrix = SubsampledLaplacian if isinstance(model.backbone, ChebNet) else SubsampledAdjacency
        self.p, self.matrix = model.p, matrix(data.edge_index, data.edge_weight, data.num_nodes)

    def _training_losses(self, targets: Targets) -> Tensor:
        entries = self.matrix.entries(self._sample_kept())
        propagate = partial(multiply_each, values=entries, pattern=self.matrix.pattern)
        return targets.losses(self.modules[0].logits(self.stacked, self.x, propagate, self._dropout))

    def _sample_kept(self) -> Tensor:
        """The edges that each problem keeps in this epoch, bool `[Q, E]`."""
        shape, device = len(self.matrix.weight), self.x.device
        return torch.stack([torch.rand(shape, generator=rng, device=device) >= self.p for rng in self.generators])


class SubsampledAdjacency:
    """D̃^-½ (A' + I) D̃^-½ for subsets A' of the edges, as PyG's GCNConv normalizes a graph."""

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        from torch_geometric.utils import add_remaining_self_loops

        index, weight = add_remaining_self_loops(edge_index, _weights(edge_index, edge_weight), 1.0, num_nodes)
        self.pattern = SparsePattern.from_edges(index, num_nodes)
        self.weight = weight[self.pattern.order]
        self._loop = self.pattern.columns == self.pattern.rows

    def entries(self, kept: Tensor) -> Tensor:
        """The entries `[Q, E]` in the order of `pattern`, from bool `[Q, E]`; 0 where an edge is dropped."""
        weight = (self.weight * (kept | self._loop)).t().contiguous()
        return _normalized(weight, self.pattern.row_sum(weight), self.pattern)


class SubsampledLaplacian:
    """-D^-½ A' D^-½ for subsets A' of the edges without self-loops, as PyG's ChebConv normalizes a graph."""

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        from torch_geometric.utils import remove_self_loops

        index, weight = remove_self_loops(edge_index, _weights(edge_index, edge_weight))
        self.pattern = SparsePattern.from_edges(index, num_nodes)
        self.weight = weight[self.pattern.order]  # type: ignore[index]

    def entries(self, kept: Tensor) -> Tensor:
        """The entries `[Q, E]` in the order of `pattern`, from bool `[Q, E]`; 0 where an edge is dropped."""
        weight = (self.weight * kept).t().contiguous()
        return -_normalized(weight, self.pattern.column_sum(weight), self.pattern)


def _weights(edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    return torch.ones(edge_index.shape[1], device=edge_index.device) if edge_weight is None else edge_weight.float()


def _normalized(weight: Tensor, degree: Tensor, pattern: SparsePattern) -> Tensor:
    """weight / √(degree of the source · degree of the target), 0 where a degree is 0: `[E, Q]` → `[Q, E]`."""
    root = degree.pow(-0.5)
    root = root.masked_fill(root.isinf(), 0)
    return (root.index_select(0, pattern.columns) * weight * root.index_select(0, pattern.rows)).t().contiguous()
