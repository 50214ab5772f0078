"""A saved model with the names of its nodes and classes: what it predicts, and how it takes in new labels."""

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
from lggd.models.classifier import LGGDClassifier


@dataclass(frozen=True)
class Added:
    """What a file of labels brought: how many it `told`, how many of them were `new`, how many nodes are now predicted
    otherwise, and how long it took to add the labels and predict anew."""

    told: int
    new: int
    changed: int
    milliseconds: float


class SavedModel:
    """A model in a folder, or in the folder `model` of a run."""

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        inside = path / "model"
        is_run = not (path / storage.SETTINGS_FILE).is_file() and (inside / storage.SETTINGS_FILE).is_file()
        self.folder = inside if is_run else path
        self.model = LGGDClassifier.load(self.folder)
        nodes = len(self.model.labels_)
        self.dataset = str(self.model.metadata_.get("dataset") or self.folder.resolve().name)
        self.ids = self._names("ids", nodes)
        self.classes = self._names("classes", self.model.num_classes_)

    def _names(self, key: str, count: int) -> list[str]:
        """The names saved with the model; numbers where there are none."""
        names = self.model.metadata_.get(key)
        if names is None:
            return [str(k) for k in range(count)]
        if not isinstance(names, list) or len(names) != count or not all(isinstance(name, str) for name in names):
            path = self.folder / storage.SETTINGS_FILE
            raise InputError(path, f"name all {count} {key}", but="it does not", remedy="Save the model anew.")
        return names

    @property
    def labelled(self) -> int:
        return int((self.model.labels_ >= 0).sum())

    def probabilities(self) -> Tensor:
        """Of each class at each node, float32 `[N, K]`."""
        return self.model.predict_proba()

    def write(self, path: str | Path, probabilities: Tensor) -> None:
        """The predictions as a table, with the labels that are known."""
        write_predictions(path, self.ids, self.classes, probabilities, labels=self.model.labels_)

    def counts(self, probabilities: Tensor) -> dict[str, int]:
        """How many nodes are predicted to be of each class."""
        found = torch.bincount(probabilities.argmax(1), minlength=len(self.classes))
        return dict(zip(self.classes, found.tolist(), strict=True))

    def least_certain(self, probabilities: Tensor, count: int) -> list[dict[str, Any]]:
        """The unlabelled nodes whose two best classes are closest to each other."""
        best = probabilities.topk(min(2, probabilities.shape[1]), dim=1)
        margin = best.values[:, 0] - (best.values[:, 1] if best.values.shape[1] > 1 else 0)
        margin[self.model.labels_ >= 0] = torch.inf
        order = [k for k in margin.argsort(stable=True).tolist() if margin[k] < torch.inf][:count]
        return [
            {
                "node": self.ids[k],
                "classes": [self.classes[c] for c in best.indices[k].tolist()],
                "probabilities": best.values[k].tolist(),
            }
            for k in order
        ]

    def add_labels(self, path: str | Path) -> tuple[Added, Tensor]:
        """Takes in a file of ids and labels; gives what that brought, and the new probabilities. Nothing is saved."""
        nodes, labels = (torch.from_numpy(found) for found in read_label_file(path, self.ids, self.classes))
        self._check_agreement(path, nodes, labels)
        new = self.model.labels_[nodes] < 0
        before = self.probabilities().argmax(1)
        began = time.perf_counter()
        if bool(new.any()):
            self.model.add_labels(nodes[new], labels[new])
        probabilities = self.probabilities()
        milliseconds = 1000 * (time.perf_counter() - began)
        changed = int((probabilities.argmax(1) != before).sum())
        return Added(len(nodes), int(new.sum()), changed, milliseconds), probabilities

    def _check_agreement(self, path: str | Path, nodes: Tensor, labels: Tensor) -> None:
        known = self.model.labels_[nodes]
        clash = ((known >= 0) & (known != labels)).nonzero()
        if len(clash):
            k = int(clash[0])
            raise ValueError(
                f"`{path}`, node {self.ids[int(nodes[k])]!r}: must agree with the label that is known, "
                f"{self.classes[int(known[k])]!r}, got {self.classes[int(labels[k])]!r}. Leave it out, or train anew."
            )

    def save(self) -> None:
        """Replaces the saved model by this one, whole or not at all."""
        self.model.save(self.folder)
