"""A saved model with the names of its nodes and classes, to predict and to change its labels.

When a saved model changes, the files next to it are written anew, or marked as outdated where they cannot be, at once
with the model: see `SIDECARS` in `lggd._system.files`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd._system.files import SIDECARS, locked_folder, recover_folder, replacing, replacing_folder
from lggd.app.runs.run import FEATURES, MODEL, REPORT, SUMMARY, now, predictions_name, read_object
from lggd.app.tables.graph_files import read_label_file
from lggd.app.tables.output_files import write_features, write_predictions
from lggd.datasets.stored_data import names_of
from lggd.errors import InputError
from lggd.estimator import Member, storage
from lggd.html import escape_text
from lggd.inputs.labels import LastLabelError
from lggd.models import load_model
from lggd.text import timestamp
from lggd.validation import listed, suggestion

# A page begins with this note once the model has changed.
NOTE = re.compile(r"<!-- changed -->.*?<!-- /changed -->\n?", re.DOTALL)
STYLE = "margin:0;padding:.8em 1.2em;background:#fff3cd;color:#4a3800;font:1rem/1.5 system-ui,sans-serif"


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
    def open(cls, path: str | Path, on_wait: Callable[[], None] | None = None) -> Iterator[SavedModel]:
        """Loads a model in order to change it: until the end no other process can. See `locked_folder`."""
        folder = _named(model_folder(Path(path)))
        if not (folder / storage.SETTINGS_FILE).is_file():
            storage.read_settings(folder)  # says what is missing
        with locked_folder(folder.parent if belongs_to_run(folder) else folder, on_wait):
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

        Returns the files next to it that were "refreshed", and those that are only marked as "outdated".

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

    Returns the names of those that are "refreshed", and of those that are only marked as "outdated".

    In the folder of a run these are predictions, features and the summary. The report shows what was measured when the
    model was trained, with classes of held-out nodes that are not stored: a note in it says that the model changed.
    """
    files, marked = [predictions_name(model)], list[str]()
    probabilities = model.predict_proba().cpu()
    write_predictions(folder / files[0], ids, classes, probabilities, model.labels_.cpu())
    if not belongs_to_run(place):
        return {"refreshed": files, "outdated": marked}
    run = place.parent
    if (run / FEATURES).is_file() and (features := _features(model)) is not None:
        write_features(folder / FEATURES, ids, model.metadata_["feature_names"], features)
        files.append(FEATURES)
    when = now()
    if (run / REPORT).is_file():
        page = _marked_page((run / REPORT).read_text(encoding="utf-8"), when, files)
        if page is not None:
            (folder / REPORT).write_text(page, encoding="utf-8", newline="\n")
        marked.append(REPORT)
    files.append(SUMMARY)
    facts = {
        "when": when, "nodes": len(ids), "edges": model.data_.num_edges // 2,
        "labelled": int((model.labels_ >= 0).sum()), "changes": len(model.additions_), "refreshed": files,
        "outdated": marked,
    }  # fmt: skip
    storage.write_json(folder / SUMMARY, {**read_object(run / SUMMARY, "be the summary of a run"), "updated": facts})
    return {"refreshed": files, "outdated": marked}


def _features(model: Member) -> Tensor | None:
    features = getattr(model, "features_", None)
    return None if features is None or "feature_names" not in model.metadata_ else features.features(model.data_).cpu()


def _marked_page(page: str, when: str, current: Sequence[str]) -> str | None:
    """The page with a note at its top, instead of an earlier one; None if it is no page."""
    text = (
        f"The model has changed since this page was written, last on {timestamp(when)}. The page shows the model as it "
        f"was trained and measured; {' and '.join(current)} show it as it is now."
    )
    note = f'<!-- changed -->\n<p role="note" style="{STYLE}">{escape_text(text)}</p>\n<!-- /changed -->\n'
    page = NOTE.sub("", page, count=1)
    body = re.search(r"<body[^>]*>\n?", page)
    return None if body is None else page[: body.end()] + note + page[body.end() :]
