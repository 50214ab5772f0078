"""Searches for the settings of rows by validation accuracy, with the same number of trials for every row.

Trials are in a SQLite file per row, which several processes may share: Optuna's heartbeats tell whose worker is lost.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import optuna
import torch
from filelock import FileLock
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from lggd.cluster.connection import alive_nodes, check_nodes, connect, run_task
from lggd.errors import InputError
from lggd.progress import Callback, Progress
from lggd.validation import check_int
from reproduction.methods import CONTENTS, NORMALIZATIONS, build, errors_about
from reproduction.rows import Choice, Row
from reproduction.runner import measure

STUDIES = "sweeps"
DEFAULT_SPLITS = 3
PAUSE = 0.5  # seconds between two checks for the trials of other workers
# Seconds between two heartbeats, and without one until a trial is considered lost; compilation may block a process.
HEARTBEAT, GRACE = 10, 90
COMPLETE_BEFORE_PRUNING = 5
# Attributes of a trial: why it failed, its validation accuracy by split, and whether its settings are the first ones;
# and of a study: all that values depend on.
REASON, VALIDATION, FIRST, ABOUT = "reason", "validation", "first", "about"
# Errors that count as a failed trial: the method cannot be run with these settings on this machine.
FAILURES = (
    MemoryError,
    torch.OutOfMemoryError,
    FloatingPointError,
    torch.linalg.LinAlgError,  # type: ignore[attr-defined]  # torch's stubs lack it
)
DIGITS = 12  # significant digits of settings, so that 0.1 · 3 is 0.3


@dataclass(frozen=True)
class SearchConfig:
    """The configuration of a search: `trials` per row and dataset, each judged by the first `splits` splits.

    If `splits` is None, a study uses as many as its earlier trials, or three for its first trial. After each batch of
    `batch_size` splits (default: all), a trial below the median is pruned. With `paper_ranges`, the search spaces are
    those in the papers of the methods if they differ, in separate studies.
    """

    trials: int = 20
    splits: int | None = None
    batch_size: int | None = None
    device: str = "cpu"
    seed: int = 0
    results: Path = Path("results")
    root: Path | None = None
    grace: int = GRACE
    paper_ranges: bool = False

    def __post_init__(self) -> None:
        for name, minimum in (("trials", 0), ("seed", 0), ("splits", 1), ("batch_size", 1)):
            if (value := getattr(self, name)) is not None:
                check_int(name, value, minimum)

    def file(self, row: Row) -> Path:
        return self.results / STUDIES / f"{row.slug}.db"


def search_settings(
    config: SearchConfig, rows: Sequence[Row], datasets: Sequence[str], callback: Callback | None = None,
    cluster: str | None = None,
) -> list[Choice]:  # fmt: skip
    """Runs trials until every row has `config.trials` on every dataset; returns the best trial of each.

    Processes with the same `results` share the work, and any of them may be killed: the others, or a later call, run
    the remaining trials. With `config.trials = 0` no trial is run, and all earlier trials are evaluated.

    With `cluster`, the address of a Ray cluster, trials run on its nodes: several searches at once, the trials of one
    in turn, since each depends on those before it. The results are those of one process.
    """
    searches = [search for row in rows for search in _searches(config, row, datasets)]

    def report() -> None:
        if callback is not None:
            done = sum(len(search.counted()) for search in searches)
            callback(Progress("Running trials", done, config.trials * len(searches)))

    if config.trials and searches and cluster is not None:
        with connect(cluster):
            _run_on_cluster(searches, report)
    elif config.trials:
        _run_in_turn(searches, report)
    return [search.choice() for search in searches]


def _run_in_turn(searches: Sequence[Search], report: Callable[[], None]) -> None:
    unfinished = searches
    while unfinished:
        report()
        progressed = any(search.step() for search in unfinished)  # one trial of the first search that has any left
        unfinished = [search for search in unfinished if not search.is_finished]
        if unfinished and not progressed:
            time.sleep(PAUSE)


def _run_on_cluster(searches: Sequence[Search], report: Callable[[], None]) -> None:
    check_nodes(alive_nodes())
    stopped = threading.Event()

    def finish(search: Search) -> None:
        search.evaluate = partial(run_task, search.evaluate)
        while not (search.is_finished or stopped.is_set()):
            if not search.step():
                time.sleep(PAUSE)

    with ThreadPoolExecutor(len(searches)) as threads:
        waiting = {threads.submit(finish, search) for search in searches}
        try:
            while waiting:
                done, waiting = wait(waiting, PAUSE, return_when=FIRST_EXCEPTION)
                report()
                for each in done:
                    each.result()  # raises what it has raised
        finally:
            stopped.set()


# -- search spaces ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """The values of one setting: those of a distribution, or among `values`, for which it has texts."""

    distribution: BaseDistribution
    values: Mapping[Any, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, where: str, path: str, value: Any) -> Space:
        """Reads a list of values, or a table with low and high and perhaps step or log; errors name the file."""
        if isinstance(value, list) and value:
            values = {_key(each): each for each in value}
            return cls(CategoricalDistribution(tuple(values)), values)
        if not isinstance(value, dict) or not {"low", "high"} <= value.keys() <= {"low", "high", "step", "log"}:
            rule = f"give a list of choices or a table with low and high for {path} in [search]"
            raise InputError(where, rule, repr(value), f"Write {path} = {{ low = 0.1, high = 0.9, step = 0.1 }}.")
        numbers = [number for name, number in value.items() if name != "log"]
        integers = all(isinstance(number, int) for number in numbers)
        try:
            kind = IntDistribution if integers else FloatDistribution
            return cls(kind(**value))
        except (ValueError, TypeError) as error:
            raise InputError(where, f"have a valid range for {path} in [search]", but=f"{value!r}: {error}") from error

    @property
    def ends(self) -> list[Any]:
        return list(self.values.values()) or [self.distribution.low, self.distribution.high]  # type: ignore[attr-defined]

    def first(self, usual: Any) -> Any:
        """The usual value if it may be tried, as the sampler knows it; else the first or middle one."""
        if self.values:
            return _key(usual) if _key(usual) in self.values else next(iter(self.values))
        space: Any = self.distribution
        if isinstance(usual, int | float) and space.low <= usual <= space.high and self._is_on_grid(usual):
            return usual
        if space.log:
            return space.to_external_repr(space.to_internal_repr(math.sqrt(space.low * space.high)))
        step = space.step or 0
        return space.low + step * ((space.high - space.low) / step // 2) if step else (space.low + space.high) / 2

    def _is_on_grid(self, value: float) -> bool:
        space: Any = self.distribution
        steps = (value - space.low) / (space.step or 1)
        return not space.step or abs(steps - round(steps)) < 1e-9

    def suggest(self, trial: Trial, path: str) -> Any:
        return self.value(trial._suggest(path, self.distribution))

    def value(self, suggested: Any) -> Any:
        """The setting of what a sampler knows; numbers are rounded."""
        if self.values:
            return self.values[suggested]
        return float(f"{suggested:.{DIGITS}g}") if isinstance(suggested, float) else suggested


def _key(value: Any) -> Any:
    """A choice as Optuna can store it."""
    return value if isinstance(value, bool | int | float | str) else json.dumps(value, default=repr)


def applicable(row: Row, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that a model has. Searched ones may be of an object that another setting replaces."""
    kept: dict[str, Any] = {}
    for path in sorted(settings, key=lambda path: path.count("__")):
        known = build(row.method, {**row.settings, **kept}).get_params()
        if path == CONTENTS or path in known:
            kept[path] = settings[path]
    return {path: kept[path] for path in settings if path in kept}


