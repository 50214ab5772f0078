"""What readers see: labels and predictions at one moment, which never change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lggd.closed_form import KernelRidge
from lggd.studio.studio_graph import StudioGraph

Found = TypeVar("Found")
Integers = NDArray[np.int64]
FEWEST_CLASSES = 2


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a studio after some changes.

    `labels` and `versions` are int64 `[N]`, `kept` bool `[N]`. `model` predicts the classes `active`, those with a
    label; None as long as there are no predictions. `changed` are the nodes whose prediction differs from that of the
    snapshot before, and `milliseconds` what computing it took. While `choosing`, better settings are being looked for.
    """

    graph: StudioGraph
    revision: int
    classes: tuple[str, ...]
    labels: Integers
    versions: Integers
    kept: NDArray[np.bool_]
    active: Integers
    model: KernelRidge | None = None
    changed: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    milliseconds: float = 0.0
    choosing: bool = False
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    _locks: dict[Any, threading.RLock] = field(default_factory=dict, init=False, repr=False)

    def cached(self, key: Any, compute: Callable[[], Found]) -> Found:
        """What was computed first under this key; others who need it meanwhile wait for it."""
        if key not in self._cache:
            # One lock for each key: predictions do not wait for suggestions.
            with self._locks.setdefault(key, threading.RLock()):
                if key not in self._cache:
                    self._cache[key] = compute()
        found: Found = self._cache[key]
        return found

    @property
    def num_labels(self) -> int:
        return int((self.labels >= 0).sum())

    def probabilities(self) -> NDArray[np.float32]:
        """The probability of each active class, `[N, A]`; `[N, 0]` without predictions."""
        if self.model is None:
            return np.empty((len(self.labels), 0), np.float32)
        return np.asarray(self.model.predict_proba().numpy())

    @property
    def predicted(self) -> Integers:
        """The most probable class of each node, -1 without predictions."""
        return self.cached("predicted", self._predicted)

    def _predicted(self) -> Integers:
        if self.model is None:
            return np.full(len(self.labels), -1)
        return np.asarray(self.active[self.probabilities().argmax(1)])

    @property
    def certainty(self) -> NDArray[np.float32]:
        """The probability of the predicted class, 0 without predictions."""
        if self.model is None:
            return np.zeros(len(self.labels), np.float32)
        return self.cached("certainty", lambda: np.asarray(self.probabilities().max(1)))

    def top_classes(self, node: int, count: int = 3) -> list[tuple[int, float]]:
        """The most probable classes of a node and their probabilities."""
        row = self.probabilities()[node]
        return [(int(self.active[k]), float(row[k])) for k in np.argsort(-row, kind="stable")[:count]]

    def compact(self) -> torch.Tensor:
        """The labels as numbers of active classes, int64 `[N]`."""
        return compact_labels(self.labels, self.active)


def active_classes(labels: Integers) -> Integers:
    """The classes with a label, in ascending order."""
    return np.unique(labels[labels >= 0])


def compact_labels(labels: Integers, active: Integers) -> torch.Tensor:
    """Labels as positions in `active`, -1 elsewhere: models number their classes without gaps."""
    compact = np.where(labels >= 0, np.searchsorted(active, labels), -1)
    return torch.from_numpy(compact.astype(np.int64))
