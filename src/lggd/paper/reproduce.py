"""Runs experiments: measures only what has not been measured before, and shares the work among processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lggd.compare.results import Claims
from lggd.compare.runner import find_finished, is_superseded
from lggd.features.distance_problems import reuse_distances
from lggd.memory import release_memory
from lggd.paper.jobs import Job, JobOptions
from lggd.training.progress import Callback

# Called when a job starts, with its index and the number of jobs; returns the callback of its training.
JobListener = Callable[[Job, int, int], Callback]


@dataclass(frozen=True)
class ReproductionResult:
    """The lines of all jobs, the number of lines that existed before, and the titles and errors of failed jobs."""

    lines: list[dict[str, Any]]
    reused: int
    failures: list[tuple[str, Exception]]


def reproduce(
    jobs: Sequence[Job], options: JobOptions, *, again: bool = False, listener: JobListener | None = None
) -> ReproductionResult:
    """Runs the jobs that have not been finished before and appends their lines to the results.

    Every line is written to disk as soon as it is measured, so that an interruption loses nothing. A failing job does
    not stop the others; invalid settings and missing data raise before the first job. Processes that run the same jobs
    share the work, and each returns all lines. With `again`, lines measured before this call are ignored.
    """
    identities = [job.identities(options) for job in jobs]
    options.results.prepare()
    ignored = {job.experiment: len(options.results.lines(job.experiment)[0]) if again else 0 for job in jobs}
    results: dict[int, ReproductionResult] = {}

    def run(numbers: Sequence[int]) -> None:
        for number in numbers:
            job = jobs[number]
            callback = None if listener is None else listener(job, number, len(jobs))
            results[number] = _run(job, identities[number], options, ignored[job.experiment], callback)

    postponed = []
    with reuse_distances(), closing(Claims(options.results.folder)) as claims:
        for group, members in groupby(range(len(jobs)), lambda number: (jobs[number].experiment, jobs[number].group)):
            name, numbers = f"{' '.join(group)}, {options.splits} splits from seed {options.seed}", list(members)
            with claims.on(name) as claimed:
                if claimed:
                    run(numbers)
                else:
                    postponed.append((name, numbers))
        # Other processes had claimed these: waits for them, reads their lines, and runs what they did not finish.
        for name, numbers in postponed:
            with claims.on(name, wait=True):
                run(numbers)
    ordered = [results[number] for number in range(len(jobs))]
    return ReproductionResult(
        [line for result in ordered for line in result.lines],
        sum(result.reused for result in ordered),
        [failure for result in ordered for failure in result.failures],
    )


def _run(
    job: Job, identities: Sequence[dict[str, Any]], options: JobOptions, ignored: int, callback: Callback | None
) -> ReproductionResult:
    """Measures the missing lines of a job; returns them with the existing ones after the first `ignored` lines."""
    # Reads them again for every job: another process may have measured it by now.
    existing = options.results.lines(job.experiment)[0][ignored:] if job.has_outputs(options) else []
    found = [find_finished(existing, identity) for identity in identities]
    for identity, line in zip(identities, found, strict=True):
        if line is not None and is_superseded(existing, identity):
            options.results.append(job.experiment, line)  # tables use the settings requested last
    lines = [line for line in found if line is not None]
    result = ReproductionResult(lines, len(lines), [])
    missing = [identity for identity, line in zip(identities, found, strict=True) if line is None]
    try:
        for line in job.lines(options, missing, callback) if missing else ():
            options.results.append(job.experiment, line)
            lines.append(line)
    except Exception as error:
        result.failures.append((job.title, error))
        release_memory()
    return result
