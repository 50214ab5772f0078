"""Immutable snapshots of labels and predictions, and suggestions from them.

Nodes to label next, labels that look wrong, accuracy, confusion, distances to a class.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, wraps
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from lggd.app.studio.store import LabelChange
from lggd.app.studio.studio_graph import StudioGraph
from lggd.closed_form import KernelRidge
from lggd.closed_form.kernel_ridge import read_inputs
from lggd.closed_form.uncertainty import SuspiciousLabels, greedy_choice, margins
from lggd.distances import distance
from lggd.filters import Hops
from lggd.inputs import NodeData
from lggd.kernels import ChosenKernel, FilterKernel, Linear, MixtureKernel
from lggd.text import percent

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
Integers = NDArray[np.int64]
MIN_CLASSES = 2
MAX_SUGGESTIONS = 50
# Before there are predictions, nodes are suggested among this many, for features of this width under this kernel.
FIRST_CANDIDATES, FIRST_WIDTH, FIRST_RIDGE = 1024, 64, 0.1
FIRST_KERNEL = FilterKernel((Hops(2),), Linear())
# Up to this margin between its two most probable classes, a node is called undecided.
UNDECIDED = 0.3


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a studio after some changes.

    `labels` and `versions` are int64 `[N]`, `kept` bool `[N]`; `history` are all changes, the oldest first. `model`
    predicts the classes `active`; None as long as there are no predictions. `changed` are the nodes whose prediction
    differs from that of the snapshot before, and `milliseconds` what computing it took. While `choosing`, better
    settings are being looked for.
    """

    graph: StudioGraph
    revision: int
    classes: tuple[str, ...]
    labels: Integers
    versions: Integers
    kept: NDArray[np.bool_]
    history: tuple[LabelChange, ...]
    model: KernelRidge | None = None
    changed: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    milliseconds: float = 0.0
    choosing: bool = False
    _results: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    _locks: dict[Any, threading.RLock] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def num_labels(self) -> int:
        return int((self.labels >= 0).sum())

    @cached_property
    def active(self) -> Integers:
        """The classes with a label, in ascending order."""
        return active_classes(self.labels)

    def compact(self) -> torch.Tensor:
        """The labels as positions in `active`, int64 `[N]`, -1 for none: models number their classes without gaps."""
        compact = np.where(self.labels >= 0, np.searchsorted(self.active, self.labels), -1)
        return torch.from_numpy(compact.astype(np.int64))

    def active_names(self) -> list[str]:
        return [self.classes[k] for k in self.active]

    def name_of(self, label: int) -> str | None:
        """The name of a class; None for -1, which is none."""
        return None if label < 0 else self.classes[label]

    def probabilities(self) -> NDArray[np.float32]:
        """The probability of each active class, `[N, A]`; `[N, 0]` without predictions."""
        if self.model is None:
            return np.empty((len(self.labels), 0), np.float32)
        return np.asarray(self.model.predict_proba().numpy())

    @cached_property
    def predicted(self) -> Integers:
        """The most probable class of each node, -1 without predictions."""
        if self.model is None:
            return np.full(len(self.labels), -1)
        return np.asarray(self.active[self.probabilities().argmax(1)])

    @cached_property
    def certainty(self) -> NDArray[np.float32]:
        """The probability of the predicted class, 0 without predictions."""
        return np.asarray(self.probabilities().max(1, initial=0))

    def identify(self, node: int) -> tuple[str, int, int]:
        """The id and the number of a node, and the version of its label."""
        return self.graph.ids[node], int(node), int(self.versions[node])

    def top_classes(self, node: int, count: int = 3) -> list[tuple[str, float]]:
        """The most probable classes of a node and their probabilities."""
        row = self.probabilities()[node]
        return [(self.classes[self.active[k]], float(row[k])) for k in np.argsort(-row, kind="stable")[:count]]


def computed_once(function: Callable[[Snapshot, *Arguments], Result]) -> Callable[[Snapshot, *Arguments], Result]:
    """Makes a function keep its results in the snapshot; other threads that need one meanwhile wait for it."""

    @wraps(function)
    def kept(snapshot: Snapshot, *args: *Arguments) -> Result:
        results, key = snapshot._results, (function, *args)
        if key not in results:
            # One lock for each key: predictions do not wait for suggestions.
            with snapshot._locks.setdefault(key, threading.RLock()):
                if key not in results:
                    results[key] = function(snapshot, *args)
        result: Result = results[key]
        return result

    return kept


def active_classes(labels: Integers) -> Integers:
    """The classes with a label, in ascending order."""
    return np.unique(labels[labels >= 0])


# -- nodes to label next ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suggestion:
    """A node worth labelling, and why: its id, its number, the version of its label, and its most probable classes."""

    node: str
    number: int
    version: int
    reason: str
    first: str | None = None
    second: str | None = None
    margin: float | None = None
    variance: float | None = None


