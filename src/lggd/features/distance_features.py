"""The common part of GGD and LGGD (the paper's Pipeline 2): distances for any set of labels, and features of them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lggd.equation.operators import check_p
from lggd.errors import InputError
from lggd.estimator import FitSteps, FitTask, Labels, NodeClassifier, check_shape, with_prefix, without_prefix
from lggd.estimator.inputs import Cache, identity_key, input_tensors, read_graph
from lggd.features.scaling import Scale
from lggd.graph import Graph
from lggd.learning.distance_training import boundary_mask
from lggd.learning.flow import Flow
from lggd.learning.node_features import check_node_features
from lggd.learning.parameters import Equation
from lggd.solvers.plan import check_times
from lggd.solvers.scheme import FixedStep
from lggd.training.engine import Callback, Checkpoint
from lggd.training.randomness import read_seed
from lggd.validation import check_instance, check_int

# Maximum number of columns per solve: beyond some hundred, wider states save no time and take memory.
MOST_COLUMNS = 512


class DistanceFeatures(NodeClassifier):
    """Distances to the labelled nodes of each class, as node features; by themselves they predict the nearest class."""

    times: Sequence[float]
    p: float
    cross_fit: int
    scale: Scale
    reachable: bool
    cap: float
    concat: bool
    attr_name: str | None
    scheme: FixedStep
    seed: int | torch.Generator
    # The order in which labelled nodes are assigned to folds, and the statistics of the fitted scale.
    priority_: Tensor
    scale_: Mapping[str, Tensor]
    _solvers: Cache[BoundarySolver]
    _solved: Cache[tuple[Tensor, Tensor]]

    needs_edge_index = False
    # The fraction of labels to hold out for validation; distances that learn nothing need none.
    validation: float = 0.0

    def _learn(self, task: FitTask, labels: Labels, seed: int) -> FitSteps:
        """Trains the model, where there is anything to learn."""
        yield from ()

    @abstractmethod
    def _solver(self, data: Any, graph: Graph) -> BoundarySolver:
        """The solver on these data, with the learned parameters."""

    def _trained_solver(self, task: FitTask) -> BoundarySolver:
        """The solver on the training data."""
        return self._solver(task.data, task.graph)

    def check_settings(self) -> None:
        check_times(self.times)
        check_p(self.p)
        check_instance("scale", self.scale, Scale, "a scale such as MaxScale()")
        if check_int("cross_fit", self.cross_fit, minimum=0) == 1:
            raise InputError("cross_fit", "be 0 (none) or at least 2 folds", 1)
        if not self.cap > 0:
            raise InputError("cap", "be positive", self.cap, "Use math.inf for none.")
        if not 0 <= self.validation < 1:
            raise InputError("validation", "be a fraction in [0, 1)", self.validation)

    def _fit_to(self, task: FitTask, labels: Labels, seed: int | torch.Generator) -> FitSteps:
        graph, seed = task.graph, read_seed(seed)
        self._start(task.data, labels.num_classes)
        self._solvers, self._solved = Cache(capacity=1), Cache(capacity=1)
        generator = torch.Generator().manual_seed(seed)
        self.priority_ = torch.randperm(graph.num_nodes, generator=generator).to(graph.device)
        yield from self._learn(task, labels, seed)
        self._solvers(identity_key(*input_tensors(task.data)), lambda: self._trained_solver(task))
        self.labels_ = labels.train.clone()
        self.scale_ = self.scale.fit(self._solve(task.data, self.cross_fit)[0])

    @property
    def _held_out(self) -> float:
        return self.validation

    def transform(self, data: Any) -> Any:
        """Return a shallow copy of the data with the features in `x`, or in `attr_name` where that is set.

        The graph and the node features are those of `data`, the boundary is `labels_`: labels in `data` are not read.
        """
        changed = copy.copy(data)
        name, value = ("x", self.inputs(data)) if self.attr_name is None else (self.attr_name, self.features(data))
        setattr(changed, name, value)
        return changed

    def fit_transform(
        self, data: Any, *, callback: Callback | None = None, checkpoint: Checkpoint | None = None
    ) -> Any:
        """`fit(data).transform(data)`."""
        return self.fit(data, callback=callback, checkpoint=checkpoint).transform(data)

    def __call__(self, data: Any) -> Any:
        """`transform`, so that the model can be used in `torch_geometric.transforms.Compose`."""
        return self.transform(data)

    def features(self, data: Any) -> Tensor:
        """Return the features, float32 `[N, T·K]`, with one more column where `reachable` is set."""
        distances, reachable = self._solve(data, self.cross_fit)
        scaled = self.scale.apply(distances, self.scale_).flatten(1)
        return torch.cat([scaled, reachable.unsqueeze(1).float()], 1) if self.reachable else scaled

    def inputs(self, data: Any) -> Tensor:
        """Return the input of a backbone: the features, appended to `data.x` where `concat` is set."""
        features = self.features(data)
        return torch.cat([check_node_features(data).to_dense(), features], dim=1) if self.concat else features

    def input_width(self, data: Any, num_classes: int) -> tuple[int, str]:
        """Return the number of columns of `inputs`, known before the fit, and what they are."""
        times = len(check_times(self.times))
        parts = {f"{times} times × {num_classes} classes": times * num_classes}
        parts |= {"1 for reachable": 1} if self.reachable else {}
        columns = check_node_features(data).shape[1] if self.concat else 0
        parts |= {f"{columns} columns of x": columns} if self.concat else {}
        return sum(parts.values()), " + ".join(parts)

    def distances(self, data: Any) -> Tensor:
        """Return the distances behind the features, `[N, T, K]`, unscaled, with all labels on the boundary."""
        return self._solve(data, folds=0)[0].clone()

    def nearness(self, data: Any) -> Tensor:
        """Return softmax(−f) over the classes at each time, `[N, T, K]`."""
        return torch.softmax(-self.distances(data), dim=2)

    def _probabilities(self, data: Any) -> Tensor:
        return torch.softmax(-self.distances(data).mean(1), dim=1)

    def _solve(self, data: Any, folds: int) -> tuple[Tensor, Tensor]:
        """Distances `[N, T, K]` and reachability `[N]`, those of labelled nodes without the labels of their own fold.

        The last solve is cached until labels or data change, and its solver until data change.
        """
        self._check_fitted()
        if data.num_nodes != len(self.labels_):
            rule = f"have the {len(self.labels_)} nodes that the labels belong to"
            raise InputError("data", rule, data.num_nodes, "Fit on the new graph.")
        solver = self._solvers(identity_key(*input_tensors(data)), lambda: self._solver(data, read_graph(data)))

        def solve() -> tuple[Tensor, Tensor]:
            fold = assign_folds(self.labels_, self.priority_, folds)
            distances, reachable = solver.cross_fitted(self.labels_, fold, folds)
            return distances.clamp(max=self.cap), reachable

        key = identity_key(self.labels_, *input_tensors(data))
        return self._solved(None if key is None else (folds, key), solve)

    @property
    def feature_names_(self) -> list[str]:
        """The names of the columns."""
        names = [f"class {k}, t={t:g}" for t in check_times(self.times) for k in range(self.num_classes_)]
        return names + ["reachable"] * self.reachable

    def _restore_learned(self, data: Any, graph: Graph, state: Mapping[str, Tensor]) -> None:
        pass

    def _state(self) -> dict[str, Tensor]:
        return {"priority": self.priority_, **with_prefix("scale.", self.scale_)}

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        graph = read_graph(data)
        self._solvers, self._solved = Cache(capacity=1), Cache(capacity=1)
        ones = torch.ones(1, len(check_times(self.times)), self.num_classes_)
        like = {"priority": torch.empty(graph.num_nodes), **with_prefix("scale.", self.scale.fit(ones))}
        saved = {name: check_shape(name, state[name], value).to(graph.device) for name, value in like.items()}
        self.priority_, self.scale_ = saved["priority"], without_prefix("scale.", saved)
        self._restore_learned(data, graph, state)
        self._solvers(identity_key(*input_tensors(data)), lambda: self._solver(data, graph))


class BoundarySolver:
    """Solves the evolution from `start [N, Q, K]` with f = 0 on the labelled nodes of each class."""

    def __init__(self, graph: Graph, equation: Equation, flow: Flow, start: Tensor) -> None:
        self.graph, self.equation, self.flow, self.start = graph, equation, flow, start

    def distances(self, boundaries: Sequence[Tensor]) -> list[Tensor]:
        """Distances `[N, T, K]` for each boundary: int64 `[N]`, a class, or -1 where f is free."""
        _, problems, classes = self.start.shape
        per_solve = max(1, MOST_COLUMNS // (problems * classes))
        solved: list[Tensor] = []
        for labels in torch.split(torch.stack(list(boundaries), 1), per_solve, 1):
            start, mask = self.start.repeat(1, labels.shape[1], 1), boundary_mask(labels, classes)
            with torch.no_grad():
                value = self.flow(self.equation, start, mask.repeat_interleave(problems, 1))  # [M, N, R·Q, K]
            solved += torch.unflatten(value, 2, (-1, problems)).permute(2, 1, 3, 0, 4).flatten(2, 3).unbind(0)
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


def fixed_solver(model: Any, graph: Graph, start: Tensor) -> BoundarySolver:
    """The solver of a model of one problem, with fixed coefficients, that starts at φ₀ `[N, K]`."""
    times = check_times(model.times)
    equation = Equation(graph, model.potential, [torch.Generator(device=graph.device)])
    flow = Flow(graph, equation, times, [range(len(times))], model.p, model.scheme)
    return BoundarySolver(graph, equation, flow, start.unsqueeze(1))


def assign_folds(labels: Tensor, priority: Tensor, folds: int) -> Tensor:
    """The fold of every labelled node, -1 elsewhere: each class is divided evenly, in the order of `priority`."""
    fold = torch.full_like(labels, -1)
    for k in torch.unique(labels[labels >= 0]).tolist() if folds else ():
        nodes = (labels == k).nonzero().squeeze(1)
        nodes = nodes[priority[nodes].argsort()]
        fold[nodes] = torch.arange(len(nodes), device=labels.device) % folds
    return fold
