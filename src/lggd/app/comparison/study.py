"""A study: the trials of one row on one dataset, in a journal that several processes and machines may share.

All readers see its entries, and thus the trials, in the same order: a trial with enough others before it is withdrawn.
"""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import optuna
import torch
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from lggd._system.memory import release_memory
from lggd.app.comparison.jobs import repeating
from lggd.app.comparison.rows import Choice, SearchSpace
from lggd.app.comparison.settings import Setting
from lggd.errors import InputError

# Seconds between two heartbeats, and without one until a trial is considered lost; compilation may block a process.
HEARTBEAT, GRACE = 10.0, 90.0
COMPLETE_BEFORE_PRUNING = 5
# Attributes of a trial: number of heartbeats, reason of failure, validation accuracy by split, duration, and the number
# of the earlier trial with the same settings whose value was reused.
BEATS, REASON, VALIDATION, SECONDS, SAME_AS = "beats", "reason", "validation", "seconds", "same_as"
ABOUT = "about"  # attribute of a study: everything that its values depend on
UNFINISHED = (TrialState.RUNNING, TrialState.WAITING)
# Errors that count as a failed trial: the method cannot be run with these settings on this machine.
FAILURES = (
    MemoryError,
    torch.OutOfMemoryError,
    FloatingPointError,
    torch.linalg.LinAlgError,  # type: ignore[attr-defined]
)
DIGITS = 12  # significant digits of settings, so that 0.1 · 3 is 0.3


def open_journal(path: str | Path) -> JournalStorage:
    """Opens the journal in a file, which is created if necessary. Its lock also works on network disks.

    An incomplete last entry, left by a full disk or a killed process, is removed: nothing could be read after it.
    """
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = JournalFileOpenLock(str(path))
    lock.acquire()
    try:
        with path.open("ab+") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
    finally:
        lock.release()
    return JournalStorage(JournalFileBackend(str(path), lock))


