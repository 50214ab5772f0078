"""The base of GGD, LGGD and SolvedLGGD (the paper's Pipeline 2): distances for any labels, and features of them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lggd._system.memory import Cache, identity_key
from lggd.equation import DegreePotential, check_p
from lggd.errors import InputError
from lggd.estimator import Member, check_shape, with_prefix, without_prefix
from lggd.graph import Graph
from lggd.inputs import Labels, NodeData
from lggd.learning.flow import BoundarySolver, Coefficients, Equation, Flow, LearnedCoefficients
from lggd.progress import Callback
from lggd.solvers.cauchy import INITIAL_VALUE
from lggd.solvers.scheme import RK4, FixedStep, check_times
from lggd.validation import check_instance, check_int, check_real

if TYPE_CHECKING:
    from torch_geometric.data import Data

# The fitted statistics of a scale, by name. Distances come as [N, T, K]: nodes, times, classes.
Fitted = Mapping[str, Tensor]


@dataclass(frozen=True)
class Unscaled:
    """No scaling: the distances themselves.

    Examples
    --------
    >>> distances = torch.tensor([[[0.0, 2.0]], [[4.0, 1.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> Unscaled().apply(distances, Unscaled().fit(distances)).tolist()
    [[[0.0, 2.0]], [[4.0, 1.0]]]
    """

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        """The statistics of the distances that `apply` needs."""
        return {}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        """Scaled distances, `[N, T, K]`."""
        return distances


@dataclass(frozen=True)
class MaxScale:
    """Each column divided by its largest value, as in the authors' code.

    Examples
    --------
    >>> distances = torch.tensor([[[0.0, 2.0]], [[4.0, 1.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> MaxScale().apply(distances, MaxScale().fit(distances)).tolist()
    [[[0.0, 1.0]], [[1.0, 0.5]]]
    """

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        return {"largest": distances.amax(0).clamp(min=_tiny(distances))}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        return distances / fitted["largest"]


@dataclass(frozen=True)
class Standardize:
    """Each column shifted and divided to mean 0 and standard deviation 1.

    Examples
    --------
    >>> distances = torch.tensor([[[0.0, 2.0]], [[4.0, 1.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> Standardize().apply(distances, Standardize().fit(distances)).tolist()
    [[[-1.0, 1.0]], [[1.0, -1.0]]]
    """

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        spread = distances.std(0, unbiased=False)
        return {"mean": distances.mean(0), "spread": torch.where(spread > _tiny(distances), spread, 1.0)}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        return (distances - fitted["mean"]) / fitted["spread"]


@dataclass(frozen=True)
class SoftmaxScale:
    """softmax over the classes of −f(t) / temperature, at each time: how much nearer one class is than the others.

    Parameters
    ----------
    temperature : float or None
        None fits the standard deviation of the distances about each node's mean, at each time.

    Examples
    --------
    >>> distances = torch.tensor([[[1.0, 1.0]], [[0.0, 50.0]]])  # [N, T, K]: two nodes, one time, two classes
    >>> scale = SoftmaxScale()
    >>> scale.apply(distances, scale.fit(distances)).round(decimals=3).tolist()
    [[[0.5, 0.5]], [[1.0, 0.0]]]
    """

    temperature: float | None = 1.0

    def __post_init__(self) -> None:
        if self.temperature is not None:
            rule = "be positive and finite, or None to fit it"
            check_real("temperature", self.temperature, 0, closed="neither", rule=rule)

    def fit(self, distances: Tensor) -> dict[str, Tensor]:
        if self.temperature is not None:
            return {"temperature": distances.new_full((distances.shape[1], 1), self.temperature)}
        about_mean = distances - distances.mean(2, keepdim=True)
        spread = about_mean.square().mean((0, 2)).sqrt().unsqueeze(1)
        return {"temperature": torch.where(spread > _tiny(distances), spread, 1.0)}

    def apply(self, distances: Tensor, fitted: Fitted) -> Tensor:
        return torch.softmax(-distances / fitted["temperature"], dim=2)


Scale = Unscaled | MaxScale | Standardize | SoftmaxScale


def _tiny(distances: Tensor) -> float:
    return torch.finfo(distances.dtype).tiny


@dataclass(eq=False, repr=False)
class DistanceFeatures(Member):
    """Distances to the labelled nodes of each class, as node features; by themselves they predict the nearest class.

    The settings are those that GGD, LGGD and SolvedLGGD share; `LGGD` describes them.
    """

    times: Sequence[float] = (1.0, 2.0, 3.0, 4.0, 5.0)
    p: float = 1.0
    potential: Coefficients | None = DegreePotential(-1.0)
    cross_fit: int = 0
    scale: Scale = SoftmaxScale()
    reachable: bool = True
    cap: float = INITIAL_VALUE
    concat: bool = False
    attr_name: str | None = None
    scheme: FixedStep = RK4()
    seed: int | torch.Generator = 0

    needs_edge_index = False

    def _learn(self, nodes: NodeData, graph: Graph, labels: Labels, seed: int, callback: Callback | None) -> None:
        """Trains the model, where there is anything to learn."""

    @abstractmethod
    def _solver(self, nodes: NodeData, graph: Graph) -> BoundarySolver:
        """The solver on these data, with the learned parameters."""

    def _cached_solver(self, nodes: NodeData) -> BoundarySolver:
        return self._solvers(identity_key(*nodes.tensors), lambda: self._solver(nodes, nodes.undirected_graph))

    def _start(self, nodes: NodeData, num_classes: int) -> None:
        super()._start(nodes, num_classes)
        self._solvers: Cache[BoundarySolver] = Cache(capacity=1)
        self._solved: Cache[tuple[Tensor, Tensor]] = Cache(capacity=1)

    def check_settings(self) -> None:
        check_times(self.times)
        check_p(self.p)
        check_instance("scale", self.scale, Scale, "a scale such as MaxScale()")
        if check_int("cross_fit", self.cross_fit, minimum=0) == 1:
            raise InputError("cross_fit", "be 0 (none) or at least 2 folds", 1)
        check_real("cap", self.cap, 0, closed="right", rule="be positive", remedy="Use math.inf for none.")

    def _fit_to(self, nodes: NodeData, labels: Labels, seed: int, callback: Callback | None) -> None:
        graph = nodes.undirected_graph
        self._start(nodes, labels.num_classes)
        generator = torch.Generator().manual_seed(seed)
        # The order in which labelled nodes are assigned to folds.
        self.priority_ = torch.randperm(graph.num_nodes, generator=generator).to(graph.device)
        self._learn(nodes, graph, labels, seed, callback)
        self._cached_solver(nodes)
        self.labels_ = labels.train.clone()
        self.scale_: Fitted = self.scale.fit(self._solve(nodes, self.cross_fit)[0])

    @property
    def _held_out(self) -> float:
        return 0.0  # without training there is nothing to validate

    def transform(self, data: Data) -> Data:
        """Return a shallow copy of the data with the features in `x`, or in `attr_name` where that is set.

        The graph and the node features are those of `data`, the boundary is `labels_`: labels in `data` are not read.
        """
        changed = copy.copy(data)
        name, value = ("x", self.inputs(data)) if self.attr_name is None else (self.attr_name, self.features(data))
        setattr(changed, name, value)
        return changed

    def fit_transform(self, data: Data, *, callback: Callback | None = None) -> Data:
        """`fit(data).transform(data)`."""
        return self.fit(data, callback=callback).transform(data)

    def __call__(self, data: Data) -> Data:
        """`transform`, so that the model can be used in `torch_geometric.transforms.Compose`."""
        return self.transform(data)

    def features(self, data: Data | NodeData) -> Tensor:
        """Return the features, float32 `[N, T·K]`, with one more column where `reachable` is set."""
        distances, reachable = self._solve(NodeData.read(data), self.cross_fit)
        scaled = self.scale.apply(distances, self.scale_).flatten(1)
        return torch.cat([scaled, reachable.unsqueeze(1).float()], 1) if self.reachable else scaled

    def inputs(self, data: Data | NodeData) -> Tensor:
        """Return the input of a backbone: the features, appended to `data.x` where `concat` is set."""
        nodes = NodeData.read(data)
        features = self.features(nodes)
        return torch.cat([nodes.features.to_dense(), features], dim=1) if self.concat else features

    def input_width(self, nodes: NodeData, num_classes: int) -> tuple[int, str]:
        """Return the number of columns of `inputs`, known before the fit, and what they are."""
        times = len(check_times(self.times))
        parts = {f"{times} times × {num_classes} classes": times * num_classes}
        parts |= {"1 for reachable": 1} if self.reachable else {}
        columns = nodes.features.shape[1] if self.concat else 0
        parts |= {f"{columns} columns of x": columns} if self.concat else {}
        return sum(parts.values()), " + ".join(parts)

    def distances(self, data: Data | NodeData) -> Tensor:
        """Return the distances behind the features, `[N, T, K]`, unscaled, with all labels on the boundary."""
        return self._solve(NodeData.read(data), folds=0)[0].clone()

    def nearness(self, data: Data | NodeData) -> Tensor:
        """Return softmax(−f) over the classes at each time, `[N, T, K]`."""
        return torch.softmax(-self.distances(data), dim=2)

    def _probabilities(self, nodes: NodeData) -> Tensor:
        return torch.softmax(-self.distances(nodes).mean(1), dim=1)

    def _solve(self, nodes: NodeData, folds: int) -> tuple[Tensor, Tensor]:
        """Distances `[N, T, K]` and reachability `[N]`, those of labelled nodes without the labels of their own fold.

        The last solve is cached until labels or data change, and its solver until data change.
        """
        self._check_fitted()
        if nodes.num_nodes != len(self.labels_):
            rule = f"have the {len(self.labels_)} nodes that the labels belong to"
            raise InputError("data", rule, nodes.num_nodes, "Fit on the new graph.")
        solver = self._cached_solver(nodes)

        def solve() -> tuple[Tensor, Tensor]:
            fold = assign_folds(self.labels_, self.priority_, folds)
            distances, reachable = solver.cross_fitted(self.labels_, fold, folds)
            return distances.clamp(max=self.cap), reachable

        key = identity_key(self.labels_, *nodes.tensors)
        return self._solved(None if key is None else (folds, key), solve)

    @property
    def feature_names_(self) -> list[str]:
        """The names of the columns."""
        names = [f"class {k}, t={t:g}" for t in check_times(self.times) for k in range(self.num_classes_)]
        return names + ["reachable"] * self.reachable

    def _state(self) -> dict[str, Tensor]:
        return {**super()._state(), "priority": self.priority_, **with_prefix("scale.", self.scale_)}

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        super()._restore(nodes, state)
        ones = torch.ones(1, len(check_times(self.times)), self.num_classes_)
        like = {"priority": self.labels_, **with_prefix("scale.", self.scale.fit(ones))}
        saved = {name: check_shape(name, state[name], value).to(self.labels_.device) for name, value in like.items()}
        self.priority_, self.scale_ = saved["priority"], without_prefix("scale.", saved)


def check_fixed(potential: object) -> None:
    """Raises an error for learned coefficients, where nothing is trained."""
    if isinstance(potential, LearnedCoefficients):
        remedy = "Use a DegreePotential, or LGGD(), which is trained."
        raise InputError("potential", "be fixed where nothing is trained", potential, remedy)


def fixed_solver(model: Any, graph: Graph, start: Tensor) -> BoundarySolver:
    """The solver of a model of one problem, with fixed coefficients, that starts at φ₀ `[N, K]`."""
    times = check_times(model.times)
    equation = Equation(graph, model.potential, [torch.Generator(device=graph.device)])
    flow = Flow(equation, times, [range(len(times))], model.p, model.scheme)
    return BoundarySolver(flow, start.unsqueeze(1))


def assign_folds(labels: Tensor, priority: Tensor, folds: int) -> Tensor:
    """The fold of every labelled node, -1 elsewhere: each class is divided evenly, in the order of `priority`."""
    fold = torch.full_like(labels, -1)
    for k in torch.unique(labels[labels >= 0]).tolist() if folds else ():
        nodes = (labels == k).nonzero().squeeze(1)
        nodes = nodes[priority[nodes].argsort()]
        fold[nodes] = torch.arange(len(nodes), device=labels.device) % folds
    return fold
