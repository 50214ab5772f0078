"""What a report says of a run: numbers that were measured elsewhere, checked here, shown by the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lggd.errors import InputError, InputTypeError

# Numbers by stage and measure, an entry an epoch: {"distances": {"train_loss": [...], "validation_loss": [...]}}.
Curves = Mapping[str, Mapping[str, Sequence[float]]]
UNKNOWN = -1
ACCURACIES = ("raw", "lggd")
LEAST_CERTAIN = 20
# Rounding in float32, not a wrong number.
ROUNDING = 1e-4


@dataclass(frozen=True)
class Addition:
    """What it brought to know `labels` nodes, with nothing retrained: per cent right, and the time it took."""

    labels: int
    accuracy: float
    milliseconds: float

    def __post_init__(self) -> None:
        if self.labels < 0:
            raise InputError("labels", "be a number of labels from 0", self.labels)
        _check_percent("accuracy", self.accuracy)
        _check_duration("milliseconds", self.milliseconds)


@dataclass(frozen=True)
class Doubt:
    """A node and the two classes it most resembles. With a single class, `second` is -1."""

    node: int
    first: int
    second: int
    first_probability: float
    second_probability: float
    labelled: bool

    @property
    def margin(self) -> float:
        return self.first_probability - self.second_probability


@dataclass(frozen=True, eq=False)
class RunReport:
    """All that the page of one run shows, for N nodes, K classes and T times.

    - `created` is a date and time in ISO 8601; `seconds` is how long the run took; `settings` may be nested.
    - `accuracy` is in per cent of the `heldout` nodes: "raw" without LGGD, "lggd" with it, None where unknown.
    - `curves` has numbers by stage and measure, one an epoch, such as train_loss or "train_loss t=1", validation_loss
      and validation_accuracy. A measure named accuracy is a share of 1, or in per cent if any value is above 1.
    - `distances [T, N, K]` are those of every node to the labelled nodes of each class at `times`; inf is out of reach.
    - `positions [N, 2]` and `edges [2, E]` draw the graph. `ids` names the nodes; None numbers them.
    - `truth`, `given` (the labels the model knew) and `predicted` are classes `[N]`, -1 where unknown; `tested [N]` are
      the held-out nodes whose truth is known. `probabilities [N, K]` are those of the prediction.
    - `additions` tells the effect of further labels; `notes` are sentences to print as they are.
    """

    title: str
    dataset: str
    backbone: str
    created: str
    version: str
    machine: str
    seconds: float
    settings: Mapping[str, Any]
    num_nodes: int
    num_edges: int
    classes: Sequence[str]
    ids: Sequence[str] | None
    accuracy: Mapping[str, float | None]
    heldout: int
    labelled: int
    curves: Curves
    times: Sequence[float]
    distances: NDArray[np.float32]
    positions: NDArray[np.float32]
    edges: NDArray[np.int64]
    truth: NDArray[np.int64]
    given: NDArray[np.int64]
    predicted: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    tested: NDArray[np.bool_]
    additions: Sequence[Addition] = field(default_factory=tuple)
    notes: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        self._check_facts()
        nodes, classes, times = self.num_nodes, len(self.classes), len(self.times)
        self._read("distances", np.float32, (times, nodes, classes))
        self._read("positions", np.float32, (nodes, 2))
        self._read("probabilities", np.float32, (nodes, classes))
        self._read("edges", np.int64, (2, None))
        self._read("tested", np.bool_, (nodes,))
        for name in ("truth", "given", "predicted"):
            self._read(name, np.int64, (nodes,))
            _check_range(name, getattr(self, name), 0 if name == "predicted" else UNKNOWN, classes - 1)
        _check_range("edges", self.edges, 0, nodes - 1)
        self._check_values()

    def _check_facts(self) -> None:
        if self.num_nodes < 1:
            raise InputError("num_nodes", "be at least 1", self.num_nodes, "A report needs a graph.")
        if len(self.classes) == 0:
            raise InputError("classes", "name at least one class", "none")
        if len(self.times) == 0:
            raise InputError("times", "hold at least one time", "none")
        if not all(math.isfinite(t) for t in self.times):
            raise InputError("times", "be finite", list(self.times))
        if self.ids is not None and len(self.ids) != self.num_nodes:
            raise InputError(
                "ids", f"name all {self.num_nodes} nodes", f"{len(self.ids)} names", "Pass None to number them."
            )
        if set(self.accuracy) != set(ACCURACIES):
            raise InputError("accuracy", 'have the keys "raw" and "lggd"', sorted(self.accuracy))
        for name, value in self.accuracy.items():
            if value is not None:
                _check_percent(f'accuracy["{name}"]', value)
        for name in ("num_edges", "heldout", "labelled"):
            if getattr(self, name) < 0:
                raise InputError(name, "be a number from 0", getattr(self, name))
        _check_duration("seconds", self.seconds)
        try:
            datetime.fromisoformat(self.created)
        except ValueError as wrong:
            raise InputError(
                "created", "be a time in ISO 8601 such as 2025-01-31T12:00:00", repr(self.created)
            ) from wrong

    def _read(self, name: str, dtype: type[np.generic], shape: tuple[int | None, ...]) -> None:
        """Keeps the field as a NumPy array of that kind, if it has that shape; None is any length."""
        given = getattr(self, name)
        array = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
        whole = array.dtype.kind in ("b" if dtype is np.bool_ else "iu")
        if dtype is not np.float32 and not whole and array.size:
            wanted = "True or False" if dtype is np.bool_ else "whole numbers"
            raise InputTypeError(name, f"be {wanted}", array.dtype)
        fits = array.ndim == len(shape) and all(s in (None, n) for s, n in zip(shape, array.shape, strict=True))
        if not fits:
            wanted = ", ".join("E" if s is None else str(s) for s in shape)
            raise InputError(name, f"have the shape [{wanted}]", list(array.shape))
        object.__setattr__(self, name, array.astype(dtype, copy=False))

    def _check_values(self) -> None:
        if not np.isfinite(self.positions).all():
            bad = int(np.flatnonzero(~np.isfinite(self.positions).all(1))[0])
            raise InputError("positions", "be finite", f"{self.positions[bad]} at node {bad}")
        low, high = float(self.probabilities.min()), float(self.probabilities.max())
        if not (low >= -ROUNDING and high <= 1 + ROUNDING):
            raise InputError(
                "probabilities", "lie in [0, 1]", f"values from {low:g} to {high:g}", "Apply a softmax to scores."
            )
        untold = np.flatnonzero(self.tested & (self.truth == UNKNOWN))
        if len(untold):
            raise InputError("tested", "be nodes whose `truth` is known", but=f"that of node {untold[0]} is -1")

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    def name_of(self, node: int) -> str:
        """The node's name, or its number."""
        return str(node) if self.ids is None else str(self.ids[node])

    @property
    def difference(self) -> float | None:
        """By how many per cent points LGGD is better; None unless both accuracies are known."""
        with_lggd, without = self.accuracy["lggd"], self.accuracy["raw"]
        return None if with_lggd is None or without is None else with_lggd - without

    @cached_property
    def ranked(self) -> _Ranked:
        """The two most probable classes of every node."""
        return _Ranked.of(self.probabilities)

    def confusion(self) -> NDArray[np.int64]:
        """How many tested nodes of each class (rows) were taken for each class (columns), `[K, K]`."""
        k = self.num_classes
        cell = self.truth[self.tested] * k + self.predicted[self.tested]
        return np.bincount(cell, minlength=k * k).reshape(k, k).astype(np.int64)

    def least_certain(self, count: int = LEAST_CERTAIN) -> list[Doubt]:
        """The nodes with the smallest margin between their two best classes, those without a label first."""
        ranked = self.ranked
        labelled = self.given != UNKNOWN
        order = np.lexsort((np.arange(self.num_nodes), ranked.margin, labelled))[:count]
        return [
            Doubt(
                node=int(node),
                first=int(ranked.first[node]),
                second=int(ranked.second[node]),
                first_probability=float(ranked.first_probability[node]),
                second_probability=float(ranked.second_probability[node]),
                labelled=bool(labelled[node]),
            )
            for node in order
        ]


