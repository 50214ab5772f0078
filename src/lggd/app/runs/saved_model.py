"""A saved model with the names of its nodes and classes, to predict, and to change its labels, nodes and edges.

When a saved model changes, the tables next to it are written anew, at once with the model: see `SIDECARS` in
`lggd._system.files`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd._system.files import SIDECARS, locked_folder, recover_folder, replacing, replacing_folder
from lggd.app.runs.run import FEATURES, MODEL, REPORT, SUMMARY, now, predictions_name, read_object, write_tables
from lggd.app.runs.run_input import Columns
from lggd.app.tables.graph_files import read_label_file, read_undirected_edges
from lggd.app.tables.nodes import ID_NAMES, node_columns, read_node_file
from lggd.app.tables.output_files import write_predictions
from lggd.app.tables.table import find_column
from lggd.datasets.pyg_data import names_of
from lggd.errors import InputError
from lggd.estimator import Member, storage
from lggd.inputs.labels import LastLabelError
from lggd.models import load_model
from lggd.validation import listed, suggestion

# Weights of the same edge in two tables may differ by rounding.
SAME_WEIGHT = 1e-5


@dataclass(frozen=True)
class ModelChange:
    """The numbers of new nodes, edges and labels, and of those in the tables that were known.

    `changed` counts the predictions of known nodes that changed, `milliseconds` is the time to change and predict.
    `conflicts` are new labels that differ from the prediction before, most certain predictions first: node, label,
    predicted and its probability. `corrections` are node, before and label of those that were wrong. `removals` are
    labels taken back: node, before (the label), predicted (the class without it) and its probability.
    """

    new_nodes: int = 0
    new_edges: int = 0
    new_labels: int = 0
    known_edges: int = 0
    known_labels: int = 0
    changed: int = 0
    milliseconds: float = 0.0
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    corrections: list[dict[str, Any]] = field(default_factory=list)
    removals: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.new_nodes or self.new_edges or self.new_labels or self.corrections or self.removals)


@dataclass(frozen=True, eq=False)
class NodePredictions:
    """The `probabilities [N, K]` of the classes, and the `labels [N]` known, -1 where there is none; with all names."""

    dataset: str
    ids: Sequence[str]
    classes: Sequence[str]
    labels: Tensor
    probabilities: Tensor

    @property
    def num_labelled(self) -> int:
        return int((self.labels >= 0).sum())

    def write(self, path: str | Path) -> None:
        write_predictions(path, self.ids, self.classes, self.probabilities, self.labels)

    def counts(self) -> dict[str, int]:
        """The number of nodes of each predicted class."""
        counts = torch.bincount(self.probabilities.argmax(1), minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    def least_certain(self, count: int) -> list[dict[str, Any]]:
        """Returns `count` unlabelled nodes with the smallest margin between their two most probable classes."""
        best = self.probabilities.topk(min(2, len(self.classes)), dim=1)
        margin = best.values[:, 0] - (best.values[:, 1] if best.values.shape[1] > 1 else 0)
        margin[self.labels >= 0] = torch.inf
        order = margin.argsort(stable=True)[:count]
        nodes = order[margin[order] < torch.inf].tolist()
        classes = {k: [self.classes[c] for c in best.indices[k].tolist()] for k in nodes}
        return [{"node": self.ids[k], "classes": classes[k], "probabilities": best.values[k].tolist()} for k in nodes]


class SavedModel:
    """A model in a folder, or in the folder `model` of a run or of a classifier of samples."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.folder = _named(model_folder(path))
        # A classifier of samples makes its graph itself.
        self.of_samples = self.folder != _named(path) and (path / storage.SETTINGS_FILE).is_file()
        self.model = load_model(self.folder)
        self.dataset = str(self.model.metadata_.get("dataset") or path.resolve().name)
        self.ids = self._names("ids", len(self.model.labels_))
        self.classes = self._names("classes", self.model.num_classes_)

    @classmethod
    @contextmanager
    def open(cls, path: str | Path) -> Iterator[SavedModel]:
        """Loads a model in order to change it: until the end no other process can. See `locked_folder`."""
        folder = _named(model_folder(Path(path)))
        if not (folder / storage.SETTINGS_FILE).is_file():
            storage.read_settings(folder)  # says what is missing
        with locked_folder(folder.parent if belongs_to_run(folder) else folder):
            recover_folder(folder)
            yield cls(path)

    def _names(self, key: str, count: int) -> Sequence[str]:
        """Returns the names saved with the model or with its graph, or numbers if there are none."""
        names, stored = self.model.metadata_.get(key), names_of(self.model.data_)
        if names is None and key == "ids" and stored is not None:
            return stored
        if names is None:
            return [str(k) for k in range(count)]
        if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
            path = self.folder / storage.SETTINGS_FILE
            raise InputError(path, f"name all {count} {key}", but="it does not", remedy="Save the model again.")
        return names

    @property
    def num_labelled(self) -> int:
        return int((self.model.labels_ >= 0).sum())

    @property
    def num_edges(self) -> int:
        return int(self.model.data_.num_edges) // 2

    @property
    def parent(self) -> Path:
        """The folder that contains the model and its predictions."""
        return self.folder.parent

    @property
    def predictions(self) -> Path:
        """The file of the predictions next to the model."""
        return self.parent / predictions_name(self.model)

    def probabilities(self) -> Tensor:
        probabilities: Tensor = self.model.predict_proba()
        return probabilities

    def predict(self) -> NodePredictions:
        return NodePredictions(self.dataset, self.ids, self.classes, self.model.labels_, self.probabilities())

    def write(self, path: str | Path, probabilities: Tensor) -> None:
        write_predictions(path, self.ids, self.classes, probabilities, self.model.labels_)

    def read_labels(self, sources: Sequence[str | Path]) -> dict[int, int]:
        """Reads labels from tables of ids and classes, or from texts such as "17=3"; returns the class of each node."""
        labels_of, numbers = dict[int, int](), {name: k for k, name in enumerate(self.classes)}
        for source in sources:
            if isinstance(source, str) and "=" in source and not Path(source).exists():
                read = [self._read_pair(source)]
            else:
                labels = read_label_file(source, self.ids, self.classes)
                read = [(node, numbers[name]) for node, name in labels.items()]
            for node, label in read:
                if labels_of.setdefault(node, label) != label:
                    rule = f"give the node {self.ids[node]!r} one label"
                    value = f"{self.classes[label]!r} after {self.classes[labels_of[node]]!r}"
                    raise InputError(source, rule, value, "Remove one.")
        return labels_of

    def _read_pair(self, text: str) -> tuple[int, int]:
        """The node and the class of "NODE=CLASS"; names may contain "=", too."""
        nodes, classes = ({name: k for k, name in enumerate(names)} for names in (self.ids, self.classes))
        splits = [(text[:k], text[k + 1 :]) for k, sign in enumerate(text) if sign == "="]
        for node, label in splits:
            if node in nodes and label in classes:
                return nodes[node], classes[label]
        node, label = splits[0]
        if node not in nodes:
            rule = f"name one of the {len(nodes)} nodes before ="
            raise InputError(text, rule, repr(node), suggestion(node, self.ids, "Write NODE=CLASS."))
        rule = f"name one of the classes {listed(self.classes)} after ="
        raise InputError(text, rule, repr(label), suggestion(label, self.classes, "Fit a new model."))

    def add_labels(self, *sources: str | Path, correct: bool = False) -> tuple[ModelChange, Tensor]:
        """Adds labels, see `read_labels`; returns their effect and the new probabilities. Save the model afterwards.

        Labels that differ from known ones are an error, or with `correct` replace them.
        """
        read = self.read_labels(sources)
        nodes, labels = torch.tensor(list(read)), torch.tensor(list(read.values()))
        known = self.model.labels_[nodes]
        new, wrong = known < 0, (known >= 0) & (known != labels)
        if bool(wrong.any()) and not correct:
            raise self._contradiction(sources[0], nodes[wrong], labels[wrong])

        def change() -> None:
            if bool(new.any()):
                self.model.add_labels(nodes[new], labels[new])
            if bool(wrong.any()):
                self.model.change_labels(nodes[wrong], labels[wrong])

        before, probabilities, measured = self.apply(change)
        corrections = [
            {"node": self.ids[node], "before": self.classes[was], "label": self.classes[label]}
            for node, was, label in _rows(nodes[wrong], known[wrong], labels[wrong])
        ]
        effect = ModelChange(
            new_labels=int(new.sum()), known_labels=int((~new & ~wrong).sum()), corrections=corrections,
            conflicts=self._conflicts(before, nodes[new], labels[new]), **measured,
        )  # fmt: skip
        return effect, probabilities

    def remove_labels(self, names: Sequence[str]) -> tuple[ModelChange, Tensor]:
        """Takes the labels of these nodes back; returns the effect and the new probabilities."""
        numbers = {name: k for k, name in enumerate(self.ids)}
        for name in names:
            if name not in numbers:
                rule = f"name some of the {len(numbers)} nodes"
                raise InputError("nodes", rule, repr(name), suggestion(name, self.ids, "Check the spelling."))
        nodes = torch.tensor([numbers[name] for name in dict.fromkeys(names)])
        known = self.model.labels_[nodes]
        _, probabilities, measured = self.apply(lambda: self.model.remove_labels(nodes))
        best = probabilities[nodes].max(1)
        rows = [
            {"node": self.ids[node], "before": self.classes[was], "predicted": self.classes[k], "probability": p}
            for (node, was, k), p in zip(_rows(nodes, known, best.indices), best.values.tolist(), strict=True)
        ]
        return ModelChange(removals=rows, **measured), probabilities

    def apply(self, change: Callable[[], None]) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Changes the model; returns the probabilities before and after, and what `ModelChange` says of both."""
        before, start = self.probabilities(), time.perf_counter()
        try:
            change()
        except LastLabelError as error:
            raise error.replace(value=f"none of class {self.classes[error.label]!r}") from error
        after = self.probabilities()
        milliseconds = 1000 * (time.perf_counter() - start)
        changed = int((after[: len(before)].argmax(1) != before.argmax(1)).sum())
        return before, after, {"changed": changed, "milliseconds": milliseconds}

    def _contradiction(self, source: str | Path, nodes: Tensor, labels: Tensor) -> InputError:
        rows = [
            (self.ids[node], self.classes[known], self.classes[label])
            for node, known, label in _rows(nodes, self.model.labels_[nodes], labels)
        ]
        (node, known, label), more = rows[0], [f"{name!r} ({known!r}, not {new!r})" for name, known, new in rows[1:]]
        rule = f"give the node {node!r} its known label {known!r}"
        value = repr(label) + (f"; nor does it for {listed(more)}" if more else "")
        return InputError(source, rule, value, "Remove it, or use --correct to replace known labels.")

    def _conflicts(self, before: Tensor, nodes: Tensor, labels: Tensor) -> list[dict[str, Any]]:
        """The new labels that differ from the prediction before, those of the most certain predictions first."""
        best = before[nodes].max(1)
        rows = zip(_rows(nodes, labels, best.indices), best.values.tolist(), strict=True)
        conflicts = [
            {
                "node": self.ids[node],
                "label": self.classes[label],
                "predicted": self.classes[predicted],
                "probability": p,
            }
            for (node, label, predicted), p in rows
            if label != predicted
        ]
        return sorted(conflicts, key=lambda row: -row["probability"])

    def save(self, out: str | Path | None = None) -> dict[str, list[str]]:
        """Replaces the saved model and the files next to it, all or nothing.

        Returns the files next to it that were "refreshed", and those that are "outdated" now.

        Predictions are written to `out`, too; for a model that belongs to no run, only there. They are those of
        lggd predict to the last bit.
        """
        copying = nullcontext() if out is None else replacing(out)
        with copying as copied, replacing_folder(self.folder, storage.SETTINGS_FILE) as temporary:
            storage.write_model(self.model, temporary)
            # A model of a graph on disk is not solved a second time, which may take minutes.
            saved = self.model if names_of(self.model.data_) is not None else load_model(temporary)
            names: dict[str, list[str]] = {"refreshed": [], "outdated": []}
            if out is None or belongs_to_run(self.folder):
                (temporary / SIDECARS).mkdir()
                names = write_sidecar_files(temporary / SIDECARS, self.folder, saved, self.ids, self.classes)
            if copied is not None:
                self.write(copied, saved.predict_proba())
        return {key: [str(self.parent / name) for name in each] for key, each in names.items()}


def model_folder(path: Path) -> Path:
    """The folder of a model: `path`, or the folder `model` in it."""
    inside = path / MODEL
    for folder in (inside, path):
        if not folder.exists() and folder.resolve().parent.is_dir():
            recover_folder(folder)  # a process may have been killed while it replaced it
    return inside if (inside / storage.SETTINGS_FILE).is_file() else path


def _named(folder: Path) -> Path:
    """A folder by a path that ends in its name, unlike "."."""
    return folder if folder.name not in ("", "..") else folder.resolve()


def _rows(*columns: Tensor) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


# -- files next to a changed model ------------------------------------------------------------------------------------


def belongs_to_run(model: Path) -> bool:
    """Whether the folder of a model is that of a run."""
    return model.name == MODEL and (model.parent / SUMMARY).is_file()


def write_sidecar_files(
    folder: Path, place: Path, model: Member, ids: Sequence[str], classes: Sequence[str]
) -> dict[str, list[str]]:
    """Writes the files that belong next to a changed model, whose folder will be `place`, into `folder`.

    In the folder of a run these are predictions, features and the summary, which are "refreshed". The report is
    "outdated": it shows what was measured when the model was trained, with classes of held-out nodes not stored here.
    """
    run, is_run, features = place.parent, belongs_to_run(place), getattr(model, "features_", None)
    named = is_run and (run / FEATURES).is_file() and features is not None and "feature_names" in model.metadata_
    table = features.features(model.data_).cpu() if named and features is not None else None
    files = write_tables(folder, model, ids, classes, model.predict_proba().cpu(), table)
    if not is_run:
        return {"refreshed": files, "outdated": []}
    effects = {"refreshed": [*files, SUMMARY], "outdated": [REPORT] if (run / REPORT).is_file() else []}
    facts = {
        "when": now(), "nodes": len(ids), "edges": model.data_.num_edges // 2,
        "labelled": int((model.labels_ >= 0).sum()), "changes": len(model.additions_), **effects,
    }  # fmt: skip
    storage.write_json(folder / SUMMARY, {**read_object(run / SUMMARY, "be the summary of a run"), "updated": facts})
    return effects


# -- nodes, edges and labels from tables ------------------------------------------------------------------------------


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
