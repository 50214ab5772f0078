"""Hyperparameter search: the same number of trials for every method and dataset, judged by validation accuracy."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from lggd.cluster.connection import alive_nodes, check_nodes, connect
from lggd.cluster.tasks import run_task
from lggd.comparison.configs import Setting
from lggd.comparison.methods import Categorical, Choice, Method
from lggd.comparison.runner import measure
from lggd.comparison.study import GRACE, REASON, SAME_AS, SECONDS, VALIDATION, SharedStudy, open_journal
from lggd.comparison.templates import build, complete_settings
from lggd.estimator.passes import error_context
from lggd.features.distance_training import reuse_distances
from lggd.system.memory import release_memory
from lggd.validation import check_int

JOURNALS = "sweeps"
DEFAULT_SPLITS = 3
# Errors that count as a failed trial: the method cannot be run with these settings on this machine.
FAILURES = (
    MemoryError,
    torch.OutOfMemoryError,
    FloatingPointError,
    torch.linalg.LinAlgError,  # type: ignore[attr-defined]
)
DIGITS = 12  # significant digits of settings, so that 0.1 · 3 is 0.3
PAUSE = 0.5  # seconds between two checks for the trials of other workers

# Called with the number of finished trials, of all processes, and the total number.
ProgressCallback = Callable[[int, int], None]


@dataclass(frozen=True)
class SearchConfig:
    """The configuration of a search: `trials` per method and dataset, each judged by the first `splits` splits.

    If `splits` is None, a study uses as many as its earlier trials, or three for its first trial. `batch_size` splits
    are trained side by side (default: all); after each batch, a trial below the median is pruned. With `paper_ranges`,
    the search spaces are those in the papers of the methods if they differ, in separate studies.
    """

    trials: int = 20
    splits: int | None = None
    batch_size: int | None = None
    device: str = "cpu"
    backbone: str = "gcn"
    seed: int = 0
    results: Path = Path("results")
    root: Path | None = None
    grace: float = GRACE
    paper_ranges: bool = False

    def __post_init__(self) -> None:
        for name, minimum in (("trials", 0), ("seed", 0), ("splits", 1), ("batch_size", 1)):
            if (value := getattr(self, name)) is not None:
                check_int(name, value, minimum)

    def journal(self, method: Method) -> Path:
        return self.results / JOURNALS / f"{method.slug}.journal"


def search_settings(
    config: SearchConfig, methods: Sequence[Method], datasets: Sequence[str], callback: ProgressCallback | None = None,
    cluster: str | None = None,
) -> list[Choice]:  # fmt: skip
    """Runs trials until every method has `config.trials` on every dataset; returns the best trial of each.

    Processes with the same `results` share the work, and any of them may be killed: the others, or a later call, run
    the remaining trials. With `config.trials = 0` no trial is run, and all earlier trials are evaluated.

    With `cluster`, the address of a Ray cluster, trials run on its nodes: several searches at once, the trials of one
    in turn, since each depends on those before it. The results are those of one process.
    """
    if cluster is not None and config.trials:
        with connect(cluster):
            return _search_on_cluster(config, methods, datasets, callback)
    searches = [search for method in methods for search in _searches(config, method, datasets)]
    unfinished = searches if config.trials else []
    with reuse_distances():  # trials often differ only in settings that do not affect the distances
        while unfinished:
            if callback is not None:
                callback(sum(search.done for search in searches), config.trials * len(searches))
            progressed = any(search.step() for search in unfinished)  # one trial of the first search that has any left
            unfinished = [search for search in unfinished if search.done < config.trials]
            if unfinished and not progressed:
                time.sleep(PAUSE)
    return [search.choice() for search in searches]


def _search_on_cluster(
    config: SearchConfig, methods: Sequence[Method], datasets: Sequence[str], callback: ProgressCallback | None
) -> list[Choice]:
    check_nodes(alive_nodes())
    searches = [search for method in methods for search in _searches(config, method, datasets)]
    stopped = threading.Event()

    def finish(search: Search) -> None:
        search.evaluate = partial(run_task, search.evaluate)
        while search.done < config.trials and not stopped.is_set():
            if not search.step():
                time.sleep(PAUSE)

    with ThreadPoolExecutor(len(searches)) as threads:
        work = [threads.submit(finish, search) for search in searches]
        try:
            running = True
            while running:
                done, waiting = wait(work, PAUSE, return_when=FIRST_EXCEPTION)
                running = bool(waiting) and not any(each.exception() for each in done)
                if callback is not None:
                    callback(sum(search.done for search in searches), config.trials * len(searches))
            for each in work:
                if each.done():
                    each.result()
        finally:
            stopped.set()
    return [search.choice() for search in searches]


# Returns the validation accuracies of settings on these splits.
Evaluate = Callable[[dict[str, Setting], Sequence[int]], list[float]]


class Search:
    """The search for the settings of one method on one dataset: `trials` trials, judged by `evaluate`."""

    def __init__(
        self, study: SharedStudy, evaluate: Evaluate, trials: int, *, slug: str, dataset: str, batch: int | None = None
    ) -> None:
        self.study, self.evaluate, self.trials, self.batch = study, evaluate, trials, batch
        self.slug, self.dataset = slug, dataset
        self.splits: int = study.about["splits"]

    @property
    def done(self) -> int:
        return len(self.study.counted(self.trials))

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


def first_settings(method: Method, backbone: str) -> dict[str, Setting]:
    """Returns the settings of the first trial: those of the method if they are in the search space, else its middle."""
    complete = complete_settings(method.template, method.settings, backbone)
    middle = {name: space.middle for name, space in method.search.items()}
    return middle | {name: value for name, value in complete.items() if name in middle and value in method.search[name]}


def _searches(config: SearchConfig, method: Method, datasets: Sequence[str]) -> list[Search]:
    is_paper = config.paper_ranges and bool(method.paper_search)
    if is_paper:
        method = replace(method, search=method.paper_search)
    search = method.search
    about = {
        "splits": config.splits, "seed": config.seed, "method": method.template,
        "settings": {name: value for name, value in method.settings.items() if name not in search},
        "search": {key: list(x.values) if isinstance(x, Categorical) else vars(x) for key, x in search.items()},
    }  # fmt: skip
    with error_context(f"{method.name} ({method.file})"):
        first = first_settings(method, config.backbone)
        # Raises for unknown settings and invalid values before the first trial.
        for name, space in search.items():
            for value in space.ends:
                build(method.template, {**method.settings, **first, name: value}, config.backbone, seed=0)
    journal, ending = open_journal(config.journal(method)), f"{config.backbone}{'/paper' if is_paper else ''}"
    options: dict[str, Any] = {"defaults": {"splits": DEFAULT_SPLITS}, "seed": config.seed, "grace": config.grace}
    shared = options | {"space": search, "first": first, "about": about}
    searches = []
    for dataset in datasets:
        study = SharedStudy(journal, f"{method.slug}/{dataset}/{ending}", **shared)
        where: dict[str, Any] = {"slug": method.slug, "dataset": dataset, "batch": config.batch_size}
        searches.append(Search(study, partial(_validation_accuracies, config, method, dataset), config.trials, **where))
    return searches


def _validation_accuracies(
    config: SearchConfig, method: Method, dataset: str, settings: dict[str, Setting], splits: Sequence[int]
) -> list[float]:
    where = (config.device, config.backbone, config.seed, config.root)
    return measure(method, {**method.settings, **settings}, dataset, splits, *where, hide_test=True).val


def _rounded(params: Mapping[str, Any]) -> dict[str, Setting]:
    return {name: float(f"{x:.{DIGITS}g}") if isinstance(x, float) else x for name, x in params.items()}
