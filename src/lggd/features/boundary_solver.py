"""Distances for any set of labels, from a fixed start and fixed coefficients (the paper's Pipeline 2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lggd.graph import Graph
from lggd.learning.distance_training import boundary_mask
from lggd.learning.flow import Flow
from lggd.learning.parameters import Equation

# Maximum number of columns per solve: beyond some hundred, wider states save no time and take memory.
MOST_COLUMNS = 512


class BoundarySolver:
    """Solves the evolution from `start [N, Q, K]` with f = 0 on the labelled nodes of each class."""

    def __init__(self, graph: Graph, equation: Equation, flow: Flow, start: Tensor) -> None:
        self.graph, self.equation, self.flow, self.start = graph, equation, flow, start

    def distances(self, boundaries: Sequence[Tensor]) -> list[Tensor]:
        """Distances `[N, T, K]` for each boundary: int64 `[N]`, a class, or -1 where f is free."""
        _, problems, classes = self.start.shape
        per_solve = max(1, MOST_COLUMNS // (problems * classes))
        solved: list[Tensor] = []
        for first in range(0, len(boundaries), per_solve):
            labels = torch.stack(list(boundaries[first : first + per_solve]), 1)
            mask = boundary_mask(labels, classes)
            variants = mask.shape[1]
            with torch.no_grad():
                value = self.flow(
                    self.equation, self.start.repeat(1, variants, 1), mask.repeat_interleave(problems, 1)
                )  # [M, N, R·Q, K]
            horizons, nodes = value.shape[:2]
            by_time = value.view(horizons, nodes, variants, problems, classes).permute(2, 1, 3, 0, 4)
            solved += by_time.flatten(2, 3).unbind(0)
        return solved

    def cross_fitted(self, labels: Tensor, fold: Tensor, folds: int) -> tuple[Tensor, Tensor]:
        """Distances `[N, T, K]` and whether a label is reachable `[N]`; the nodes of a fold are solved without it.

        `fold` is int64 `[N]`, -1 for nodes whose solve uses all labels.
        """
        boundaries = [labels, *(torch.where(fold == j, -1, labels) for j in range(folds))]
        solved = self.distances(boundaries)
        distances, reachable = solved[0].clone(), self.reachable(labels)
        for j, boundary in enumerate(boundaries[1:]):
            left_out = fold == j
            distances[left_out] = solved[j + 1][left_out]
            reachable[left_out] = self.reachable(boundary)[left_out]
        return distances, reachable

    def reachable(self, boundary: Tensor) -> Tensor:
        """Which nodes share a component with a labelled one, bool `[N]`."""
        component = self.graph.components
        labelled = torch.zeros(int(component.max()) + 1, dtype=torch.bool, device=component.device)
        labelled[component[boundary >= 0]] = True
        return labelled[component]


def assign_folds(labels: Tensor, priority: Tensor, folds: int) -> Tensor:
    """The fold of every labelled node, -1 elsewhere: each class is divided evenly, in the order of `priority`."""
    fold = torch.full_like(labels, -1)
    for k in torch.unique(labels[labels >= 0]).tolist() if folds else ():
        nodes = (labels == k).nonzero().squeeze(1)
        nodes = nodes[priority[nodes].argsort()]
        fold[nodes] = torch.arange(len(nodes), device=labels.device) % folds
    return fold
