"""The search for settings: for every row and dataset the same number of trials, judged by validation accuracy alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from lggd.compare.chosen import Choice
from lggd.compare.methods import build, completed
from lggd.compare.row import Choices, Range, Row, Setting
from lggd.compare.runner import measure
from lggd.compare.study import GRACE, REASON, SAME_AS, SECONDS, VALIDATION, SharedStudy, noted_about, open_journal
from lggd.errors import error_context
from lggd.features.reuse import reuse_distances as remembering
from lggd.memory import give_memory_back
from lggd.validation import check_int

SWEEPS = "sweeps"
# So many splits judge a setting where nobody has said otherwise.
USUAL_SPLITS = 3
# A trial that ends so has failed, and counts: the method cannot be run with these settings here.
FAILURES = (MemoryError, torch.OutOfMemoryError, FloatingPointError)
# Settings are rounded to so many digits: 0.1 · 3 is to be 0.3.
DIGITS = 12
# Seconds between two looks at what other workers have done.
PAUSE = 0.5

# Told how many trials are done, here or elsewhere, and how many are wanted.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Sweep:
    """How settings are searched for: `trials` a row and dataset, each the mean over the first `splits` splits.

    Where `splits` is None, a study has those of its trials so far, and three if there are none.
    `at_once` splits are learned side by side (all unless you say otherwise), and after each such group a trial that
    falls behind the median is cut short. `results` is the folder of what is kept, `root` that of datasets. With
    `paper_ranges`, rows are searched as the paper did where that is not as we do, in studies of their own.
    """

    trials: int = 20
    splits: int | None = None
    at_once: int | None = None
    device: str = "cpu"
    backbone: str = "gcn"
    seed: int = 0
    results: Path = Path("results")
    root: Path | None = None
    grace: float = GRACE
    paper_ranges: bool = False

    def __post_init__(self) -> None:
        check_int("trials", self.trials, minimum=0)
        check_int("seed", self.seed, minimum=0)
        if self.splits is not None:
            check_int("splits", self.splits, minimum=1)
        if self.at_once is not None:
            check_int("at_once", self.at_once, minimum=1)

    def journal(self, row: Row) -> Path:
        """The file that holds the studies of a row."""
        return self.results / SWEEPS / f"{row.slug}.journal"


def sweep(
    settings: Sweep, rows: Sequence[Row], datasets: Sequence[str], progress: Progress | None = None
) -> list[Choice]:
    """Does trials until every row has them all on every dataset, here or elsewhere; the best of each, by row, dataset.

    Any number of processes may do so with the same `results` at the same time, and any of them may be killed: whoever
    is left or comes later does the rest. The trials of `settings.trials = 0` are those done so far.
    """
    searches = [search for row in rows for search in _searches(settings, row, datasets)]
    unfinished = searches if settings.trials else []
    with remembering():  # trials often differ in nothing but what is done with the distances
        while unfinished:
            if progress is not None:
                progress(sum(search.done for search in searches), settings.trials * len(searches))
            worked = any(search.step() for search in unfinished)  # one trial, of the first that has one left
            unfinished = [search for search in unfinished if search.done < settings.trials]
            if unfinished and not worked:
                time.sleep(PAUSE)
    return [search.choice() for search in searches]


class Search:
    """One row on one dataset: its study, and how a trial of it is done, on the first `splits` splits."""

    def __init__(self, settings: Sweep, row: Row, dataset: str, splits: int, study: SharedStudy) -> None:
        self.settings, self.row, self.dataset, self.splits, self.study = settings, row, dataset, splits, study

    @property
    def done(self) -> int:
        return len(self.study.counted(self.settings.trials))

    def step(self) -> bool:
        """Does one trial; whether there was one to do."""
        trial = self.study.claim(self.settings.trials)
        if trial is None:
            return False
        try:
            with self.study.alive(trial):
                state, value = self._outcome(trial)
        except UpdateFinishedTrialError:  # we were silent for too long, and others do it again
            return True
        except BaseException:  # nothing that the settings are to blame for
            self.study.abandon(trial)
            raise
        self.study.finish(trial, state, value)
        return True

    def choice(self) -> Choice:
        """The best of the trials so far that count: the largest mean validation accuracy, the earliest of equals."""
        counted = self.study.counted(self.settings.trials or None)
        ended = {state: [trial for trial in counted if trial.state is state] for state in TrialState}
        told: dict[str, Any] = {
            "slug": self.row.slug,
            "dataset": self.dataset,
            "trials": len(counted),
            "splits": self.splits,
            "pruned": len(ended[TrialState.PRUNED]),
            "failed": len(ended[TrialState.FAIL]),
        }
        best = max(ended[TrialState.COMPLETE], key=lambda trial: (_value(trial), -trial.number), default=None)
        if best is None:
            reasons = [trial.user_attrs[REASON] for trial in ended[TrialState.FAIL]]
            return Choice(**told, reason=reasons[0] if reasons else "")
        return Choice(**told, settings=_rounded(best.params), validation=best.value)

    def _outcome(self, trial: Trial) -> tuple[TrialState, float | None]:
        start, mean, reason = time.perf_counter(), None, None
        try:
            mean = self._validation(trial)
        except FAILURES as failure:
            reason = f"{type(failure).__name__}: {failure}".partition("\n")[0]
        trial.set_user_attr(SECONDS, round(time.perf_counter() - start, 3))
        if reason is not None:
            trial.set_user_attr(REASON, reason)
            give_memory_back()  # here, where the failure itself no longer holds any
            return TrialState.FAIL, None
        return (TrialState.PRUNED, None) if mean is None else (TrialState.COMPLETE, mean)

    def _validation(self, trial: Trial) -> float | None:
        """Mean validation accuracy over the tuning splits, or None for a trial cut short. Test labels are hidden."""
        if (same := self.study.same_as(trial)) is not None:
            trial.set_user_attr(SAME_AS, same.number)
            return same.value
        tried = {**self.row.settings, **_rounded(trial.params)}
        splits = range(self.splits)
        at_once = self.settings.at_once or len(splits)
        found: list[float] = []
        for start in range(0, len(splits), at_once):
            found += measure(
                self.row,
                tried,
                self.dataset,
                list(splits[start : start + at_once]),
                device=self.settings.device,
                backbone=self.settings.backbone,
                seed=self.settings.seed,
                root=self.settings.root,
                hide_test=True,
            ).val
            mean = math.fsum(found) / len(found)
            if not math.isfinite(mean):
                raise FloatingPointError(f"the mean validation accuracy is {mean}")
            trial.report(mean, step=len(found))
            if len(found) < len(splits) and trial.should_prune():
                return None
        trial.set_user_attr(VALIDATION, found)
        return mean


def search_space(row: Row) -> dict[str, BaseDistribution]:
    """What may be varied, in Optuna's words."""
    return {name: _distribution(searched) for name, searched in row.search.items()}


