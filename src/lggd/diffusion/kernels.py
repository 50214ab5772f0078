"""Diffusion kernels: functions S of a transition matrix T, as Chebyshev series in T."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import ive

from lggd.estimator.settings import saveable
from lggd.validation import check_real

# Truncation error of the series. Entries of S below it cannot be distinguished from 0.
TOLERANCE = 1e-10
# At these limits a series has thousands of terms, about a minute on a graph of Cora's size. Beyond them rounding may
# keep the coefficients of PageRank from ever summing to 1.
MIN_ALPHA, MAX_T = 1e-5, 1e6


@saveable
@dataclass(frozen=True)
class PPR:
    """Personalized PageRank: S = α (I - (1 - α) T)⁻¹ = Σₖ α (1 - α)ᵏ Tᵏ.

    Parameters
    ----------
    alpha : float
        Restart probability α, in [1e-5, 1]. The smaller it is, the wider the diffusion; the cost grows as 1/√α.

    Examples
    --------
    >>> PPR(alpha=1).chebyshev_coefficients()
    [1.0]
    """

    alpha: float = 0.05

    def __post_init__(self) -> None:
        check_real("alpha", self.alpha, MIN_ALPHA, 1, remedy="The diffusion widens without bound towards 0; use 0.05.")

    def chebyshev_coefficients(self, tolerance: float = TOLERANCE) -> list[float]:
        """Return the coefficients of S in Chebyshev polynomials of T, truncated at the tolerance.

        In closed form: 2α/√(1 - (1 - α)²) · rᵏ with r = (1 - α) / (1 + √(1 - (1 - α)²)), half of it for k = 0.
        """
        root = math.sqrt(1 - (1 - self.alpha) ** 2)
        ratio = (1 - self.alpha) / (1 + root)
        return _truncated_series(lambda order: self.alpha / root * ratio**order, tolerance)


@saveable
@dataclass(frozen=True)
class Heat:
    """Heat kernel: S = exp(-t (I - T)) = e^-t Σₖ tᵏ/k! Tᵏ.

    Parameters
    ----------
    t : float
        Diffusion time, in (0, 1e6]. The larger it is, the wider the diffusion; the cost grows as √t.

    Examples
    --------
    >>> round(sum(Heat(t=1.0).chebyshev_coefficients()), 8)
    1.0
    """

    t: float = 5.0

    def __post_init__(self) -> None:
        rule = f"be positive and at most {MAX_T:g}"
        check_real("t", self.t, 0, MAX_T, closed="right", rule=rule, remedy="It is the diffusion time; use 5.")

    def chebyshev_coefficients(self, tolerance: float = TOLERANCE) -> list[float]:
        """Return the coefficients of S in Chebyshev polynomials of T: 2e^-t Iₖ(t), Bessel; half of it for k = 0."""
        return _truncated_series(lambda order: ive(order, self.t), tolerance)


def _truncated_series(half: Callable[[int], float], tolerance: float) -> list[float]:
    """The coefficients half(0), 2·half(1), 2·half(2), … until the remainder is at most the tolerance.

    All are positive and sum to 1, the value of S at the eigenvalue 1 of T. This gives the remainder.
    """
    coefficients = [float(half(0))]
    for order in itertools.count(1):
        if 1 - math.fsum(coefficients) <= tolerance:
            break
        coefficients.append(2 * float(half(order)))
    return coefficients
