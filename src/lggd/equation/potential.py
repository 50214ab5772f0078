"""The potential ρ(i): how fast a front may cross a node. The larger, the shorter the distances through it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.graph import Graph

# Per node [N], per node and column [N, K], or computed from the graph.
Potential = Tensor | Callable[[Graph], Tensor]


@dataclass(frozen=True)
class DegreePotential:
    """ρ(i) = δ(i)^α (paper, Sec. 2.7), with ρ = 1 on isolated nodes, where it cannot matter.

    A negative α lengthens distances through dense regions, α = 0 treats all nodes alike.

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
        raise InputTypeError("potential", "be a tensor or give one", kind, "Try DegreePotential(-1).")
    given = list(value.shape)
    value = value.to(device=graph.device, dtype=dtype)
    if value.dim() == 1:
        value = value.unsqueeze(1)
    if value.shape not in ((graph.num_nodes, 1), (graph.num_nodes, columns)):
        wanted = f"[{graph.num_nodes}] or [{graph.num_nodes}, {columns}]"
        raise InputError("potential", f"have shape {wanted}, one number a node", given)
    bad = ~(torch.isfinite(value) & (value > 0))
    if bool(bad.any()):
        node, column = (int(x) for x in bad.nonzero()[0])
        raise InputError("potential", "be positive and finite", f"{float(value[node, column]):g} at node {node}")
    return value
