"""Pipeline 2: from a start, an equation and a boundary to distances; nothing here learns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from lggd.graph import Graph
from lggd.learning.flow import Flow
from lggd.learning.parameters import Equation

# How many columns to carry at once at most: beyond some hundred, wider states gain nothing and take memory.
COLUMNS_AT_ONCE = 512


class Pipeline:
    """Distances of all classes at all times for any labels, from `start [N, Q, K]`."""

    def __init__(self, graph: Graph, equation: Equation, flow: Flow, start: Tensor) -> None:
        self.graph, self.equation, self.flow, self.start = graph, equation, flow, start

    def distances(self, boundaries: Sequence[Tensor]) -> list[Tensor]:
        """Distances `[N, T, K]` for each of the boundaries, which are int64 `[N]`: a class, or -1 where f is free."""
        _, problems, classes = self.start.shape
        at_once = max(1, COLUMNS_AT_ONCE // (problems * classes))
        found: list[Tensor] = []
        for first in range(0, len(boundaries), at_once):
            known = torch.stack(list(boundaries[first : first + at_once]), 1)
            boundary_mask = one_hot(known.clamp(min=0), classes).bool() & (known >= 0).unsqueeze(2)
            variants = boundary_mask.shape[1]
            with torch.no_grad():
                value = self.flow(
                    self.equation, self.start.repeat(1, variants, 1), boundary_mask.repeat_interleave(problems, 1)
                )  # [M, N, R·Q, K]
            horizons, nodes = value.shape[:2]
            by_time = value.view(horizons, nodes, variants, problems, classes).permute(2, 1, 3, 0, 4)
            found += by_time.flatten(2, 3).unbind(0)
        return found

    def reachable(self, boundary: Tensor) -> Tensor:
        """Which nodes share a component with a labelled one, `[N]`."""
        component = self.graph.components
        labelled = torch.zeros(int(component.max()) + 1, dtype=torch.bool, device=component.device)
        labelled[component[boundary >= 0]] = True
        return labelled[component]


def fold_of(known: Tensor, priority: Tensor, folds: int) -> Tensor:
    """The fold of every labelled node, -1 elsewhere: each class is dealt out evenly, in the order of priority."""
    fold = torch.full_like(known, -1)
    for k in torch.unique(known[known >= 0]).tolist():
        nodes = (known == k).nonzero().squeeze(1)
        nodes = nodes[priority[nodes].argsort()]
        fold[nodes] = torch.arange(len(nodes), device=known.device) % folds
    return fold