def first_settings(row: Row, space: Mapping[str, Space]) -> dict[str, Any]:
    """Returns the first trial as the sampler knows it: settings of the row or the model where these may be tried."""
    usual = {CONTENTS: NORMALIZATIONS[0], **build(row.method, row.settings).get_params(), **row.settings}
    return {path: values.first(usual.get(path)) for path, values in space.items()}


def read_space(row: Row, search: Mapping[str, Any]) -> tuple[dict[str, Space], dict[str, Any]]:
    """Returns the search space of a row and the first trial; raises for unknown settings and invalid values."""
    space = {path: Space.read(str(row.file), path, value) for path, value in search.items()}
    with errors_about(f"{row.name} ({row.file})"):
        first = first_settings(row, space)
        start = {path: space[path].value(value) for path, value in first.items()}
        # A setting may be of an object that is chosen among others.
        variants = [start] + [{**start, path: value} for path, each in space.items() for value in each.values.values()]
        known = {path for variant in variants for path in applicable(row, variant)}
        for path in space.keys() - known:
            build(row.method, {**row.settings, path: start[path]})
        for path, each in space.items():
            for value in each.ends:
                matching = next(variant for variant in variants if path in applicable(row, variant))
                build(row.method, {**row.settings, **applicable(row, {**matching, path: value})})
    return space, first


