"""Jobs: the units of work of an experiment, shared by processes. Each measures lines of results, unless they exist."""

from __future__ import annotations

import os
import tempfile
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from lggd._system.memory import release_memory
from lggd.app.comparison.results import Claims, Line, Results
from lggd.cluster.tasks import run_tasks
from lggd.progress import Callback, Progress

POLL = 0.5  # seconds between two looks at what other processes have measured


@dataclass(frozen=True)
class JobOptions:
    """Options of all jobs of a command. `splits` is the number of splits, `root` the folder of the datasets."""

    results: Results
    splits: int = 10
    device: str = "cpu"
    seed: int = 0
    root: Path | None = None


class Job(ABC):
    """A unit of work that measures one or more lines of results.

    `IDENTITY` are the keys of a line that identify a measurement, and `CELL` those that identify a cell of a table, of
    which the last line is used.
    """

    experiment: str
    CELL: ClassVar[tuple[str, ...]]
    IDENTITY: ClassVar[tuple[str, ...]]

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def group(self) -> str:
        """Jobs of one group run in the same process, one after the other."""
        return self.title

    @abstractmethod
    def identities(self, options: JobOptions) -> list[Line]:
        """Returns the identity of each line. Reads the data and checks the settings, before long computations start."""

    @abstractmethod
    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        """Yields the lines with the identities in `missing`, each as soon as it is measured."""

    def has_outputs(self, options: JobOptions) -> bool:
        """Returns whether its output files exist, besides lines of results."""
        return True

    def is_final(self, line: Line) -> bool:
        """Returns whether a line that was written before this command replaces a measurement."""
        return True


@dataclass
class JobResults:
    """The lines of jobs and the errors of those that failed, by number of the job; `reused` lines existed before."""

    lines_of: dict[int, list[Line]] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)
    reused: int = 0

    @property
    def lines(self) -> list[Line]:
        """All lines, in the order of the jobs."""
        return [line for number in sorted(self.lines_of) for line in self.lines_of[number]]

    def add_known(self, number: int, lines: list[Line]) -> None:
        self.lines_of[number] = lines
        self.reused += len(lines)


def run_jobs(
    jobs: Sequence[Job],
    options: JobOptions,
    *,
    again: bool = False,
    callback: Callback | None = None,
    training: Callback | None = None,
) -> JobResults:
    """Runs the jobs that have not been finished before and appends their lines to the results.

    Every line is written to disk as soon as it is measured, so that an interruption loses nothing. A failing job does
    not stop the others; invalid settings and missing data raise before the first job. Processes that run the same jobs
    share the work, and each returns all lines. With `again`, lines measured before this call are ignored. `callback`
    is told of jobs, with their titles as stages, and `training` of the training in them.
    """
    identities = [job.identities(options) for job in jobs]
    options.results.prepare()
    earlier = {name: len(options.results.lines(name)[0]) for name in {job.experiment for job in jobs}}
    results, groups = JobResults(), _groups(jobs, options)
    claims = Claims(options.results.folder)
    for wait in (False, True):  # at last for other processes: reads their lines, and runs what they did not finish
        for name in list(groups):
            with claims.on(name, wait) as claimed:
                for number in groups.pop(name) if claimed else ():
                    job = jobs[number]
                    _report(callback, job.title, number, len(jobs))
                    # Reads them again for every job: another process may have measured it by now.
                    lines, count = options.results.lines(job.experiment)[0], earlier[job.experiment]
                    before = [] if again else [line for line in lines[:count] if job.is_final(line)]
                    known, missing = _known(job, identities[number], options, before + lines[count:])
                    results.add_known(number, known)
                    error = _measure(job, options, missing, training, known) if missing else None
                    if error is not None:
                        results.failures[number] = error
    return results


