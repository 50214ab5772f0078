"""Jobs: the units of work of an experiment, shared by processes. Each measures lines of results, unless they exist."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from lggd.comparison.results import Claims, Line, Results
from lggd.features.distance_problems import reuse_distances
from lggd.memory import release_memory
from lggd.training.progress import Callback


@dataclass(frozen=True)
class JobOptions:
    """Options of all jobs of a command. `splits` is the number of splits, `root` the folder of the datasets.

    With `reuse`, a job uses distances that an earlier one has learned; without, its time is that of the job alone.
    """

    results: Results
    splits: int = 10
    device: str = "cpu"
    seed: int = 0
    root: Path | None = None
    reuse: bool = True


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
        """Jobs of one group run in the same process, for example because they share learned distances."""
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


# Called when a job starts, with its index and the number of jobs; returns the callback of its training.
JobListener = Callable[[Job, int, int], Callback | None]


@dataclass(frozen=True)
class JobResults:
    """The lines of all jobs, the number of lines that existed before, and the titles and errors of failed jobs."""

    lines: list[Line]
    reused: int
    failures: list[tuple[str, Exception]]


def run_jobs(
    jobs: Sequence[Job], options: JobOptions, *, again: bool = False, listener: JobListener | None = None
) -> JobResults:
    """Runs the jobs that have not been finished before and appends their lines to the results.

    Every line is written to disk as soon as it is measured, so that an interruption loses nothing. A failing job does
    not stop the others; invalid settings and missing data raise before the first job. Processes that run the same jobs
    share the work, and each returns all lines. With `again`, lines measured before this call are ignored.
    """
    identities = [job.identities(options) for job in jobs]
    options.results.prepare()
    names = {job.experiment for job in jobs}
    earlier = {name: len(options.results.lines(name)[0]) for name in names}
    results: dict[int, JobResults] = {}
    groups: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        name = f"{job.experiment} {job.group}, {options.splits} splits from seed {options.seed}"
        groups.setdefault(name, []).append(number)
    cached = reuse_distances() if options.reuse else nullcontext()
    with cached, closing(Claims(options.results.folder)) as claims:
        for wait in (False, True):  # at last for other processes: reads their lines, and runs what they did not finish
            for name in list(groups):
                with claims.on(name, wait) as claimed:
                    for number in groups.pop(name) if claimed else ():
                        job, callback = jobs[number], None
                        if listener is not None:
                            callback = listener(job, number, len(jobs))
                        # Reads them again for every job: another process may have measured it by now.
                        lines, count = options.results.lines(job.experiment)[0], earlier[job.experiment]
                        before = [] if again else [line for line in lines[:count] if job.is_final(line)]
                        results[number] = _run(job, identities[number], options, before + lines[count:], callback)
    ordered = [results[number] for number in range(len(jobs))]
    all_lines = [line for result in ordered for line in result.lines]
    failures = [failure for result in ordered for failure in result.failures]
    return JobResults(all_lines, sum(result.reused for result in ordered), failures)


def _run(
    job: Job, identities: Sequence[Line], options: JobOptions, existing: list[Line], callback: Callback | None
) -> JobResults:
    """Measures the missing lines of a job; returns them with the existing ones."""
    existing = existing if job.has_outputs(options) else []
    lines, missing, failures = [], [], []
    for identity in identities:
        same, cell = (agreeing(existing, identity, keys) for keys in (job.IDENTITY, job.CELL))
        if not same:
            missing.append(identity)
            continue
        lines.append(same[-1])
        if cell[-1] is not same[-1]:
            options.results.append(job.experiment, same[-1])  # tables use the settings requested last
    reused = len(lines)
    try:
        for line in job.lines(options, missing, callback) if missing else ():
            options.results.append(job.experiment, line)
            lines.append(line)
    except Exception as error:
        failures.append((job.title, error))
        release_memory()
    return JobResults(lines, reused, failures)


def agreeing(lines: Sequence[Line], wanted: Line, names: Sequence[str]) -> list[Line]:
    """Returns the lines that have the values of `wanted` for these keys."""
    return [line for line in lines if all(line.get(name) == wanted.get(name) for name in names)]
