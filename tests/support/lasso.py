"""A weighted graph with a cycle, a chord, a tail and a node out of reach, for tests of evolutions."""

import torch

from support import zoo

LASSO = zoo.Instance(
    7, ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 5)), (0.9, 0.5, 0.7, 1.0, 0.3, 0.8, 0.6), (0,),
    potential=(1.0, 0.8, 1.2, 0.9, 1.5, 0.7, 1.0),
)  # fmt: skip
TWO_SETS = [[0], [2, 5]]


def start_of(nodes: int, columns: int = 1, seed: int = 0, scale: float = 5.0) -> torch.Tensor:
    return scale * torch.rand(nodes, columns, generator=torch.Generator().manual_seed(seed), dtype=zoo.F64)
