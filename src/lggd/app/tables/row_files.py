"""The rows of a graph in files, as a stored graph has them, from entries in any order: an external sort.

Entries are distributed to files by row (`Buckets`), and each file is sorted in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import DTypeLike, NDArray

from lggd._system.memory import MappedArrays
from lggd.graph.csr import CSR
from lggd.graph.stored_graph import map_array

HEADER_BYTES = 128
# Edges that are distributed at a time.
EDGES_AT_ONCE = 2**22
# Bytes of memory per entry while a file is sorted.
BYTES_PER_ENTRY = 40
MAX_BUCKETS = 1000

Array = NDArray[Any]


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
        for rows, columns, weight in chunks:
            buckets.add(rows, columns, weight, both=both)
            done += len(rows) * (2 if both else 1)
            progress(min(done, total), 2 * total)
        kinds = {"indices": np.int32} | ({"weight": np.float32, "root_weight": np.float32} if weighted else {})
        files = {name: ArrayFile(self.folder / f"{name}.npy", kind) for name, kind in kinds.items()}
        indptr, degree = np.zeros(len(entries) + 1, np.int64), np.empty(len(entries), np.float32)
        all_one = True
        for bucket in range(len(buckets)):
            first, last = buckets.bounds[bucket], buckets.bounds[bucket + 1]
            part = buckets.sort(bucket)
            indptr[first + 1 : last + 1] = part.lengths
            degree[first:last] = _degree(part)
            files["indices"].append(part.indices)
            if part.weight is not None:
                all_one = all_one and bool((part.weight == 1).all())
                files["weight"].append(part.weight)
                files["root_weight"].append(np.sqrt(part.weight))
            progress(total + int(total * (bucket + 1) / len(buckets)), 2 * total)
        for file in files.values():
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


class SortedRows(NamedTuple):
    """Some rows of a graph: the number of entries of each, and all their neighbours, ascending, and weights."""

    lengths: Array
    indices: Array
    weight: Array | None


class Buckets:
    """Entries (row, column, weight) in files, one per range of rows, sorted one after the other.

    Parameters
    ----------
    folder : Path
        Where the files lie.
    entries : int `[N]`
        How many entries are added to each row, at most.
    weighted : bool
    memory : int
        Bytes that sorting one file may take.
    """

    def __init__(self, folder: Path, entries: Array, *, weighted: bool, memory: int) -> None:
        self.folder, self.weighted = folder, weighted
        ends = np.cumsum(entries, dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        most = max(memory // BYTES_PER_ENTRY, total // MAX_BUCKETS, 1)
        cuts = np.searchsorted(ends, np.arange(most, total, most)) + 1
        self.bounds = np.unique(np.r_[0, cuts[cuts < len(ends)], len(ends)])
        self.bucket_of = np.repeat(np.arange(len(self.bounds) - 1, dtype=np.int16), np.diff(self.bounds))
        folder.mkdir()

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def _path(self, bucket: int, what: str) -> Path:
        return self.folder / f"{bucket:04d}.{what}"

    def add(self, rows: Array, columns: Array, weight: Array | None, *, both: bool) -> None:
        """Adds entries, with `both` also in the other direction; those with equal ends are left out."""
        given = np.empty(0, np.float32) if weight is None else weight
        keys, values, starts = _group(rows, columns, given, self.bucket_of, len(self), both)
        written = {"keys": keys, "weight": values} if self.weighted else {"keys": keys}
        for bucket in range(len(self)):
            for what, numbers in written.items():
                # Not kept open: there may be more files than a process may open.
                with self._path(bucket, what).open("ab") as file:
                    file.write(numbers[starts[bucket] : starts[bucket + 1]].data)

    def sort(self, bucket: int) -> SortedRows:
        """The rows of a file, repeated entries once with their largest weight; deletes the file."""
        keys = np.fromfile(self._path(bucket, "keys"), np.uint64)
        first, last = int(self.bounds[bucket]), int(self.bounds[bucket + 1])
        if self.weighted:
            weight = np.fromfile(self._path(bucket, "weight"), np.float32)
            # The bits of positive numbers are ordered as the numbers are: sorted by column, then by weight.
            entries, starts = _by_row(keys, weight.view(np.uint32), first, last - first)
            del keys, weight
            lengths = _sort_rows(entries, starts)
            columns, bits = _compact(entries, starts, lengths)
            self._path(bucket, "weight").unlink()
            part = SortedRows(lengths, columns, bits.view(np.float32))
        else:
            keys.sort()
            keys = keys[np.r_[keys[1:] != keys[:-1], np.ones(min(len(keys), 1), bool)]]
            lengths = np.bincount((keys >> np.uint64(32)).astype(np.int64) - first, minlength=last - first)
            part = SortedRows(lengths, (keys & np.uint64(0xFFFFFFFF)).astype(np.int32), None)
        self._path(bucket, "keys").unlink()
        return part


class ArrayFile:
    """An array `[length, *tail]` in a `.npy` file that grows at its end; `close` writes its length.

    Unlike an array that is mapped into memory, it raises an error where the disk is full.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "a.npy")
    >>> file = ArrayFile(path, np.int32)
    >>> file.append(np.arange(3)); file.append(np.arange(2)); file.close()
    >>> np.load(path)
    array([0, 1, 2, 0, 1], dtype=int32)
    """

    def __init__(self, path: Path, dtype: DTypeLike, tail: tuple[int, ...] = ()) -> None:
        self.dtype, self.tail, self.length = np.dtype(dtype), tail, 0
        self._file = path.open("wb")
        self._file.write(bytes(HEADER_BYTES))

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def close(self) -> None:
        """Writes the header; without it the file is no array."""
        description = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length, *self.tail)}
        magic = np.lib.format.magic(1, 0)
        text = repr(description).ljust(HEADER_BYTES - len(magic) - 3) + "\n"
        self._file.seek(0)
        self._file.write(magic + (len(text)).to_bytes(2, "little") + text.encode())
        self._file.close()


@njit(cache=True)
def count_entries(sources, targets, low, present, entries, both):  # pragma: no cover
    """Marks the ends of edges from `low` on, and adds how many entries each edge brings to their rows."""
    for e in range(sources.size):
        source, target = sources[e] - low, targets[e] - low
        present[source] = True
        present[target] = True
        if source != target:
            entries[source] += 1
            if both:
                entries[target] += 1


@njit(cache=True)
def _group(rows, columns, weight, bucket_of, buckets, both):  # pragma: no cover
    """Entries ordered by bucket: keys row·2³² + column, weights, and where each bucket starts."""
    starts = np.zeros(buckets + 1, np.int64)
    for e in range(rows.size):
        if rows[e] != columns[e]:
            starts[bucket_of[rows[e]] + 1] += 1
            if both:
                starts[bucket_of[columns[e]] + 1] += 1
    for k in range(buckets):
        starts[k + 1] += starts[k]
    cursor = starts[:-1].copy()
    keys = np.empty(starts[-1], np.uint64)
    values = np.empty(starts[-1] if weight.size else 0, np.float32)
    for e in range(rows.size):
        if rows[e] == columns[e]:
            continue
        for turn in range(2 if both else 1):
            row, column = (columns[e], rows[e]) if turn else (rows[e], columns[e])
            position = cursor[bucket_of[row]]
            cursor[bucket_of[row]] += 1
            keys[position] = (np.uint64(row) << np.uint64(32)) | np.uint64(column)
            if weight.size:
                values[position] = weight[e]
    return keys, values, starts


@njit(cache=True)
def _by_row(keys, bits, first, count):  # pragma: no cover
    """Entries column·2³² + weight, by row; and where each row starts."""
    starts = np.zeros(count + 1, np.int64)
    for e in range(keys.size):
        starts[np.int64(keys[e] >> np.uint64(32)) - first + 1] += 1
    for i in range(count):
        starts[i + 1] += starts[i]
    cursor = starts[:-1].copy()
    out = np.empty(keys.size, np.uint64)
    for e in range(keys.size):
        row = np.int64(keys[e] >> np.uint64(32)) - first
        out[cursor[row]] = (keys[e] << np.uint64(32)) | np.uint64(bits[e])
        cursor[row] += 1
    return out, starts


@njit(cache=True, parallel=True)
def _sort_rows(entries, starts):  # pragma: no cover
    """Sorts each row, moves the last of equal columns to its front, and returns the number of different ones."""
    lengths = np.empty(starts.size - 1, np.int64)
    for i in prange(starts.size - 1):
        row = entries[starts[i] : starts[i + 1]]
        row.sort()
        kept = 0
        for k in range(row.size):
            if k + 1 < row.size and row[k] >> np.uint64(32) == row[k + 1] >> np.uint64(32):
                continue
            row[kept] = row[k]
            kept += 1
        lengths[i] = kept
    return lengths


@njit(cache=True)
def _compact(entries, starts, lengths):  # pragma: no cover
    """Columns and weights, without the gaps between rows."""
    total = lengths.sum()
    columns, bits = np.empty(total, np.int32), np.empty(total, np.uint32)
    position = 0
    for i in range(lengths.size):
        for k in range(lengths[i]):
            entry = entries[starts[i] + k]
            columns[position] = np.int32(entry >> np.uint64(32))
            bits[position] = np.uint32(entry & np.uint64(0xFFFFFFFF))
            position += 1
    return columns, bits
