"""Mixtures of predictions: their weights, and the plain distance to the labels as a part of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.closed_form.selection import fit_inverse_temperature
from lggd.distances import distance
from lggd.graph import Graph

# A prediction that is certain and wrong counts as this probable: it must not decide alone.
LEAST_LIKELIHOOD = 1e-4
# The mean log likelihood is then within −log(the smallest weight of the prior) / MIXTURE_ITERATIONS of the highest: the
# weights of parts that predict nearly the same may be farther from theirs, which matters little.
MIXTURE_ITERATIONS = 200
# The plain distance takes part only if it raises the log likelihood of left-out labels by this much: on graphs where
# unlike nodes are neighbours, it misleads.
LEAST_GAIN = 0.5


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
