"""LGGD: learned generalized geodesic distances as features (paper, Sec. 3.2)."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lggd.closed_form import KernelRidge
from lggd.closed_form.selection import fit_inverse_temperature
from lggd.distances import distance
from lggd.equation import DegreePotential
from lggd.errors import InputError
from lggd.estimator import FitSteps, FitTask, Labels, NodeClassifier, check_shape, with_prefix, without_prefix
from lggd.estimator.graph_change import GraphChange
from lggd.estimator.inputs import Cache, identity_key, input_tensors, read_graph
from lggd.features.distance_features import (
    DistanceFeatures,
    MaxScale,
    Scale,
    SoftmaxScale,
    assign_folds,
    fixed_solver,
)
from lggd.features.distance_training import DistanceProblems, DistanceRequest, read_initial
from lggd.graph import Graph
from lggd.learning.flow import BoundarySolver, Coefficients, LearnedCoefficients, LearnedEdgeWeights
from lggd.learning.networks import MLP, PropagatedMLP
from lggd.solvers.cauchy import FAR
from lggd.solvers.scheme import RK4, FixedStep, check_times
from lggd.training.optimization import Optimization
from lggd.validation import check_instance

# A prediction that is certain and wrong counts as this probable: it must not decide alone.
LEAST_LIKELIHOOD = 1e-4
# The mean log likelihood is then within −log(the smallest weight of the prior) / MIXTURE_ITERATIONS of the highest: the
# weights of parts that predict nearly the same may be farther from theirs, which matters little.
MIXTURE_ITERATIONS = 200
# The plain distance takes part only if it raises the log likelihood of left-out labels by this much: on graphs where
# unlike nodes are neighbours, it misleads.
LEAST_GAIN = 0.5
# Folds by which the time of distances in closed form, and the share of the plain distance, are chosen.
FOLDS = 5


@dataclass(eq=False, repr=False)
class LGGD(DistanceFeatures):
    """Learned generalized geodesic distances to the labelled nodes of each class (paper, Sec. 3.2).

    The features of a node are f^k(·, t) for every class k and every time t, where the evolution starts at
    φ₀ = |network(x)|, trained so that labelled nodes end up nearest to their own class. The defaults performed
    best on validation nodes; `LGGD.paper()` and `LGGD.release()` have the settings of the paper and of the authors'
    code, and `LGGD.solved()` trains nothing.

    Parameters
    ----------
    times : sequence of float
        Output times of the evolution; T times and K classes give T·K features.
    p : float
        Exponent of the gradient norm, in [1, inf].
    potential : DegreePotential, LearnedPotential, LearnedTimeScale, LearnedEdgeWeights, Tensor, callable or None
        The potential ρ, and the learned coefficients; None is 1.
    initial : MLP, PropagatedMLP, KernelRidge or torch.nn.Module
        The network behind φ₀; a custom module maps `x`, or `x` and `edge_index`, to K values per node. `KernelRidge()`
        trains nothing: φ₀ = −log p is solved in closed form, and solved again when labels are added.
    per_time : bool
        Train one model per time; False trains one for all times.
    cross_fit : int
        Number of folds: the features of a labelled node are solved without the labels of its own fold, because its own
        label would make one of them 0. 0 uses all labels.
    scale : MaxScale, Standardize, SoftmaxScale or Unscaled
        How distances become features; fitted by `fit`, not by `transform`.
    reachable : bool
        Append a column that is 1 where a label is reachable. Elsewhere distances only grow with time, from φ₀.
    cap : float
        Upper bound of the distances.
    concat : bool
        `transform` appends the features to `x` instead of replacing it.
    attr_name : str, optional
        The attribute that `transform` writes the features to, instead of `x`.
    scheme : Euler, SSPRK3 or RK4
    optimization : Optimization
    validation : float
        The fraction of labels to hold out for validation where there is no `val_mask`.
    seed : int or torch.Generator

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> features = lggd.LGGD(times=(1, 2), optimization=lggd.Optimization(epochs=10)).fit(data)
    >>> features.transform(data).x.shape  # 2 times, 2 classes, and whether a label is reachable
    torch.Size([34, 5])
    """

    times: Sequence[float] = (1.0, 2.0, 3.0, 4.0, 5.0)
    p: float = 1.0
    potential: Coefficients | None = DegreePotential(-1.0)
    initial: MLP | PropagatedMLP | KernelRidge | nn.Module = PropagatedMLP()
    per_time: bool = True
    cross_fit: int = 0
    scale: Scale = SoftmaxScale()
    reachable: bool = True
    cap: float = FAR
    concat: bool = False
    attr_name: str | None = None
    scheme: FixedStep = RK4()
    optimization: Optimization = Optimization(lr=0.01, weight_decay=0.002, epochs=150, patience=None)
    validation: float = 0.2
    seed: int | torch.Generator = 0

    def __post_init__(self) -> None:
        self._problems: DistanceProblems  # set by fit, for networks
        self.initial_: KernelRidge  # set by fit, in closed form
        self.time_: float
        self.share_: DistanceShare
        self._plain: Cache[Tensor]

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """LGGD as the paper describes it: φ₀ = |MLP(x)|, one model for all times.

        The paper chooses α, the step, the sizes of the MLP, dropout and weight decay by validation; here they are those
        of the authors' code. On graphs with large degrees the step may exceed the stable limit, as theirs does.
        """
        paper: dict[str, Any] = {
            "potential": DegreePotential(-0.5),
            "initial": MLP(hidden=(512, 128), dropout=0.5),
            "per_time": False,
            "scale": MaxScale(),
            "reachable": False,
            "cap": math.inf,
            "scheme": RK4(step=0.1, force=True),
            "optimization": Optimization(lr=0.01, weight_decay=0.005, epochs=150, patience=None),
        }
        return cls(**{**paper, **changes})

    @classmethod
    def release(cls, **changes: Any) -> Self:
        """LGGD as the authors' code computes it: one model per time, and one learned weight per edge."""
        release = {"potential": LearnedEdgeWeights(DegreePotential(-0.5)), "per_time": True}
        return cls.paper(**{**release, **changes})

    @classmethod
    def solved(cls, **changes: Any) -> Self:
        """LGGD without training: φ₀ = −log p by `KernelRidge`, and the time by cross-validation, 0 where none helps.

        Predictions are mixed with softmax(−β·d), d the distance to the labels of each class (ρ = 1), which pays on thin
        curves of points. Its weight, too, is chosen by cross-validation, and 0 where it helps little (`share_`).
        """
        return cls(**{"times": (0.3, 1.0, 3.0), "initial": KernelRidge(), "reachable": False, **changes})

    def check_settings(self) -> None:
        super().check_settings()
        if isinstance(self.initial, KernelRidge):
            self.initial.check_settings()
            if isinstance(self.potential, LearnedCoefficients):
                remedy = "Use a DegreePotential, or a network as `initial`."
                raise InputError("potential", "be fixed if `initial` is solved in closed form", self.potential, remedy)
        else:
            read_initial(self.initial)
        check_instance("optimization", self.optimization, Optimization, "an Optimization()")

    @property
    def needs_edge_index(self) -> bool:  # type: ignore[override]
        return not isinstance(self.initial, KernelRidge)

    @property
    def _held_out(self) -> float:
        return self.initial._held_out if isinstance(self.initial, KernelRidge) else self.validation

    def _learn(self, task: FitTask, labels: Labels, seed: int) -> FitSteps:
        if isinstance(self.initial, KernelRidge):
            self.initial_, self._plain = copy.copy(self.initial), Cache(capacity=1)
            yield from self.initial_._fit_to(task, labels, seed)
            self.time_, self.share_ = self._cross_validate(task, labels.train)
            return
        request = DistanceRequest(self, task, labels, seed)
        cache, key = request.cached()
        result = cache.get(key)
        if result is None:
            (result,) = yield [request]
            cache.put(key, result)
        self._problems, self.history_[request.stage] = result

    def _cross_validate(self, task: FitTask, labels: Tensor) -> tuple[float, DistanceShare]:
        """The time at which distances predict the labels of other folds best, and the share of the plain distance.

        The time is 0 where φ₀ alone predicts them better. φ₀ is solved again without each fold: elsewhere it would
        still know the labels of the fold.
        """
        fold, times = assign_folds(labels, self.priority_, FOLDS), (0.0, *check_times(self.times))
        evolved: list[Tensor] = []
        plain: list[Tensor] = []
        classes: list[Tensor] = []
        for number in range(FOLDS):
            left_out, known = fold == number, torch.where(fold == number, -1, labels)
            if not bool(left_out.any()) or len(torch.unique(known[known >= 0])) < self.num_classes_:
                continue  # a class without labels has no boundary
            start = _minus_log(self.initial_.proba_from(known))
            (distances,) = fixed_solver(self, task.graph, start).distances([known])
            evolved.append(torch.cat([start.unsqueeze(1), distances], dim=1)[left_out])
            plain.append(class_distances(task.graph, known, self.num_classes_, self.p)[left_out])
            classes.append(labels[left_out])
        if not classes:
            return 0.0, DistanceShare()
        values, truth = torch.cat(evolved), torch.cat(classes)
        losses = [float(cross_entropy(-values[:, k], truth)) for k in range(len(times))]
        best = min(range(len(times)), key=losses.__getitem__)
        return times[best], DistanceShare.choose(torch.softmax(-values[:, best], dim=1), torch.cat(plain), truth)

    def _probabilities(self, data: Any) -> Tensor:
        if not self._parts():
            return super()._probabilities(data)
        if self.time_ == 0:
            probabilities = self.initial_._probabilities(data)
        else:
            distances = self._solve(data, folds=0)[0]
            probabilities = torch.softmax(-distances[:, check_times(self.times).index(self.time_)], dim=1)
        return self.share_.mix(probabilities, self._plain_distances(data)) if self.share_.weight else probabilities

    def _plain_distances(self, data: Any) -> Tensor:
        key = identity_key(self.labels_, *input_tensors(data))
        return self._plain(key, lambda: class_distances(read_graph(data), self.labels_, self.num_classes_, self.p))

    def _parts(self) -> dict[str, NodeClassifier]:
        return {"initial.": self.initial_} if isinstance(self.initial, KernelRidge) else {}

    def _set_labels(self, labels: Tensor) -> None:
        super()._set_labels(labels)
        if self._parts():
            self._solvers.clear()  # they start at the old φ₀

    @property
    def accepts_nodes(self) -> bool:
        return isinstance(self.initial, KernelRidge)

    def _change_graph(self, change: GraphChange) -> None:
        super()._change_graph(change)
        new = torch.arange(len(self.priority_), change.num_nodes, device=self.priority_.device)
        self.priority_ = torch.cat([self.priority_, new])
        self._solvers.clear()

    def _trained_solver(self, task: FitTask) -> BoundarySolver:
        if self._parts():
            return self._solver(task.data, task.graph)
        # Reused distances were learned on an equal graph: its layout and matrices already exist.
        return self._problems.solver(task.data, self._problems.flow.graph)

    def _solver(self, data: Any, graph: Graph) -> BoundarySolver:
        if self._parts():
            return fixed_solver(self, graph, _minus_log(self.initial_.left_out_proba(data)))
        return self._problems.solver(data, graph)

    def _state(self) -> dict[str, Tensor]:
        if self._parts():
            initial = with_prefix("initial.", self.initial_._state())
            chosen = torch.tensor([self.time_, self.share_.weight, self.share_.sharpness], dtype=torch.float64)
            return {**super()._state(), "time and share": chosen, **initial}
        learned = {parameter.name: parameter.value.detach() for parameter in self._problems.parameters()}
        return {**super()._state(), **learned}

    def _restore_learned(self, data: Any, graph: Graph, state: Mapping[str, Tensor]) -> None:
        if isinstance(self.initial, KernelRidge):
            self.initial_ = self._restored(self.initial, data, without_prefix("initial.", state))
            self.time_, *share = check_shape("time and share", state["time and share"], torch.empty(3)).tolist()
            self.share_, self._plain = DistanceShare(*share), Cache(capacity=1)
            return
        self._problems = DistanceProblems([self], data, graph, self.num_classes_, seeds=[0])
        with torch.no_grad():
            for parameter in self._problems.parameters():
                parameter.value.copy_(check_shape(parameter.name, state[parameter.name], parameter.value))