def first_settings(row: Row, backbone: str) -> dict[str, Setting]:
    """The settings to try first: those written by hand or usual, where the search allows them; else from its middle.

    The middle of choices is the first of them.

    >>> search = {"dropout": Range(0.2, 0.8), "lr": Choices((0.1, 1.0)), "hidden": Range(8, 128, log=True)}
    >>> first_settings(Row("01", "GCN", "Backbone", "gcn", {"hidden": 16}, search), "gcn")
    {'dropout': 0.5, 'lr': 0.1, 'hidden': 16}
    """
    usual = completed(row.method, row.settings, backbone)
    return {
        name: usual[name] if name in usual and _allows(searched, usual[name]) else _middle(searched)
        for name, searched in row.search.items()
    }


def _searches(settings: Sweep, row: Row, datasets: Sequence[str]) -> list[Search]:
    paper = settings.paper_ranges and bool(row.paper_search)
    if paper:
        row = replace(row, search=row.paper_search)
    fixed = {name: value for name, value in row.settings.items() if name not in row.search}
    about = {
        "seed": settings.seed,
        "method": row.method,
        "settings": fixed,
        "search": {
            name: list(searched.values) if isinstance(searched, Choices) else asdict(searched)
            for name, searched in row.search.items()
        },
    }
    with error_context(f"{row.name} ({row.file})"):
        space, first = search_space(row), first_settings(row, settings.backbone)
        _check_ends(row, first, settings.backbone)
    journal = open_journal(settings.journal(row))
    ending = "/paper" if paper else ""
    found = []
    for dataset in datasets:
        name = f"{row.slug}/{dataset}/{settings.backbone}{ending}"
        splits = settings.splits or noted_about(journal, name).get("splits", USUAL_SPLITS)
        study = SharedStudy(
            journal,
            name,
            space=space,
            first=first,
            about={"splits": splits, **about},
            seed=settings.seed,
            grace=settings.grace,
        )
        found.append(Search(settings, row, dataset, splits, study))
    return found


def _check_ends(row: Row, first: Mapping[str, Setting], backbone: str) -> None:
    """Refuses a search for what is no setting, or for values that none can have, before a trial comes upon them."""
    for name, searched in row.search.items():
        ends = searched.values if isinstance(searched, Choices) else (searched.low, searched.high)
        for end in ends:
            build(row.method, {**row.settings, **first, name: end}, backbone, seed=0)


def _distribution(searched: Range | Choices) -> BaseDistribution:
    if isinstance(searched, Choices):
        return CategoricalDistribution(searched.values)
    if searched.is_whole:
        return IntDistribution(int(searched.low), int(searched.high), log=searched.log, step=int(searched.step or 1))
    return FloatDistribution(searched.low, searched.high, log=searched.log, step=searched.step)


def _allows(searched: Range | Choices, value: Setting) -> bool:
    if isinstance(searched, Choices):
        return any(type(one) is type(value) and one == value for one in searched.values)
    if isinstance(value, str) or not searched.low <= value <= searched.high:
        return False
    steps = (value - searched.low) / (searched.step or 1)
    return (searched.step is None and not searched.is_whole) or abs(steps - round(steps)) < 1e-9


def _middle(searched: Range | Choices) -> Setting:
    if isinstance(searched, Choices):
        return searched.values[0]
    if searched.log:
        middle = math.sqrt(searched.low * searched.high)
        return round(middle) if searched.is_whole else middle
    step = searched.step or (1 if searched.is_whole else 0)
    if not step:
        return (searched.low + searched.high) / 2
    return searched.low + step * math.floor((searched.high - searched.low) / step / 2 + 1e-9)


def _rounded(settings: Mapping[str, Any]) -> dict[str, Setting]:
    return {
        name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for name, value in settings.items()
    }


def _value(trial: FrozenTrial) -> float:
    return -math.inf if trial.value is None else trial.value
