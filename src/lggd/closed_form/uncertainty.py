"""Labels that look wrong, and the nodes whose labels would tell most."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SuspiciousLabels:
    """All labels, the most suspicious first; see `KernelRidge.suspicious_labels`.

    Attributes
    ----------
    nodes : Tensor
        The labelled nodes, int64 `[n]`.
    labels : Tensor
        Their labels, int64 `[n]`.
    probability : Tensor
        The probability of that label by all other labels, float32 `[n]`, in ascending order.
    suggested : Tensor
        The most probable class by all other labels, int64 `[n]`: the label itself where they confirm it.
    suggested_probability : Tensor
        Its probability, float32 `[n]`.
    """

    nodes: Tensor
    labels: Tensor
    probability: Tensor
    suggested: Tensor
    suggested_probability: Tensor

    def __len__(self) -> int:
        return len(self.nodes)


def margins(probabilities: Tensor) -> Tensor:
    """How much more probable the first class is than the second, `[N]`; 1 where there is one class."""
    best = probabilities.topk(min(2, probabilities.shape[1]), dim=1).values
    return best[:, 0] - best[:, 1] if best.shape[1] > 1 else best[:, 0]


def greedy_choice(covariance: Tensor, candidates: Tensor, doubt: Tensor, ridge: float, count: int) -> Tensor:
    """The positions of `count` candidates that reduce the variance most, weighted by `doubt [N]`, one after another.

    A label of candidate j, whatever its class, turns the covariance c `[C, N]` into c − c[:, j] c[j] / (c[j, j] + λ),
    which reduces the variance of node i by c[j, i]² / (c[j, j] + λ).
    """
    covariance, weight = covariance.clone(), doubt.to(covariance.dtype).clamp(min=0)
    rows, free = torch.arange(len(candidates), device=candidates.device), torch.ones_like(candidates, dtype=torch.bool)
    chosen: list[Tensor] = []
    for _ in range(min(count, len(candidates))):
        gain = covariance.square() @ weight / (covariance[rows, candidates].clamp(min=0) + ridge)
        best = gain.masked_fill(~free, -torch.inf).argmax()
        chosen.append(best)
        free[best] = False
        # The kernel is symmetric: the column of a candidate among candidates is part of its row.
        row = covariance[best] / (covariance[best, candidates[best]].clamp(min=0) + ridge)
        covariance.addr_(covariance[best, candidates], row, alpha=-1)
    return torch.stack(chosen) if chosen else candidates.new_empty(0)
