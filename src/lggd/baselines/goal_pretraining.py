"""GOAL's pretraining: attention networks whose class logits the complement graph is built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor, nn

from lggd.backbones import GAT
from lggd.backbones.layers import Drop, edges_with_loops, gat_conv
from lggd.backbones.network import Network
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import BaselineData, BaselineProblem, train_problems
from lggd.baselines.initialization import build_modules
from lggd.graph.sparse import SparsePattern
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback

# Width and number of the first layer's heads, and the dropout of attention.
ATTENTION = GAT(hidden=16, heads=8, dropout=0.6)
# PyG's slope of LeakyReLU below 0.
NEGATIVE_SLOPE = 0.2


class AttentionNetwork(Network):
    """Attention layers F → 8 · 16 → 128 → K without activation between them; only attention has dropout."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__(ATTENTION, edges_with_loops)
        width = ATTENTION.hidden * ATTENTION.heads
        first = GATConv(in_channels, ATTENTION.hidden, ATTENTION.heads)
        self.layers = nn.ModuleList([first, GATConv(width, width), GATConv(width, num_classes)])

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SparsePattern, drop: Drop) -> Tensor:
        for layer in range(len(self.layers)):
            weight, source, target, bias = (
                parameters[f"layers.{layer}.{name}"] for name in ("lin.weight", "att_src", "att_dst", "bias")
            )
            heads = gat_conv(x, weight, source, target, graph, NEGATIVE_SLOPE, drop)
            x = heads.transpose(1, 2).flatten(2) + bias.unsqueeze(1)
        return x


def pretrained_logits(
    data: BaselineData,
    problems: Sequence[BaselineProblem],
    seeds: Sequence[int],
    optimization: Optimization,
    callback: Callback | None,
) -> Tensor:
    """Trains an attention network per problem; returns the logits of its best epoch, `[Q, N, K]`."""
    problems = [replace(problem, seed=seed) for problem, seed in zip(problems, seeds, strict=True)]
    build = partial(AttentionNetwork, data.x.shape[1], data.num_classes)
    modules, dropout_seeds = build_modules(problems, build, data.x.device)
    networks = StackedBackbones(modules, data.x, data.edge_index, None, dropout_seeds)
    return train_problems(networks, problems, optimization, "pretraining", callback)[0]
