"""A study: the trials of one row on one dataset, in a journal that several processes and machines may share.

Who does which trial is settled by the journal alone. Its entries have one order for all who read it, and so have the
numbers of trials: a trial that finds as many before it as are wanted steps back, so that no more are ever done.
"""

from __future__ import annotations

import hashlib
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning, UpdateFinishedTrialError
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from lggd.errors import InputError

# Seconds between two signs of life of a trial, and without any after which it counts as lost. Learning may hold the
# interpreter for a while, when it compiles.
BEAT, GRACE = 10.0, 90.0
# So many complete trials before a poor one is cut short.
TRIALS_BEFORE_PRUNING = 5
# What a worker notes on its trial: that it is alive, why it failed, validation accuracy by split, how long it took, and
# which trial had the same settings, so that its value was taken.
BEATS, REASON, VALIDATION, SECONDS, SAME_AS = "beats", "reason", "validation", "seconds", "same_as"
# What is noted on a study: all that its values depend on.
ABOUT = "about"


def open_journal(path: str | Path) -> optuna.storages.JournalStorage:
    """The journal in a file, made with its folder where there is none. Its lock works on network disks too.

    An entry that a full disk or a killed process left unfinished is removed: nothing could be read after it.
    """
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = JournalFileOpenLock(str(path))
    lock.acquire()
    try:
        with path.open("ab+") as file:
            file.seek(0)
            written = file.read()
            file.truncate(written.rfind(b"\n") + 1)
    finally:
        lock.release()
    return optuna.storages.JournalStorage(JournalFileBackend(str(path), lock))


def noted_about(journal: optuna.storages.JournalStorage, name: str) -> dict[str, Any]:
    """What the values of a study depend on, as its first worker noted it; nothing where it has no trials yet."""
    try:
        study = optuna.load_study(study_name=name, storage=journal)
    except KeyError:
        return {}
    return dict(study.user_attrs.get(ABOUT, {})) if study.get_trials(deepcopy=False) else {}


def _study(journal: optuna.storages.JournalStorage, name: str) -> optuna.Study:
    """The study of that name, made where there is none. A journal that is only read must stay as it is."""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=TRIALS_BEFORE_PRUNING)
    try:
        return optuna.load_study(study_name=name, storage=journal, pruner=pruner)
    except KeyError:  # and another process may make it at the same moment
        return optuna.create_study(
            study_name=name, storage=journal, pruner=pruner, direction="maximize", load_if_exists=True
        )