def run_jobs_in_processes(
    jobs: Sequence[Job], options: JobOptions, processes: int, callback: Callback | None = None
) -> JobResults:
    """`run_jobs` in several processes, which share jobs of one line each as separate commands would."""
    from joblib import Parallel, delayed, parallel_config

    wanted = {_key(job, job.identities(options)[0]) for job in jobs}

    def report() -> None:
        measured = {_key(job, line) for job in jobs[:1] for line in options.results.lines(job.experiment)[0]}
        _report(callback, "Fitting", len(measured & wanted), len(jobs))

    threads = max(1, torch.get_num_threads() // processes)
    work = (delayed(_work)(jobs, options, os.getpid()) for _ in range(processes))
    with repeating(report, POLL), parallel_config("loky", inner_max_num_threads=threads):
        return Parallel(n_jobs=processes)(work)[0]  # type: ignore[no-any-return]


def _work(jobs: Sequence[Job], options: JobOptions, parent: int) -> JobResults:
    def check_parent(_: Progress) -> None:
        if os.getppid() != parent:  # it was killed, and nobody waits for the rest
            raise SystemExit

    return run_jobs(jobs, options, callback=check_parent)


def _report(callback: Callback | None, title: str, done: int, total: int) -> None:
    if callback is not None:
        callback(Progress(title, done, total))


def _key(job: Job, line: Line) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in job.IDENTITY)


def run_jobs_on_cluster(jobs: Sequence[Job], options: JobOptions, callback: Callback | None = None) -> JobResults:
    """`run_jobs` on the cluster that `lggd.cluster.connect` has connected to: each job on one CPU of any node.

    This process writes the lines as they arrive; nodes need no access to its files.
    """
    identities = [job.identities(options) for job in jobs]
    options.results.prepare()
    results, missing, claims = JobResults(), [], Claims(options.results.folder)
    with ExitStack() as held:
        for name in sorted(_groups(jobs, options)):  # others wait, in the same order, so that none waits for ever
            held.enter_context(claims.on(name, wait=True))
        for number, (job, wanted) in enumerate(zip(jobs, identities, strict=True)):
            lines = [line for line in options.results.lines(job.experiment)[0] if job.is_final(line)]
            known, left = _known(job, wanted, options, lines)
            results.add_known(number, known)
            missing.append(left)
        numbers = [number for number, left in enumerate(missing) if left]
        done = len(jobs) - len(numbers)
        for number, lines_or_error in run_tasks(_lines_of, (list(jobs), options, missing), numbers):
            if isinstance(lines_or_error, Exception):
                results.failures[number] = lines_or_error
                continue
            for line in lines_or_error:
                options.results.append(jobs[number].experiment, line)
            results.lines_of[number] += lines_or_error
            done += 1
            _report(callback, jobs[number].title, done, len(jobs))
    return results


@contextmanager
def repeating(action: Callable[[], None], seconds: float) -> Iterator[None]:
    """Calls `action` in a thread, every so many seconds, while the context lasts."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _lines_of(shared: tuple[Sequence[Job], JobOptions, Sequence[Sequence[Line]]], number: int) -> list[Line]:
    """The missing lines of a job, measured on a node; its files are temporary."""
    jobs, options, missing = shared
    with tempfile.TemporaryDirectory() as folder:
        return list(jobs[number].lines(replace(options, results=Results(folder)), missing[number], None))


def _groups(jobs: Sequence[Job], options: JobOptions) -> dict[str, list[int]]:
    """The numbers of the jobs of each group, by the name of the claim on it."""
    groups: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        name = f"{job.experiment} {job.group}, {options.splits} splits from seed {options.seed}"
        groups.setdefault(name, []).append(number)
    return groups


def _known(
    job: Job, identities: Sequence[Line], options: JobOptions, existing: list[Line]
) -> tuple[list[Line], list[Line]]:
    """The lines of a job that exist, and the identities of those that are missing."""
    existing = existing if job.has_outputs(options) else []
    lines, missing = [], []
    for identity in identities:
        same, cell = (
            [line for line in existing if all(line.get(name) == identity.get(name) for name in names)]
            for names in (job.IDENTITY, job.CELL)
        )
        if not same:
            missing.append(identity)
            continue
        lines.append(same[-1])
        if cell[-1] is not same[-1]:
            options.results.append(job.experiment, same[-1])  # tables use the settings requested last
    return lines, missing


def _measure(
    job: Job, options: JobOptions, missing: Sequence[Line], callback: Callback | None, lines: list[Line]
) -> Exception | None:
    """Appends the missing lines of a job to its results and to `lines`; returns its error if it fails."""
    try:
        for line in job.lines(options, missing, callback):
            options.results.append(job.experiment, line)
            lines.append(line)
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # the error is kept, and would keep tensors alive
        release_memory()
        return error
    return None
