"""The boundary: for each of K columns, the nodes from which distances are measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lggd.errors import InputError, InputTypeError

# One set of nodes: an id, ids, or a mask [N].
NodeSet = int | Sequence[int] | NDArray[np.generic] | Tensor
# One column or a list of K of them.
Sources = NodeSet | Sequence[NodeSet]


@dataclass(frozen=True, eq=False)
class Boundary:
    """Sorted, distinct node ids per column. `single` is True for one set, False for a list of sets."""

    columns: tuple[NDArray[np.int64], ...]
    single: bool

    @classmethod
    def read(cls, sources: Any, num_nodes: int, name: str = "sources") -> Boundary:
        """Accepts node ids, a mask `[N]`, a mask `[N, K]`, or a list of K sets; no set may be empty."""
        if isinstance(sources, (Tensor, np.ndarray)):
            array = sources.detach().cpu().numpy() if isinstance(sources, Tensor) else sources
            if array.dtype.kind == "b" and array.ndim == 2 and array.shape[1] > 0:
                columns = [_read_set(array[:, k], num_nodes, f"{name}[:, {k}]") for k in range(array.shape[1])]
                return cls(tuple(columns), single=False)
            return cls((_read_set(array, num_nodes, name),), single=True)
        if isinstance(sources, Iterable) and not isinstance(sources, (str, bytes)):
            sources = list(sources)
            if sources and not all(np.ndim(entry) == 0 for entry in sources):
                columns = [_read_set(entry, num_nodes, f"{name}[{k}]") for k, entry in enumerate(sources)]
                return cls(tuple(columns), single=False)
        return cls((_read_set(sources, num_nodes, name),), single=True)

    def mask(self, num_nodes: int) -> Tensor:
        """True on the boundary of each column, `[N, K]`."""
        boundary_mask = torch.zeros(num_nodes, len(self.columns), dtype=torch.bool)
        for k, nodes in enumerate(self.columns):
            boundary_mask[torch.from_numpy(nodes), k] = True
        return boundary_mask


def _read_set(nodes: Any, num_nodes: int, name: str) -> NDArray[np.int64]:
    array = nodes.detach().cpu().numpy() if isinstance(nodes, Tensor) else np.asarray(nodes)
    array = np.atleast_1d(array)
    if array.dtype.kind == "b":
        if array.shape != (num_nodes,):
            raise InputError(name, f"have shape [{num_nodes}] as a mask", list(array.shape))
        array = np.flatnonzero(array)
    if array.size == 0:
        raise InputError(name, "name at least one node", "none", "Distances are measured from these nodes.")
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise InputTypeError(name, "be node ids or a mask", f"{array.dtype} of shape {list(array.shape)}")
    outside = (array < 0) | (array >= num_nodes)
    if outside.any():
        raise InputError(name, f"name nodes 0..{num_nodes - 1}", int(array[outside][0]))
    return np.unique(array).astype(np.int64)
