"""The order of the nodes in memory, which may differ from the users' numbering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lggd.graph.csr import CSR, inverse

CPU = torch.device("cpu")


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
