"""The content of a report: the measurements of a run, validated here and rendered by the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lggd.errors import InputError, InputTypeError
from lggd.report.accuracy import McNemarTest, wilson_interval
from lggd.validation import check_int, check_real, check_same_length

# Values by stage and measure, one per epoch: {"distances": {"train_loss": [...], "validation_loss": [...]}}.
Curves = Mapping[str, Mapping[str, Sequence[float]]]
# A tensor, a list or an array; `RunReport` converts all to NumPy arrays.
Array = Any
UNKNOWN = -1
# The least certain nodes: at most so many, with a smaller margin between their two most probable classes.
UNCERTAIN_NODES, UNCERTAIN_MARGIN = 20, 0.3
# Tolerance for rounding in float32.
ROUNDING = 1e-4
PERCENT, DURATION = "be a percentage, 0 to 100", "be a duration from 0"


@dataclass(frozen=True)
class LabelAddition:
    """Accuracy (%) with a number of labels, without retraining, and the time needed to add them.

    `tested` is the number of nodes on which accuracy was measured: those whose label is never added. None if unknown.
    """

    labels: int
    accuracy: float
    milliseconds: float
    tested: int | None = None

    def __post_init__(self) -> None:
        check_int("labels", self.labels, minimum=0)
        check_real("accuracy", self.accuracy, 0, 100, rule=PERCENT)
        check_real("milliseconds", self.milliseconds, 0, closed="left", rule=DURATION)
        if self.tested is not None:
            check_int("tested", self.tested, minimum=1)


@dataclass(frozen=True, eq=False)
class RunReport:
    """The content of the page of one run, for N nodes, K classes and T times.

    - `titles` are the display names of the "model" and, if there is one, of the "reference" model.
    - `accuracy` (%) on the test nodes has the same two keys, with None if it is unknown.
    - `created` is a time in ISO 8601, `seconds` the duration of the run; `settings` may be nested.
    - `curves` are values by stage and measure, one per epoch, such as train_loss or "train_loss t=1", validation_loss
      and validation_accuracy. Accuracies are fractions, or percentages if any value is above 1.
    - `distances [T, N, K]` are from every node to the labelled nodes of each class at `times`; inf means unreachable.
      None, and no times, for methods without distances.
    - `positions [N, 2]` and `edges [2, E]` draw the graph. `ids` are the names of nodes; None uses their numbers.
    - `y`, `labels` (known to the model) and `predicted` are classes `[N]`, -1 if unknown; `test_mask [N]` selects the
      held-out nodes, whose class is known. `probabilities [N, K]` are those of the predictions.
    - `reference_predicted [N]` are the predictions of the reference model; None if there is none.
    - `additions` show the effect of further labels; `notes` are sentences to print.
    """

    title: str
    dataset: str
    titles: Mapping[str, str]
    created: str
    version: str
    machine: str
    seconds: float
    settings: Mapping[str, Any]
    num_edges: int
    classes: Sequence[str]
    ids: Sequence[str] | None
    accuracy: Mapping[str, float | None]
    curves: Curves
    times: Sequence[float]
    distances: Array
    positions: Array
    edges: Array
    y: Array
    labels: Array
    predicted: Array
    probabilities: Array
    test_mask: Array
    additions: Sequence[LabelAddition] = ()
    notes: Sequence[str] = ()
    reference_predicted: Array | None = None

    def __post_init__(self) -> None:
        self._check_scalars()
        nodes, classes, times = len(self.y), len(self.classes), len(self.times)
        if self.distances is None:
            object.__setattr__(self, "distances", np.zeros((times, nodes, classes)))
        if self.reference_predicted is not None:
            self._to_array("reference_predicted", np.int64, (nodes,), 0, classes - 1)
        self._to_array("distances", np.float32, (times, nodes, classes))
        self._to_array("positions", np.float32, (nodes, 2))
        self._to_array("probabilities", np.float32, (nodes, classes))
        self._to_array("edges", np.int64, (2, None), 0, nodes - 1)
        self._to_array("test_mask", np.bool_, (nodes,))
        for name in ("y", "labels", "predicted"):
            self._to_array(name, np.int64, (nodes,), 0 if name == "predicted" else UNKNOWN, classes - 1)
        if not np.isfinite(self.positions).all():
            node = int(np.flatnonzero(~np.isfinite(self.positions).all(1))[0])
            raise InputError("positions", "be finite", f"{self.positions[node]} at node {node}")
        low, high = float(self.probabilities.min()), float(self.probabilities.max())
        if not (low >= -ROUNDING and high <= 1 + ROUNDING):
            value = f"values from {low:g} to {high:g}"
            raise InputError("probabilities", "lie in [0, 1]", value, "Apply a softmax to scores.")
        unknown = np.flatnonzero(self.test_mask & (self.y == UNKNOWN))
        if len(unknown):
            raise InputError("test_mask", "select nodes whose `y` is known", but=f"that of node {unknown[0]} is -1")

    def _check_scalars(self) -> None:
        for name, item in (("y", "node"), ("classes", "class")):
            if len(getattr(self, name)) == 0:
                raise InputError(name, f"contain at least one {item}", "none")
        if (self.distances is None) != (len(self.times) == 0):
            raise InputError("times", "contain at least one time if there are distances, else none", list(self.times))
        if not all(math.isfinite(t) for t in self.times):
            raise InputError("times", "be finite", list(self.times))
        if self.ids is not None:
            check_same_length("ids", self.ids, len(self.y), "node")
        if set(self.accuracy) != {"model", "reference"}:
            raise InputError("accuracy", 'have the keys "model" and "reference"', sorted(self.accuracy))
        for name, value in self.accuracy.items():
            if value is not None:
                check_real(f'accuracy["{name}"]', value, 0, 100, rule=PERCENT)
        check_int("num_edges", self.num_edges, minimum=0)
        check_real("seconds", self.seconds, 0, closed="left", rule=DURATION)
        try:
            datetime.fromisoformat(self.created)
        except ValueError as error:
            rule = "be a time in ISO 8601 such as 2025-01-31T12:00:00"
            raise InputError("created", rule, repr(self.created)) from error

    def _to_array(
        self, name: str, dtype: type[np.generic], shape: tuple[int | None, ...], low: int = 0, high: int | None = None
    ) -> None:
        """Replaces a field by a NumPy array of that type, shape (None is any length) and range."""
        value = getattr(self, name)
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        if dtype is not np.float32 and array.size and array.dtype.kind not in ("b" if dtype is np.bool_ else "iu"):
            raise InputTypeError(name, "be booleans" if dtype is np.bool_ else "be integers", array.dtype)
        if array.ndim != len(shape) or any(s not in (None, n) for s, n in zip(shape, array.shape, strict=True)):
            expected = ", ".join("E" if s is None else str(s) for s in shape)
            raise InputError(name, f"have the shape [{expected}]", list(array.shape))
        if high is not None and len(outside := array[(array < low) | (array > high)]):
            raise InputError(name, f"lie in {low}..{high}", outside[0])
        object.__setattr__(self, name, array.astype(dtype, copy=False))

    @property
    def num_nodes(self) -> int:
        return len(self.y)

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def num_tested(self) -> int:
        return int(self.test_mask.sum())

    @property
    def gain(self) -> float | None:
        """Accuracy of the model minus that of the reference, in percentage points; None unless both are known."""
        model, reference = self.accuracy["model"], self.accuracy["reference"]
        return None if model is None or reference is None else model - reference

    def name_of(self, node: int) -> str:
        return str(node if self.ids is None else self.ids[node])

    @cached_property
    def top_two(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The two most probable classes of every node and their probabilities, `[N, 2]`; -1 and 0 if there is one."""
        return top_two(self.probabilities)

    @property
    def margin(self) -> NDArray[np.float32]:
        """The difference between the two highest probabilities of every node `[N]`."""
        first, second = self.top_two[1].T
        return np.asarray(first - second)

    def confusion(self) -> NDArray[np.int64]:
        """Returns the number of test nodes by true class (rows) and predicted class (columns), `[K, K]`."""
        table = np.zeros((self.num_classes, self.num_classes), np.int64)
        np.add.at(table, (self.y[self.test_mask], self.predicted[self.test_mask]), 1)
        return table

    def least_certain(self, count: int = UNCERTAIN_NODES) -> list[int]:
        """Returns unlabelled nodes whose two most probable classes are close, the smallest margin first."""
        margin = np.where(self.labels == UNKNOWN, self.margin, np.inf)
        order = np.argsort(margin, kind="stable")[:count]
        return list(order[margin[order] < UNCERTAIN_MARGIN].tolist())

    def interval(self, part: str) -> tuple[float, float] | None:
        """Returns the 95 % interval of the accuracy (%) of the "model" or the "reference"; None if it is unknown."""
        accuracy = self.accuracy[part]
        if accuracy is None or not self.num_tested:
            return None
        return wilson_interval(round(accuracy / 100 * self.num_tested), self.num_tested)

    def comparison(self) -> McNemarTest | None:
        """Compares the model with the reference on the test nodes; None without predictions of the reference."""
        if self.reference_predicted is None or self.gain is None or not self.num_tested:
            return None
        y = self.y[self.test_mask]
        model, reference = (each[self.test_mask] == y for each in (self.predicted, self.reference_predicted))
        return McNemarTest.of(model, reference)


def top_two(probabilities: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Returns the two most probable classes per node and their probabilities, `[N, 2]`; -1 and 0 if there is one."""
    classes = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
    best, missing = np.take_along_axis(probabilities, classes, 1), ((0, 0), (0, 2 - classes.shape[1]))
    return np.pad(classes, missing, constant_values=UNKNOWN), np.pad(best, missing)
