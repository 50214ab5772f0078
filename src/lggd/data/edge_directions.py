"""Edges that are listed more than once, or in both directions, become one edge each; what differs is said."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lggd.data.edges import EdgeTable
from lggd.errors import InputError

# Relative difference up to which two weights differ by rounding alone.
ROUNDING = 1e-5


class Join(StrEnum):
    """What becomes of several weights, or lengths, of one edge, in either direction."""

    MAX = "max"
    MEAN = "mean"
    MIN = "min"
    SUM = "sum"


REDUCTIONS = {Join.MAX: np.maximum, Join.MIN: np.minimum, Join.SUM: np.add, Join.MEAN: np.add}


def join_directions(table: EdgeTable, rule: Join | str | None = None) -> EdgeTable:
    """Returns a table with every pair of nodes once, in no particular direction.

    `rule` says what becomes of the weights, or lengths, of edges that are listed several times; one that is listed once
    keeps its own. By default the larger weight or the shorter length counts, and a note tells if any differ.
    """
    if rule is not None and rule not in list(Join):
        raise InputError("symmetrize", f"be one of {', '.join(Join)}", repr(rule))
    weight = table.weight
    if weight is None and rule == Join.SUM:
        weight = np.ones(table.edges.shape[1])
    values = None if weight is None else 1 / np.sqrt(weight) if table.is_length else weight
    low, high = table.edges.min(0), table.edges.max(0)
    order = np.argsort(low * len(table.ids) + high, kind="stable")
    low, high = low[order], high[order]
    starts = np.flatnonzero(np.r_[True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])])
    edges, notes = np.stack([low[starts], high[starts]]), _repeated(table, order, starts)
    if values is None:
        return replace(table, edges=edges, notes=(*table.notes, *notes))
    chosen = Join(rule) if rule is not None else Join.MIN if table.is_length else Join.MAX
    values = values[order]
    joined = REDUCTIONS[chosen].reduceat(values, starts)
    if chosen == Join.MEAN:
        joined = joined / np.diff(np.r_[starts, len(values)])
    if rule is None:
        notes = _different(table, values, order, starts) or notes
    return replace(
        table, edges=edges, weight=1 / joined**2 if table.is_length else joined, notes=(*table.notes, *notes)
    )


def _repeated(table: EdgeTable, order: NDArray[np.int64], starts: NDArray[np.int64]) -> tuple[str, ...]:
    """A sentence if edges are listed more than once in the same direction."""
    keys = table.edges[0] * len(table.ids) + table.edges[1]
    repeated = len(keys) - len(np.unique(keys))
    return (f"{repeated:,} rows repeat an edge of the same direction.",) if repeated else ()


def _different(
    table: EdgeTable, values: NDArray[np.float64], order: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[str, ...]:
    """A sentence if an edge has several weights."""
    largest, smallest = np.maximum.reduceat(values, starts), np.minimum.reduceat(values, starts)
    differ = np.flatnonzero(largest - smallest > ROUNDING * largest)
    if not len(differ):
        return ()
    rows = order[starts[differ[0]] :][:2]
    first = " and ".join(
        f"{table.ids[i]},{table.ids[j]} = {value:g}"
        for i, j, value in zip(*table.edges[:, rows], values[starts[differ[0]] :][:2], strict=True)
    )
    kind, kept = ("lengths", "shorter") if table.is_length else ("weights", "larger")
    return (
        f"{len(differ):,} pairs of nodes have edges of different {kind} (the first: {first}); the {kept} is kept "
        "(option `symmetrize`: max, mean, min or sum).",
    )
