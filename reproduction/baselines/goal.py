"""GOAL (Zheng et al., 2023): convolutions over a graph and over its complement, the graph of dissimilar nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from lggd.backbones import GAT
from lggd.backbones.convolutions import batched_linear, edges_with_loops, gat_conv
from lggd.backbones.network import Drop, Network
from lggd.backbones.training import train_networks
from lggd.baselines.baseline import Baseline, BaselineNetworks
from lggd.errors import InputError
from lggd.graph.sparse import SparseMatrix, SparsePattern, normalized_adjacency
from lggd.inputs import Labels, NodeData
from lggd.progress import Callback
from lggd.training.engine import without_prefix
from lggd.training.problems import Optimization, derived_seeds
from lggd.validation import check_instance, check_real
from reproduction.baselines.complement_graph import Complement, complement_graphs

# Width and number of heads of the first attention layer, and the dropout rate of attention weights.
ATTENTION = GAT(hidden=16, heads=8, dropout=0.6)
# Rows with a smaller squared norm are treated as zero: their direction would be a rounding error.
MIN_SQUARED_NORM = 1e-30


@dataclass(eq=False, repr=False)
class GOAL(Baseline):
    """Graph complementary learning (Zheng et al., 2023), for homophilic graphs.

    1. With `pretrain`, an attention network is trained to predict the classes.
    2. From its logits, or from x, a complement graph is built: edges from each node to the `k` least similar ones.
    3. Two layers without bias, activation and dropout are trained on x:

           H ← α HW + β PW − γ rn(S_q H W) − δ rn(S_q P W)   with   P = S_h H,   H⁰ = rn(X)

       where S_h is the normalized graph with self-loops, S_q the normalized complement without them, and rn divides
       rows by their norm. Edge weights are used in S_h.

    The defaults of k and α to δ are the authors' values for CiteSeer; they published none for Cora. Of epochs with the
    same validation accuracy the authors select the last one; here, as for all methods, it is the first.

    Parameters
    ----------
    k : int
        Number of edges per node of the complement graph.
    alpha, beta, gamma, delta : float
        Weights α, β, γ and δ of the node, its neighbours, its neighbours in the complement, and their neighbours.
    hidden : int
        Width of the first layer.
    pretrain : bool
        Whether to build the complement graph from class logits instead of x.
    pretraining : Optimization
        Training of the attention network.
    complement : Complement
        Training of the embeddings that define the complement graph.

    Examples
    --------
    >>> import lggd
    >>> quick = lggd.Optimization(epochs=5)
    >>> model = GOAL(k=3, pretraining=quick, complement=Complement(epochs=5), optimization=quick)
    >>> model.fit(lggd.load("karate")).predict().shape
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
        for name in ("alpha", "beta", "gamma", "delta"):
            remedy = "The formula contains the sign already."
            check_real(name, getattr(self, name), 0, closed="left", rule="be 0 or above", remedy=remedy)
        if not any((self.alpha, self.beta, self.gamma, self.delta)):
            raise InputError("alpha", "be positive if `beta`, `gamma` and `delta` are 0", "0", "Raise one.")
        check_instance("pretrain", self.pretrain, bool, "True or False")
        check_instance("pretraining", self.pretraining, Optimization, "Optimization(…)")
        check_instance("complement", self.complement, Complement, "Complement(…)")

    def _networks(
        self, nodes: NodeData, labels: Labels, seeds: Sequence[int], callback: Callback | None
    ) -> BaselineNetworks:
        if self.complement.hidden < labels.num_classes:
            rule = f"be at least the number of classes, {labels.num_classes}"
            remedy = "The embedding also serves as class logits."
            raise InputError("complement.hidden", rule, self.complement.hidden, remedy)
        first, second, third = zip(*(derived_seeds(seed, 3) for seed in seeds), strict=True)
        networks = BaselineNetworks(partial(ConvolutionNetwork, self), nodes, labels, third)
        inputs = x = networks.x
        if self.pretrain:
            attention = BaselineNetworks(AttentionNetwork, replace(nodes, edge_weight=None), labels, first)
            train_networks(attention, labels, self.pretraining, "pretraining", callback)
            inputs = attention.logits()
        train = labels.train.expand(len(seeds), -1)
        graphs = complement_graphs(self.complement, self.k, inputs, x, train, second, callback)
        weights = self.alpha, self.beta, self.gamma, self.delta
        networks.graph = GOALGraph(weights, x, networks.graph, normalized_complements(graphs, nodes.num_nodes))
        return networks


