"""Graph filters: node features averaged over neighbourhoods of different shapes and sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lggd.diffusion import PPR, Heat
from lggd.estimator.settings import saveable
from lggd.graph.sparse import (
    SparseMatrix,
    SparsePattern,
    normalized_adjacency,
    with_self_loops,
    without_sparse_warnings,
)
from lggd.graph.streamed_matrix import StreamedMatrix
from lggd.system.memory import Scratch
from lggd.validation import check_instance, check_int

# Diffusions are truncated where the rest of the series is below this.
TOLERANCE = 1e-5
# Filtered features shorter than this, relative to x, are rounding errors of zero: with unit length they would be noise.
NEGLIGIBLE = 1e-5
# Each iteration for principal directions squares the ratios of singular values: two suffice where many of them matter.
SUBSPACE_ITERATIONS = 2
# Up to this many columns, all principal directions are computed exactly.
MOST_EXACT_COLUMNS = 1024


@saveable
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
    >>> kernel = lggd.FilterKernel((lggd.Hops(0), lggd.Hops(2)), lggd.Linear())
    >>> lggd.KernelRidge(kernels=(kernel,)).fit(lggd.load("karate")).predict().shape
    torch.Size([34])
    """

    count: int = 1
    self_loops: bool = True

    def __post_init__(self) -> None:
        check_int("count", self.count, minimum=0)
        check_instance("self_loops", self.self_loops, bool, "True or False")


@saveable
@dataclass(frozen=True)
class HighPass:
    """What distinguishes a node from its neighbourhood: x − Âx.

    Examples
    --------
    >>> import lggd
    >>> lggd.FilterKernel((lggd.Hops(0), lggd.HighPass()), lggd.ArcCosine()).filters[1]
    HighPass()
    """


Filter = Hops | HighPass | PPR | Heat


class Propagation:
    """Node features on a graph: filtered by any of `filters`, with rows of unit length or relative lengths.

    Parameters
    ----------
    x : Tensor
        Node features, float32 `[N, D]`.
    edge_index, edge_weight : Tensor
        The edges of an undirected graph, in PyG's format; None weighs all edges equally.
    filters : sequence of Filter
        The filters that may be asked for: they are computed together, as series in the same Chebyshev polynomials.
    """

    def __init__(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None, filters: Sequence[Filter]) -> None:
        self.x, self.edge_index, self.edge_weight, self.filters = x, edge_index, edge_weight, tuple(filters)
        self._matrices: dict[bool, SparseMatrix] = {}
        self._patterns: dict[bool, SparsePattern] = {}
        self._scaled: dict[Filter, Tensor] = {}
        self._roots: dict[bool, Tensor] = {}

    def block(self, filter: Filter, unit: bool = True) -> Tensor:
        """The filtered features, float32 `[N, D]`: with rows of unit length, or with a mean square length of 1."""
        if unit:
            return self._blocks[filter][0]
        if filter not in self._scaled:
            rows, length = self._blocks[filter]
            scale = length.square().mean().sqrt()
            self._scaled[filter] = rows * (length / scale)
        return self._scaled[filter]

    def rows(self, filter: Filter, nodes: Tensor, unit: bool = True) -> Tensor:
        """The rows of these nodes in `block(filter, unit)`, `[n, D]`."""
        return self.block(filter, unit)[nodes]

    def extend(self, filters: Sequence[Filter]) -> None:
        """Adds filters that may be asked for."""
        new = tuple(filter for filter in dict.fromkeys(filters) if filter not in self.filters)
        self._blocks.update(self._with_filters(new)._blocks)
        self.filters += new

    def _with_filters(self, filters: Sequence[Filter]) -> Propagation:
        more = Propagation(self.x, self.edge_index, self.edge_weight, filters)
        return more.share(self._matrices, self._patterns)

    def lengths(self, filter: Filter) -> Tensor:
        """The lengths of the filtered features before they were scaled, `[N, 1]`."""
        return self._blocks[filter][1]

    def matrix(self, self_loops: bool) -> SparseMatrix:
        """Â with or without self-loops."""
        if self_loops not in self._matrices:
            known = self._patterns.get(self_loops)
            edges = self.edge_index, self.edge_weight, len(self.x)
            matrix = normalized_adjacency(*edges, self_loops=self_loops, pattern=known)
            self._matrices[self_loops], self._patterns[self_loops] = matrix, matrix.pattern
        return self._matrices[self_loops]

    def share(self, matrices: dict[bool, SparseMatrix] | None, patterns: dict[bool, SparsePattern]) -> Propagation:
        """Uses Â with or without self-loops of graphs with the same edges and, unless None, the same weights."""
        self._matrices, self._patterns = self._matrices if matrices is None else matrices, patterns
        return self

    def roots(self, self_loops: bool) -> Tensor:
        """The roots of the degrees, 1 where the degree is 0 and Â has no entries, `[N]`."""
        if self_loops not in self._roots:
            index, weight, size = self.edge_index, self.edge_weight, len(self.x)
            weight = torch.ones(index.shape[1], device=index.device) if weight is None else weight.float()
            if self_loops:
                index, weight = with_self_loops(index, weight, size)
            degree = torch.zeros(size, device=index.device).scatter_add(0, index[1], weight)
            self._roots[self_loops] = degree.sqrt().masked_fill(degree == 0, 1)
        return self._roots[self_loops]

    @cached_property
    def _blocks(self) -> dict[Filter, tuple[Tensor, Tensor]]:
        filtered: dict[Filter, Tensor] = {}
        for self_loops in (True, False):
            series = series_of(self.filters, self_loops)
            if series:
                sums = chebyshev_sums(self.matrix(self_loops), self.x, list(series.values()))
                filtered.update(zip(series, sums, strict=True))
        return {filter: unit_or_zero(value, self.negligible) for filter, value in filtered.items()}

    @cached_property
    def negligible(self) -> float:
        """Filtered features that are shorter than this are 0."""
        return NEGLIGIBLE * float(self.x.norm(dim=1).mean())


