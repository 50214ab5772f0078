"""LGGD in closed form: distances that start at −log p of kernel ridge regression; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lggd._system.memory import Cache, identity_key
from lggd.closed_form import KernelRidge
from lggd.closed_form.selection import fit_inverse_temperature
from lggd.distances import distance
from lggd.estimator import check_shape
from lggd.features.distance_features import DistanceFeatures, assign_folds, check_fixed, fixed_solver
from lggd.graph import Graph
from lggd.inputs import Labels, NodeData
from lggd.inputs.graph_change import GraphChange
from lggd.learning.flow import BoundarySolver
from lggd.progress import Callback
from lggd.solvers.scheme import check_times
from lggd.validation import check_instance

# A prediction that is certain and wrong counts as this probable: it must not decide alone.
MIN_LIKELIHOOD = 1e-4
# The mean log likelihood is then within −log(the smallest weight of the prior) / MIXTURE_ITERATIONS of the highest: the
# weights of parts that predict nearly the same converge more slowly.
MIXTURE_ITERATIONS = 200
# The plain distance takes part only if it raises the log likelihood of left-out labels by this much: on graphs where
# unlike nodes are neighbours, it misleads.
MIN_GAIN = 0.5
# Folds by which the time, and the share of the plain distance, are chosen.
FOLDS = 5


@dataclass(eq=False, repr=False)
class SolvedLGGD(DistanceFeatures):
    """Generalized geodesic distances that start at a solution in closed form; nothing is trained.

    The features of a node are f^k(·, t) for every class k and every time t, where the evolution starts at φ₀ = −log p,
    p the probabilities of `KernelRidge`. New labels are solved for at once. Predictions are those of the time that
    cross-validation of the labels chooses, 0 where no evolution helps. They are mixed with softmax(−β·d), d the
    distance to the labels of each class (ρ = 1), which pays on thin curves of points. Its weight, too, is chosen by
    cross-validation, and 0 where it helps little.

    Parameters
    ----------
    initial : KernelRidge
        The model behind φ₀.
    potential : DegreePotential, Tensor, callable or None
        The potential ρ; None is 1.
    times, p, cross_fit, scale, reachable, cap, concat, attr_name, scheme, seed
        As for `LGGD`.

    Attributes
    ----------
    initial_ : KernelRidge
        The fitted model behind φ₀.
    time_ : float
        The time of the predictions.
    share_ : DistanceShare
        The `weight` of the plain distance d in the predictions, and its `sharpness` β. See `Member` for others.

    Examples
    --------
    >>> import lggd
    >>> data = lggd.load("karate")
    >>> model = lggd.SolvedLGGD(times=(1, 2)).fit(data)
    >>> model.transform(data).x.shape, model.time_ in (0, 1, 2)  # 2 times, 2 classes
    (torch.Size([34, 4]), True)
    """

    times: Sequence[float] = (0.3, 1.0, 3.0)
    reachable: bool = False
    initial: KernelRidge = field(default_factory=KernelRidge)

    _inner = "initial"

    def __post_init__(self) -> None:
        self.initial_: KernelRidge  # set by fit

    def _start(self, nodes: NodeData, num_classes: int) -> None:
        super()._start(nodes, num_classes)
        self._plain: Cache[Tensor] = Cache(capacity=1)

    def check_settings(self) -> None:
        super().check_settings()
        check_instance("initial", self.initial, KernelRidge, "a KernelRidge(); LGGD() trains networks")
        self.initial.check_settings()
        check_fixed(self.potential)

    def _learn(self, nodes: NodeData, graph: Graph, labels: Labels, seed: int, callback: Callback | None) -> None:
        self._fit_inner(nodes, labels, seed, callback)
        self.time_, self.share_ = self._cross_validate(graph, labels.train)

    def _cross_validate(self, graph: Graph, labels: Tensor) -> tuple[float, DistanceShare]:
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
            start = _minus_log(self.initial_.with_labels(known).predict_proba())
            (distances,) = fixed_solver(self, graph, start).distances([known])
            evolved.append(torch.cat([start.unsqueeze(1), distances], dim=1)[left_out])
            plain.append(class_distances(graph, known, self.num_classes_, self.p)[left_out])
            classes.append(labels[left_out])
        if not classes:
            return 0.0, DistanceShare()
        values, truth = torch.cat(evolved), torch.cat(classes)
        losses = [float(cross_entropy(-values[:, k], truth)) for k in range(len(times))]
        best = min(range(len(times)), key=losses.__getitem__)
        return times[best], DistanceShare.choose(torch.softmax(-values[:, best], dim=1), torch.cat(plain), truth)

    def _probabilities(self, nodes: NodeData) -> Tensor:
        if self.time_ == 0:
            probabilities = self.initial_._probabilities(nodes)
        else:
            distances = self._solve(nodes, folds=0)[0]
            probabilities = torch.softmax(-distances[:, check_times(self.times).index(self.time_)], dim=1)
        return self.share_.mix(probabilities, self._plain_distances(nodes)) if self.share_.weight else probabilities

    def _plain_distances(self, nodes: NodeData) -> Tensor:
        key = identity_key(self.labels_, *nodes.tensors)
        return self._plain(
            key, lambda: class_distances(nodes.undirected_graph, self.labels_, self.num_classes_, self.p)
        )

    def _set_labels(self, labels: Tensor) -> None:
        super()._set_labels(labels)
        self._solvers.clear()  # they start at the old φ₀

    def _change_graph(self, change: GraphChange) -> None:
        super()._change_graph(change)
        new = torch.arange(len(self.priority_), change.num_nodes, device=self.priority_.device)
        self.priority_ = torch.cat([self.priority_, new])
        self._solvers.clear()

    def _solver(self, nodes: NodeData, graph: Graph) -> BoundarySolver:
        return fixed_solver(self, graph, _minus_log(self.initial_.left_out_proba(nodes)))

    def _state(self) -> dict[str, Tensor]:
        chosen = torch.tensor([self.time_, self.share_.weight, self.share_.sharpness], dtype=torch.float64)
        return {**super()._state(), "mixture": chosen}

    def _restore(self, nodes: NodeData, state: Mapping[str, Tensor]) -> None:
        super()._restore(nodes, state)
        self.time_, *share = check_shape("mixture", state["mixture"], torch.empty(3)).tolist()
        self.share_ = DistanceShare(*share)


def mixture_weights(likelihoods: Tensor, prior: Sequence[float]) -> list[float]:
    """The weights w of highest Σᵢ log Σₖ wₖ · likelihoods[i, k] + Σₖ prior[k] · log wₖ, by expectation maximization.

    >>> [round(weight, 3) for weight in mixture_weights(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), (1.0, 1.0))]
    [0.717, 0.283]
    """
    counts = torch.tensor(prior, dtype=likelihoods.dtype)
    weights = counts / counts.sum()
    likelihoods = likelihoods.clamp(min=MIN_LIKELIHOOD)
    for _ in range(MIXTURE_ITERATIONS):
        shares = weights * likelihoods
        shares = (shares / shares.sum(1, keepdim=True)).sum(0) + counts
        weights = shares / shares.sum()
    return weights.tolist()


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
        likelihoods = likelihoods.clamp(min=MIN_LIKELIHOOD)
        weights = torch.tensor(mixture_weights(likelihoods, (1.0, 1.0)), dtype=torch.float64)
        gain = float(((likelihoods @ weights) / likelihoods[:, 0]).log().sum())
        return cls(float(weights[1]), sharpness) if gain >= MIN_GAIN else cls()

    def mix(self, probabilities: Tensor, distances: Tensor) -> Tensor:
        """The mixture of predictions `[N, K]` with those of distances `[N, K]`."""
        return torch.lerp(probabilities, torch.softmax(-self.sharpness * distances, dim=1), self.weight)


def _minus_log(probabilities: Tensor) -> Tensor:
    """−log p, finite."""
    return -probabilities.clamp(min=torch.finfo(torch.float32).tiny).log()
