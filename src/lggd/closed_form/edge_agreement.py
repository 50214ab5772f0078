"""Edge weights by agreement: an edge counts as much as its two ends have in common."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lggd.estimator.settings import saveable
from lggd.validation import check_int


@saveable
@dataclass(frozen=True)
class EdgeAgreement:
    """Weigh each edge by the agreement of its ends: of their node features, then of their predicted classes.

    Parameters
    ----------
    rounds : int
        How often the edges are weighed again by the predictions of the round before.

    Examples
    --------
    >>> import lggd
    >>> lggd.KernelRidge(agreement=lggd.EdgeAgreement(rounds=1)).agreement
    EdgeAgreement(rounds=1)
    """

    rounds: int = 2

    def __post_init__(self) -> None:
        check_int("rounds", self.rounds, minimum=0)


# Weights by features are relative to the mean, and within these bounds; weights by classes are at least
# LEAST_AGREEMENT, so that a wrong prediction does not cut a node off.
FEATURE_BOUNDS = (0.1, 3.0)
LEAST_AGREEMENT = 0.02
# Products are computed in parts of this many numbers, which stay in the cache of a CPU.
MOST_ENTRIES = 2**18


def edge_cosines(x: Tensor, edge_index: Tensor) -> Tensor:
    """The cosine of the features at both ends, `[E]`."""
    ends, places = torch.unique(edge_index, return_inverse=True)
    return edge_products(normalize(x[ends]), places)


def relative_agreement(cosine: Tensor, mean: float) -> Tensor:
    """The cosine relative to the mean, within `FEATURE_BOUNDS`, `[E]`."""
    if not mean > 0:  # features without a common direction: none of them is more typical than another
        return torch.ones_like(cosine)
    return (cosine / mean).clamp(*FEATURE_BOUNDS)


def class_agreement(probabilities: Tensor, edge_index: Tensor) -> Tensor:
    """The probability that both ends have the same class, at least `LEAST_AGREEMENT`, `[E]`."""
    return edge_products(probabilities, edge_index).clamp(min=LEAST_AGREEMENT)


def edge_products(values: Tensor, edge_index: Tensor) -> Tensor:
    """⟨values[i], values[j]⟩ for each edge (i, j), `[E]`; in parts, as there may be many more edges than nodes."""
    size = max(1, MOST_ENTRIES // values.shape[1])
    parts = [(values[i] * values[j]).sum(1) for i, j in (part.unbind(0) for part in torch.split(edge_index, size, 1))]
    return torch.cat(parts) if parts else values.new_empty(0)
