"""The content of a report: the measurements of a run, and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from torch import Tensor

# Values by stage and measure, one per epoch: {"distances": {"train_loss": [...], "validation_loss": [...]}}.
Curves = Mapping[str, Mapping[str, Sequence[float]]]
# A tensor, a list or an array; `RunReport` converts all to NumPy arrays.
Array = Any
UNKNOWN = -1
# The least certain nodes: at most so many, with a smaller margin between their two most probable classes.
UNCERTAIN_NODES, UNCERTAIN_MARGIN = 20, 0.3
CONFIDENCE, SIGNIFICANCE_LEVEL = 0.95, 0.05


def wilson_interval(correct: int, total: int) -> tuple[float, float]:
    """Returns the 95 % interval in percent of the accuracy `correct / total`, also for few nodes (Wilson, 1927).

    >>> low, high = wilson_interval(5, 6)
    >>> round(low, 1), round(high, 1)
    (43.6, 97.0)
    """
    interval = binomtest(correct, total).proportion_ci(CONFIDENCE, method="wilson")
    return 100 * float(interval.low), 100 * float(interval.high)


@dataclass(frozen=True)
class McNemarTest:
    """Two models on the same nodes: how many only the first, or only the second, classifies correctly.

    `p` is the two-sided p-value of McNemar's exact test: the probability of counts at least as unequal if both models
    were equally good. Nodes on which they agree carry no information.
    """

    only_first: int
    only_second: int
    p: float

    @property
    def is_clear(self) -> bool:
        return self.p < SIGNIFICANCE_LEVEL

    @classmethod
    def of(cls, first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemarTest:
        """Compares which nodes each of the models classifies correctly."""
        only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
        discordant = only_first + only_second
        return cls(only_first, only_second, float(binomtest(only_first, discordant).pvalue) if discordant else 1.0)


@dataclass(frozen=True)
class LabelAddition:
    """Accuracy (%) with a number of labels, without retraining, and the time needed to add them.

    `tested` is the number of nodes on which accuracy was measured: those whose label is never added. None if unknown.
    """

    labels: int
    accuracy: float
    milliseconds: float
    tested: int | None = None


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
    - `comparison` tests the model against the reference on the test nodes; None without predictions of both.
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
    comparison: McNemarTest | None = None

    def __post_init__(self) -> None:
        nodes, classes, times = len(self.y), len(self.classes), len(self.times)
        if self.distances is None:
            object.__setattr__(self, "distances", np.zeros((times, nodes, classes)))
        self._to_arrays(np.int64, "y", "labels", "predicted", "edges")
        self._to_arrays(np.float32, "distances", "positions", "probabilities")
        self._to_arrays(np.bool_, "test_mask")

    def _to_arrays(self, dtype: type[np.generic], *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
            object.__setattr__(self, name, np.asarray(array, dtype))

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


def top_two(probabilities: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Returns the two most probable classes per node and their probabilities, `[N, 2]`; -1 and 0 if there is one."""
    classes = np.argsort(-probabilities, axis=1, kind="stable")[:, :2]
    best, missing = np.take_along_axis(probabilities, classes, 1), ((0, 0), (0, 2 - classes.shape[1]))
    return np.pad(classes, missing, constant_values=UNKNOWN), np.pad(best, missing)