def unit_or_zero(x: Tensor, negligible: float) -> tuple[Tensor, Tensor]:
    """Rows of unit length, and their lengths before, `[N, 1]`; rows that are negligibly short become zero."""
    length: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_(min=1e-12)
    return (x / length).masked_fill_(length <= negligible, 0), length


def series_of(filters: Sequence[Filter], self_loops: bool) -> dict[Filter, list[float]]:
    """The Chebyshev coefficients of those of the filters that are filters of Â with or without self-loops."""
    found = {filter: _coefficients(filter, self_loops) for filter in filters}
    return {filter: coefficients for filter, coefficients in found.items() if coefficients is not None}


def _coefficients(filter: Filter, self_loops: bool) -> list[float] | None:
    """The Chebyshev coefficients of a filter of Â with or without self-loops; None for a filter of the other one."""
    if isinstance(filter, Hops):
        return _power(filter.count) if filter.self_loops == self_loops else None
    if not self_loops:
        return None
    return [1.0, -1.0] if isinstance(filter, HighPass) else filter.chebyshev_coefficients(TOLERANCE)


def _power(exponent: int) -> list[float]:
    """The coefficients of zᵏ in Chebyshev polynomials: 2^(1 − k) · binomial(k, (k − j)/2) at j, half of it at 0.

    >>> _power(2)
    [0.5, 0.0, 0.5]
    """
    scale = 2.0 ** (1 - exponent)
    coefficients = [
        scale * math.comb(exponent, (exponent - j) // 2) if (exponent - j) % 2 == 0 else 0.0
        for j in range(exponent + 1)
    ]
    coefficients[0] /= 2
    return coefficients


def chebyshev_sums(
    matrix: SparseMatrix | StreamedMatrix,
    x: Tensor,
    series: Sequence[Sequence[float]],
    scratch: Scratch | None = None,
) -> list[Tensor]:
    """Σₖ c[k] · Tₖ(M) x for each series c, with the Chebyshev polynomials Tₖ₊₁ = 2M·Tₖ − Tₖ₋₁, `[N, D]` each.

    With `scratch`, the sums are in temporary files.
    """
    sums = [torch.empty_like(x) if scratch is None else scratch.empty(*x.shape) for _ in series]
    for total, coefficients in zip(sums, series, strict=True):
        torch.mul(x, coefficients[0], out=total)
        if scratch is not None:
            scratch.release()
    orders = max(map(len, series))
    if orders == 1:
        return sums
    previous, current, twice = x.clone(), matrix(x), matrix.scaled(2)
    for order in range(1, orders):
        if order > 1:
            # In place: allocating a new term each time would take longer than the product.
            twice.add_product(current, out=previous.neg_())
            previous, current = current, previous
        for total, coefficients in zip(sums, series, strict=True):
            if order < len(coefficients) and coefficients[order]:
                total.add_(current, alpha=coefficients[order])
                if scratch is not None:
                    scratch.release()
    return sums


def principal_axes(x: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """The directions in which the rows of x vary most, in descending order, orthonormal `[D, at most width]`.

    Where x is wide, by subspace iteration (Halko et al., 2011) from a random start; x may be sparse.
    """
    if x.shape[1] <= max(width, MOST_EXACT_COLUMNS):
        dense = x.to_dense() if x.layout != torch.strided else x
        return eigenvectors(dense.t() @ dense)[:, : min(width, len(x))].contiguous()
    basis = torch.randn(x.shape[1], width, generator=generator).to(x.device)
    x, transposed = (x, x.t()) if x.layout == torch.strided else (compressed(x), compressed(x.t()))
    for _ in range(SUBSPACE_ITERATIONS):
        basis = torch.linalg.qr(transposed @ (x @ basis)).Q
    projected = x @ basis
    principal: Tensor = basis @ eigenvectors(projected.t() @ projected)[:, : len(x)]
    return principal


def eigenvectors(matrix: Tensor) -> Tensor:
    """The eigenvectors of a symmetric matrix as columns, those of the largest eigenvalues first."""
    # On a CPU: with many equal eigenvalues, the GPU's solver may not converge.
    vectors: Tensor = torch.linalg.eigh(matrix.cpu()).eigenvectors
    return vectors.flip(1).to(matrix.device)


def compressed(x: Tensor) -> Tensor:
    """A sparse matrix as CSR, whose products are faster than those of COO."""
    with without_sparse_warnings():
        return x.to_sparse_csr()  # type: ignore[no-untyped-call, no-any-return]


def unit_rows(x: Tensor) -> Tensor:
    """Rows of unit length; x may be sparse."""
    if x.layout == torch.strided:
        return normalize(x)
    x = x.to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
    rows, values = x.indices()[0], x.values()
    norm = torch.zeros(x.shape[0], device=values.device).index_add_(0, rows, values.square()).sqrt()
    values = values / norm.clamp(min=1e-12)[rows]
    return torch.sparse_coo_tensor(x.indices(), values, x.shape, check_invariants=False).coalesce()
