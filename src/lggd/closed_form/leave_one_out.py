"""Settings by leave-one-out: kernels, ridge and temperature, compared on the labels themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lggd.closed_form.kernels import Member, MixtureKernel
from lggd.closed_form.ridge import class_targets, solve_dual
from lggd.closed_form.systems import RidgeSystem

RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Kernels are compared on at most this many labels, with these ridges: solving takes n³ operations.
MOST_COMPARED, COMPARED_RIDGES = 512, (0.01, 0.1, 1.0)
# Inverse temperatures to choose from. Scores of ridge regression differ by about 1, hence none below 1/2.
INVERSE_TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 25))
# Numbers that the scores of all labels at several temperatures may have at a time: with many labels, one after another.
MOST_ENTRIES = 2**25
# Before any label is seen, log β is normal around log TYPICAL with this deviation: a few labels say little about it.
TYPICAL, DEVIATION = 6.0, 0.35
# Of the temperature in use, which is closer to what is typical for so many classes: with two, a node of score 1 has
# these log odds.
TYPICAL_ODDS, CALIBRATED_DEVIATION = 4.5, 0.2
# A kernel weighs exp(−n · (its loss − the lowest) / this), where n labels are compared: their −log p is not
# independent of the choice, nor are kernels of each other. Those that weigh less than LEAST_WEIGHT are left out.
TEMPERING, LEAST_WEIGHT = 3.0, 0.05


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
    """The posterior mean of log β, as β: likelihoods are tempered as those of kernels are, which scores depend on.

    It errs less than the single best one: with few labels, that follows whichever of them happens to be certain.

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
    at_once = max(1, MOST_ENTRIES // max(1, behind.numel()))
    parts = (torch.logsumexp(part[:, None, None] * behind, dim=2).mean(1) for part in torch.split(beta, at_once))
    return torch.cat(list(parts))


def _minus_log_prior(like: Tensor, temperatures: Sequence[float], typical: float, deviation: float) -> Tensor:
    """−log of the prior at each temperature, relative to its mode, `[T]`."""
    beta = torch.tensor(temperatures, dtype=like.dtype, device=like.device)
    return (beta / typical).log().div(deviation).square() / 2


def compared_nodes(labels: Tensor, seed: int, most: int = MOST_COMPARED) -> Tensor:
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
    left_out = (solve_dual(gram, targets, ridge)[1] for ridge in COMPARED_RIDGES)
    return min(fit_inverse_temperature(scores, classes, INVERSE_TEMPERATURES[::2])[1] for scores in left_out)


def choose_ridge(
    system: RidgeSystem, classes: Tensor, num_classes: int, ridges: Sequence[float] = RIDGES
) -> tuple[float, float, float]:
    """The lowest leave-one-out loss, with the prior of the temperature, and its ridge and inverse temperature."""
    return _best_of(system.path(class_targets(classes, num_classes), ridges), classes, ridges)[:3]


def choose_settings(system: RidgeSystem, classes: Tensor, num_classes: int) -> tuple[float, float, float]:
    """The loss and the ridge of `choose_ridge`, and the inverse temperature for calibrated probabilities."""
    path = system.path(class_targets(classes, num_classes), RIDGES)
    loss, ridge, _, place = _best_of(path, classes, RIDGES)
    return loss, ridge, mean_inverse_temperature(path[place], classes)


def _best_of(path: Tensor, classes: Tensor, ridges: Sequence[float]) -> tuple[float, float, float, int]:
    """The lowest loss of leave-one-out scores `[R, n, K]`, its ridge and inverse temperature, and its place."""
    found = []
    for place, (scores, ridge) in enumerate(zip(path, ridges, strict=True)):
        beta, loss = fit_inverse_temperature(scores, classes, deviation=DEVIATION)
        found.append((loss, ridge, beta, place))
    return min(found)


def best_kernels(losses: Mapping[Member, float], count: int, compared: int) -> tuple[Member, ...]:
    """The kernels of lowest loss on so many compared labels, with their weights: at most `count`."""
    best = sorted(losses, key=losses.__getitem__)[:count]
    weights = [math.exp(-compared * (losses[member] - losses[best[0]]) / TEMPERING) for member in best]
    pairs = zip(best, weights, strict=True)
    return tuple(replace(member, weight=weight) for member, weight in pairs if weight >= LEAST_WEIGHT)
