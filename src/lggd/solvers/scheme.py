"""Time stepping schemes: explicit Runge-Kutta tableaus, and how large a step each of them bears.

With `z = step · max_i ρ(i)‖√w(i,·)‖_p` there are two limits:

- monotone, z = 1 for all of them: up to it no node falls below the distance it comes down to, from any start. Above it
  a node that starts far up (at 10⁶, say) can be thrown, or drag its neighbours, as far below zero, from where they
  climb back by only one unit a unit of time. For Euler this is a theorem, for SSPRK3 too (it averages Euler steps). For
  RK4 it is where the fourth stage changes sign: it stands at (1 − z)(1 + z²/3) of where the step began.
- stable: above it values can grow without bound or circle around the answer. It is refused unless `force=True`.

For p = 1 the slopes form a triangular matrix, so the stable limit is the scheme's classical one on the real axis. For
p > 1 they do not, and steps with z above about 1.1 have been seen to diverge: there both limits are 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from lggd.errors import InputError, InputTypeError

MONOTONE = 1.0


@dataclass(frozen=True)
class Tableau:
    """Stage s starts from f + h Σ_r `stages[s][r]` k_r; the step ends at f + h Σ_r `weights[r]` k_r."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]

    def coefficients(self, s: int) -> tuple[float, ...]:
        """What to add up once slope s is known: the start of stage s + 1, or the end of the step."""
        return self.weights if s + 1 == len(self.weights) else self.stages[s + 1]


@dataclass(frozen=True)
class _FixedStep:
    """`step=None` takes the largest step within the monotone limit; `force=True` admits one above the stable limit."""

    step: float | None = None
    force: bool = False
    stable: ClassVar[float]

    def __post_init__(self) -> None:
        if self.step is not None and not (isinstance(self.step, Real) and 0 < self.step < math.inf):
            raise InputError("step", "be positive", self.step, "Use step=None for the largest safe one.")

    def stable_at(self, p: float) -> float:
        """The largest stable z for this exponent."""
        return self.stable if p == 1 else MONOTONE


@dataclass(frozen=True)
class Euler(_FixedStep):
    """Forward Euler, first order: f + h·F(f)."""

    stable: ClassVar[float] = 2.0
    tableau: ClassVar[Tableau] = Tableau(((),), (1.0,))


@dataclass(frozen=True)
class SSPRK3(_FixedStep):
    """Shu and Osher's third-order scheme: as careful with kinks as Euler, and far more accurate."""

    stable: ClassVar[float] = 2.512
    tableau: ClassVar[Tableau] = Tableau(((), (1.0,), (0.25, 0.25)), (1 / 6, 1 / 6, 2 / 3))


@dataclass(frozen=True)
class RK4(_FixedStep):
    """The 3/8 rule, fourth order: what torchdiffeq calls rk4, and so what the paper ran."""

    stable: ClassVar[float] = 2.785
    tableau: ClassVar[Tableau] = Tableau(((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8))


FixedStep = Euler | SSPRK3 | RK4


def choose_step(scheme: FixedStep, p: float, bound: float) -> tuple[float, bool]:
    """The step to take where max ρ‖√w‖_p is `bound`, and whether it lies above the monotone limit."""
    if not isinstance(scheme, FixedStep):
        raise InputTypeError("scheme", "be a stepping scheme such as RK4()", repr(scheme))
    stable = scheme.stable_at(p)
    monotone = MONOTONE / bound if bound else math.inf
    if scheme.step is None:
        return monotone, False
    # A step chosen to meet the limit exactly must not be refused for its last bit.
    if scheme.step * bound > stable * (1 + 1e-6) and not scheme.force:
        raise InputError(
            "step",
            (
                f"be at most {stable / bound:.4g} on this graph (step × max ρ‖√w‖_p must not exceed {stable} for "
                f"{type(scheme).__name__})"
            ),
            f"{scheme.step:g}, where it is {scheme.step * bound:.4g}",
            "Use step=None, a smaller potential such as DegreePotential(-1), or force=True.",
        )
    return scheme.step, scheme.step > monotone * (1 + 1e-6)


@dataclass(frozen=True)
class TorchDiffEq:
    """The same evolution through the package torchdiffeq, for parity with the paper's code and as an oracle.

    `adjoint=True` takes gradients from the continuous adjoint, which is inexact across the kinks of this equation.
    Needs `pip install torchdiffeq`. Its fixed-step methods ignore tolerances. Steps are not checked for stability.
    """

    method: str = "rk4"
    step: float | None = None
    adjoint: bool = False
    rtol: float = 1e-7
    atol: float = 1e-9