def mixture_weights(likelihoods: Tensor, prior: Sequence[float]) -> list[float]:
    """The weights w of highest Σᵢ log Σₖ wₖ · likelihoods[i, k] + Σₖ prior[k] · log wₖ, by expectation maximization.

    >>> [round(weight, 3) for weight in mixture_weights(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), (1.0, 1.0))]
    [0.717, 0.283]
    """
    counts = torch.tensor(prior, dtype=likelihoods.dtype)
    weights = counts / counts.sum()
    likelihoods = likelihoods.clamp(min=LEAST_LIKELIHOOD)
    for _ in range(MIXTURE_ITERATIONS):
        shares = weights * likelihoods
        shares = (shares / shares.sum(1, keepdim=True)).sum(0) + counts
        weights = shares / shares.sum()
    return weights.tolist()  # type: ignore[no-any-return]


def class_distances(graph: Graph, labels: Tensor, num_classes: int, p: float) -> Tensor:
    """The distance of every node to the labelled nodes of each class, ρ = 1, float32 `[N, K]`.

    Where none can be reached, twice the largest distance.
    """
    mask = labels.unsqueeze(1) == torch.arange(num_classes, device=labels.device)
    value = torch.full(mask.shape, torch.inf, dtype=torch.float64, device=graph.device)
    known = mask.any(0).nonzero().squeeze(1)
    value[:, known] = distance(graph, mask[:, known], p=p).value
    reached = value.isfinite()
    return torch.where(reached, value, 2 * value[reached].max()).float()


