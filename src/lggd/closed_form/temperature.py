"""Temperature scaling: probabilities from scores, calibrated on leave-one-out predictions."""

from __future__ import annotations

import torch
from torch import Tensor

# Inverse temperatures to choose from. Scores of ridge regression differ by less than 1, hence none below 1/2.
INVERSE_TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 25))


def fit_temperature(scores: Tensor, classes: Tensor) -> tuple[float, float]:
    """The inverse temperature β for which softmax(β·scores) has the lowest mean −log p of `classes`, and that loss.

    >>> fit_temperature(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 1]))[0]
    64.0
    """
    beta = torch.tensor(INVERSE_TEMPERATURES, dtype=scores.dtype, device=scores.device)
    own = scores.gather(1, classes[:, None])
    # −log p of the own class = log Σₖ exp(β (sₖ − s)).
    losses = torch.logsumexp(beta[:, None, None] * (scores - own), dim=2).mean(1)
    loss, best = losses.min(0)
    return INVERSE_TEMPERATURES[int(best)], float(loss)
