"""Pipeline 1: training the initial condition φ₀ and, where they are learned, the coefficients of the equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.functional import one_hot

from lggd.learning.flow import Flow
from lggd.learning.networks import Networks
from lggd.learning.parameters import Equation
from lggd.training.optimization import GroupedAdam, Optimization, StackedParameter, Targets


class DistanceTraining:
    """Distances of Q problems as a Trainable: cross-entropy with logits −f, where f(0) = φ₀ = |network(x)|.

    In training f evolves without a boundary, and the loss is smallest where training nodes are nearest to their class.
    In validation the training nodes are the boundary of their class, where f = 0 (Pipeline 2).
    """

    def __init__(self, networks: Networks, x: Any, equation: Equation, flow: Flow, num_classes: int) -> None:
        self.networks, self.x, self.equation, self.flow, self.num_classes = networks, x, equation, flow, num_classes
        self.generators, self.random_state = networks.generators, networks.random_state
        self.load_random_state = networks.load_random_state
        self._boundary: tuple[Targets, Tensor] | None = None

    def parameters(self) -> list[StackedParameter]:
        return [*self.networks.parameters(), *self.equation.parameters()]

    def optimizer(self, optimizations: Sequence[Optimization]) -> GroupedAdam:
        return GroupedAdam(self.parameters(), optimizations)

    def training_step(self, targets: Targets, running: Sequence[bool]) -> Tensor:
        if self._boundary is None or self._boundary[0] is not targets:
            self._boundary = targets, boundary_mask(targets.labels.t(), self.num_classes)
        start = self.networks(self.x, training=True).abs()
        losses = targets.losses(-self.flow(self.equation, start), nodes_first=True)
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()

    def validate(self, targets: Targets, running: Sequence[bool]) -> tuple[Tensor, None]:
        return targets.losses(-self.distances(), nodes_first=True), None

    def distances(self) -> Tensor:
        """The distances in the current state, `[M, N, Q, K]`, 0 on the nodes of the last training step."""
        start = self.networks(self.x, training=False, training_follows=True).abs()
        return self.flow(self.equation, start, None if self._boundary is None else self._boundary[1])


def boundary_mask(labels: Tensor, num_classes: int) -> Tensor:
    """Where f = 0: the nodes of each class, bool `[…, K]`, from labels `[…]` that are -1 where a node has none."""
    return one_hot(labels.clamp(min=0), num_classes).bool() & (labels >= 0).unsqueeze(-1)
