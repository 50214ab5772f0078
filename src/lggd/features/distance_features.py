"""The common part of GGD and LGGD: the boundary, new labels, and the features made of distances."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lggd.equation.operators import check_p
from lggd.errors import InputError
from lggd.estimator import NodeClassifier
from lggd.estimator.fit_task import FitTask, input_tensors, read_graph
from lggd.estimator.labels import Labels
from lggd.estimator.passes import FitSteps
from lggd.estimator.storage import check_shape, with_prefix, without_prefix
from lggd.features.boundary_solver import BoundarySolver, assign_folds
from lggd.features.scaling import Scale
from lggd.graph import Graph
from lggd.learning.node_features import check_node_features
from lggd.solvers.plan import check_times
from lggd.solvers.scheme import FixedStep
from lggd.training.cache import Cache, identity_key
from lggd.training.checkpoint import Checkpoint
from lggd.training.progress import Callback
from lggd.training.randomness import read_seed
from lggd.validation import check_instance, check_int


class DistanceFeatures(NodeClassifier):
    """Distances to the labelled nodes of each class, as node features; by themselves they predict the nearest class.

    After `fit`, `feature_names_` names the columns.
    """

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
    feature_names_: list[str]
    _solvers: Cache[BoundarySolver]
    _solved: Cache[tuple[Tensor, Tensor]]

    # The fraction of labels to hold out for validation; distances that learn nothing need none.
    validation: float = 0.0

    @abstractmethod
    def _learn(self, task: FitTask, labels: Labels, seed: int) -> FitSteps:
        """Trains the model, where there is anything to learn."""

    @abstractmethod
    def _solver(self, data: Any, graph: Graph) -> BoundarySolver:
        """The solver on these data, with the learned parameters."""

    def _trained_solver(self, task: FitTask) -> BoundarySolver:
        """The solver on the training data."""
        return self._solver(task.data, task.graph)

    def check_settings(self) -> None:
        """Checks the settings, without data; raises an `InputError` if one is invalid."""
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
        self.scale_ = self.scale.fit(self._cross_fitted(task.data)[0])
        self.feature_names_ = self._names()

    @property
    def _held_out(self) -> float:
        return self.validation

    def transform(self, data: Any) -> Any:
        """Return a shallow copy of the data with the features in `x`, or in `attr_name` where that is set.

        The graph and the node features are those of `data`, the boundary is `labels_`: labels in `data` are not read.
        """
        changed = copy.copy(data)
        if self.attr_name is not None:
            setattr(changed, self.attr_name, self.features(data))
        else:
            changed.x = self.inputs(data)
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
        distances, reachable = self._cross_fitted(data)
        scaled = self.scale.apply(distances, self.scale_).flatten(1)
        return torch.cat([scaled, reachable.unsqueeze(1).float()], 1) if self.reachable else scaled

    def inputs(self, data: Any) -> Tensor:
        """Return the input of a backbone: the features, appended to `data.x` where `concat` is set."""
        features = self.features(data)
        if not self.concat:
            return features
        x = check_node_features(data)
        return torch.cat([x if x.layout == torch.strided else x.to_dense(), features], dim=1)

    def distances(self, data: Any) -> Tensor:
        """Return the distances behind the features, `[N, T, K]`, unscaled, with all labels on the boundary."""
        return self._solve(data, folds=0)[0].clone()

    def nearness(self, data: Any) -> Tensor:
        """Return softmax(−f) over the classes at each time, `[N, T, K]`."""
        return torch.softmax(-self.distances(data), dim=2)

    def _probabilities(self, data: Any) -> Tensor:
        return torch.softmax(-self.distances(data).mean(1), dim=1)

    def _cross_fitted(self, data: Any) -> tuple[Tensor, Tensor]:
        """Distances and reachability; those of labelled nodes are solved without the labels of their own fold."""
        return self._solve(data, self.cross_fit)

    def _solve(self, data: Any, folds: int) -> tuple[Tensor, Tensor]:
        """Distances `[N, T, K]` and reachability `[N]`; the last solve is cached until labels or data change."""
        solver = self._solver_on(data)

        def solve() -> tuple[Tensor, Tensor]:
            fold = assign_folds(self.labels_, self.priority_, folds)
            distances, reachable = solver.cross_fitted(self.labels_, fold, folds)
            return (distances if math.isinf(self.cap) else distances.clamp(max=self.cap)), reachable

        key = identity_key(self.labels_, *input_tensors(data))
        return self._solved(None if key is None else (folds, key), solve)

    def _solver_on(self, data: Any) -> BoundarySolver:
        """The solver on these data; the last one is cached, because labels do not change it."""
        self._check_fitted()
        if data.num_nodes != len(self.labels_):
            rule = f"have the {len(self.labels_)} nodes that the labels belong to"
            raise InputError("data", rule, data.num_nodes, "Fit on the new graph.")
        return self._solvers(identity_key(*input_tensors(data)), lambda: self._solver(data, read_graph(data)))

    def _names(self) -> list[str]:
        names = [f"class {k}, t={t:g}" for t in check_times(self.times) for k in range(self.num_classes_)]
        return names + ["reachable"] * self.reachable

    def _learned_state(self) -> dict[str, Tensor]:
        return {}

    def _restore_learned(self, data: Any, graph: Graph, state: Mapping[str, Tensor]) -> None:
        pass

    def _state(self) -> dict[str, Tensor]:
        return {"priority": self.priority_, **with_prefix("scale.", self.scale_), **self._learned_state()}

    def _restore(self, data: Any, state: Mapping[str, Tensor]) -> None:
        graph = read_graph(data)
        self._solvers, self._solved = Cache(capacity=1), Cache(capacity=1)
        nodes = torch.empty(graph.num_nodes)
        self.priority_ = check_shape("priority", state["priority"], nodes).to(graph.device)
        like = self.scale.fit(torch.ones(1, len(check_times(self.times)), self.num_classes_, device=graph.device))
        saved = without_prefix("scale.", state)
        self.scale_ = {
            name: check_shape(f"scale.{name}", saved[name], value).to(graph.device) for name, value in like.items()
        }
        self._restore_learned(data, graph, state)
        self._solvers(identity_key(*input_tensors(data)), lambda: self._solver(data, graph))
        self.feature_names_ = self._names()
