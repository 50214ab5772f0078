"""Graph filters: node features averaged over neighbourhoods of different shapes and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lggd.diffusion import PPR, Heat
from lggd.estimator.storage import saveable
from lggd.graph.sparse import SparseMatrix, normalized_adjacency
from lggd.validation import check_int

# Diffusions are truncated where the rest of the series is below this: far below what rounding to float32 leaves of it.
TOLERANCE = 1e-5


@saveable
@dataclass(frozen=True)
class Hops:
    """The features `count` hops away: Âᵏ x, or with `self_loops=False` (D^-½ A D^-½)ᵏ x; `Hops(0)` is x itself.

    Without self-loops a node does not see itself at odd hops, which helps where neighbours belong to other classes.
    """

    count: int = 1
    self_loops: bool = True

    def __post_init__(self) -> None:
        check_int("count", self.count, minimum=0)


@saveable
@dataclass(frozen=True)
class HighPass:
    """What distinguishes a node from its neighbourhood: x − Âx."""


Filter = Hops | HighPass | PPR | Heat


class Propagation:
    """Node features on a graph: filtered by any `Filter`, with rows of unit length.

    Parameters
    ----------
    x : Tensor
        Node features, float32 `[N, D]`.
    edge_index, edge_weight : Tensor
        The edges of an undirected graph, in PyG's format; None weighs all edges equally.
    """

    def __init__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> None:
        self.x, self.edge_index, self.edge_weight = x, edge_index, edge_weight
        self._blocks: dict[Filter, Tensor] = {}
        self._hops: dict[bool, list[Tensor]] = {True: [x], False: [x]}

    @cached_property
    def _adjacency(self) -> dict[bool, SparseMatrix]:
        """Â, with and without self-loops."""
        edges = self.edge_index, self.edge_weight, len(self.x)
        return {loops: normalized_adjacency(*edges, self_loops=loops) for loops in (True, False)}

    def block(self, filter: Filter) -> Tensor:
        """The filtered features with rows of unit length, float32 `[N, D]`."""
        if filter not in self._blocks:
            self._blocks[filter] = normalize(self.filtered(filter))
        return self._blocks[filter]

    def filtered(self, filter: Filter) -> Tensor:
        """The filtered features, float32 `[N, D]`."""
        if isinstance(filter, Hops):
            return self._hop(filter.count, filter.self_loops)
        if isinstance(filter, HighPass):
            return self.x - self._hop(1, self_loops=True)
        return chebyshev_series(self._adjacency[True], self.x, filter.chebyshev_coefficients(TOLERANCE))

    def _hop(self, count: int, self_loops: bool) -> Tensor:
        hops = self._hops[self_loops]
        while len(hops) <= count:
            hops.append(self._adjacency[self_loops](hops[-1]))
        return hops[count]


def chebyshev_series(matrix: SparseMatrix, x: Tensor, coefficients: list[float]) -> Tensor:
    """Σₖ coefficients[k] · Tₖ(M) x with the Chebyshev polynomials Tₖ₊₁ = 2M·Tₖ − Tₖ₋₁, `[N, D]` → `[N, D]`."""
    previous, total = x, coefficients[0] * x
    if len(coefficients) == 1:
        return total
    current = matrix(x)
    total.add_(current, alpha=coefficients[1])
    for coefficient in coefficients[2:]:
        previous, current = current, matrix(current).mul_(2).sub_(previous)
        total.add_(current, alpha=coefficient)
    return total


def principal_subspace(x: Tensor, width: int, generator: torch.Generator) -> Tensor | None:
    """An orthonormal basis `[D, width]` of the directions in which the rows of x vary most; None where x is narrower.

    By subspace iteration (Halko et al., 2011) from a random start: x is multiplied, never decomposed.
    """
    nodes, features = x.shape
    if features <= width or nodes <= width:
        return None
    start = torch.randn(features, width, generator=generator).to(x.device)
    basis = torch.linalg.qr(start).Q
    for _ in range(SUBSPACE_ITERATIONS):
        basis = torch.linalg.qr(x.t() @ torch.linalg.qr(x @ basis).Q).Q
    return basis


# Each iteration squares the ratios of singular values. Two suffice where many directions matter a little.
SUBSPACE_ITERATIONS = 2
