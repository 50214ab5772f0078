"""Jobs: the units of work of an experiment, shared by processes. Each measures lines of results, unless they exist."""

from __future__ import annotations

import hashlib
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from filelock import FileLock, Timeout

from lggd._system.files import write_errors
from lggd._system.memory import release_memory
from lggd.app.comparison.results import Line, Results
from lggd.progress import Callback, Progress

CLAIMS = ".claims"


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


class Claims:
    """Claims on units of work by name, as locks of files in a folder. They end with the process."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder) / CLAIMS
        with write_errors(self._folder):
            self._folder.mkdir(exist_ok=True)

    @contextmanager
    def on(self, name: str, wait: bool = False) -> Iterator[bool]:
        """Yields whether this process has the claim while the block runs; with `wait`, waits until it has."""
        lock = FileLock(self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock")
        try:
            lock.acquire(blocking=wait)
        except Timeout:  # another process has it
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


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
                    before = [] if again else lines[:count]
                    known, missing = _known(job, identities[number], options, before + lines[count:])
                    results.add_known(number, known)
                    error = _measure(job, options, missing, training, known) if missing else None
                    if error is not None:
                        results.failures[number] = error
    return results


def _report(callback: Callback | None, title: str, done: int, total: int) -> None:
    if callback is not None:
        callback(Progress(title, done, total))


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