def normalized_rows(rows: Tensor) -> Tensor:
    """Rows divided by their norm; zero rows stay zero, without gradient.

    >>> normalized_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    square = (rows * rows).sum(-1, keepdim=True)
    return rows * (square.clamp(min=MIN_SQUARED_NORM).rsqrt() * (square > MIN_SQUARED_NORM))


def normalized_complements(graphs: Sequence[Tensor], num_nodes: int) -> SparseMatrix:
    """D^-½ (A + Aᵀ) D^-½ of Q graphs `[2, E]`, as the diagonal blocks of one matrix `[Q·N, Q·N]`.

    Duplicate edges are added up. A node without edges has a row of zeros.
    """
    blocks = torch.cat([edges + q * num_nodes for q, edges in enumerate(graphs)], dim=1)
    pattern = SparsePattern.from_edges(torch.cat([blocks, blocks.flip(0)], dim=1), len(graphs) * num_nodes)
    root = torch.diff(pattern.row_starts).clamp(min=1).float().rsqrt()
    return SparseMatrix(pattern, root[pattern.columns] * root[pattern.rows])


class GOALGraph:
    """A normalized graph and the normalized complements of Q problems, `[Q·N, Q·N]`; `weights` are α to δ.

    The inputs of the first layer do not depend on its parameters and are computed once.
    """

    def __init__(
        self, weights: tuple[float, float, float, float], x: Tensor, graph: SparseMatrix, complement: SparseMatrix
    ) -> None:
        (self.alpha, self.beta, self.gamma, self.delta), self.graph, self.complement = weights, graph, complement
        h = normalized_rows(x.detach()).unsqueeze(0)
        p = graph(h)
        self.x_near = (self.alpha * h + self.beta * p).squeeze(0)
        # Up to here, values are shared by all problems; each has its own complement.
        problems = complement.shape[0] // len(x)
        self.x_far = self.far(h.expand(problems, -1, -1), p.expand(problems, -1, -1))

    def far(self, h: Tensor, p: Tensor) -> list[tuple[float, Tensor]]:
        """The terms to subtract, before rn: γ and S_q H, δ and S_q P; terms of weight 0 are omitted."""
        terms = [(weight, term) for weight, term in ((self.gamma, h), (self.delta, p)) if weight]
        if not terms:
            return []
        # One wide product for both terms.
        wide = torch.cat([term for _, term in terms], dim=2)
        products = self.complement(wide.reshape(1, -1, wide.shape[2])).view(wide.shape).chunk(len(terms), dim=2)
        return [(weight, product) for (weight, _), product in zip(terms, products, strict=True)]


class ConvolutionNetwork(Network):
    def __init__(self, model: GOAL, in_channels: int, num_classes: int) -> None:
        super().__init__(0.0, normalized_adjacency)
        shapes = (model.hidden, in_channels), (num_classes, model.hidden)
        self.first, self.second = (nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape))) for shape in shapes)

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: GOALGraph, drop: Drop) -> Tensor:
        # As rn(rn(S_q H) W) = rn(S_q H W), the complement is applied to the few output channels.
        hidden = batched_linear(graph.x_near, parameters["first"])
        for weight, term in graph.x_far:
            hidden = hidden - weight * normalized_rows(batched_linear(term, parameters["first"]))
        h = batched_linear(hidden, parameters["second"])
        p = graph.graph(h)
        logits = graph.alpha * h + graph.beta * p
        for weight, term in graph.far(h, p):
            logits = logits - weight * normalized_rows(term)
        return logits


class AttentionNetwork(Network):
    """Attention layers F → 8 · 16 → 128 → K without activations between them; only attention weights have dropout."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__(ATTENTION.dropout, edges_with_loops)
        width = ATTENTION.hidden * ATTENTION.heads
        first = GATConv(in_channels, ATTENTION.hidden, ATTENTION.heads)
        self.layers = nn.ModuleList([first, GATConv(width, width), GATConv(width, num_classes)])

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparsePattern, drop: Drop) -> Tensor:
        for layer in range(len(self.layers)):
            own = without_prefix(f"layers.{layer}.", parameters)
            x = gat_conv(x, own, graph, drop).transpose(1, 2).flatten(2) + own["bias"].unsqueeze(1)
        return x