@computed_once
def all_suggestions(snapshot: Snapshot) -> list[Suggestion]:
    """The nodes most worth labelling next, the best first, with reasons."""
    model = snapshot.model
    if model is None:
        order = first_nodes(snapshot.graph)
        nodes = order[snapshot.labels[order] < 0][:MAX_SUGGESTIONS]
        return [Suggestion(*snapshot.identify(node), "stands for many nodes like it") for node in nodes]
    if not (snapshot.labels < 0).any():
        return []
    nodes = model.suggest(MAX_SUGGESTIONS).numpy()
    margin, variance = margins(model.predict_proba()).numpy(), model.variance().numpy()
    rank = (rankdata(variance, "min") - 1) / len(variance)  # the share of nodes that are better known
    return [with_reason(snapshot, node, float(margin[node]), float(variance[node]), rank[node]) for node in nodes]


def with_reason(snapshot: Snapshot, node: int, margin: float, variance: float, rank: float) -> Suggestion:
    (first, p), (second, _) = snapshot.top_classes(node, 2)
    if margin <= UNDECIDED:
        reason = f"undecided between {first} ({percent(100 * p, 0)}) and {second} ({percent(100 * (p - margin), 0)})"
    elif rank >= 0.5:
        reason = f"less like the labelled nodes than {percent(math.floor(100 * rank), 0)} of all nodes"
    else:
        reason = "its label would tell about many uncertain nodes"
    return Suggestion(*snapshot.identify(node), reason, first, second, margin, variance)


@lru_cache(maxsize=2)
def first_nodes(graph: StudioGraph) -> Integers:
    """Nodes to label when there are no predictions: by the criterion of `KernelRidge.suggest` before any label."""
    features = read_inputs(NodeData.read(graph.data), (FIRST_WIDTH,), seed=0).graph("x", [FIRST_KERNEL])
    kernel = MixtureKernel({"x": features}, [ChosenKernel("x", FIRST_KERNEL)])
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    candidates = order[:FIRST_CANDIDATES].sort().values
    prior = kernel.between(kernel.points(candidates), kernel.points())
    doubt = torch.ones(graph.num_nodes)
    return np.asarray(candidates[greedy_choice(prior, candidates, doubt, FIRST_RIDGE, 2 * MAX_SUGGESTIONS)].numpy())


# -- labels that look wrong ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SuspiciousLabel:
    """A label that all others contradict: its probability by them, and the class that they suggest instead."""

    node: str
    number: int
    version: int
    label: str
    probability: float
    suggested: str
    suggested_probability: float


@computed_once
def all_suspicious(snapshot: Snapshot) -> list[SuspiciousLabel]:
    """Labels whose leave-one-out prediction disagrees, the most suspicious first, without those that somebody kept."""
    left_out = _left_out(snapshot)
    if left_out is None:
        return []
    names = snapshot.active_names()
    rows = zip(*(column.tolist() for column in vars(left_out).values()), strict=True)
    return [
        SuspiciousLabel(*snapshot.identify(node), names[label], own, names[suggested], probability)
        for node, label, own, suggested, probability in rows
        if suggested != label and not snapshot.kept[node]
    ]


@computed_once
def _left_out(snapshot: Snapshot) -> SuspiciousLabels | None:
    """Leave-one-out predictions of all labels; None without predictions."""
    return None if snapshot.model is None else snapshot.model.suspicious_labels()


# -- accuracy and distances ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Quality:
    """How good the predictions are: accuracy on held-out nodes or by leave-one-out, and the confusion behind it.

    `accuracy` is None where nothing can be compared; `compared` counts nodes; `confusion [K, K]` has true classes in
    rows. `held_out` tells which of the two it is.
    """

    held_out: bool
    compared: int
    accuracy: float | None
    confusion: Integers
    certainty: float


@computed_once
def quality(snapshot: Snapshot) -> Quality:
    """The accuracy of a snapshot, on held-out nodes where there are any that nobody has labelled."""
    held_out = np.flatnonzero(snapshot.graph.held_out & (snapshot.labels < 0))
    true, predicted = snapshot.graph.truth[held_out], snapshot.predicted[held_out]
    left_out = None if len(held_out) else _left_out(snapshot)
    if snapshot.model is None:
        true = predicted = true[:0]
    elif left_out is not None:
        true, predicted = (snapshot.active[each.numpy()] for each in (left_out.labels, left_out.suggested))
    count = len(snapshot.classes)
    confusion = np.bincount(true * count + predicted, minlength=count * count).reshape(count, count)
    accuracy = float((true == predicted).mean()) if len(true) else None
    return Quality(len(held_out) > 0, len(true), accuracy, confusion, float(snapshot.certainty.mean()))


@computed_once
def distances(snapshot: Snapshot, label: int) -> NDArray[np.float64]:
    """The geodesic distance of every node to the nodes labelled with a class, `[N]`; inf where there is no path."""
    sources = np.flatnonzero(snapshot.labels == label)
    if not len(sources):
        return np.full(len(snapshot.labels), np.inf)
    return np.asarray(distance(snapshot.graph.graph, sources.tolist()).value.numpy())
