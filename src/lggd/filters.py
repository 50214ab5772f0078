"""Graph filters: functions of a normalized adjacency, as Chebyshev series."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from numpy.polynomial.chebyshev import poly2cheb
from scipy.special import ive

from lggd.validation import check_instance, check_int, check_real

__all__ = ["PPR", "Heat", "HighPass", "Hops"]

# Truncation error of series. Entries of a diffusion below it cannot be distinguished from 0.
TOLERANCE = 1e-10
# At these limits a series has thousands of terms, about a minute on a graph of Cora's size. Beyond them rounding may
# keep the coefficients of PageRank from ever summing to 1.
MIN_ALPHA, MAX_T = 1e-5, 1e6


@dataclass(frozen=True)
class Hops:
    """The features `count` hops away: Âᵏ x, or with `self_loops=False` (D^-½ A D^-½)ᵏ x; `Hops(0)` is x itself.

    Parameters
    ----------
    count : int
        The number of hops k.
    self_loops : bool
        Whether a node is its own neighbour. If not, it does not see itself at one hop, which helps where neighbours
        belong to other classes.

    Examples
    --------
    >>> import lggd
    >>> kernel = lggd.kernels.FilterKernel((Hops(0), Hops(2)), lggd.kernels.Linear())
    >>> lggd.KernelRidge(kernels=(kernel,)).fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    count: int = 1
    self_loops: bool = True

    def __post_init__(self) -> None:
        check_int("count", self.count, minimum=0)
        check_instance("self_loops", self.self_loops, bool, "True or False")

    def chebyshev_coefficients(self, tolerance: float = TOLERANCE) -> list[float]:
        """Return the coefficients of zᵏ in Chebyshev polynomials, all of them for any tolerance.

        >>> Hops(2).chebyshev_coefficients()
        [0.5, 0.0, 0.5]
        """
        return [float(c) for c in poly2cheb([0] * self.count + [1])]


@dataclass(frozen=True)
class HighPass:
    """The difference between a node and its neighbourhood: x − Âx.

    Examples
    --------
    >>> HighPass().chebyshev_coefficients()
    [1.0, -1.0]
    """

    self_loops: ClassVar[bool] = True

    def chebyshev_coefficients(self, tolerance: float = TOLERANCE) -> list[float]:
        """Return those of 1 − z, exactly."""
        return [1.0, -1.0]


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

    self_loops: ClassVar[bool] = True
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

    self_loops: ClassVar[bool] = True
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


Filter = Hops | HighPass | PPR | Heat
