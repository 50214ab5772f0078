"""Graph diffusion: personalized PageRank and the heat kernel, and the graph of each node's strongest partners.

A kernel is a function S of a transition matrix T, computed as a Chebyshev series in T (Gasteiger et al., 2019).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import ive
from torch import Tensor

from lggd.estimator.storage import saveable
from lggd.graph.edge_index import check_symmetric, read_edges, with_edges
from lggd.graph.sparse import SparsePattern, normalized_adjacency
from lggd.training.cache import Cache, content_key
from lggd.validation import check_choice, check_instance, check_int, check_real

# Truncation error of the series. Entries of S below it cannot be distinguished from 0.
TOLERANCE = 1e-10
# At these limits a series has thousands of terms, about a minute on a graph of Cora's size. Beyond them rounding may
# keep the coefficients of PageRank from ever summing to 1.
MIN_ALPHA, MAX_T = 1e-5, 1e6
# Entries of S computed at a time: few enough for a CPU's cache, and enough to keep a GPU busy.
BLOCK_ENTRIES = {"cpu": 2**19, "cuda": 2**25}


@saveable
@dataclass(frozen=True)
class PPR:
    """Personalized PageRank: S = α (I - (1 - α) T)⁻¹ = Σₖ α (1 - α)ᵏ Tᵏ.

    Parameters
    ----------
    alpha : float
        Restart probability α, in [1e-5, 1]. The smaller it is, the wider the diffusion; the cost grows as 1/√α.

    Examples
    --------
    >>> PPR(alpha=1).chebyshev_coefficients()
    [1.0]
    """

    alpha: float = 0.05

    def __post_init__(self) -> None:
        check_real("alpha", self.alpha, MIN_ALPHA, 1, remedy="The diffusion widens without bound towards 0; use 0.05.")

    def chebyshev_coefficients(self) -> list[float]:
        """Return the coefficients of S in Chebyshev polynomials of T, truncated at `TOLERANCE`.

        In closed form: 2α/√(1 - (1 - α)²) · rᵏ with r = (1 - α) / (1 + √(1 - (1 - α)²)), half of it for k = 0.
        """
        root = math.sqrt(1 - (1 - self.alpha) ** 2)
        ratio = (1 - self.alpha) / (1 + root)
        return _truncated_series(lambda order: self.alpha / root * ratio**order)


@saveable
@dataclass(frozen=True)
class Heat:
    """Heat kernel: S = exp(-t (I - T)) = e^-t Σₖ tᵏ/k! Tᵏ.

    Parameters
    ----------
    t : float
        Diffusion time, in (0, 1e6]. The larger it is, the wider the diffusion; the cost grows as √t.

    Examples
    --------
    >>> round(sum(Heat(t=1.0).chebyshev_coefficients()), 8)
    1.0
    """

    t: float = 5.0

    def __post_init__(self) -> None:
        rule = f"be positive and at most {MAX_T:g}"
        check_real("t", self.t, 0, MAX_T, closed="right", rule=rule, remedy="It is the diffusion time; use 5.")

    def chebyshev_coefficients(self) -> list[float]:
        """Return the coefficients of S in Chebyshev polynomials of T: 2e^-t Iₖ(t), Bessel; half of it for k = 0."""
        return _truncated_series(lambda order: ive(order, self.t))


def _truncated_series(half: Callable[[int], float]) -> list[float]:
    """The coefficients half(0), 2·half(1), 2·half(2), … until the remainder is at most `TOLERANCE`."""
    coefficients = [float(half(0))]
    # All are positive and sum to 1, the value of S at the eigenvalue 1 of T.
    while 1 - math.fsum(coefficients) > TOLERANCE:
        coefficients.append(2 * float(half(len(coefficients))))
    return coefficients


@saveable
@dataclass(frozen=True)
class DiffusionGraph:
    """Replace the edges of a graph by edges to each node's strongest partners in a diffusion.

    S is the diffusion kernel of T = D̃^-½ (A + I) D̃^-½. Its largest nonzero entries per column (`dim=0`) or row
    (`dim=1`) are the new edges. Weights are scaled so that those of the edges into each node sum to 1.

    Parameters
    ----------
    kernel : PPR or Heat
    neighbours : int
        Number of partners per node.
    dim : {0, 1}
        0 selects the strongest sources for each target, 1 the strongest targets for each source.

    Examples
    --------
    >>> import lggd
    >>> DiffusionGraph(Heat(t=3.0), neighbours=8).transform(lggd.load("karate")).num_edges == 34 * 8
    True
    """

    kernel: PPR | Heat = PPR()
    neighbours: int = 64
    dim: int = 0

    def __post_init__(self) -> None:
        check_instance("kernel", self.kernel, (PPR, Heat), "PPR(alpha) or Heat(t)")
        check_int("neighbours", self.neighbours, 1, "It is the number of partners per node.")
        check_choice("dim", self.dim, (0, 1))

    def transform(self, data: Any) -> Any:
        """Return a shallow copy of PyG data with new `edge_index` and `edge_weight`; the graph must be undirected."""
        return with_edges(data, *self.diffuse(*read_edges(data, data.num_nodes), data.num_nodes))

    def diffuse(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor]:
        """Return the new edges int64 `[2, E']`, sorted by target, and their weights float32 `[E']`."""
        count = min(int(self.neighbours), num_nodes)

        def find_partners() -> tuple[Tensor, Tensor]:
            matrix = transition_matrix(edge_index, edge_weight, num_nodes)
            return strongest_partners(matrix, self.kernel.chebyshev_coefficients(), count)

        # Without `dim`: S is symmetric, so that its rows are its columns.
        key = content_key(edge_index, edge_weight), num_nodes, self.kernel, count
        partner, strength = _PARTNERS(key, find_partners)
        nonzero = (strength > TOLERANCE).flatten()
        node = torch.arange(num_nodes, device=edge_index.device).repeat_interleave(count)[nonzero]
        partner, strength = partner.flatten()[nonzero], strength.flatten()[nonzero]
        ends = [partner, node] if self.dim == 0 else [node, partner]
        pattern = SparsePattern.from_edges(torch.stack(ends), num_nodes)
        strength = strength[pattern.order]
        total = pattern.row_sum(strength.unsqueeze(1)).squeeze(1)
        return torch.stack([pattern.columns, pattern.rows]), (strength / total[pattern.rows]).float()


# A comparison uses the same diffusion for every split, and for both values of `dim`.
_PARTNERS: Cache[tuple[Tensor, Tensor]] = Cache(capacity=8)


def transition_matrix(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
    """T = D̃^-½ (A + I) D̃^-½ as float64 CSR `[N, N]`: symmetric, with eigenvalues in (-1, 1]."""
    check_symmetric(edge_index, edge_weight, num_nodes)
    weight = None if edge_weight is None else edge_weight.detach()
    return normalized_adjacency(edge_index, weight, num_nodes, torch.float64).csr


def strongest_partners(matrix: Tensor, coefficients: Sequence[float], count: int) -> tuple[Tensor, Tensor]:
    """The largest entries per column of S = Σₖ coefficients[k] · Tₖ(matrix): rows int64 and values, `[N, count]`.

    >>> matrix = transition_matrix(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=2)
    >>> partner, strength = strongest_partners(matrix, PPR(alpha=0.5).chebyshev_coefficients(), count=1)
    >>> partner.tolist(), round(float(strength[0, 0]), 8)
    ([[0], [1]], 0.75)
    """
    size, largest = len(matrix), []
    width = max(1, BLOCK_ENTRIES[matrix.device.type] // size)
    for start in range(0, size, width):
        columns = _columns(matrix, coefficients, start, min(size, start + width))
        largest.append(columns.t().contiguous().topk(count, dim=1))
    return torch.cat([block.indices for block in largest]), torch.cat([block.values for block in largest])


def _columns(matrix: Tensor, coefficients: Sequence[float], start: int, end: int) -> Tensor:
    """Columns `start` to `end` of S, by the recurrence Tₖ₊₁ = 2T·Tₖ - Tₖ₋₁ of the Chebyshev polynomials."""
    previous = torch.zeros(len(matrix), end - start, dtype=matrix.dtype, device=matrix.device)
    previous[start:end].fill_diagonal_(1)
    total = coefficients[0] * previous
    if len(coefficients) == 1:
        return total
    current = matrix @ previous
    total.add_(current, alpha=coefficients[1])
    for coefficient in coefficients[2:]:
        torch.addmm(previous, matrix, current, beta=-1, alpha=2, out=previous)
        previous, current = current, previous
        total.add_(current, alpha=coefficient)
    return total
