"""GOAL's pretraining: attention networks, from whose class scores the complement is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from lggd.backbones import GAT
from lggd.backbones.layers import Drop, edges_with_loops, gat_conv
from lggd.backbones.networks import Network
from lggd.backbones.propagation import SortedEdges
from lggd.backbones.stacked_backbones import StackedBackbones
from lggd.baselines.baseline import BaselineData, BaselineProblem, train_problems
from lggd.baselines.starting import dropout_seeds, starting_modules
from lggd.training.optimization import Optimization
from lggd.training.progress import Callback

# Heads of the first layer, their width, and the share of attention that is dropped.
ATTENTION = GAT(hidden=16, heads=8, dropout=0.6)
# PyG's slope of LeakyReLU below 0.
SLOPE = 0.2


class AttentionStack(Network):
    """Attention layers F → 8 · 16 → 8 · 16 → K without activation between them, as GOAL is pretrained.

    Only the attention is dropped. Edge weights are ignored, as by `GAT`.
    """

    def __init__(self, in_channels: int, num_classes: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__(ATTENTION, edges_with_loops)
        width = ATTENTION.hidden * ATTENTION.heads
        self.layers = nn.ModuleList(
            [
                GATConv(in_channels, ATTENTION.hidden, ATTENTION.heads),
                GATConv(width, width),
                GATConv(width, num_classes),
            ]
        )

    def logits(self, parameters: Mapping[str, Tensor], x: Tensor, graph: SortedEdges, drop: Drop) -> Tensor:
        for number in range(len(self.layers)):
            weight, source, target, bias = (
                parameters[f"layers.{number}.{of}"] for of in ("lin.weight", "att_src", "att_dst", "bias")
            )
            heads = gat_conv(x, weight, source, target, graph, SLOPE, drop)
            x = heads.transpose(1, 2).flatten(2) + bias.unsqueeze(1)
        return x


def pretrained(
    subject: BaselineData,
    problems: Sequence[BaselineProblem],
    seeds: Sequence[int],
    optimization: Optimization,
    callback: Callback | None,
) -> Tensor:
    """The class scores of every node for each problem, `[Q, N, K]`."""
    own = [replace(problem, seed=seed) for problem, seed in zip(problems, seeds, strict=True)]

    def make() -> AttentionStack:
        return AttentionStack(subject.x.shape[1], subject.num_classes)

    modules = starting_modules(own, make, subject.x.device)
    networks = StackedBackbones(modules, subject.x, subject.edge_index, None, dropout_seeds(own))
    return train_problems(networks, own, optimization, "pretraining", callback)[0]
