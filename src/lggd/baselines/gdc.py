"""GDC (Gasteiger et al., 2019): graph diffusion convolution, a backbone on the graph of a diffusion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lggd.backbones import GCN, Backbone, JKNet
from lggd.baselines.baseline import Baseline, BaselineData, BaselineNetworks, Problems, check_backbone_kind
from lggd.diffusion import PPR, DiffusionGraph, Heat
from lggd.errors import InputError
from lggd.graph.sparse import SparseMatrix
from lggd.training.engine import Callback


@dataclass(eq=False, repr=False)
class GDC(Baseline):
    """Graph diffusion convolution (Gasteiger et al., 2019): a backbone on the graph of each node's strongest partners.

    Training and evaluation use the edges of `lggd.diffusion.DiffusionGraph(kernel, k, dim)`. GCN and JKNet multiply by
    their weights directly, without self-loops and further normalization; ChebNet normalizes them as usual; GAT ignores
    them. The graph must be undirected. Labels are not used.

    Parameters
    ----------
    kernel : PPR or Heat
    k : int
        Number of edges per node.
    dim : {0, 1}
        0 keeps the strongest edges into each node, 1 those out of it.
    backbone : GCN, GAT, ChebNet or JKNet

    Examples
    --------
    >>> import lggd
    >>> GDC(lggd.baselines.Heat(t=3.0), k=8).transform(lggd.load("karate")).num_edges == 34 * 8
    True
    """

    kernel: PPR | Heat = PPR()
    k: int = 64
    dim: int = 0
    backbone: Backbone = GCN()

    def transform(self, data: Any) -> Any:
        """Return a shallow copy of PyG data with the new `edge_index` and `edge_weight`."""
        self._check()
        return self._diffusion.transform(data)

    @property
    def _diffusion(self) -> DiffusionGraph:
        try:
            return DiffusionGraph(self.kernel, self.k, self.dim)
        except InputError as error:
            raise error.replace(argument="k" if error.argument == "neighbours" else error.argument) from None

    def _check(self) -> None:
        check_backbone_kind(self.backbone)
        _ = self._diffusion

    def _networks(self, data: BaselineData, problems: Problems, callback: Callback | None) -> BaselineNetworks:
        edge_index, weight = self._diffusion.diffuse(data.edge_index, data.edge_weight, data.num_nodes)
        diffused = replace(data, edge_index=edge_index, edge_weight=weight)
        networks = BaselineNetworks(self.backbone.build, diffused, problems)
        if isinstance(self.backbone, (GCN, JKNet)):
            networks.graph = SparseMatrix.from_edges(edge_index, weight, data.num_nodes)
        return networks
