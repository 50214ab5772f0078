"""Temperature scaling: probabilities from scores, calibrated on leave-one-out predictions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

# Inverse temperatures to choose from. Scores of ridge regression differ by less than 1, hence none below 1/2.
INVERSE_TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 25))


def fit_temperature(scores: Tensor, classes: Tensor) -> tuple[float, float]:
    """The inverse temperature β for which softmax(β·scores) has the lowest mean −log p of `classes`, and that loss.

    >>> fit_temperature(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 1]))[0]
    64.0
    """
    losses = torch.stack([cross_entropy(beta * scores, classes) for beta in INVERSE_TEMPERATURES])
    best = int(losses.argmin())
    return INVERSE_TEMPERATURES[best], float(losses[best])
