"""Time stepping schemes: explicit Runge-Kutta tableaus, and the largest step that each of them allows.

With `z = step · max_i ρ(i)‖√w(i,·)‖_p` there are two limits:

- monotone, z = 1 for all of them: up to it no node falls below the distance it converges to, from any start. Above it
  a node that starts high (at 10⁶, say) can overshoot, or pull its neighbours, as far below zero, from where they
  rise again by only one unit per unit of time. For Euler this is a theorem, for SSPRK3 too (it averages Euler steps).
  For RK4 it is where the fourth stage changes sign: it is (1 − z)(1 + z²/3) times the value at the start of the step.
- stable: above it values can grow without bound or oscillate around the answer. It is refused unless `force=True`.

For p = 1 the slopes form a triangular matrix, so the stable limit is the scheme's classical one on the real axis. For
p > 1 they do not, and steps with z above about 1.1 have been observed to diverge: there both limits are 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from lggd.errors import InputError, InputTypeError
from lggd.kernels import Field
from lggd.validation import check_positive

MONOTONE = 1.0


@dataclass(frozen=True)
class Tableau:
    """Stage s starts from f + h Σ_r `stages[s][r]` k_r; the step ends at f + h Σ_r `weights[r]` k_r."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class _FixedStep:
    step: float | None = None
    force: bool = False
    stable: ClassVar[float]

    def __post_init__(self) -> None:
        if self.step is not None:
            check_positive("step", self.step, "Use step=None for the largest safe step.")

    def stable_at(self, p: float) -> float:
        """The largest stable z for this exponent."""
        return self.stable if p == 1 else MONOTONE


@dataclass(frozen=True)
class Euler(_FixedStep):
    """Forward Euler, first order: f + h·F(f).

    Parameters
    ----------
    step : float, optional
        The step in time; None takes the largest one within the monotone limit.
    force : bool
        Allows a step above the stable limit.

    Examples
    --------
    >>> import lggd, torch
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> lggd.evolve(path, [0], start=torch.full((3,), 5.0), times=[9.0], scheme=Euler(step=0.5)).statistics.steps
    18
    """

    stable: ClassVar[float] = 2.0
    tableau: ClassVar[Tableau] = Tableau(((),), (1.0,))


@dataclass(frozen=True)
class SSPRK3(_FixedStep):
    """Shu and Osher's strong-stability-preserving scheme, third order: as robust at kinks as Euler, more accurate.

    Parameters
    ----------
    step, force
        As for `Euler`.

    Examples
    --------
    >>> import lggd, torch
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> found = lggd.evolve(path, [0], start=torch.full((3,), 5.0), times=[9.0], scheme=SSPRK3())
    >>> found.statistics.evaluations == 3 * found.statistics.steps  # three stages per step
    True
    """

    stable: ClassVar[float] = 2.512
    tableau: ClassVar[Tableau] = Tableau(((), (1.0,), (0.25, 0.25)), (1 / 6, 1 / 6, 2 / 3))


@dataclass(frozen=True)
class RK4(_FixedStep):
    """The 3/8 rule, fourth order: torchdiffeq's rk4, which the paper used.

    Parameters
    ----------
    step, force
        As for `Euler`.

    Examples
    --------
    >>> import lggd, torch
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> found = lggd.evolve(path, [0], start=torch.full((3,), 5.0), times=[9.0], scheme=RK4(step=0.1))
    >>> found.statistics.step, found.statistics.steps
    (0.1, 90)
    """

    stable: ClassVar[float] = 2.785
    tableau: ClassVar[Tableau] = Tableau(((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8))


FixedStep = Euler | SSPRK3 | RK4


def choose_step(scheme: FixedStep, field: Field) -> tuple[float, bool]:
    """The step to take, infinite without edges, and whether it lies above the monotone limit."""
    check_scheme(scheme)
    return step_within(scheme, field.p, field.cfl_bound)


def check_scheme(scheme: FixedStep) -> FixedStep:
    """Returns the scheme if it is one."""
    if not isinstance(scheme, FixedStep):
        raise InputTypeError("scheme", "be a stepping scheme such as RK4()", repr(scheme))
    return scheme


def step_within(scheme: FixedStep, p: float, bound: float) -> tuple[float, bool]:
    """`choose_step` for the largest ρ(i)‖√w(i,·)‖_p of a graph."""
    stable = scheme.stable_at(p)
    monotone = MONOTONE / bound if bound else math.inf
    if scheme.step is None:
        return monotone, False
    # A step at exactly the limit must not be refused because of rounding.
    if scheme.step * bound > stable * (1 + 1e-6) and not scheme.force:
        product = f"step × max ρ‖√w‖_p must not exceed {stable} for {type(scheme).__name__}"
        received = f"{scheme.step:g}, where it is {scheme.step * bound:.4g}"
        remedy = "Use step=None, a smaller potential such as DegreePotential(-1), or force=True."
        raise InputError("step", f"be at most {stable / bound:.4g} on this graph ({product})", received, remedy)
    return scheme.step, scheme.step > monotone * (1 + 1e-6)


@dataclass(frozen=True)
class TorchDiffEq:
    """The evolution through the package torchdiffeq, for parity with the paper's code and as a reference.

    Needs `pip install torchdiffeq`. Steps are not checked for stability.

    Parameters
    ----------
    method : str
        A method of torchdiffeq.
    step : float, optional
        The step of its fixed-step methods, which ignore tolerances.
    adjoint : bool
        Uses the continuous adjoint for gradients, which is inexact at the kinks of this equation.
    rtol, atol : float
        Tolerances of its adaptive methods.

    Examples
    --------
    >>> TorchDiffEq("rk4", step=0.1)  # evolve(…, scheme=TorchDiffEq("rk4", step=0.1)), where torchdiffeq is installed
    TorchDiffEq(method='rk4', step=0.1, adjoint=False, rtol=1e-07, atol=1e-09)
    """

    method: str = "rk4"
    step: float | None = None
    adjoint: bool = False
    rtol: float = 1e-7
    atol: float = 1e-9
