"""Backbones on other edges than those of the graph: a random subset in every epoch (DropEdge), or a diffusion (GDC)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lggd.backbones import GCN, Backbone, ChebNet, JKNet
from lggd.backbones.network import Propagate
from lggd.baselines.baseline import Baseline, BaselineNetworks, check_backbone_kind
from lggd.diffusion import DiffusionGraph
from lggd.filters import PPR, Heat
from lggd.graph.sparse import SparseMatrix, SparsePattern, multiply_each, with_self_loops
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.validation import check_real

if TYPE_CHECKING:
    from torch_geometric.data import Data


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

    Examples
    --------
    >>> import lggd
    >>> model = DropEdge(p=0.3, optimization=lggd.Optimization(epochs=5))
    >>> model.fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    p: float = 0.5
    backbone: GCN | JKNet | ChebNet = GCN()

    def _check(self) -> None:
        check_real("p", self.p, 0, 1, remedy="It is the probability of dropping an edge.")
        check_backbone_kind(self.backbone, (GCN, JKNet, ChebNet), "Only their edge weights can be normalized again.")

    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        if self.p == 0:
            return BaselineNetworks(self.backbone.build, nodes, labels, seeds)
        return EdgeDropout(self, nodes, labels, seeds)


class EdgeDropout(BaselineNetworks):
    """Networks trained on random subsets of the edges, a different one for each problem."""

    def __init__(self, model: DropEdge, nodes: NodeData, labels: Labels, seeds: Sequence[int]) -> None:
        super().__init__(model.backbone.build, nodes, labels, seeds)
        laplacian = isinstance(model.backbone, ChebNet)
        self.p = model.p
        self.matrix = SubsampledMatrix(*nodes.edges, nodes.num_nodes, laplacian)

    def _training_graph(self) -> Propagate:
        return partial(multiply_each, values=self.matrix.entries(self.sample_kept()), pattern=self.matrix.pattern)

    def sample_kept(self) -> Tensor:
        """The edges that each problem keeps in this epoch, bool `[Q, E]`."""
        shape, device = len(self.matrix.weight), self.x.device
        return torch.stack([torch.rand(shape, generator=rng, device=device) >= self.p for rng in self.generators])


class SubsampledMatrix:
    """D̃^-½ (A' + I) D̃^-½ for subsets A' of the edges, as PyG's GCNConv normalizes a graph.

    With `laplacian`, -D^-½ A' D^-½ for A' without self-loops, as PyG's ChebConv does.
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int, laplacian: bool = False) -> None:
        from torch_geometric.utils import remove_self_loops

        ones = torch.ones(edge_index.shape[1], device=edge_index.device)
        edges = edge_index, ones if edge_weight is None else edge_weight.float()
        index, weight = remove_self_loops(*edges) if laplacian else with_self_loops(*edges, num_nodes)
        self.pattern, self.laplacian = SparsePattern.from_edges(index, num_nodes), laplacian
        self.weight = weight[self.pattern.order]
        self._loop = self.pattern.columns == self.pattern.rows

    def entries(self, kept: Tensor) -> Tensor:
        """The entries `[Q, E]` in the order of `pattern`, from bool `[Q, E]`; 0 where an edge is dropped."""
        pattern, weight = self.pattern, (self.weight * (kept | self._loop)).t().contiguous()
        root = (pattern.column_sum(weight) if self.laplacian else pattern.row_sum(weight)).pow(-0.5)
        root = root.masked_fill(root.isinf(), 0)
        entries: Tensor = root.index_select(0, pattern.columns) * weight * root.index_select(0, pattern.rows)
        return (-entries if self.laplacian else entries).t().contiguous()


@dataclass(eq=False, repr=False)
class GDC(Baseline):
    """Graph diffusion convolution (Gasteiger et al., 2019): a backbone on the graph of each node's strongest partners.

    Training and evaluation use the edges of `lggd.diffusion.DiffusionGraph(kernel, k, dim)`. GCN and JKNet multiply by
    their weights directly, without self-loops and further normalization; ChebNet and GPR normalize them as usual; GAT
    ignores them. The graph must be undirected. Labels are not used.

    Parameters
    ----------
    kernel : PPR or Heat
    k : int
        Number of edges per node.
    dim : {0, 1}
        0 keeps the strongest edges into each node, 1 those out of it.
    backbone : GCN, GAT, ChebNet, JKNet or GPR

    Examples
    --------
    >>> import lggd
    >>> GDC(Heat(t=3.0), k=8).transform(lggd.load("karate")).num_edges == 34 * 8
    True
    """

    kernel: PPR | Heat = PPR()
    k: int = 64
    dim: int = 0
    backbone: Backbone = GCN()
    _may_be_zero = ("dim",)

    def transform(self, data: Data) -> Data:
        """Return a shallow copy of PyG data with the new `edge_index` and `edge_weight`."""
        self.check_settings()
        return self._diffusion.transform(data)

    @property
    def _diffusion(self) -> DiffusionGraph:
        return DiffusionGraph(self.kernel, self.k, self.dim)

    def _check(self) -> None:
        check_backbone_kind(self.backbone)
        _ = self._diffusion

    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        edge_index, weight = self._diffusion.diffuse(*nodes.edges, nodes.num_nodes)
        diffused = replace(nodes, edge_index=edge_index, edge_weight=weight)
        networks = BaselineNetworks(self.backbone.build, diffused, labels, seeds)
        if isinstance(self.backbone, (GCN, JKNet)):
            networks.graph = SparseMatrix.from_edges(edge_index, weight, nodes.num_nodes)
        return networks
