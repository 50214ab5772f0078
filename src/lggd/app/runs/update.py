"""New nodes, edges and labels of a saved model, from tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.app.runs.run_input import Columns
from lggd.app.runs.saved_model import ModelChange, SavedModel
from lggd.app.tables.graph_files import read_undirected_edges
from lggd.app.tables.nodes import ID_NAMES, node_columns, read_node_file
from lggd.app.tables.table import find_column
from lggd.errors import InputError
from lggd.validation import listed

# Weights of the same edge in two tables may differ by rounding.
SAME_WEIGHT = 1e-5


def update(
    saved: SavedModel,
    nodes: Path | None = None,
    edges: Path | None = None,
    labels: Path | None = None,
    *,
    correct: bool = False,
) -> tuple[ModelChange, Tensor]:
    """Adds the nodes, edges and labels of these tables to the model, in this order; returns the new probabilities.

    With `correct`, labels may replace known ones. Nothing is written: save the model afterwards.
    """
    total, probabilities = ModelChange(), saved.probabilities()
    before = probabilities.argmax(1)
    if nodes is not None or edges is not None:
        _check_changeable(saved)
        ids, x = ([], torch.empty(0, 0)) if nodes is None else _read_nodes(saved, nodes)
        edge_index, weight, known_edges = torch.empty(2, 0, dtype=torch.int64), None, 0
        if edges is not None:
            edge_index, weight, known_edges = _read_edges(saved, edges, [*saved.ids, *ids])

        def change() -> None:
            if ids:
                saved.model.add_nodes(x, edge_index, weight)
            elif edge_index.shape[1]:
                saved.model.add_edges(edge_index, weight)

        _, probabilities, measured = saved.apply(change)
        total = ModelChange(len(ids), edge_index.shape[1] // 2, known_edges=known_edges, **measured)
        saved.ids = [*saved.ids, *ids]
        saved.model.metadata_["ids"] = saved.ids
    if labels is not None:
        added, probabilities = saved.add_labels(labels, correct=correct)
        counts = {name: getattr(total, name) for name in ("new_nodes", "new_edges", "known_edges")}
        total = replace(added, **counts, milliseconds=total.milliseconds + added.milliseconds)
    changed = int((probabilities.argmax(1)[: len(before)] != before).sum())
    return replace(total, changed=changed), probabilities


def _check_changeable(saved: SavedModel) -> None:
    model = saved.model
    if saved.of_samples:
        remedy = "Predict new samples with KNNGraphClassifier.predict."
        raise InputError("model", "have a graph of its own", "a classifier of samples", remedy)
    if not getattr(model, "accepts_nodes", False):
        remedy = "Fit again on the new graph, or use KernelRidge()."
        raise InputError("model", "accept nodes and edges without training", type(model).__name__, remedy)


def _columns(saved: SavedModel) -> Columns:
    """How the tables of training were read; without a record, features are numbered."""
    stored = saved.model.metadata_.get("columns")
    if isinstance(stored, dict):
        return Columns(**stored)
    x = saved.model.data_.x
    return Columns([] if x is None else [str(k) for k in range(x.shape[1])], [])


def _read_nodes(saved: SavedModel, path: Path) -> tuple[list[str], Tensor]:
    """The ids of new nodes, and their features as in training."""
    columns = _columns(saved)
    names = node_columns(path, columns.table_columns)
    id_name = _check_columns(path, names, columns)
    others = [name for name in names if name != id_name and name not in columns.table_columns]
    missing = "mean" if columns.fill else "error"
    encoding: dict[str, Any] = {"categories": columns.categories, "fill": columns.fill, "missing": missing}
    try:
        table = read_node_file(path, id_column=id_name, ignore=others, **encoding)
    except InputError as error:
        if not error.hints:
            raise
        # What is missing or ignored was decided in training.
        raise error.replace(remedy="Fill in or correct these cells.", hints={}) from error
    known = set(saved.ids)
    repeated = [name for name in table.ids if name in known]
    if repeated:
        raise InputError(path, "contain new nodes", f"{listed(repeated)}, which the model has", "Remove these rows.")
    order = [table.feature_names.index(name) for name in columns.features]
    x = torch.from_numpy(table.x)[:, order]
    if columns.mean is not None and columns.deviation is not None:
        x = (x - torch.tensor(columns.mean)) / torch.tensor(columns.deviation)
    return table.ids, x


def _check_columns(path: Path, names: Sequence[str], columns: Columns) -> str:
    """Returns the column of ids; raises an error that names all columns that are missing or unknown."""
    used = columns.table_columns
    free = [name for name in names if name not in used and name not in columns.ignored]
    place = find_column(free, ID_NAMES)
    id_name = columns.id_column if columns.id_column in names else free[place or 0] if free else None
    missing = [name for name in used if name not in names]
    unknown = [name for name in free if name != id_name]
    clauses = [f"it lacks {listed(missing)}"] if missing else []
    if unknown:
        clauses.append(f"it has {listed(unknown)}, which {'was' if len(unknown) == 1 else 'were'} not there")
    if clauses:
        features = listed(used) if used else "none"
        rule = f"have an id and the features of training ({features})"
        raise InputError(path, rule, but=" and ".join(clauses), remedy="Rename, add or remove columns.")
    if id_name is None:
        raise InputError(path, "have a column of ids", listed(list(names)) or "none", "Add one called id.")
    return id_name


def _read_edges(saved: SavedModel, path: Path, ids: Sequence[str]) -> tuple[Tensor, Tensor | None, int]:
    """The new edges of a table in both directions, their weights, and how many others the model has already."""
    columns = _columns(saved)
    edges, weight = read_undirected_edges(path, ids, columns.edge_format, columns.symmetrize)
    known, known_weight = saved.model.data_.edges
    if weight is None and known_weight is not None:
        remedy = "Add a third column, weight."
        raise InputError(path, "have weights, because the edges of the model have weights", "none", remedy)
    if weight is not None:
        weight = _scaled(weight, columns, path)
        weight = None if known_weight is None and bool((weight == 1).all()) else weight
    keys, (known_keys, order) = edges[0] * len(ids) + edges[1], (known[0] * len(ids) + known[1]).sort()
    present = torch.isin(keys, known_keys)
    if weight is not None:
        was = torch.ones(len(order)) if known_weight is None else known_weight.float()[order]
        differ = (was[torch.searchsorted(known_keys, keys[present])] - weight[present]).abs() > SAME_WEIGHT
        if bool(differ.any()):
            i, j = (ids[k] for k in edges[:, present][:, differ][:, 0].tolist())
            remedy = "Remove the row, or train again."
            raise InputError(path, f"give the edge between {i!r} and {j!r} its known weight", "another", remedy)
    return edges[:, ~present], None if weight is None else weight[~present], int(present.sum()) // 2


def _scaled(weight: Tensor, columns: Columns, path: Path) -> Tensor:
    """Weights of a table divided by the largest of training, which they must not exceed unless it was 1."""
    largest = columns.largest_weight
    weight = (weight / largest).float()
    if len(weight) and float(weight.max()) > 1 + SAME_WEIGHT:
        if columns.edges.get("length"):
            rule = f"have lengths from {largest**-0.5:g}, the shortest of training"
            value = f"{(largest * float(weight.max())) ** -0.5:g}"
            raise InputError(path, rule, value, "Use longer edges, or train again.")
        if largest != 1:
            rule = f"have weights up to {largest:g}, the largest of training"
            raise InputError(path, rule, f"{largest * float(weight.max()):g}", "Use smaller weights, or train again.")
    return weight.clamp(max=1) if largest != 1 else weight
