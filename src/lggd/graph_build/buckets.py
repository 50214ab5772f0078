"""An external sort of edges: they are distributed to files by row, and each file is sorted in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

# Bytes of memory per entry while a file is sorted.
BYTES_PER_ENTRY = 40
MOST_BUCKETS = 1000

Array = NDArray[Any]


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
        most = max(memory // BYTES_PER_ENTRY, total // MOST_BUCKETS, 1)
        cuts = np.searchsorted(ends, np.arange(most, total, most)) + 1
        self.bounds = np.unique(np.r_[0, cuts[cuts < len(ends)], len(ends)])
        self.bucket_of = np.repeat(np.arange(len(self.bounds) - 1, dtype=np.int16), np.diff(self.bounds))
        folder.mkdir(parents=True, exist_ok=True)
        self._keys = [self._path(k, "keys").open("wb") for k in range(len(self))]
        self._weights = [self._path(k, "weight").open("wb") for k in range(len(self))] if weighted else []

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def _path(self, bucket: int, what: str) -> Path:
        return self.folder / f"{bucket:04d}.{what}"

    def add(self, rows: Array, columns: Array, weight: Array | None, *, both: bool) -> None:
        """Adds entries, with `both` also in the other direction; those with equal ends are left out."""
        given = np.empty(0, np.float32) if weight is None else weight
        keys, values, starts = _group(rows, columns, given, self.bucket_of, len(self), both)
        for bucket in range(len(self)):
            part = slice(starts[bucket], starts[bucket + 1])
            self._keys[bucket].write(keys[part].data)
            if self.weighted:
                self._weights[bucket].write(values[part].data)

    def close(self) -> None:
        for file in (*self._keys, *self._weights):
            file.close()

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
            found = SortedRows(lengths, columns, bits.view(np.float32))
        else:
            keys.sort()
            keys = keys[np.r_[keys[1:] != keys[:-1], np.ones(min(len(keys), 1), bool)]]
            lengths = np.bincount((keys >> np.uint64(32)).astype(np.int64) - first, minlength=last - first)
            found = SortedRows(lengths, (keys & np.uint64(0xFFFFFFFF)).astype(np.int32), None)
        self._path(bucket, "keys").unlink()
        return found


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
