"""Graph diffusion: personalized PageRank and the heat kernel, and the graph of each node's strongest partners.

After Gasteiger et al. (2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lggd._system.memory import Cache, content_key
from lggd.closed_form.filters import PPR, TOLERANCE, Heat
from lggd.errors import InputError
from lggd.graph.edge_list import check_symmetric, with_edges
from lggd.graph.sparse import SparsePattern, normalized_adjacency
from lggd.inputs import NodeData
from lggd.validation import check_instance, check_int

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["PPR", "DiffusionGraph", "Heat"]

# Entries of S computed at a time: few enough for a CPU's cache, and enough to keep a GPU busy.
BLOCK_ENTRIES = {"cpu": 2**19, "cuda": 2**25}


@dataclass(frozen=True)
class DiffusionGraph:
    """Replace the edges of a graph by edges to each node's strongest partners in a diffusion.

    S is the diffusion kernel of T = D̃^-½ (A + I) D̃^-½. Its largest nonzero entries per column (`dim=0`) or row
    (`dim=1`) are the new edges. Weights are scaled so that those of the edges into each node sum to 1.

    Parameters
    ----------
    kernel : PPR or Heat
        The diffusion.
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
        if self.dim not in (0, 1):
            raise InputError("dim", "be one of 0, 1", repr(self.dim))

    def transform(self, data: Data) -> Data:
        """Return a shallow copy of PyG data with new `edge_index` and `edge_weight`; the graph must be undirected."""
        return with_edges(data, *self.diffuse(*NodeData.read(data).edges, data.num_nodes))

    def diffuse(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> tuple[Tensor, Tensor]:
        """Return the new edges int64 `[2, E']`, sorted by target, and their weights float32 `[E']`."""
        count = min(int(self.neighbours), num_nodes)
        # The key has no `dim`: S is symmetric, so that its rows are its columns.
        partner, strength = _PARTNERS(
            (content_key(edge_index, edge_weight), num_nodes, self.kernel, count),
            lambda: strongest_partners(
                transition_matrix(edge_index, edge_weight, num_nodes), self.kernel.chebyshev_coefficients(), count
            ),
        )
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
    return normalized_adjacency(edge_index, edge_weight, num_nodes, torch.float64).csr


def strongest_partners(matrix: Tensor, coefficients: Sequence[float], count: int) -> tuple[Tensor, Tensor]:
    """The largest entries per column of S = Σₖ coefficients[k] · Tₖ(matrix): rows int64 and values, `[N, count]`.

    S is computed in blocks of columns and never stored as a whole.

    >>> matrix = transition_matrix(torch.tensor([[0, 1], [1, 0]]), None, num_nodes=2)
    >>> partner, strength = strongest_partners(matrix, PPR(alpha=0.5).chebyshev_coefficients(), count=1)
    >>> partner.tolist(), round(float(strength[0, 0]), 8)
    ([[0], [1]], 0.75)
    """
    size = len(matrix)
    width = max(1, BLOCK_ENTRIES[matrix.device.type] // size)
    largest = [
        _columns(matrix, coefficients, start, min(size, start + width)).t().contiguous().topk(count, dim=1)
        for start in range(0, size, width)
    ]
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