# -- searches ---------------------------------------------------------------------------------------------------------

# Returns the validation accuracies of settings on these splits.
Evaluate = Callable[[dict[str, Any], Sequence[int]], list[float]]


def _searches(config: SearchConfig, row: Row, datasets: Sequence[str]) -> list[Search]:
    is_paper = config.paper_ranges and bool(row.paper_search)
    if is_paper:
        row = replace(row, search=row.paper_search)
    space, first = read_space(row, row.search)
    about = {
        "splits": config.splits, "seed": config.seed, "method": row.method,
        "settings": {path: value for path, value in row.settings.items() if path not in row.search},
        "search": dict(row.search),
    }  # fmt: skip
    storage, searches = _open(config.file(row), config.grace), []
    for dataset in datasets:
        name = f"{row.slug}/{dataset}{'/paper' if is_paper else ''}"
        study = optuna.create_study(
            study_name=name, storage=storage, direction="maximize", load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=COMPLETE_BEFORE_PRUNING),
        )  # fmt: skip
        search = Search(
            study, row, dataset, space, first, partial(_validation_accuracies, config, row, dataset), config.trials,
            _check_about(study, about), FileLock(config.file(row).with_suffix(".lock")), config.batch_size,
        )  # fmt: skip
        searches.append(search)
    return searches


