"""Results as tables: distances, predictions and features, under the names people gave their nodes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lggd.data.rows import DELIMITERS, PARQUET, TABLES, check_ending, parquet_library
from lggd.errors import InputError, InputTypeError
from lggd.files import replacing
from lggd.graph.edge_list import as_array


def write_distances(path: str | Path, ids: Sequence[str], value: Iterable[float]) -> None:
    """Writes the columns node and distance, between commas or, for a name in `.tsv`, tabs; `inf` is out of reach."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter=DELIMITERS.get(temporary.suffix.lower(), ","), lineterminator="\n")
        rows.writerow(("node", "distance"))
        rows.writerows(zip(ids, value, strict=True))


def write_predictions(
    path: str | Path,
    ids: Sequence[str],
    classes: Sequence[str],
    probabilities: ArrayLike | Tensor,
    given: ArrayLike | Tensor | None = None,
) -> None:
    """Writes a row a node to a `.csv`, `.tsv` or `.parquet` file, whole or not at all.

    The columns are node, predicted (the likeliest class), probability (its own), labelled (the class that was given,
    empty where none was) and `p(class)` for every class. `probabilities` are `[N, K]`; `given` is the number of each
    node's class `[N]`, -1 where it is unlabelled.
    """
    chances = _numbers(probabilities, "probabilities", len(ids), len(classes))
    if not classes:
        raise InputError("classes", "name at least one class", "none")
    likeliest = chances.argmax(1)
    known = np.full(len(ids), -1) if given is None else _check_given(given, len(ids), len(classes))
    columns: dict[str, Sequence[Any] | NDArray[Any]] = {
        "node": list(ids),
        "predicted": [classes[k] for k in likeliest],
        "probability": chances.max(1),
        "labelled": ["" if k < 0 else classes[k] for k in known],
    }
    _write(path, list(columns) + [f"p({name})" for name in classes], [*columns.values(), *chances.T])


def write_features(path: str | Path, ids: Sequence[str], names: Sequence[str], features: ArrayLike | Tensor) -> None:
    """Writes `features [N, F]` to a `.parquet`, `.csv` or `.tsv` file, whole or not at all.

    The first column is node, the others are called as `names` say. `read_nodes` reads it again.
    """
    values = _numbers(features, "features", len(ids), len(names))
    _write(path, ["node", *names], [list(ids), *values.T])


def _numbers(values: ArrayLike | Tensor, argument: str, rows: int, columns: int) -> NDArray[Any]:
    array = as_array(values, argument)
    if array.dtype.kind not in "buif":
        raise InputTypeError(argument, "be numbers", array.dtype)
    if array.shape != (rows, columns):
        raise InputError(
            argument, f"have a row for each id and a column for each name, shape [{rows}, {columns}]", list(array.shape)
        )
    return array


def _check_given(given: ArrayLike | Tensor, nodes: int, classes: int) -> NDArray[Any]:
    known = as_array(given, "given")
    if known.dtype.kind not in "ui" or known.shape != (nodes,):
        raise InputError(
            "given",
            f"be the number of each node's class, integers [{nodes}]",
            f"{known.dtype} {list(known.shape)}",
            "Write -1 where there is none.",
        )
    if nodes and (known.max() >= classes or known.min() < -1):
        wrong = known.max() if known.max() >= classes else known.min()
        raise InputError("given", f"lie in -1..{classes - 1}", wrong, "-1 is unlabelled.")
    return known


def _write(path: str | Path, names: list[str], columns: list[Any]) -> None:
    ending = check_ending(path, TABLES)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(path, "have columns of different names", f"{twice[0]!r} twice", "Rename one.")
    if ending == PARQUET:
        arrow, parquet = parquet_library(Path(path))
        table = arrow.table([np.ascontiguousarray(c) if isinstance(c, np.ndarray) else c for c in columns], names)
        with replacing(path) as temporary:
            parquet.write_table(table, temporary)
        return
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, delimiter=DELIMITERS[ending], lineterminator="\n")
        rows.writerow(names)
        # str() writes the shortest number that reads as the same float32; a Python float would show its error.
        rows.writerows([str(cell) for cell in row] for row in zip(*columns, strict=True))
