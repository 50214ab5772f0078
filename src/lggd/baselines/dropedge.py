"""DropEdge (Rong et al.): in every epoch a network is trained on a random part of the edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from lggd.backbones import GCN, ChebNet, JKNet
from lggd.backbones.networks import Network
from lggd.backbones.propagation import SortedEdges, spread_each
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, BaselineProblem
from lggd.baselines.starting import starting_networks
from lggd.errors import InputError, InputTypeError
from lggd.training.progress import Callback
from lggd.training.targets import Targets


@dataclass(eq=False)
class DropEdge(Baseline):
    """A backbone that sees other edges in every epoch, and all of them in evaluation.

    Each stored direction of an edge is dropped by itself with probability p, once an epoch for all layers. What is kept
    is normalised anew, as D̃^-½ (A' + I) D̃^-½ for a GCN, in place of a factor 1/(1 - p). Loops are never dropped, so
    that p=1 leaves every node with itself alone. p=0 drops nothing and is the backbone itself, to the last bit.

    Args:
        p: the probability to DROP an edge; the authors count what they keep, 1 - p.
        backbone: GCN(), JKNet() or ChebNet().

    >>> import lggd
    >>> data = lggd.load("karate")
    >>> DropEdge(p=0.3, optimization=lggd.Optimization(epochs=20)).fit(data).predict().shape
    torch.Size([34])
    """

    p: float = 0.5
    backbone: GCN | JKNet | ChebNet = GCN()

    def _check(self) -> None:
        if isinstance(self.p, bool) or not isinstance(self.p, Real) or not 0 <= self.p <= 1:
            raise InputError("p", "lie in [0, 1]", repr(self.p), "It is the probability to drop an edge.")
        if not isinstance(self.backbone, (GCN, JKNet, ChebNet)):
            raise InputTypeError(
                "backbone",
                "be GCN(), JKNet() or ChebNet()",
                repr(self.backbone),
                "Only they weigh edges in a way that can be normalised anew.",
            )

    def _networks(
        self, subject: BaselineData, problems: Sequence[BaselineProblem], callback: Callback | None
    ) -> BaselineNetworks:
        modules, seeds = starting_networks(subject, problems, self.backbone)
        if self.p == 0:
            return StackedBackbones(modules, subject.x, subject.edge_index, subject.edge_weight, seeds)
        return _OnSomeEdges(modules, subject, seeds, self.p)


class _OnSomeEdges(StackedBackbones):
    """Networks that descend on some edges, each on its own, and answer on all."""

    def __init__(self, modules: Sequence[Network], subject: BaselineData, seeds: Sequence[int], p: float) -> None:
        super().__init__(modules, subject.x, subject.edge_index, subject.edge_weight, seeds)
        read = LaplacianEntries if isinstance(modules[0].choice, ChebNet) else AdjacencyEntries
        self.p, self.entries = p, read(subject.edge_index, subject.edge_weight, subject.num_nodes)

    def training_step(self, asked: Targets, running: Sequence[bool]) -> Tensor:
        """Leaves gradients in the parameters; gives the losses that they are of, `[Q]`."""
        edges, entry = self.entries.edges, self.entries(self._kept())

        def spread(values: Tensor) -> Tensor:
            return spread_each(values, entry, edges)

        losses = asked.losses(self.modules[0].logits(self.stacked, self.x, spread, self._dropout))
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def _kept(self) -> Tensor:
        """Which edges each problem keeps in this epoch, bool `[Q, E]`."""
        count, device = len(self.entries.weight), self.x.device
        return torch.stack([torch.rand(count, generator=one, device=device) >= self.p for one in self.generators])


class AdjacencyEntries:
    """The entries of D̃^-½ (A' + I) D̃^-½ for the part A' of the edges that is kept.

    As GCNConv has it: D̃ adds up what comes into a node, and a loop that is there already keeps its weight.
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        from torch_geometric.utils import add_remaining_self_loops

        index, weight = add_remaining_self_loops(edge_index, _numbers(edge_index, edge_weight), 1.0, num_nodes)
        self.edges = SortedEdges(index, num_nodes)
        self.weight = weight[self.edges.order]
        self._loop = self.edges.source == self.edges.target

    def __call__(self, kept: Tensor) -> Tensor:
        """`[Q, E]` in the order of `edges`, from bool `[Q, E]`: 0 where an edge is dropped."""
        weight = (self.weight * (kept | self._loop)).t().contiguous()
        return _normalised(weight, self.edges.sums(weight), self.edges)


class LaplacianEntries:
    """The entries of -D^-½ A' D^-½ for the part A' of the edges that is kept, as ChebConv has it: without loops."""

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        from torch_geometric.utils import remove_self_loops

        index, weight = remove_self_loops(edge_index, _numbers(edge_index, edge_weight))
        self.edges = SortedEdges(index, num_nodes)
        self.weight = weight[self.edges.order]  # type: ignore[index]

    def __call__(self, kept: Tensor) -> Tensor:
        """`[Q, E]` in the order of `edges`, from bool `[Q, E]`: 0 where an edge is dropped."""
        weight = (self.weight * kept).t().contiguous()
        return -_normalised(weight, self.edges.sums_by_source(weight), self.edges)


def _numbers(edge_index: Tensor, edge_weight: Tensor | None) -> Tensor:
    return torch.ones(edge_index.shape[1], device=edge_index.device) if edge_weight is None else edge_weight.float()


def _normalised(weight: Tensor, degree: Tensor, edges: SortedEdges) -> Tensor:
    """weight / √(degree of the source · degree of the target), 0 beside a degree of 0: `[E, Q]` → `[Q, E]`."""
    root = degree.pow(-0.5)
    root = root.masked_fill(root.isinf(), 0)
    return (root.index_select(0, edges.source) * weight * root.index_select(0, edges.target)).t().contiguous()
