"""The potential ρ(i): how fast a front crosses a node. The larger, the shorter the distances through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph
from lggd.validation import check_entries

# Per node [N], per node and column [N, K], or computed from the graph.
Potential = Tensor | Callable[[Graph], Tensor]


@dataclass(frozen=True)
class DegreePotential:
    """ρ(i) = δ(i)^α (paper, Sec. 2.7), with ρ = 1 on isolated nodes, where it has no effect.

    Parameters
    ----------
    alpha : float
        A negative α lengthens distances through dense regions, α = 0 gives ρ = 1 everywhere.

    Examples
    --------
    >>> DegreePotential(-1.0)(Graph.from_edges([(0, 1), (1, 2)], symmetrize="max")).tolist()
    [1.0, 0.5, 1.0]
    """

    alpha: float

    def __call__(self, graph: Graph) -> Tensor:
        degree = graph.degree
        return torch.where(degree > 0, degree, torch.ones_like(degree)) ** self.alpha


def read_potential(potential: Potential | None, graph: Graph, columns: int, dtype: torch.dtype) -> Tensor:
    """ρ by node, `[N, 1]` or `[N, K]`, on the graph's device; None is ρ = 1."""
    if potential is None:
        return torch.ones(graph.num_nodes, 1, dtype=dtype, device=graph.device)
    value = potential if isinstance(potential, Tensor) else potential(graph) if callable(potential) else None
    if not isinstance(value, Tensor):
        kind = type(potential if value is None else value).__name__
        raise InputTypeError("potential", "be a tensor or return one", kind, "Try DegreePotential(-1).")
    by_column = (value.unsqueeze(1) if value.dim() == 1 else value).to(device=graph.device, dtype=dtype)
    if by_column.shape not in ((graph.num_nodes, 1), (graph.num_nodes, columns)):
        rule = f"have shape [{graph.num_nodes}] or [{graph.num_nodes}, {columns}], one number per node"
        raise InputError("potential", rule, list(value.shape))
    valid = torch.isfinite(by_column) & (by_column > 0)
    check_entries("potential", by_column, valid, "be positive and finite", "node")
    return by_column