def _open(path: Path, grace: int) -> RDBStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")), warnings.catch_warnings():  # only one process creates the tables
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return RDBStorage(
            f"sqlite:///{path.resolve()}", engine_kwargs={"connect_args": {"timeout": 60}},
            heartbeat_interval=min(HEARTBEAT, max(1, grace // 5)), grace_period=grace,
        )  # fmt: skip


def _check_about(study: optuna.Study, about: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what values of the study depend on; raises unless this is as in its earlier trials."""
    recorded = study.user_attrs.get(ABOUT, {}) if study.trials else {}  # without trials, it may be replaced
    wanted = {**about, "splits": about["splits"] or recorded.get("splits", DEFAULT_SPLITS)}
    for name, value in recorded.items():
        if wanted[name] != value:
            rule, remedy = f"be {value!r} as in the trials of {study.study_name} so far", "Use that, or another folder."
            raise InputError(name, rule, repr(wanted[name]), remedy)
    study.set_user_attr(ABOUT, wanted)
    return wanted


def _validation_accuracies(
    config: SearchConfig, row: Row, dataset: str, settings: dict[str, Any], splits: Sequence[int]
) -> list[float]:
    settings = {**row.settings, **settings}
    where = config.device, "gcn", config.seed, config.root
    return measure(row.method, settings, dataset, splits, *where, hide_test=True).val


@dataclass(eq=False)
class Search:
    """The search for the settings of one row on one dataset: `trials` trials, judged by `evaluate`."""

    study: optuna.Study
    row: Row
    dataset: str
    space: Mapping[str, Space]
    first: Mapping[str, Any]
    evaluate: Evaluate
    trials: int
    about: Mapping[str, Any]
    lock: FileLock  # held while a trial is claimed, so that processes run none too many
    batch: int | None = None

    def counted(self) -> list[FrozenTrial]:
        """The trials that count: those that ended by themselves, the first ones by number if there are too many."""
        ended = [trial for trial in self._trials() if _ended(trial)]
        return ended[: self.trials or None]

    @property
    def is_finished(self) -> bool:
        return len(self.counted()) >= self.trials

    def step(self) -> bool:
        """Runs one trial; returns whether there was one to run."""
        self.lock.acquire()
        try:
            return self._step()
        finally:
            self.lock.release()

    def _step(self) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.study)
        trials = self._trials()
        if sum(_ended(trial) or trial.state is TrialState.RUNNING for trial in trials) >= self.trials:
            return False
        if not any(FIRST in trial.user_attrs and (_ended(trial) or not trial.state.is_finished()) for trial in trials):
            self.study.enqueue_trial(dict(self.first), user_attrs={FIRST: True})  # again if its worker was lost
        seed = hashlib.sha256(f"{self.about['seed']}/{self.study.study_name}/{len(trials)}".encode()).digest()
        self.study.sampler = optuna.samplers.TPESampler(seed=int.from_bytes(seed[:4], "big"))
        self.study.optimize(self._objective, n_trials=1, catch=FAILURES)
        if self._trials()[-1].state is TrialState.FAIL:
            gc.collect()  # what the failed trial has left may be too much for the next one
        return True

    def choice(self) -> Choice:
        """Returns the trial with the highest mean validation accuracy so far, the earliest among equals."""
        counted = self.counted()
        ended = {state: [trial for trial in counted if trial.state is state] for state in TrialState}
        complete, pruned, failed = (ended[state] for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
        best = max(complete, key=lambda trial: (trial.values[0], -trial.number), default=None)
        settings, value = (None, None) if best is None else (self._settings(best.params), best.value)
        reason, where = failed[0].user_attrs[REASON] if failed and best is None else "", (self.row.slug, self.dataset)
        splits = self.about["splits"]
        return Choice(*where, len(counted), splits, settings, value, len(pruned), len(failed), reason)

    def _trials(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _settings(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return applicable(self.row, {path: self.space[path].value(value) for path, value in params.items()})

    def _objective(self, trial: Trial) -> float:
        """Returns the mean validation accuracy over the splits. Test labels are hidden."""
        for path, values in self.space.items():
            values.suggest(trial, path)
        self.lock.release()
        complete = (other for other in self._trials() if other.state is TrialState.COMPLETE)
        same = next((other for other in complete if other.params == trial.params), None)
        if same is not None:  # small search spaces repeat settings
            return float(same.values[0])
        try:
            return self._validation(trial)
        except FAILURES as error:
            trial.set_user_attr(REASON, f"{type(error).__name__}: {error}".partition("\n")[0])
            raise

    def _validation(self, trial: Trial) -> float:
        scores: list[float] = []
        settings, splits = self._settings(trial.params), self.about["splits"]
        while len(scores) < splits:
            scores += self.evaluate(settings, list(range(splits))[len(scores) :][: self.batch])
            mean = math.fsum(scores) / len(scores)
            if not math.isfinite(mean):
                raise FloatingPointError(f"the mean validation accuracy is {mean}")
            trial.report(mean, step=len(scores))
            if len(scores) < splits and trial.should_prune():
                raise optuna.TrialPruned
        trial.set_user_attr(VALIDATION, scores)
        return mean


def _ended(trial: FrozenTrial) -> bool:
    """Whether a trial ended by itself: complete, pruned, or failed with a reason."""
    has_reason = trial.state is TrialState.FAIL and REASON in trial.user_attrs
    return has_reason or trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
