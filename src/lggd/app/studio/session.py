"""A studio without HTTP: one thread writes labels and solves, another looks for better settings, readers never wait."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from lggd.app.studio.snapshot import (
    MIN_CLASSES,
    Quality,
    Snapshot,
    Suggestion,
    SuspiciousLabel,
    active_classes,
    all_suggestions,
    all_suspicious,
    quality,
)
from lggd.app.studio.store import LabelChange, LabelStore, StaleEditError
from lggd.app.studio.studio_graph import StudioGraph
from lggd.closed_form import KernelRidge
from lggd.errors import InputError
from lggd.inputs import NodeData
from lggd.validation import suggestion

# Settings are chosen again when there are this many times as many labels.
GROWTH = 1.25
# After work the background rests this many times as long, but at most some seconds: requests need the processor too.
REST, MAX_REST = 3.0, 2.0
# A longer curve loses every other point.
MAX_POINTS = 1000
log = logging.getLogger(__name__)
Arguments = ParamSpec("Arguments")
Item = TypeVar("Item", Suggestion, SuspiciousLabel)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a request: its change, None if it changed nothing, and the snapshot that contains it."""

    change: LabelChange | None
    snapshot: Snapshot


@dataclass(frozen=True)
class CurvePoint:
    """One point of the curves, after a change of labels or of settings."""

    revision: int
    labels: int
    accuracy: float | None
    held_out: bool
    certainty: float


Task = Callable[[LabelStore], LabelChange | None]
_Request = tuple[Task, Future[Outcome]]
Event = dict[str, object]


