"""Results: values by node with their status and statistics, and the depth of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from torch import Tensor

from lggd.html import Facts, card, histogram
from lggd.text import number

if TYPE_CHECKING:
    from jaxtyping import Float, Int64

__all__ = ["Depth", "Solution", "Statistics", "Status"]


class Status(Enum):
    """How a solver ended; `status.value` is a sentence with the remedy.

    Examples
    --------
    >>> Status.EXACT.value
    'Exact: every node has its final value.'
    """

    EXACT = "Exact: every node has its final value."
    UNREACHABLE = (
        "Exact, but some nodes cannot reach the boundary and are at distance inf. "
        "Add a source to their component if they should be reached."
    )
    REACHED = "The evolution reached its last time, perhaps before the distance: check statistics.residual."
    MAY_OVERSHOOT = (
        "Reached the last time with a step that is stable but may overshoot below the distance when the start lies far "
        "above it. Use step=None, or check statistics.residual."
    )
    NOT_CONVERGED = "Stopped at `max_sweeps` with nodes still changing. Raise max_sweeps, or use FastMarching()."


@dataclass(frozen=True)
class Statistics:
    """The cost of a solve.

    Attributes
    ----------
    method : str
        The solver or scheme.
    seconds : float
        Wall-clock time.
    steps, evaluations : int or None
        Steps or sweeps, and passes over all edges, where the method makes such passes.
    step : float or None
        The step in time that was taken.

    Examples
    --------
    >>> import lggd
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> statistics = lggd.distance(path, [0]).statistics
    >>> statistics.method, statistics.residual
    ('FastMarching', 0.0)
    """

    method: str
    seconds: float
    steps: int | None = None
    evaluations: int | None = None
    step: float | None = None
    _residual: Callable[[], float] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def residual(self) -> float:
        """max |ρ‖∇⁻f‖_p − 1| over the nodes off the boundary that can reach it; computed on access."""
        return float("nan") if self._residual is None else self._residual()


@dataclass(frozen=True, eq=False)
class Solution:
    """Values by node, with the status and the statistics of the solve.

    Attributes
    ----------
    value : Tensor
        [N] or [N, K] from `distance`, [T, N, K] from `evolve`; inf at nodes that cannot reach the boundary.
    status : Status
    statistics : Statistics

    Examples
    --------
    >>> import lggd
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> solution = lggd.distance(path, [0])
    >>> solution.value.tolist(), solution.status.name
    ([0.0, 1.0, 2.0], 'EXACT')
    """

    value: Float[Tensor, "*shape"]
    status: Status
    statistics: Statistics

    def __repr__(self) -> str:
        cost = f"{self.statistics.method}, {number(self.statistics.seconds)} s"
        return f"Solution(value={list(self.value.shape)}, status={self.status.name}, {cost})"

    def _repr_html_(self) -> str:
        """The status, the cost and the distribution of the values, for notebooks."""
        last = (self.value[-1] if self.value.dim() == 3 else self.value).detach().cpu()
        cost = self.statistics
        facts: Facts = [
            ("value", list(self.value.shape)),
            ("status", self.status.name),
            ("method", f"{cost.method}, {number(cost.seconds)} s"),
        ]
        facts += [("step", f"{cost.step:.4g}, {cost.steps} times")] if cost.step is not None else []
        unreachable = int(last.isinf().sum())
        facts += [("at distance inf", f"{unreachable:,}")] if unreachable else []
        return card("Solution", facts, histogram(last, "values"), note=self.status.value)


@dataclass(frozen=True, eq=False)
class Depth:
    """How central each node is.

    Attributes
    ----------
    value : Tensor [N]
        1 at the median, 0 at the nodes farthest from it and at those that cannot reach it.
    median : int
        The candidate with the smallest mean distance, among those that most nodes reach.
    candidates, mean_distance : Tensor [C]
        The nodes that were tried, and the mean distance of the nodes that reach them.

    Examples
    --------
    >>> import lggd
    >>> path = lggd.Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")
    >>> central = lggd.depth(path, candidates=[0, 1, 2])
    >>> central.value.tolist(), central.median
    ([0.0, 1.0, 0.0], 1)
    """

    value: Float[Tensor, " n"]
    median: int
    candidates: Int64[Tensor, " c"]
    mean_distance: Float[Tensor, " c"]
