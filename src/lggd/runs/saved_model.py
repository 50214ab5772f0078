"""A saved model with the names of its nodes and classes, to predict and to add labels from a file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lggd.data.graph_files import read_label_file
from lggd.data.output_files import write_predictions
from lggd.errors import InputError
from lggd.estimator import storage
from lggd.estimator.labels import LabelConflictError, merge_labels
from lggd.models import load_model


@dataclass(frozen=True)
class AddedLabels:
    """The numbers of labels in a file, of new and corrected ones and of changed predictions; the time it took."""

    labels: int
    new: int
    corrected: int
    changed: int
    milliseconds: float


class SavedModel:
    """A model in a folder, or in the folder `model` of a run or of a classifier of samples."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        inside = path / "model"
        self.folder = inside if (inside / storage.SETTINGS_FILE).is_file() else path
        # A classifier of samples makes its graph itself.
        self.of_samples = self.folder is inside and (path / storage.SETTINGS_FILE).is_file()
        self.model = load_model(self.folder)
        self.dataset = str(self.model.metadata_.get("dataset") or path.resolve().name)
        self.ids = self._names("ids", len(self.model.labels_))
        self.classes = self._names("classes", self.model.num_classes_)

    def _names(self, key: str, count: int) -> list[str]:
        """Returns the names saved with the model, or numbers if there are none."""
        names = self.model.metadata_.get(key)
        if names is None:
            return [str(k) for k in range(count)]
        if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
            path = self.folder / storage.SETTINGS_FILE
            raise InputError(path, f"name all {count} {key}", but="it does not", remedy="Save the model again.")
        return names

    @property
    def num_labelled(self) -> int:
        return int((self.model.labels_ >= 0).sum())

    def probabilities(self) -> Tensor:
        probabilities: Tensor = self.model.predict_proba()
        return probabilities

    def write(self, path: str | Path, probabilities: Tensor) -> None:
        write_predictions(path, self.ids, self.classes, probabilities, self.model.labels_)

    def counts(self, probabilities: Tensor) -> dict[str, int]:
        counts = torch.bincount(probabilities.argmax(1), minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    def least_certain(self, probabilities: Tensor, count: int) -> list[dict[str, Any]]:
        """Returns `count` unlabelled nodes with the smallest margin between their two most probable classes."""
        best = probabilities.topk(min(2, probabilities.shape[1]), dim=1)
        margin = best.values[:, 0] - (best.values[:, 1] if best.values.shape[1] > 1 else 0)
        margin[self.model.labels_ >= 0] = torch.inf
        order = [k for k in margin.argsort(stable=True).tolist() if margin[k] < torch.inf][:count]
        classes = {k: [self.classes[c] for c in best.indices[k].tolist()] for k in order}
        return [{"node": self.ids[k], "classes": classes[k], "probabilities": best.values[k].tolist()} for k in order]

    def add_labels(self, path: str | Path, correct: bool = False) -> tuple[AddedLabels, Tensor]:
        """Adds the labels of a table of ids and classes; returns their effect and the new probabilities.

        Labels that differ from known ones are an error, or with `correct` replace them.
        """
        nodes, labels = map(torch.from_numpy, read_label_file(path, self.ids, self.classes))
        known = self.model.labels_[nodes]
        new, wrong = known < 0, (known >= 0) & (known != labels)
        if not correct:
            self._check_agreement(path, nodes, labels)
        before = self.probabilities().argmax(1)
        start = time.perf_counter()
        if bool(new.any()):
            self.model.add_labels(nodes[new], labels[new])
        if bool(wrong.any()):
            self.model.change_labels(nodes[wrong], labels[wrong])
        probabilities = self.probabilities()
        milliseconds = 1000 * (time.perf_counter() - start)
        changed = int((probabilities.argmax(1) != before).sum())
        return AddedLabels(len(nodes), int(new.sum()), int(wrong.sum()), changed, milliseconds), probabilities

    def _check_agreement(self, path: str | Path, nodes: Tensor, labels: Tensor) -> None:
        try:
            merge_labels(self.model.labels_, nodes, labels, self.model.num_classes_)
        except LabelConflictError as error:
            node, known, label = self.ids[error.node], self.classes[error.known], self.classes[error.label]
            rule = f"give the node {node!r} its known label {known!r}"
            raise InputError(path, rule, repr(label), "Remove it, or use --correct to replace known labels.") from error

    def save(self) -> None:
        self.model.save(self.folder)
