"""What a solve returns: the values, how it ended, and what it took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from torch import Tensor


class Status(Enum):
    """How a solve ended; the text says what to do about it."""

    EXACT = "Exact: every node has its final value."
    UNREACHABLE = (
        "Exact, but some nodes cannot reach the boundary and are at distance inf. "
        "Add a source to their component if they should be reached."
    )
    REACHED = "The evolution reached its last time. It may still be on its way to the distance; see until='steady'."
    STEADY = "Steady: the residual is within `tol`, or as small as rounding allows."
    MAY_OVERSHOOT = (
        "Reached the last time with a step that is stable but may overshoot below the distance when the start lies far "
        "above it. Use step=None, or check statistics.residual."
    )
    NOT_STEADY = (
        "Stopped at `max_steps` before the residual was within `tol`. Raise max_steps or tol, or use distance()."
    )
    NOT_CONVERGED = "Stopped at `max_sweeps` with nodes still changing. Raise max_sweeps, or use FastMarching()."


@dataclass(frozen=True)
class Statistics:
    """What a solve took. Steps and evaluations count passes over all edges where the method makes such passes."""

    method: str
    seconds: float
    steps: int | None = None
    evaluations: int | None = None
    step: float | None = None
    _residual: Callable[[], float] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def residual(self) -> float:
        """max |ρ‖∇⁻f‖_p − 1| over the nodes off the boundary that can reach it. One pass over the edges, when asked."""
        return float("nan") if self._residual is None else self._residual()


@dataclass(frozen=True, eq=False)
class Solution:
    """Values by node, how they were found, and whether to trust them.

    `value` is `[N]` or `[N, K]` from `distance`, and `[T, N, K]` from `evolve`; unreachable nodes are inf.
    """

    value: Tensor
    status: Status
    statistics: Statistics

    def __repr__(self) -> str:
        took = f"{self.statistics.method}, {self.statistics.seconds:.3g} s"
        return f"Solution(value={list(self.value.shape)}, status={self.status.name}, {took})"
