"""The rows of a graph in files, as a stored graph has them, written from entries in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lggd.graph.csr import CSR
from lggd.graph.stored_graph import MappedArrays, map_array
from lggd.graph_build.array_file import ArrayFile
from lggd.graph_build.buckets import Buckets, SortedRows

Array = NDArray[Any]
# Edges that are distributed at a time.
EDGES_AT_ONCE = 2**22


class RowFiles:
    """`indptr.npy`, `indices.npy`, `degree.npy` and, unless every weight is 1, `weight.npy` and `root_weight.npy`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def weighted(self) -> bool:
        return (self.folder / "weight.npy").exists()

    def open(self, *, symmetric: bool) -> CSR:
        """The rows, mapped into memory."""
        arrays = {path.stem: map_array(path) for path in sorted(self.folder.glob("*.npy"))}
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        mapped = MappedArrays(tuple(arrays.values()))
        return CSR(tensors["indptr"], tensors["indices"], tensors.get("weight"), symmetric, mapped=mapped)

    def write(
        self, chunks: Iterator[tuple[Array, Array, Array | None]], entries: Array, *, both: bool, weighted: bool,
        memory: int, progress: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        """Writes all rows, from chunks of (rows, columns, weights).

        `entries` `[N]` are as in `Buckets`; with `both`, chunks contain one direction of each edge.
        """
        buckets = Buckets(self.folder / "buckets", entries, weighted=weighted, memory=memory)
        total, done = max(int(entries.sum()), 1), 0
        try:
            for rows, columns, weight in chunks:
                buckets.add(rows, columns, weight, both=both)
                done += len(rows) * (2 if both else 1)
                progress(min(done, total), 2 * total)
        finally:
            buckets.close()
        indices, indptr = ArrayFile(self.folder / "indices.npy", np.int32), np.zeros(len(entries) + 1, np.int64)
        weights = ArrayFile(self.folder / "weight.npy", np.float32) if weighted else None
        roots = ArrayFile(self.folder / "root_weight.npy", np.float32) if weighted else None
        degree, all_one = np.empty(len(entries), np.float32), True
        for bucket in range(len(buckets)):
            first, last = buckets.bounds[bucket], buckets.bounds[bucket + 1]
            found = buckets.sort(bucket)
            indptr[first + 1 : last + 1] = found.lengths
            indices.append(found.indices)
            degree[first:last] = _degree(found)
            if weights is not None and roots is not None and found.weight is not None:
                all_one = all_one and bool((found.weight == 1).all())
                weights.append(found.weight)
                roots.append(np.sqrt(found.weight))
            progress(total + int(total * (bucket + 1) / len(buckets)), 2 * total)
        indices.close()
        for file in (weights, roots):
            if file is not None:
                file.close()
        if weighted and all_one:
            (self.folder / "weight.npy").unlink()
            (self.folder / "root_weight.npy").unlink()
        np.save(self.folder / "indptr.npy", np.cumsum(indptr))
        np.save(self.folder / "degree.npy", degree)
        (self.folder / "buckets").rmdir()


def _degree(rows: SortedRows) -> Array:
    """δ of each row, summed in double precision."""
    if rows.weight is None:
        return rows.lengths.astype(np.float32)
    ends = np.cumsum(rows.lengths)
    offsets = torch.from_numpy(np.r_[0, ends])
    total = torch.segment_reduce(torch.from_numpy(rows.weight).double(), "sum", offsets=offsets, initial=0)
    return total.numpy().astype(np.float32)
