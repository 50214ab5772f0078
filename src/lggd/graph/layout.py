"""The order of the nodes in memory, which may differ from the users' numbering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from lggd.graph.csr import CSR, inverse

CPU = torch.device("cpu")
# Below this many nodes a column of the state fits into cache and the order does not matter.
SMALLEST_WORTH_ORDERING = 50_000
# Reordering reads the edges about this many times, and does not pay off for solves that read them less often.
PASSES_WORTH_ORDERING = 4
# Mean distance between neighbours in memory, as a fraction of N: 1/3 in a random order, below 1/100 in a good one.
SCATTERED = 0.05


def morton(points: NDArray[np.floating] | NDArray[np.integer]) -> Tensor:
    """Order `[N]` of the points along the Z-curve through their three widest coordinates."""
    widest = np.argsort(-np.ptp(points, axis=0), kind="stable")[:3]
    chosen = points[:, np.sort(widest)]
    bits = 21  # three coordinates fit into 64 bits
    low, extent = chosen.min(0), np.ptp(chosen, axis=0)
    extent[extent == 0] = 1
    cell = ((chosen - low) / extent * (2**bits - 1)).astype(np.uint64)
    code = np.zeros(len(points), np.uint64)
    dimensions = chosen.shape[1]
    for axis in range(dimensions):
        for bit in range(bits):
            code |= ((cell[:, axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * dimensions + axis)
    return torch.from_numpy(np.argsort(code, kind="stable"))


def cuthill_mckee(csr: CSR) -> Tensor:
    """Reverse Cuthill-McKee order `[N]`, for graphs that come without coordinates."""
    return torch.from_numpy(reverse_cuthill_mckee(csr.to_scipy(), symmetric_mode=csr.symmetric).astype(np.int64))


def is_scattered(csr: CSR) -> bool:
    """Whether neighbours lie far apart in memory, estimated from at most 100,000 edges."""
    if csr.num_edges == 0:
        return False
    sample = torch.linspace(0, csr.num_edges - 1, min(csr.num_edges, 100_000), dtype=torch.float64).long()
    rows = torch.searchsorted(csr.indptr, sample, right=True) - 1
    jump = (csr.indices[sample].long() - rows).abs().double().mean()
    return bool(jump > SCATTERED * csr.num_nodes)


@dataclass(frozen=True, eq=False)
class Layout:
    """An order of the nodes in memory: row r holds node `order[r]`; None means node r."""

    csr: CSR
    order: Tensor | None = None

    @cached_property
    def rank(self) -> Tensor | None:
        """The row of each node."""
        return None if self.order is None else inverse(self.order)

    def into_rows(self, by_node: Tensor, dim: int = 0) -> Tensor:
        """Reorders values from node order to row order."""
        return by_node if self.order is None else by_node.index_select(dim, self.order)

    def to_nodes(self, by_row: Tensor, dim: int = 0) -> Tensor:
        """Reorders values from row order to node order."""
        return by_row if self.rank is None else by_row.index_select(dim, self.rank)

    def edges_into_rows(self, by_edge: Tensor) -> Tensor:
        """Reorders values `[E, …]` from the order of the graph's `edge_index` to that of these rows."""
        return by_edge if self.order is None else by_edge.index_select(0, self._edge_order)

    @cached_property
    def in_node_order(self) -> tuple[CSR, Tensor]:
        """The rows sorted by node, and the position of each of their entries in these rows."""
        if self.rank is None:
            return self.csr, torch.arange(self.csr.num_edges, device=self.csr.indptr.device)
        csr, position = self.csr.to(CPU).permuted(self.rank.cpu())
        return csr.to(self.csr.indptr.device), position.to(self.csr.indptr.device, torch.int64)

    @cached_property
    def _edge_order(self) -> Tensor:
        return inverse(self.in_node_order[1])