@dataclass(frozen=True, eq=False)
class _Ranked:
    """The two most probable classes of every node `[N]`, and their probabilities. A single class has no second: -1."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    first_probability: NDArray[np.float32]
    second_probability: NDArray[np.float32]

    @classmethod
    def of(cls, probabilities: NDArray[np.float32]) -> _Ranked:
        nodes, classes = probabilities.shape
        if classes == 1:
            nobody = np.full(nodes, UNKNOWN)
            return cls(np.zeros(nodes, np.int64), nobody, probabilities[:, 0], np.zeros(nodes, np.float32))
        rows = np.arange(nodes)
        first = probabilities.argmax(1)
        others = probabilities.copy()
        others[rows, first] = -1
        second = others.argmax(1)
        return cls(first, second, probabilities[rows, first], probabilities[rows, second])

    @property
    def margin(self) -> NDArray[np.float32]:
        return self.first_probability - self.second_probability


def _check_percent(name: str, value: float) -> None:
    if not 0 <= value <= 100:
        raise InputError(name, "be per cent, 0 to 100", value)


def _check_duration(name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(name, "be a duration from 0", value)


def _check_range(name: str, array: NDArray[np.int64], low: int, high: int) -> None:
    outside = (array < low) | (array > high)
    if outside.any():
        raise InputError(name, f"lie in {low}..{high}", array[outside][0])
