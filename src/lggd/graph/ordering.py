"""Node orders that keep neighbours close in memory. They affect speed, never results."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from lggd.graph.csr import CSR

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
    ones = np.broadcast_to(np.int8(1), csr.num_edges)
    matrix = sp.csr_array((ones, csr.indices.numpy(), csr.indptr.numpy()), shape=(csr.num_nodes,) * 2)
    return torch.from_numpy(reverse_cuthill_mckee(matrix, symmetric_mode=csr.symmetric).astype(np.int64))


def is_scattered(csr: CSR) -> bool:
    """Whether neighbours lie far apart in memory, estimated from at most 100,000 edges."""
    if csr.num_edges == 0:
        return False
    sample = torch.linspace(0, csr.num_edges - 1, min(csr.num_edges, 100_000), dtype=torch.float64).long()
    rows = torch.searchsorted(csr.indptr, sample, right=True) - 1
    jump = (csr.indices[sample].long() - rows).abs().double().mean()
    return bool(jump > SCATTERED * csr.num_nodes)
