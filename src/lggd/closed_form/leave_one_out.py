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
    beta = torch.tensor(temperatures, dtype=scores.dtype, device=scores.device)
    own = scores.gather(1, classes[:, None])
    prior = (beta / TYPICAL).log().div(deviation).square() / 2
    # −log p of the own class is log Σₖ exp(β (sₖ − s)).
    behind = scores - own
    at_once = max(1, MOST_ENTRIES // max(1, behind.numel()))
    parts = (torch.logsumexp(part[:, None, None] * behind, dim=2).mean(1) for part in torch.split(beta, at_once))
    losses = torch.cat(list(parts)) + prior / len(classes)
    loss, best = losses.min(0)
    return temperatures[int(best)], float(loss)


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
    path = system.path(class_targets(classes, num_classes), ridges)
    found = []
    for scores, ridge in zip(path, ridges, strict=True):
        beta, loss = fit_inverse_temperature(scores, classes, deviation=DEVIATION)
        found.append((loss, ridge, beta))
    return min(found)


def best_kernels(losses: Mapping[Member, float], count: int, compared: int) -> tuple[Member, ...]:
    """The kernels of lowest loss on so many compared labels, with their weights: at most `count`."""
    best = sorted(losses, key=losses.__getitem__)[:count]
    weights = [math.exp(-compared * (losses[member] - losses[best[0]]) / TEMPERING) for member in best]
    pairs = zip(best, weights, strict=True)
    return tuple(replace(member, weight=weight) for member, weight in pairs if weight >= LEAST_WEIGHT)
