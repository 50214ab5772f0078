"""Model selection by leave-one-out: kernels, edge weights, ridge and temperature, compared on the labels themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lggd.closed_form.ridge import (
    ExactSystem,
    RidgeSystem,
    class_targets,
    draw_inducing,
    is_exact,
    left_out_scores,
)
from lggd.closed_form.ridge_inputs import (
    FilteredFeatures,
    MemoryInputs,
    RidgeInputs,
    System,
    class_agreement,
    filters_of,
)
from lggd.kernels import (
    FAR_REWEIGHTED_KERNELS,
    FARTHER,
    NEARER,
    REWEIGHTED_KERNELS,
    ChosenKernel,
    FilterKernel,
    MixtureKernel,
)

if TYPE_CHECKING:
    from lggd.closed_form.kernel_ridge import KernelRidge

RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Kernels are compared on at most this many labels, with these ridges: solving takes n³ operations.
MAX_COMPARED, COMPARED_RIDGES = 512, (0.01, 0.1, 1.0)
# Inverse temperatures to choose from. Scores of ridge regression differ by about 1, hence none below 1/2.
INVERSE_TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 25))
# Numbers that the scores of all labels at several temperatures may have at a time: with many labels, one after another.
MAX_ENTRIES = 2**25
# Before any label is seen, log β is normal around log TYPICAL with this deviation: a few labels say little about it.
TYPICAL, DEVIATION = 6.0, 0.35
# Of the temperature in use, which is closer to what is typical for so many classes: with two, a node of score 1 has
# these log odds.
TYPICAL_ODDS, CALIBRATED_DEVIATION = 4.5, 0.2
# A kernel weighs exp(−n · (its loss − the lowest) / this), where n labels are compared: losses and kernels are
# correlated. Those that weigh less than MIN_WEIGHT are left out.
TEMPERING, MIN_WEIGHT = 3.0, 0.05
# Far neighbourhoods are tried unless −log p of the compared labels by the best of FARTHER exceeds that by the best of
# NEARER by more than this in all: then looking farther is clearly worse, and takes time.
CLEARLY = 5.0
# Edge weights by predicted classes have seen the labels, which makes their losses too low by a few percent.
OPTIMISM = 1.1
# Where there are more labels, at least this many of the best kernels are compared once more, on this many labels.
FINALISTS, MAX_COMPARED_FINALLY = 10, 1536
# The graph whose edges are weighed by node features alone; "agreement 1" and so on also by predictions.
BY_FEATURES = "agreement 0"


@dataclass(frozen=True, eq=False)
class RidgeChoice:
    """The settings of a ridge regression that leave-one-out has chosen.

    Attributes
    ----------
    kernels : tuple of ChosenKernel
        The kernels to average, and their weights.
    edge_weights : mapping of str to Tensor
        The edge weights of those graphs that have others than the given ones, `[E]` each.
    mean_cosine : float or None
        That of the features at both ends of the edges that these weights are relative to.
    ridge, inverse_temperature : float
        λ, and β of the probabilities softmax(β · scores).
    loss : float
        The mean leave-one-out −log p, and the prior of the temperature.
    num_labels : int
        The number of labels that the settings were chosen with.
    seed : int
    inducing : Tensor
        Inducing points, int64 `[m]`; without need of them where the solution is `exact`.
    pseudo_fraction : float
        The fraction of the predictions that are pseudo-labels.
    """

    kernels: tuple[ChosenKernel, ...]
    edge_weights: Mapping[str, Tensor]
    mean_cosine: float | None
    ridge: float
    inverse_temperature: float
    loss: float
    num_labels: int
    seed: int
    inducing: Tensor
    exact: bool
    pseudo_fraction: float = 0.0


def choose(
    settings: KernelRidge, inputs: RidgeInputs[System], labels: Tensor, num_classes: int, seed: int
) -> tuple[RidgeChoice, System]:
    """The settings with the best leave-one-out predictions of these labels, int64 `[N]`, and the system of them."""
    nodes = (labels >= 0).nonzero().squeeze(1)
    selection = KernelSelection(settings, inputs, labels, num_classes, seed)
    kernels = selection.best()
    used = {chosen.graph for chosen in kernels}
    edge_weights = {name: weight for name, weight in selection.edge_weights.items() if name in used}
    exact, count = is_exact(len(nodes), len(labels)), max(settings.inducing, min(len(nodes), inputs.max_inducing))
    inducing = draw_inducing(nodes, len(labels), count, seed)
    system = inputs.system(MixtureKernel(selection.graphs, kernels), nodes, None if exact else inducing)
    loss, ridge, beta = choose_settings(system, labels[nodes], num_classes)
    return RidgeChoice(
        kernels, edge_weights, selection.mean_cosine, ridge, beta, loss, len(nodes), seed, inducing, exact
    ), system


class KernelSelection:
    """The kernels of a `KernelRidge` with the best leave-one-out predictions, and the graphs that they are on.

    Parameters
    ----------
    settings : KernelRidge
        The kernels to choose from.
    inputs : RidgeInputs
    labels : Tensor
        int64 `[N]`, -1 for unlabelled nodes.
    num_classes, seed : int

    Attributes
    ----------
    graphs : dict
        The filtered features that were compared, by name of the graph; "x" is the one as it is given.
    edge_weights : dict
        The edge weights of those graphs that have others than the given ones.
    mean_cosine : float or None
        The mean cosine of the features at both ends of an edge, where edges were weighed.
    """

    def __init__(
        self, settings: KernelRidge, inputs: RidgeInputs[Any], labels: Tensor, num_classes: int, seed: int
    ) -> None:
        self.graphs: dict[str, FilteredFeatures] = {}
        self.edge_weights: dict[str, Tensor] = {}
        self.mean_cosine: float | None = None
        self._settings, self._inputs, self._labels, self._num_classes, self._seed = (
            settings, inputs, labels, num_classes, seed
        )  # fmt: skip
        self._nodes = compared_nodes(labels, seed)
        self._losses: dict[ChosenKernel, float] = {}
        self._compare_all()

    def _compare_all(self) -> None:
        settings, inputs = self._settings, self._inputs
        has_wide = len(inputs.widths) > 1
        kernels = settings.kernels if has_wide else tuple(dict.fromkeys((*settings.kernels, *settings.wide_kernels)))
        may_try_far = bool(settings.far_kernels or settings.topology_kernels)
        prepared = (*kernels, *FARTHER, *NEARER) if may_try_far else kernels
        self._compare("x", inputs.graph("x", prepared), kernels)
        if has_wide and settings.wide_kernels:
            self._compare("wide", inputs.graph("wide", settings.wide_kernels), settings.wide_kernels)
        far = may_try_far and self._try_far_kernels()
        if far or not inputs.has_features:
            # Without node features, x are the rows of the adjacency.
            own = () if inputs.has_features else settings.topology_kernels
            kernels = (*own, *settings.far_kernels)
            self.graphs["x"].extend(filters_of(kernels))
            self._compare("x", self.graphs["x"], kernels)
        if far and settings.topology_kernels and inputs.has_features:
            topology = inputs.graph("topology", settings.topology_kernels)
            self._compare("topology", topology, settings.topology_kernels)
        if settings.agreement is not None and isinstance(inputs, MemoryInputs) and inputs.adjacency.num_edges:
            reweighted = (*REWEIGHTED_KERNELS, *FAR_REWEIGHTED_KERNELS) if far else REWEIGHTED_KERNELS
            self._weigh_edges(inputs, settings.agreement.rounds, reweighted)

    def _compare(self, name: str, graph: FilteredFeatures, kernels: Sequence[FilterKernel]) -> None:
        """Adds a graph, and the losses of these kernels on it."""
        self.graphs[name] = graph
        self._losses |= self._losses_of([ChosenKernel(name, kernel) for kernel in kernels], self._nodes)

    def _losses_of(self, kernels: Sequence[ChosenKernel], nodes: Tensor) -> dict[ChosenKernel, float]:
        """The leave-one-out loss of each kernel on these labels."""
        losses = {}
        for kernel in kernels:
            loss = kernel_loss(MixtureKernel(self.graphs, [kernel]), nodes, self._labels[nodes], self._num_classes)
            has_seen_labels = kernel.graph in self.edge_weights and kernel.graph != BY_FEATURES
            losses[kernel] = loss * (OPTIMISM if has_seen_labels else 1)
        return losses

    def _try_far_kernels(self) -> bool:
        """True unless four-hop features are clearly worse than two-hop features."""
        farther, nearer = ([ChosenKernel("x", kernel) for kernel in kernels] for kernels in (FARTHER, NEARER))
        unknown = [kernel for kernel in (*farther, *nearer) if kernel not in self._losses]
        losses = self._losses | self._losses_of(unknown, self._nodes)
        excess = min(losses[kernel] for kernel in farther) - min(losses[kernel] for kernel in nearer)
        return len(self._nodes) * excess <= CLEARLY

    def _weigh_edges(self, inputs: MemoryInputs, rounds: int, kernels: Sequence[FilterKernel]) -> None:
        """Adds graphs whose edges are weighed by the agreement of features and of predictions, and their losses."""
        alike, self.mean_cosine = inputs.feature_agreement()
        for round in range(1 + rounds):
            weight = alike
            if round:
                weight = alike * class_agreement(self._preliminary(), inputs.adjacency.edge_index)
            name = f"agreement {round}"
            self.edge_weights[name] = weight
            self._compare(name, inputs.graph(name, kernels, weight), kernels)

    def _preliminary(self) -> Tensor:
        """The probabilities by the best kernels so far; labelled nodes are predicted without their own label."""
        count = self._settings.max_kernels if is_exact(len(self._nodes), len(self._labels)) else 1
        narrow = {kernel: loss for kernel, loss in self._losses.items() if kernel.graph != "wide"}  # faster
        kernel = MixtureKernel(self.graphs, best_kernels(narrow, count, len(self._nodes)))
        system, classes = ExactSystem(kernel).with_nodes(self._nodes), self._labels[self._nodes]
        _, ridge, beta, _ = choose_ridge(system, classes, self._num_classes)
        targets = class_targets(classes, self._num_classes)
        scores = system.scores(targets, ridge)
        scores[self._nodes] = system.left_out(targets, ridge).float()
        return torch.softmax(beta * scores, dim=1)

    def best(self) -> tuple[ChosenKernel, ...]:
        """The best kernels and their weights."""
        losses, nodes, count = self._losses, self._nodes, self._settings.max_kernels
        if int((self._labels >= 0).sum()) > MAX_COMPARED:
            nodes = compared_nodes(self._labels, self._seed, MAX_COMPARED_FINALLY)
            losses = self._losses_of(sorted(losses, key=losses.__getitem__)[: max(FINALISTS, count)], nodes)
        return best_kernels(losses, count, len(nodes))


def fit_inverse_temperature(
    scores: Tensor,
    classes: Tensor,
    temperatures: Sequence[float] = INVERSE_TEMPERATURES,
    deviation: float = math.inf,
) -> tuple[float, float]:
    """The inverse temperature β for which softmax(β·scores) has the lowest mean −log p of `classes`, and that loss.

    It includes −log of the prior of β, relative to its mode and divided by the number of labels, if the prior has a
    finite `deviation`.

    >>> fit_inverse_temperature(torch.tensor([[0.9, 0.1], [0.2, 0.8]]).double(), torch.tensor([0, 1]))[0]
    64.0
    """
    losses = _temperature_losses(scores, classes, temperatures)
    losses += _minus_log_prior(losses, temperatures, TYPICAL, deviation) / len(classes)
    loss, best = losses.min(0)
    return temperatures[int(best)], float(loss)


def mean_inverse_temperature(scores: Tensor, classes: Tensor) -> float:
    """The posterior mean of log β, as β.

    Likelihoods are tempered as for kernels. Scores depend on the same labels. The mean errs less than the single best
    one: with few labels, that one follows whichever of them happens to be certain.

    >>> mean_inverse_temperature(torch.tensor([[0.9, 0.1], [0.2, 0.8]]).double(), torch.tensor([0, 1])) < 64
    True
    """
    losses = _temperature_losses(scores, classes, INVERSE_TEMPERATURES) * len(classes) / TEMPERING
    typical = typical_inverse_temperature(scores.shape[1])
    losses += _minus_log_prior(losses, INVERSE_TEMPERATURES, typical, CALIBRATED_DEVIATION)
    logs = torch.tensor(INVERSE_TEMPERATURES, dtype=losses.dtype, device=losses.device).log()
    return math.exp(float(torch.softmax(-losses, 0) @ logs))


def typical_inverse_temperature(num_classes: int) -> float:
    """The inverse temperature to expect: the more other classes there are, the higher for the same certainty."""
    return TYPICAL_ODDS + math.log(max(num_classes - 1, 1))


def _temperature_losses(scores: Tensor, classes: Tensor, temperatures: Sequence[float]) -> Tensor:
    """The mean −log p at each temperature, `[T]`: that of the own class is log Σₖ exp(β (sₖ − s))."""
    beta = torch.tensor(temperatures, dtype=scores.dtype, device=scores.device)
    behind = scores - scores.gather(1, classes[:, None])
    at_once = max(1, MAX_ENTRIES // max(1, behind.numel()))
    parts = (torch.logsumexp(part[:, None, None] * behind, dim=2).mean(1) for part in torch.split(beta, at_once))
    return torch.cat(list(parts))


def _minus_log_prior(like: Tensor, temperatures: Sequence[float], typical: float, deviation: float) -> Tensor:
    """−log of the prior at each temperature, relative to its mode, `[T]`."""
    beta = torch.tensor(temperatures, dtype=like.dtype, device=like.device)
    return (beta / typical).log().div(deviation).square() / 2


def compared_nodes(labels: Tensor, seed: int, most: int = MAX_COMPARED) -> Tensor:
    """The labelled nodes that kernels are compared on, in ascending order: all, or `most` at random."""
    nodes = (labels >= 0).nonzero().squeeze(1)
    if len(nodes) <= most:
        return nodes
    chosen = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))[:most]
    return nodes[chosen.sort().values.to(nodes.device)]


def kernel_loss(kernel: MixtureKernel, nodes: Tensor, classes: Tensor, num_classes: int) -> float:
    """The leave-one-out loss of a kernel, with the best of a few ridges and temperatures."""
    points = kernel.points(nodes)
    gram, targets = kernel.between(points, points), class_targets(classes, num_classes).float()
    left_out = (left_out_scores(gram, targets, ridge) for ridge in COMPARED_RIDGES)
    return min(fit_inverse_temperature(scores, classes, INVERSE_TEMPERATURES[::2])[1] for scores in left_out)


def choose_ridge(system: RidgeSystem, classes: Tensor, num_classes: int) -> tuple[float, float, float, Tensor]:
    """The lowest leave-one-out loss, with the prior of the temperature; its ridge, inverse temperature and scores."""
    path, candidates = system.path(class_targets(classes, num_classes), RIDGES), []
    for place, (scores, ridge) in enumerate(zip(path, RIDGES, strict=True)):
        beta, loss = fit_inverse_temperature(scores, classes, deviation=DEVIATION)
        candidates.append((loss, ridge, beta, place))
    loss, ridge, beta, place = min(candidates)
    return loss, ridge, beta, path[place]


def choose_settings(system: RidgeSystem, classes: Tensor, num_classes: int) -> tuple[float, float, float]:
    """The loss and the ridge of `choose_ridge`, and the inverse temperature for calibrated probabilities."""
    loss, ridge, _, left_out = choose_ridge(system, classes, num_classes)
    return loss, ridge, mean_inverse_temperature(left_out, classes)


def best_kernels(losses: Mapping[ChosenKernel, float], count: int, compared: int) -> tuple[ChosenKernel, ...]:
    """The kernels of lowest loss on so many compared labels, with their weights: at most `count`."""
    best = sorted(losses, key=losses.__getitem__)[:count]
    weights = [math.exp(-compared * (losses[kernel] - losses[best[0]]) / TEMPERING) for kernel in best]
    pairs = zip(best, weights, strict=True)
    return tuple(replace(kernel, weight=weight) for kernel, weight in pairs if weight >= MIN_WEIGHT)