class SharedStudy:
    """The trials of one study. Each draws from `space`, but the first takes the settings `first`.

    `about` is all that a trial's value depends on besides: a study may go on only with the same.
    A trial counts when it has finished: complete, pruned, or failed for a reason. Those of workers that have not been
    heard of for `grace` seconds fail without one, and are done again.
    """

    def __init__(
        self,
        journal: optuna.storages.JournalStorage,
        name: str,
        *,
        space: Mapping[str, BaseDistribution],
        first: Mapping[str, Any],
        about: Mapping[str, Any],
        seed: int = 0,
        grace: float = GRACE,
    ) -> None:
        self.name, self.space, self.first, self.seed, self.grace = name, dict(space), dict(first), seed, grace
        self._study = _study(journal, name)
        self._check_about(about)
        self._heard: dict[int, tuple[int, float]] = {}

    def claim(self, wanted: int) -> Trial | None:
        """A trial to do, with its settings drawn, or None where `wanted` ones are done or being done."""
        self._give_up_silent_trials()
        if sum(_is_taken(trial) for trial in self._trials()) >= wanted:
            return None
        trial = self._study.ask()
        rank = sum(_counts_or_may(other) for other in self._trials() if other.number < trial.number)
        if rank >= wanted:  # another was quicker
            self._study.tell(trial, state=TrialState.FAIL)
            return None
        self._study.sampler = self._sampler(trial.number, is_first=rank == 0)
        for name, distribution in self.space.items():
            _suggest(trial, name, distribution)
        return trial

    def counted(self, wanted: int | None = None) -> list[FrozenTrial]:
        """The finished trials that count: the first `wanted` by number, or all."""
        return [trial for trial in self._trials() if _counts(trial)][:wanted]

    def same_as(self, trial: Trial) -> FrozenTrial | None:
        """The first complete trial with the same settings, where there is one: searches of few choices repeat them."""
        complete = (other for other in self._trials() if other.state is TrialState.COMPLETE)
        return next((other for other in complete if other.params == trial.params), None)

    def finish(self, trial: Trial, state: TrialState, value: float | None = None) -> bool:
        """Ends a trial; whether it was still ours to end."""
        try:
            self._study.tell(trial, value, state=state)
        except (UpdateFinishedTrialError, ValueError):
            if self._trials()[trial.number].state.is_finished():
                return False
            raise
        return True

    def abandon(self, trial: Trial) -> None:
        """Leaves a trial to be done again by whoever comes next."""
        self._give_up(self._trials()[trial.number])

    @contextmanager
    def alive(self, trial: Trial) -> Iterator[None]:
        """Lets the others hear of a trial for as long as the context lasts."""
        over = threading.Event()

        def beat() -> None:
            beats = 0
            while not over.wait(min(BEAT, self.grace / 5)):
                beats += 1
                try:
                    trial.set_user_attr(BEATS, beats)
                except UpdateFinishedTrialError:  # given up by others, which its worker will find out
                    return

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _check_about(self, about: Mapping[str, Any]) -> None:
        before = self._study.user_attrs.get(ABOUT)
        if before is None or not self._trials():  # without trials nothing can be mixed, and mistakes can be mended
            self._study.set_user_attr(ABOUT, dict(about))
            return
        for name in dict.fromkeys([*about, *before]):
            if about.get(name) != before.get(name):
                raise InputError(
                    name,
                    f"be {before.get(name)!r} as in the trials of {self.name} so far",
                    repr(about.get(name)),
                    "Give that, or start anew with another `results`.",
                )

    def _sampler(self, number: int, *, is_first: bool) -> optuna.samplers.BaseSampler:
        """Seeded by the trial's number, which no other worker has, so that one worker's trials can be repeated."""
        digest = hashlib.sha256(f"{self.seed}/{self.name}/{number}".encode()).digest()
        sampler = optuna.samplers.TPESampler(seed=int.from_bytes(digest[:4], "big"))
        if not is_first:
            return sampler
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return optuna.samplers.PartialFixedSampler(self.first, sampler)

    def _give_up_silent_trials(self) -> None:
        """Ends the trials whose sign of life has not changed for long by our own clock; others' may be wrong."""
        now = time.monotonic()
        for trial in self._trials():
            if trial.state is TrialState.RUNNING:
                beats = trial.user_attrs.get(BEATS, 0)
                known = self._heard.get(trial.number)
                if known is None or known[0] != beats:
                    self._heard[trial.number] = (beats, now)
                elif now - known[1] > self.grace:
                    self._give_up(trial)

    def _give_up(self, trial: FrozenTrial) -> None:
        """Asks for it anew before it fails: in the other order somebody could take its place with other settings."""
        is_first = not any(_counts_or_may(other) for other in self._trials()[: trial.number])
        again = self.first if is_first else trial.params
        if again and not trial.state.is_finished():
            self._study.enqueue_trial(again)
        try:
            self._study.tell(trial.number, state=TrialState.FAIL)
        except (UpdateFinishedTrialError, ValueError):  # somebody else gave it up, or it has finished after all
            return


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> None:
    if isinstance(distribution, CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
    elif isinstance(distribution, IntDistribution):
        trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    elif isinstance(distribution, FloatDistribution):
        trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def _counts(trial: FrozenTrial) -> bool:
    if trial.state is TrialState.FAIL:
        return REASON in trial.user_attrs
    return trial.state in (TrialState.COMPLETE, TrialState.PRUNED)


def _is_taken(trial: FrozenTrial) -> bool:
    return trial.state is TrialState.RUNNING or _counts(trial)


def _counts_or_may(trial: FrozenTrial) -> bool:
    return trial.state is TrialState.WAITING or _is_taken(trial)
