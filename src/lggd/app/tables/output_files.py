"""Writes distances, predictions and features to tables with one row per node."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from lggd._system.files import check_extension, check_writable, replacing
from lggd.app.tables.table import PARQUET, import_arrow
from lggd.errors import InputError
from lggd.graph.edge_list import as_array

Values = ArrayLike | Tensor
DELIMITERS = {".csv": ",", ".tsv": "\t"}
FORMATS = (*DELIMITERS, PARQUET)
# Rows that are converted and written at a time.
ROWS_AT_ONCE = 2**17


def check_table_writable(path: str | Path) -> Path:
    """Returns the path if a table can be written there. Call it before a long computation."""
    path = check_writable(path)
    check_extension(path, FORMATS)
    return path


def write_distances(path: str | Path, ids: Sequence[str], value: Iterable[float]) -> None:
    """Writes the columns node and distance (inf if unreachable) to a `.csv`, `.tsv` or `.parquet` file."""
    values = list(value)
    _write(path, ["node", "distance"], lambda rows: [ids[rows], values[rows]], len(values))


def write_predictions(
    path: str | Path, ids: Sequence[str], classes: Sequence[str], probabilities: Values, labels: Values | None = None
) -> None:
    """Writes one row per node to a `.csv`, `.tsv` or `.parquet` file.

    The columns are node, predicted (the most probable class), probability (of that class), labelled (the known class,
    empty for unlabelled nodes) and `p(class)` for every class. `probabilities` are `[N, K]`; `labels` `[N]` are class
    indices, -1 for unlabelled nodes.
    """
    p = as_array(probabilities, "probabilities")
    known = np.full(len(ids), -1) if labels is None else as_array(labels, "labels")
    names = ["node", "predicted", "probability", "labelled", *(f"p({name})" for name in classes)]

    def columns(rows: slice) -> list[Any]:
        part = p[rows]
        predicted = [classes[k] for k in part.argmax(1)]
        labelled = ["" if k < 0 else classes[k] for k in known[rows]]
        return [list(ids[rows]), predicted, part.max(1), labelled, *part.T]

    _write(path, names, columns, len(ids))


def write_features(path: str | Path, ids: Sequence[str], names: Sequence[str], features: Values) -> None:
    """Writes `features [N, F]` to a `.parquet`, `.csv` or `.tsv` file that `read_node_file` can read.

    The first column is node; `names` are those of the other columns.
    """
    values = as_array(features, "features")
    _write(path, ["node", *names], lambda rows: [list(ids[rows]), *values[rows].T], len(ids))


def _write(path: str | Path, names: list[str], columns: Callable[[slice], list[Any]], count: int) -> None:
    """Writes `count` rows, of which `columns` returns some at a time, in the format of the extension."""
    extension = check_extension(path, FORMATS)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(path, "have columns of different names", f"{repeated[0]!r} twice", "Rename one.")
    blocks = (columns(slice(start, start + ROWS_AT_ONCE)) for start in range(0, max(1, count), ROWS_AT_ONCE))
    with replacing(path) as temporary:
        if extension == PARQUET:
            _write_parquet(temporary, names, blocks)
            return
        with temporary.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, delimiter=DELIMITERS[extension], lineterminator="\n")
            rows.writerow(names)
            # str() writes the shortest text that reads as the same float32; as a Python float it would be longer.
            for block in blocks:
                rows.writerows([str(cell) for cell in row] for row in zip(*block, strict=True))


def _write_parquet(path: Path, names: list[str], blocks: Iterator[list[Any]]) -> None:
    arrow = import_arrow()
    from pyarrow import parquet

    def as_table(block: list[Any]) -> Any:
        return arrow.table([np.ascontiguousarray(c) if isinstance(c, np.ndarray) else c for c in block], names)

    tables = map(as_table, blocks)
    first = next(tables)
    with parquet.ParquetWriter(path, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
