"""Node features filtered again after a few rows of the graph have changed, exactly, without filtering all of them.

Write Â = S M S⁻¹ with the random walk M = D⁻¹ A and S = D^½. A change of edges changes M in the rows of the touched
nodes T alone. A filter's block B = f(Â) x then changes by a product of few columns, B' = S' S⁻¹ B + L R:

- PageRank solves B = (1 − α) Â B + α x. The new equation is violated in the rows T alone, by a residual r. Hence
  L = α (I − (1 − α) Â')⁻¹ E_T, and R = r / α.
- A power has Âᵏ x = S Mᵏ z with z = S⁻¹ x, and M'ᵏ z' − Mᵏ z = Σⱼ M'ᵏ⁻¹⁻ʲ (M' − M) Mʲ z + M'ᵏ (z' − z), where both
  differences have the rows T alone. Hence L consists of Â'ʲ E_T with j = 0..k. The same holds for sums of powers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from lggd.closed_form.filters import (
    FEATURE_TOLERANCE,
    PPR,
    Adjacency,
    Filter,
    Heat,
    HighPass,
    Hops,
    Propagation,
    chebyshev_sums,
    unit_or_zero,
)
from lggd.graph.sparse import SparseMatrix

# An update of more columns than this takes as long as filtering again: at most one column for so many nodes.
NODES_PER_COLUMN = 8
# Errors of updates add up: each is smaller than that of a block, and blocks are filtered again after so many updates.
UPDATE_TOLERANCE, MOST_UPDATES = FEATURE_TOLERANCE / 10, 100


class UpdatedPropagation(Propagation):
    """Node features after a change, computed from those before where that is faster.

    Parameters
    ----------
    x, adjacency, filters
        As of `Propagation`, after the change. Features of nodes that are not touched are as before.
    before : Propagation
        Node features before the change.
    touched : Tensor
        The nodes that it touched, ascending; new ones have the highest numbers.
    draft : UpdatedPropagation, optional
        Another one after the change, whose weights differ in edges between touched nodes alone.
    """

    def __init__(
        self, x: Tensor, adjacency: Adjacency, filters: Sequence[Filter], before: Propagation, touched: Tensor,
        draft: UpdatedPropagation | None = None,
    ) -> None:  # fmt: skip
        super().__init__(x, adjacency, filters)
        self._before: Propagation | None = before
        self._touched, self._draft = touched, draft
        self.negligible = before.negligible
        # How often features were updated since they were last filtered.
        self.updated = (getattr(before, "updated", 0) + 1) % MOST_UPDATES

    def rows(self, filter: Filter, nodes: Tensor, unit: bool = True) -> Tensor:
        """The rows of these nodes in `block(filter, unit)`, with unit length without computing the others."""
        if unit and filter in self.updates:
            return self.updates[filter].rows(nodes)[0]
        return self.block(filter, unit)[nodes]

    @cached_property
    def _blocks(self) -> dict[Filter, tuple[Tensor, Tensor]]:
        blocks = {filter: update.all() for filter, update in self.updates.items()}
        blocks |= self._filter([filter for filter in self.filters if filter not in blocks])
        self._before, self._draft, self.__dict__["updates"] = None, None, {}  # frees the blocks before
        return blocks

    @cached_property
    def updates(self) -> dict[Filter, LowRankUpdate]:
        """The updates of the filters for which updating is faster than filtering again."""
        if self._before is None or self.updated == 0:
            return {}
        limit, touched = len(self.x) // NODES_PER_COLUMN, len(self._touched)
        found: dict[Filter, LowRankUpdate] = {}
        for self_loops in (True, False):
            filters = [filter for filter in self.filters if filter.self_loops == self_loops]
            series = {filter: power_coefficients(filter) for filter in filters}
            powers = {filter: c for filter, c in series.items() if c is not None and len(c) * touched <= limit}
            diffusions = [filter for filter in filters if isinstance(filter, PPR) and touched <= limit]
            if powers or diffusions:
                change = MatrixChange(self._before, self, self._touched, self_loops)
                found |= change.pagerank(diffusions, self._draft) | change.powers(powers)
        return found


def power_coefficients(filter: Filter) -> list[float] | None:
    """The coefficients aₖ of a filter Σₖ aₖ Âᵏ; None if it is no short sum of powers."""
    if isinstance(filter, Hops):
        return [0.0] * filter.count + [1.0]
    if isinstance(filter, HighPass):
        return [1.0, -1.0]
    return _taylor(filter) if isinstance(filter, Heat) else None


def _taylor(heat: Heat) -> list[float]:
    """e^-t tᵏ / k!, until the rest is below the tolerance."""
    coefficients: list[float] = []
    while 1 - math.fsum(coefficients) > UPDATE_TOLERANCE:
        k = len(coefficients)
        coefficients.append(math.exp(k * math.log(heat.t) - heat.t - math.lgamma(k + 1)))
    return coefficients


@dataclass(frozen=True, eq=False)
class LowRankUpdate:
    """A block after a change: rows `scale · unit` before, `[N, D]` with scales `[N, 1]`, plus left · right.

    `left` is `[N', r]` and `right [r, D]`; new rows were 0 before.
    """

    unit: Tensor
    scale: Tensor
    left: Tensor
    right: Tensor
    negligible: float  # rows shorter than this are 0

    def all(self) -> tuple[Tensor, Tensor]:
        """All rows with unit length, and their lengths before."""
        count, scale = len(self.unit), self.scale
        rows = self.unit.new_empty(len(self.left), self.unit.shape[1])
        # Relative to the scale, which saves one pass over the block.
        torch.addmm(self.unit, self.left[:count] / scale, self.right, out=rows[:count])
        torch.mm(self.left[count:], self.right, out=rows[count:])
        relative = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_(min=1e-12)
        length = relative.clone()
        length[:count] *= scale
        short = length <= self.negligible
        return rows.mul_(relative.reciprocal_().masked_fill_(short, 0)), length.clamp_(min=1e-12)

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """These rows with unit length, and their lengths before."""
        before = self.unit.new_zeros(len(nodes), self.unit.shape[1])
        known = nodes < len(self.unit)
        before[known] = self.unit[nodes[known]] * self.scale[nodes[known]]
        return unit_or_zero(before.addmm_(self.left[nodes], self.right), self.negligible)


class MatrixChange:
    """Â before and after a change, and its products with E_T, the columns of the touched nodes."""

    def __init__(self, before: Propagation, after: Propagation, touched: Tensor, self_loops: bool) -> None:
        self.before, self.touched, self.x = before, touched, after.x
        self.known = touched[touched < len(before.x)]  # the touched nodes that are not new
        new, old = after.adjacency, before.adjacency
        self.matrix, self.old_matrix = new.matrix(self_loops), old.matrix(self_loops)
        self.root, self.old_root = new.roots(self_loops), old.roots(self_loops)
        self.columns = self.x.new_zeros(len(self.x), len(self.touched))  # E_T
        self.columns[self.touched, torch.arange(len(self.touched), device=self.x.device)] = 1

    @cached_property
    def _first(self) -> Tensor:
        """Â' E_T, `[N', |T|]`."""
        first: Tensor = self.matrix(self.columns)
        return first

    def _scale(self, filter: Filter) -> Tensor:
        """The lengths of the rows of S' S⁻¹ B, `[N, 1]`: as before except for the touched ones."""
        scale = self.before.lengths(filter).clone()
        scale[self.known] *= (self.root[self.known] / self.old_root[self.known])[:, None]
        return scale

    def pagerank(self, filters: Sequence[PPR], draft: UpdatedPropagation | None) -> dict[Filter, LowRankUpdate]:
        """The updates of these filters."""
        if not filters:
            return {}
        if draft is not None and draft.updates:
            columns = {filter: self._corrected(filter, draft) for filter in filters}
        else:
            series = [filter.chebyshev_coefficients(UPDATE_TOLERANCE) for filter in filters]
            columns = dict(zip(filters, chebyshev_sums(self.matrix, self.columns, series), strict=True))
        return {
            filter: self._update(filter, left, self._residual(filter, self._scale(filter)))
            for filter, left in columns.items()
        }

    def _corrected(self, filter: PPR, draft: UpdatedPropagation) -> Tensor:
        """α (I − (1 − α) Â')⁻¹ E_T from that of a draft, X: its columns still solve the equation except for the rows T.

        Hence it is α X B⁻¹ with the rows B of (I − (1 − α) Â') X, after scaling by the roots of the degrees.
        """
        roots = draft.adjacency.roots(True)
        solved = draft.updates[filter].left * (self.root / roots)[:, None]
        violated = solved[self.touched] - (1 - filter.alpha) * (self._first.t() @ solved)
        corrected: Tensor = filter.alpha * torch.linalg.solve(violated, solved, left=False)
        return corrected

    def _update(self, filter: Filter, left: Tensor, right: Tensor) -> LowRankUpdate:
        return LowRankUpdate(self.before.block(filter), self._scale(filter), left, right, self.before.negligible)

    def _residual(self, filter: PPR, scale: Tensor) -> Tensor:
        """((1 − α) Â' B + α x' − B) / α in the touched rows `[|T|, D]`, with B = S' S⁻¹ times the block before."""
        unit, alpha = self.before.block(filter), filter.alpha
        near = self._first[: len(unit)].any(1).nonzero().squeeze(1)
        residual = self.x[self.touched] + (1 - alpha) / alpha * (self._first[near].t() @ (unit[near] * scale[near]))
        residual[: len(self.known)] -= unit[self.known] * scale[self.known] / alpha
        return residual

    def powers(self, filters: Mapping[Filter, Sequence[float]]) -> dict[Filter, LowRankUpdate]:
        """The updates of filters with these coefficients of powers of Â."""
        if not filters:
            return {}
        longest, count = max(map(len, filters.values())), len(self.touched)
        left = _powers(self.matrix, self.columns, longest)
        differences = self._differences(longest - 1)
        step = -pad(self.before.x[self.known] / self.old_root[self.known, None], (0, 0, 0, count - len(self.known)))
        step += self.x[self.touched] / self.root[self.touched, None]
        found: dict[Filter, LowRankUpdate] = {}
        for filter, coefficients in filters.items():
            right = torch.stack(
                [
                    sum((a * differences[k - 1 - i] for k, a in enumerate(coefficients) if k > i and a), a_i * step)
                    for i, a_i in enumerate(coefficients)
                ]
            )  # [K + 1, |T|, D]
            right *= self.root[self.touched, None]
            found[filter] = self._update(filter, left[:, : len(coefficients) * count], right.flatten(0, 1))
        return found

    def _differences(self, count: int) -> Tensor:
        """(M' − M) Mʲ z in the touched rows for j = 0..count − 1, `[count, |T|, D]`."""
        old = self.before.x
        if not count:
            return old.new_empty(0, len(self.touched), old.shape[1])
        size = len(old)
        # Rows of M' − M as columns; Â is symmetric, so that columns of products with it are rows too.
        walk = self._first[:size] * self.root[:size, None] / self.root[self.touched]
        columns = self.columns[:size, : len(self.known)]
        walk[:, : len(self.known)] -= self.old_matrix(columns) * self.old_root[:, None] / self.old_root[self.known]
        return (_powers(self.old_matrix, walk / self.old_root[:, None], count).t() @ old).view(count, -1, old.shape[1])


def _powers(matrix: SparseMatrix, columns: Tensor, count: int) -> Tensor:
    """Mʲ columns for j = 0..count − 1, side by side, `[N, count · r]`."""
    found = [columns.contiguous()]
    for _ in range(count - 1):
        found.append(matrix(found[-1]))
    return torch.cat(found, 1)