@dataclass(eq=False)
class SharedStudy:
    """The trials of one study. Settings are sampled from `space`; the first trial uses those in `first`.

    `about` is everything else that a trial's value depends on, and must be the same when a study is continued. Entries
    that are None are taken from the earlier trials, or from `defaults`.
    Trials count when they have finished: complete, pruned, or failed with a reason. Trials whose workers sent no
    heartbeat for `grace` seconds fail without a reason, and others are run instead.
    """

    journal: JournalStorage
    name: str
    _: KW_ONLY
    space: Mapping[str, SearchSpace]
    first: dict[str, Any]
    about: dict[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    grace: float = GRACE

    def __post_init__(self) -> None:
        pruner = optuna.pruners.MedianPruner(n_startup_trials=COMPLETE_BEFORE_PRUNING)
        options: dict[str, Any] = {"study_name": self.name, "storage": self.journal, "pruner": pruner}
        try:  # reading must not modify the journal
            self._study = optuna.load_study(**options)
        except KeyError:  # another process may create it at the same moment
            self._study = optuna.create_study(**options, direction="maximize", load_if_exists=True)
        self.about = self._check_about()
        self._last_beats: dict[int, tuple[int, float]] = {}

    def claim(self, wanted: int) -> Trial | None:
        """Returns a trial to run, with sampled settings, or None if `wanted` trials are finished or running."""
        self._give_up_silent_trials()
        if sum(_counts(trial, TrialState.RUNNING) for trial in self._trials()) >= wanted:
            return None
        trial = self._study.ask()
        before = [other for other in self._trials()[: trial.number] if _counts(other, *UNFINISHED)]
        if len(before) >= wanted:  # another worker was faster
            self._study.tell(trial, state=TrialState.FAIL)
            return None
        # A trial that has not all of its settings yet may get the first ones.
        is_first = not any(other.params == self.first or len(other.params) < len(self.space) for other in before)
        self._study.sampler = self._sampler(trial.number, is_first=is_first)
        for name, values in self.space.items():
            values.suggest(trial, name)
        return trial

    def counted(self, wanted: int | None = None) -> list[FrozenTrial]:
        """Returns the finished trials that count: the first `wanted` by number, or all."""
        return [trial for trial in self._trials() if _counts(trial)][:wanted]

    def same_as(self, trial: Trial) -> FrozenTrial | None:
        """Returns the first complete trial with the same settings, if any: small search spaces repeat settings."""
        complete = (other for other in self._trials() if other.state is TrialState.COMPLETE)
        return next((other for other in complete if other.params == trial.params), None)

    def finish(self, trial: Trial, state: TrialState, value: float | None = None) -> bool:
        """Ends a trial; returns False if another worker had ended it."""
        try:
            self._study.tell(trial, value, state=state)
        except (UpdateFinishedTrialError, ValueError):
            if not self._trials()[trial.number].state.is_finished():
                raise
            return False
        return True

    def abandon(self, trial: Trial | FrozenTrial) -> None:
        """Gives up a trial: it does not count, and another one is run instead."""
        with suppress(UpdateFinishedTrialError, ValueError):  # another worker gave it up, or it has finished meanwhile
            self._study.tell(trial.number, state=TrialState.FAIL)

    def abandon_running(self) -> None:
        """Gives up all running trials; only for the one process that may run trials now: the others were killed."""
        for trial in self._trials():
            if trial.state is TrialState.RUNNING:
                self.abandon(trial)

    def alive(self, trial: Trial) -> AbstractContextManager[None]:
        """Sends heartbeats of a trial while the context lasts."""
        beats = count(1)

        def beat() -> None:
            with suppress(UpdateFinishedTrialError):  # another worker ended it; `finish` will return False
                trial.set_user_attr(BEATS, next(beats))

        return repeating(beat, min(HEARTBEAT, self.grace / 5))

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _check_about(self) -> dict[str, Any]:
        before = self._study.user_attrs.get(ABOUT)
        recorded = (before or {}) if self._trials() else {}  # without trials, it may be replaced
        known = {**self.defaults, **recorded}
        about = {name: known.get(name) if value is None else value for name, value in self.about.items()}
        if not recorded and about != before:
            self._study.set_user_attr(ABOUT, about)
        for name in [*about, *recorded] if recorded else ():
            if about.get(name) != recorded.get(name):
                rule = f"be {recorded.get(name)!r} as in the trials of {self.name} so far"
                remedy = "Use that, or start again in another results folder."
                raise InputError(name, rule, repr(about.get(name)), remedy)
        return about

    def _sampler(self, number: int, *, is_first: bool) -> optuna.samplers.BaseSampler:
        """Returns a sampler seeded by the trial's unique number, so that trials of a single worker are reproducible."""
        digest = hashlib.sha256(f"{self.seed}/{self.name}/{number}".encode()).digest()
        sampler = optuna.samplers.TPESampler(seed=int.from_bytes(digest[:4], "big"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return optuna.samplers.PartialFixedSampler(self.first, sampler) if is_first else sampler

    def _give_up_silent_trials(self) -> None:
        """Ends trials without a heartbeat for `grace` seconds by the clock of this machine; clocks may differ."""
        now = time.monotonic()
        for trial in self._trials():
            if trial.state is TrialState.RUNNING:
                beats = trial.user_attrs.get(BEATS, 0)
                last, since = self._last_beats.get(trial.number, (None, now))
                if last != beats:
                    self._last_beats[trial.number] = (beats, now)
                elif now - since > self.grace:
                    self.abandon(trial)


def _counts(trial: FrozenTrial, *also: TrialState) -> bool:
    """Whether a trial has finished by itself, or is in one of these states."""
    has_reason = trial.state is TrialState.FAIL and REASON in trial.user_attrs
    return has_reason or trial.state in (TrialState.COMPLETE, TrialState.PRUNED, *also)


# Returns the validation accuracies of settings on these splits.
Evaluate = Callable[[dict[str, Setting], Sequence[int]], list[float]]


@dataclass(eq=False)
class Search:
    """The search for the settings of one row on one dataset: `trials` trials, judged by `evaluate`."""

    study: SharedStudy
    evaluate: Evaluate
    trials: int
    batch: int | None = None
    slug: str = ""
    dataset: str = ""

    @property
    def splits(self) -> int:
        return self.study.about["splits"]  # type: ignore[no-any-return]

    @property
    def done(self) -> int:
        return len(self.study.counted(self.trials))

    @property
    def is_finished(self) -> bool:
        return self.done >= self.trials

    def step(self) -> bool:
        """Runs one trial; returns whether there was one to run."""
        trial = self.study.claim(self.trials)
        if trial is None:
            return False
        try:
            with self.study.alive(trial):
                state, value = self._run(trial)
        except UpdateFinishedTrialError:  # heartbeats were late, and another worker runs it again
            return True
        except BaseException:  # not caused by the settings
            self.study.abandon(trial)
            raise
        self.study.finish(trial, state, value)
        return True

    def choice(self) -> Choice:
        """Returns the trial with the highest mean validation accuracy so far, the earliest among equals."""
        counted = self.study.counted(self.trials or None)
        ended = {state: [trial for trial in counted if trial.state is state] for state in TrialState}
        complete, pruned, failed = (ended[state] for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
        best = max(complete, key=lambda trial: (trial.values[0], -trial.number), default=None)
        settings, value = (None, None) if best is None else (_rounded(best.params), best.value)
        reason, where = failed[0].user_attrs[REASON] if failed and best is None else "", (self.slug, self.dataset)
        return Choice(*where, len(counted), self.splits, settings, value, len(pruned), len(failed), reason)

    def _run(self, trial: Trial) -> tuple[TrialState, float | None]:
        start, mean, reason = time.perf_counter(), None, None
        try:
            mean = self._validation(trial)
        except FAILURES as error:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        trial.set_user_attr(SECONDS, round(time.perf_counter() - start, 3))
        if reason is not None:
            trial.set_user_attr(REASON, reason)
            release_memory()  # after the except clause, so that the traceback keeps no tensors alive
            return TrialState.FAIL, None
        return (TrialState.PRUNED, None) if mean is None else (TrialState.COMPLETE, mean)

    def _validation(self, trial: Trial) -> float | None:
        """Returns the mean validation accuracy over the splits, or None for a pruned trial. Test labels are hidden."""
        if (same := self.study.same_as(trial)) is not None:
            trial.set_user_attr(SAME_AS, same.number)
            return same.value
        scores: list[float] = []
        while len(scores) < self.splits:
            splits = list(range(self.splits))[len(scores) :][: self.batch]
            scores += self.evaluate(_rounded(trial.params), splits)
            mean = math.fsum(scores) / len(scores)
            if not math.isfinite(mean):
                raise FloatingPointError(f"the mean validation accuracy is {mean}")
            trial.report(mean, step=len(scores))
            if len(scores) < self.splits and trial.should_prune():
                return None
        trial.set_user_attr(VALIDATION, scores)
        return mean


def _rounded(params: Mapping[str, Any]) -> dict[str, Setting]:
    return {name: float(f"{x:.{DIGITS}g}") if isinstance(x, float) else x for name, x in params.items()}
