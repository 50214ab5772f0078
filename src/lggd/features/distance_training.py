"""Learning distances (the paper's Pipeline 1): one problem for each time, trained together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.inputs import Labels, NodeData
from lggd.learning.flow import BoundarySolver, Equation, Flow, boundary_mask
from lggd.learning.networks import MLP, FromModule, Networks, PropagatedMLP
from lggd.progress import Callback
from lggd.solvers.scheme import check_times
from lggd.training.engine import Engine, History, train
from lggd.training.problems import StackedParameter, Targets

if TYPE_CHECKING:
    from lggd.features.lggd import LGGD


def read_initial(initial: object) -> MLP | PropagatedMLP | FromModule:
    """Returns the networks behind φ₀; a user's module is wrapped."""
    if isinstance(initial, nn.Module):
        return FromModule(initial)
    if isinstance(initial, (MLP, PropagatedMLP)):
        return initial
    remedy = "EvolvedKernelRidge() starts at a KernelRidge()."
    raise InputTypeError("initial", "be MLP(), PropagatedMLP() or a torch module", repr(initial), remedy)


def train_distances(problems: DistanceProblems, model: LGGD, labels: Labels, callback: Callback | None) -> History:
    """Trains all times of a model in one pass; returns the training curves."""
    names = [f"t={t:g}" for t in check_times(model.times)] if model.per_time else ["all times"]
    targets, validation = (own.expand(len(names), -1) for own in (labels.train, labels.validation))
    engine = Engine(problems, targets, validation, model.optimization, names, lowest_loss=True)
    return train(engine, "distances", callback)


class DistanceProblems:
    """Distances of Q problems: x, networks and flow. A Trainable with cross-entropy of logits −f, f(0) = |network(x)|.

    In training f evolves without a boundary, and the loss is smallest where training nodes are nearest to their class.
    In validation the training nodes are the boundary of their class, where f = 0 (Pipeline 2).
    """

    fused = True

    def __init__(self, initial: Any, x: Any, networks: Networks, flow: Flow, num_classes: int) -> None:
        self.initial, self.x, self.networks, self.flow, self.num_classes = initial, x, networks, flow, num_classes
        self.generators = networks.generators
        self._boundary: tuple[Targets, Tensor] | None = None

    @classmethod
    def of_model(cls, model: LGGD, nodes: NodeData, graph: Graph, num_classes: int, seed: int) -> DistanceProblems:
        """The untrained problems of a model: one for each time, or one for all."""
        times, initial = check_times(model.times), read_initial(model.initial)
        horizons = [[k] for k in range(len(times))] if model.per_time else [range(len(times))]
        generators = _generators(seed, len(horizons), graph.device)
        x: Any = initial.node_features(nodes, graph)
        networks = initial.networks(x, num_classes, generators)
        flow = Flow(Equation(graph, model.potential, generators), times, horizons, model.p, model.scheme)
        return cls(initial, x, networks, flow, num_classes)

    def parameters(self) -> list[StackedParameter]:
        return [*self.networks.parameters(), *self.flow.equation.parameters()]

    def training_step(self, targets: Targets) -> Tensor:
        if self._boundary is None or self._boundary[0] is not targets:
            self._boundary = targets, boundary_mask(targets.labels.t(), self.num_classes)
        start = self.networks(self.x, training=True).abs()
        losses = targets.losses(-self.flow(start), nodes_first=True)
        torch.autograd.backward(losses.sum())
        return losses.detach()

    def validate(self, targets: Targets) -> tuple[Tensor, None]:
        return targets.losses(-self.distances(), nodes_first=True), None

    def distances(self) -> Tensor:
        """The distances in the current state, `[M, N, Q, K]`, 0 on the nodes of the last training step."""
        start = self.networks(self.x, training=False, training_follows=True).abs()
        return self.flow(start, None if self._boundary is None else self._boundary[1])

    def solver(self, nodes: NodeData, graph: Graph) -> BoundarySolver:
        """The solver on these data, which may differ from the training data."""
        flow, x = self.flow, self.x
        if graph is not flow.graph:
            x = self.initial.node_features(nodes, graph)
            if x.shape[1] != self.x.shape[1]:
                rule = "have as many columns as the model was trained on"
                raise InputError("data.x", rule, nodes.features.shape[1], "Fit on the new data.")
            flow = flow.on(graph)
        with torch.no_grad():
            start = self.networks(x, training=False).abs().detach()
        return BoundarySolver(flow, start)


def _generators(seed: int, count: int, device: torch.device) -> list[torch.Generator]:
    seeds = torch.randint(2**62, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
    return [torch.Generator(device=device).manual_seed(drawn) for drawn in seeds]
