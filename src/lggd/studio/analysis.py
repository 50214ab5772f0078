"""What a snapshot suggests: nodes to label next, labels that look wrong, accuracy, confusion, distances to a class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from lggd.closed_form import FilterKernel, Hops, Linear
from lggd.closed_form.kernels import Member, MixtureKernel
from lggd.closed_form.ridge_inputs import RidgeInputs
from lggd.closed_form.uncertainty import greedy_choice, margins
from lggd.distances import distance
from lggd.estimator.labels import UNLABELLED
from lggd.studio.snapshot import Snapshot
from lggd.studio.studio_graph import StudioGraph

MAX_SUGGESTIONS = 50
# Before there are predictions, nodes are suggested among this many, for features of this width under this kernel.
FIRST_CANDIDATES, FIRST_WIDTH, FIRST_RIDGE = 1024, 64, 0.1
FIRST_KERNEL = FilterKernel((Hops(2),), Linear())
# Up to this margin between its two most probable classes, a node is called undecided.
UNDECIDED = 0.3


@dataclass(frozen=True)
class Suggestion:
    """A node to label next. `first` and `second` are its most probable classes, if there are predictions."""

    node: int
    reason: str
    first: int | None = None
    second: int | None = None
    margin: float | None = None
    variance: float | None = None


@dataclass(frozen=True)
class SuspiciousLabel:
    """A label that all others contradict: its probability by them, and the class that they suggest instead."""

    node: int
    label: int
    probability: float
    suggested: int
    suggested_probability: float


@dataclass(frozen=True, eq=False)
class Quality:
    """How good the predictions are: accuracy on held-out nodes or by leave-one-out, and the confusion behind it.

    `accuracy` is None where nothing can be compared; `compared` counts nodes; `confusion [K, K]` has true classes in
    rows. `held_out` tells which of the two it is.
    """

    held_out: bool
    compared: int
    accuracy: float | None
    confusion: NDArray[np.int64]
    certainty: float


def all_suggestions(snapshot: Snapshot) -> list[Suggestion]:
    """The nodes most worth labelling next, the best first, with reasons."""
    model = snapshot.model
    if model is None:
        order = first_nodes(snapshot.graph)
        nodes = order[snapshot.labels[order] < 0][:MAX_SUGGESTIONS]
        return [Suggestion(node, "stands for many nodes like it") for node in nodes.tolist()]
    if not (snapshot.labels < 0).any():
        return []
    nodes = model.suggest(MAX_SUGGESTIONS).numpy()
    margin, variance = margins(model.predict_proba()).numpy(), model.variance().numpy()
    rank = (rankdata(variance, "min") - 1) / len(variance)  # the share of nodes that are better known
    return [_with_reason(snapshot, node, float(margin[node]), float(variance[node]), rank[node]) for node in nodes]


def _with_reason(snapshot: Snapshot, node: int, margin: float, variance: float, rank: float) -> Suggestion:
    (first, p), *others = snapshot.top_classes(int(node), 2)
    second = others[0][0] if others else None
    if second is not None and margin <= UNDECIDED:
        one, other = snapshot.classes[first], snapshot.classes[second]
        reason = f"undecided between {one} ({_percent(p)}) and {other} ({_percent(p - margin)})"
    elif rank >= 0.5:
        reason = f"less like the labelled nodes than {math.floor(100 * rank)}\u00a0% of all nodes"
    else:
        reason = "its label would tell about many uncertain nodes"
    return Suggestion(int(node), reason, first, second, margin, variance)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


@lru_cache(maxsize=2)
def first_nodes(graph: StudioGraph) -> NDArray[np.int64]:
    """Nodes to label when there are no predictions: by the criterion of `KernelRidge.suggest` before any label."""
    inputs = RidgeInputs(graph.data, (FIRST_WIDTH,), seed=0)
    features = inputs.graph([FIRST_KERNEL], inputs.widths[0])
    kernel = MixtureKernel({"x": features}, [Member("x", FIRST_KERNEL)])
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
    candidates = order[:FIRST_CANDIDATES].sort().values
    prior = kernel.between(kernel.points(candidates), kernel.points())
    doubt = torch.ones(graph.num_nodes)
    return np.asarray(candidates[greedy_choice(prior, candidates, doubt, FIRST_RIDGE, 2 * MAX_SUGGESTIONS)].numpy())


def all_suspicious(snapshot: Snapshot) -> list[SuspiciousLabel]:
    """Labels whose leave-one-out answer disagrees, the most suspicious first, without those that somebody kept."""
    if snapshot.model is None:
        return []
    nodes, left_out = _left_out(snapshot)
    labels = np.searchsorted(snapshot.active, snapshot.labels[nodes])
    own, suggested = left_out[np.arange(len(nodes)), labels], left_out.argmax(1)
    wrong = np.flatnonzero((suggested != labels) & ~snapshot.kept[nodes])
    order = wrong[np.argsort(own[wrong], kind="stable")]
    return [
        SuspiciousLabel(
            int(nodes[k]), int(snapshot.labels[nodes[k]]), float(own[k]), int(snapshot.active[suggested[k]]),
            float(left_out[k].max()),
        )
        for k in order
    ]  # fmt: skip


def _left_out(snapshot: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The labelled nodes, and the probabilities of their classes by all other labels."""
    model, nodes = snapshot.model, np.flatnonzero(snapshot.labels >= 0)
    if model is None:
        return nodes[:0], np.empty((0, 0), np.float32)
    return nodes, snapshot.cached("left out", lambda: np.asarray(model.leave_one_out_proba().numpy()))


def quality(snapshot: Snapshot) -> Quality:
    """The accuracy of a snapshot, on held-out nodes where there are any that nobody has labelled."""
    return snapshot.cached("quality", lambda: _quality(snapshot))


def _quality(snapshot: Snapshot) -> Quality:
    held_out = np.flatnonzero(snapshot.graph.held_out & (snapshot.labels == UNLABELLED))
    true, predicted = snapshot.graph.truth[held_out], snapshot.predicted[held_out]
    if not len(held_out):
        nodes, left_out = _left_out(snapshot)
        true = snapshot.labels[nodes]
        predicted = snapshot.active[left_out.argmax(1)] if len(nodes) else true
    if snapshot.model is None:
        true = predicted = true[:0]
    count = len(snapshot.classes)
    confusion = np.bincount(true * count + predicted, minlength=count * count).reshape(count, count)
    accuracy = float((true == predicted).mean()) if len(true) else None
    return Quality(len(held_out) > 0, len(true), accuracy, confusion, float(snapshot.certainty.mean()))


def distances(snapshot: Snapshot, label: int) -> NDArray[np.float64]:
    """The geodesic distance of every node to the nodes labelled with a class, `[N]`; inf where there is no path."""
    sources = np.flatnonzero(snapshot.labels == label)
    if not len(sources):
        return np.full(len(snapshot.labels), np.inf)
    compute = lambda: distance(snapshot.graph.graph, sources.tolist()).value.numpy()  # noqa: E731
    return np.asarray(snapshot.cached(("distances", label), compute))
