"""How sure an accuracy is: Wilson's interval, and McNemar's exact test of two models on the same nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from lggd.errors import InputError
from lggd.validation import check_int

CONFIDENCE, SIGNIFICANCE_LEVEL = 0.95, 0.05


def wilson_interval(correct: int, total: int) -> tuple[float, float]:
    """Returns the 95 % confidence interval of an accuracy in percent, also for few nodes (Wilson, 1927).

    Parameters
    ----------
    correct, total : int
        Number of nodes that are classified correctly, and of all tested nodes, at least one.

    Examples
    --------
    >>> low, high = wilson_interval(5, 6)
    >>> round(low, 1), round(high, 1)
    (43.6, 97.0)
    """
    check_int("total", total, minimum=1)
    if not 0 <= correct <= total:
        raise InputError("correct", f"lie in 0..{total}, the number of tested nodes", correct)
    interval = binomtest(correct, total).proportion_ci(CONFIDENCE, method="wilson")
    return 100 * float(interval.low), 100 * float(interval.high)


@dataclass(frozen=True)
class McNemarTest:
    """Two models on the same nodes: how many only the first, or only the second, classifies correctly.

    `p` is the two-sided p-value of McNemar's exact test: the probability of counts at least as unequal if both models
    were equally good. Nodes on which they agree carry no information.
    """

    only_first: int
    only_second: int
    p: float

    @property
    def is_clear(self) -> bool:
        return self.p < SIGNIFICANCE_LEVEL

    @classmethod
    def of(cls, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemarTest:
        """Compares which nodes each of the models classifies correctly."""
        only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
        discordant = only_first + only_second
        return cls(only_first, only_second, float(binomtest(only_first, discordant).pvalue) if discordant else 1.0)