@dataclass(frozen=True)
class DistanceShare:
    """The weight of softmax(−`sharpness` · distance) in a mixture with other predictions."""

    weight: float = 0.0
    sharpness: float = 1.0

    @classmethod
    def choose(cls, probabilities: Tensor, distances: Tensor, classes: Tensor) -> DistanceShare:
        """The share that predicts labels best, 0 where that gains little.

        The predictions `[n, K]` and the distances `[n, K]` of labelled nodes must not know their own `classes [n]`.
        """
        probabilities, distances = probabilities.double().cpu(), distances.double().cpu()
        rows, classes = torch.arange(len(classes)), classes.cpu()
        spread = float((distances - distances.mean(1, keepdim=True)).square().mean().sqrt())
        if spread == 0:
            return cls()
        sharpness = fit_inverse_temperature(-distances / spread, classes)[0] / spread
        near = torch.softmax(-sharpness * distances, dim=1)
        likelihoods = torch.stack([each[rows, classes] for each in (probabilities, near)], dim=1)
        likelihoods = likelihoods.clamp(min=LEAST_LIKELIHOOD)
        weights = torch.tensor(mixture_weights(likelihoods, (1.0, 1.0)), dtype=torch.float64)
        gain = float(((likelihoods @ weights) / likelihoods[:, 0]).log().sum())
        return cls(float(weights[1]), sharpness) if gain >= LEAST_GAIN else cls()

    def mix(self, probabilities: Tensor, distances: Tensor) -> Tensor:
        """The mixture of predictions `[N, K]` with those of distances `[N, K]`."""
        return torch.lerp(probabilities, torch.softmax(-self.sharpness * distances, dim=1), self.weight)


def _minus_log(probabilities: Tensor) -> Tensor:
    """−log p, finite."""
    return -probabilities.clamp(min=torch.finfo(torch.float32).tiny).log()