class Session:
    """A graph, its labels and a model that follows them.

    Parameters
    ----------
    graph : StudioGraph
    store : LabelStore
        Its labels; closed by `close`.
    """

    def __init__(self, graph: StudioGraph, store: LabelStore) -> None:
        self.graph = graph.with_classes(store.classes)
        self.positions = self.graph.positions(store)
        self.curve: list[CurvePoint] = []
        # The snapshots whose quality, and whose suggestions and suspicious labels, the background has computed last.
        self._measured: Snapshot | None = None
        self.analysed: Snapshot | None = None
        self._store = store
        self._tasks: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._work = threading.Event()
        self._closing = threading.Event()
        # Only the writer changes these.
        self._model: KernelRidge | None = None
        self._chosen_for = np.empty(0, np.int64)  # the labels that the settings of the model were chosen for
        self.snapshot = self._first()
        # The newest event of each kind, which is sent to all pages.
        self.events: dict[str, Event] = {"labels": describe(self.snapshot), "curve": {}, "queue": {}}
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._write, self._improve)]
        for thread in self._threads:
            thread.start()
        self._work.set()

    def _first(self) -> Snapshot:
        """The labels of the store, with the settings of a saved model, or without predictions for the moment."""
        snapshot = self._state(0)
        if self.graph.model is None or len(snapshot.active) < MIN_CLASSES:
            return replace(snapshot, choosing=self._needs_choice(snapshot))
        self._model, self._chosen_for = self.graph.model.with_labels(snapshot.compact()), snapshot.labels
        return replace(snapshot, model=self._model)

    # -- changes --------------------------------------------------------------------------------------------------

    def submit(
        self, change: Callable[Concatenate[LabelStore, Arguments], LabelChange | None],
        *args: Arguments.args, **kwargs: Arguments.kwargs,
    ) -> Future[Outcome]:  # fmt: skip
        """Lets the writer change the store: `submit(LabelStore.undo, author)`.

        The future is done when the change is durable and solved for.
        """
        future: Future[Outcome] = Future()
        if self._closing.is_set():
            future.set_exception(RuntimeError("The studio is closing."))
        else:
            self._tasks.put((lambda store: change(store, *args, **kwargs), future))
        return future

    def node_number(self, node: str) -> int:
        if node not in self.graph.numbers:
            rule = f"be one of the {self.graph.num_nodes:,} nodes"
            raise InputError("node", rule, repr(node[:100]), "Check its spelling.")
        return self.graph.numbers[node]

    def class_number(self, name: str) -> int:
        classes = self.snapshot.classes
        if name not in classes:
            remedy = suggestion(name[:100], classes, "Add the class first.")
            raise InputError("label", "be a known class", repr(name[:100]), remedy)
        return classes.index(name)

    def suggestions(self, count: int) -> list[Suggestion]:
        """The nodes to label next, without those that were labelled meanwhile."""
        snapshot = self.snapshot
        suggestions = all_suggestions(self.analysed or snapshot)
        return _current(snapshot, (each for each in suggestions if snapshot.labels[each.number] < 0), count)

    def suspicious(self, count: int) -> list[SuspiciousLabel]:
        """Labels that all others contradict, the most suspicious first, without those changed or kept meanwhile."""
        snapshot = self.snapshot
        suspicious = all_suspicious(self.analysed or snapshot)
        unchanged = (each for each in suspicious if snapshot.name_of(snapshot.labels[each.number]) == each.label)
        return _current(snapshot, (each for each in unchanged if not snapshot.kept[each.number]), count)

    def quality(self) -> Quality:
        """How good the predictions are, or were when they were measured last."""
        return quality(self._measured or self.snapshot)

    # -- the writer -----------------------------------------------------------------------------------------------

    def _write(self) -> None:
        while True:
            waiting = [self._tasks.get()]
            while not self._tasks.empty():  # what has come in meanwhile is written and solved for together
                waiting.append(self._tasks.get())
            self._process([each for each in waiting if each is not None])
            if None in waiting:
                return

    def _process(self, requests: list[_Request]) -> None:
        before = self._model, len(self._store.classes)
        try:
            done = self._commit(requests)
            if any(change is not None for change, _ in done) or before != (self._model, len(self._store.classes)):
                self._publish()
        except Exception as error:  # later requests must find the writer alive
            log.exception("The studio could not write, or not show what it wrote.")
            for _, future in requests:
                if not future.done():
                    future.set_exception(error)
            return
        for change, future in done:
            future.set_result(Outcome(change, self.snapshot))

    def _commit(self, requests: list[_Request]) -> list[tuple[LabelChange | None, Future[Outcome]]]:
        """Runs all tasks in one transaction. A task that is refused has changed nothing; other errors end them all."""
        done: list[tuple[LabelChange | None, Future[Outcome]]] = []
        refused: list[tuple[Exception, Future[Outcome]]] = []
        with self._store.transaction():
            for task, future in requests:
                try:
                    done.append((task(self._store), future))
                except (InputError, StaleEditError) as error:
                    refused.append((error, future))
        for reason, future in refused:
            future.set_exception(reason)
        return done

    def _state(self, revision: int) -> Snapshot:
        store = self._store
        arrays = store.labels.copy(), store.versions.copy(), store.kept.copy()
        return Snapshot(self.graph, revision, tuple(store.classes), *arrays, tuple(store.changes))

    def _publish(self) -> None:
        """Solves for the labels of the store with the settings at hand, and shows the result to readers."""
        began, before = time.perf_counter(), self.snapshot
        after = self._state(before.revision + 1)
        if len(after.active) >= MIN_CLASSES and self._model is not None:
            if self._model is not before.model or not np.array_equal(after.labels, before.labels):
                self._model = self._relabelled(self._model, after)
            after = replace(after, model=self._model)
        changed = np.flatnonzero(after.predicted != before.predicted)
        milliseconds = 1e3 * (time.perf_counter() - began)
        choosing = self._needs_choice(after)
        self.snapshot = replace(after, changed=changed, milliseconds=milliseconds, choosing=choosing)
        self.events["labels"] = describe(self.snapshot)
        self._work.set()

    def _relabelled(self, model: KernelRidge, snapshot: Snapshot) -> KernelRidge | None:
        try:
            return model.with_labels(snapshot.compact())
        except Exception:  # the labels are safe; the background starts over with new settings
            log.exception("The studio could not solve with its settings.")
            return None

    def _needs_choice(self, snapshot: Snapshot) -> bool:
        if len(snapshot.active) < MIN_CLASSES:
            return False
        grown = snapshot.num_labels >= GROWTH * int((self._chosen_for >= 0).sum())
        return self._model is None or grown or not np.array_equal(snapshot.active, active_classes(self._chosen_for))

    # -- the background -------------------------------------------------------------------------------------------

    def _improve(self) -> None:
        """After every change: a point of the curves, better settings where labels have grown, nodes to label next."""
        while True:
            self._work.wait()
            self._work.clear()
            # First of all there should be predictions.
            order = [self._choose, self._suggest]
            began = time.thread_time()
            for step in (self._measure, *(order if self.snapshot.model is None else order[::-1])):
                if self._closing.is_set():
                    return
                try:
                    step()
                except Exception:  # the labels are safe, and the next change tries again
                    log.exception("The studio could not compute something in the background.")
            self._closing.wait(min(REST * (time.thread_time() - began), MAX_REST))

    def _measure(self) -> None:
        snapshot = self.snapshot
        if self.curve and self.curve[-1].revision == snapshot.revision:
            return
        measured = quality(snapshot)
        self._measured = snapshot
        point = CurvePoint(
            snapshot.revision, snapshot.num_labels, measured.accuracy, measured.held_out, measured.certainty
        )
        self.curve = [*(self.curve[::2] if len(self.curve) >= MAX_POINTS else self.curve), point]
        self.events["curve"] = vars(point)

    def _choose(self) -> None:
        snapshot = self.snapshot
        if not self._needs_choice(snapshot):
            return
        known, data = self._model or self.graph.model, NodeData.read(self.graph.data).to_pyg()
        data.y = snapshot.compact()
        model = KernelRidge(growth=math.inf).fit(data) if known is None else known.reselected(data.y)

        def adopt(store: LabelStore) -> None:
            self._model, self._chosen_for = model, snapshot.labels

        adopted = self.submit(adopt)
        while not adopted.done() and not self._closing.wait(0.01):
            pass

    def _suggest(self) -> None:
        snapshot = self.snapshot
        all_suspicious(snapshot)
        all_suggestions(snapshot)
        self.analysed = snapshot
        self.events["queue"] = {"revision": snapshot.revision}

    def close(self) -> None:
        """Waits for what was submitted, and closes the store."""
        self._closing.set()
        self._tasks.put(None)
        self._work.set()
        for thread in self._threads:
            thread.join()
        self._store.close()


def _current(snapshot: Snapshot, items: Iterable[Item], count: int) -> list[Item]:
    """The first `count` items, with the current versions of their labels."""
    return [replace(each, version=int(snapshot.versions[each.number])) for each in islice(items, count)]


def describe(snapshot: Snapshot) -> Event:
    """A snapshot in numbers."""
    return {
        "revision": snapshot.revision, "labels": snapshot.num_labels, "classes": list(snapshot.classes),
        "changed": len(snapshot.changed), "milliseconds": round(snapshot.milliseconds, 3),
        "predicts": snapshot.model is not None, "choosing": snapshot.choosing,
    }  # fmt: skip
