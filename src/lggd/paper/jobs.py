"""Jobs: the units of work of an experiment. Each measures one or more lines of results, unless they exist."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from lggd.compare import runner
from lggd.compare.configs import Settings
from lggd.compare.methods import Method
from lggd.compare.protocol import load_splits
from lggd.compare.results import Claims, Results
from lggd.compare.runner import measure
from lggd.compare.templates import build, complete_settings
from lggd.data.splits import fingerprint
from lggd.errors import InputError, error_context
from lggd.estimator import NodeClassifier
from lggd.features.distance_problems import reuse_distances
from lggd.memory import release_memory
from lggd.paper.figures import save
from lggd.paper.measurements import ADDITIONS, RETRAINED, Line
from lggd.training.progress import Callback

DOTS_PER_INCH = 80  # keeps figures of 80,000 points small enough to be committed
HASH_LENGTH = 12
# Keys that identify a cell of a table, of which the last line is used, and those that identify a measurement. Most
# lines have no `additions` and no `variant`.
CELL = ("experiment", "row", "dataset", "backbone", "splits", "additions", "variant")
IDENTITY = (*CELL, "config", "seed")


@dataclass(frozen=True)
class JobOptions:
    """Options of all jobs of a command. `splits` is the number of splits, `root` the folder of the datasets."""

    results: Results
    splits: int = 10
    device: str = "cpu"
    seed: int = 0
    root: Path | None = None


class Job(ABC):
    """A unit of work that measures one or more lines of results."""

    experiment: str

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


@dataclass(frozen=True)
class _RowJob(Job):
    experiment: str
    row: Method
    settings: Settings
    dataset: str

    def _load(self, options: JobOptions, dynamic: bool = False) -> list[Any]:
        splits = range(options.splits)
        return load_splits(self.dataset, splits, device=options.device, root=options.root, dynamic=dynamic)

    def _build(self, options: JobOptions, backbone: str = "gcn", *files: Path) -> NodeClassifier:
        """Builds the model. Errors in its settings name the job and the files of the settings."""
        names = ", ".join(map(str, (*self.row.files_for(self.dataset), *files)))
        with error_context(f"{self.title} ({names})" if names else self.title):
            return build(self.row.template, self.settings, backbone, options.seed)

    def _identity(self, row: Method, datas: Sequence[Any], seed: int, backbone: str = "gcn", **more: Any) -> Line:
        """The first part of a line: what is measured, with all settings."""
        config = complete_settings(row.template, self.settings, backbone)
        hashes = [fingerprint(data) for data in datas]
        return {
            "experiment": self.experiment, "row": row.number, "name": row.name, "slug": row.slug, **more,
            "dataset": self.dataset, "backbone": backbone,
            "config": {name: runner.json_setting(config[name]) for name in sorted(config)}, "seed": seed,
            "split_hash": hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:HASH_LENGTH], "splits": hashes,
        }  # fmt: skip


@dataclass(frozen=True)
class CellJob(_RowJob):
    """A cell of a table: one row on one dataset. `variant` is the name of an ablation defined in `file`."""

    backbone: str = "gcn"
    variant: str | None = None
    file: Path | None = None

    @property
    def title(self) -> str:
        variant = "" if self.variant is None else f", {self.variant}"
        backbone = "" if self.backbone == "gcn" else f" with {self.backbone}"
        return f"{self.row.name}{variant} on {self.dataset}{backbone}"

    @property
    def group(self) -> str:
        return f"{self.row.name} on {self.dataset}"

    def identities(self, options: JobOptions) -> list[Line]:
        self._build(options, self.backbone, *([] if self.file is None else [self.file]))
        more = {} if self.variant is None else {"variant": self.variant}
        return [self._identity(self.row, self._load(options), options.seed, self.backbone, **more)]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        what, where = (self.row, self.settings, self.dataset), (options.device, self.backbone, options.seed)
        scores = measure(*what, range(options.splits), *where, options.root, callback)
        yield runner.result_line(missing[0], scores, options.device)


@dataclass(frozen=True)
class NewLabelsJob(_RowJob):
    """A row on a dataset to which labels are added in three steps, with one line per step.

    Without `retrained`, the model is fitted once and labels are added with `add_labels`; `seconds` include this and the
    predictions. With it, the model is fitted again for every step, with the new labels in its training set.
    """

    retrained: bool

    @property
    def title(self) -> str:
        return f"{self._named_row.name} on {self.dataset}"

    def identities(self, options: JobOptions) -> list[Line]:
        if not self._build(options).accepts_labels and not self.retrained:
            raise InputError("rows", "accept labels without training", but=f"{self.row.name} cannot", remedy="Omit it.")
        line = self._identity(self._named_row, self._load(options, dynamic=True), options.seed, additions=0)
        return [line | {"additions": additions} for additions in ADDITIONS]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        wanted = {int(line["additions"]): line for line in missing}
        datas, models = self._load(options, dynamic=True), []
        for additions in wanted if self.retrained else ADDITIONS:
            start = time.perf_counter()
            if self.retrained or additions == 0:
                extended = [data.clone("train_mask") for data in datas]
                for data in extended:
                    data.train_mask |= data.new_mask[:, :additions].any(1)
                seeds = [options.seed + split for split in range(options.splits)]
                models = runner.fit_method(self.row, self.settings, extended, seeds, "gcn", callback)
            else:
                for model, data in zip(models, datas, strict=True):
                    new = data.new_mask[:, additions - 1]
                    model.add_labels(new, data.y[new])  # type: ignore[union-attr]
            scores = runner.score_models(models, datas, start)
            if additions in wanted:
                yield runner.result_line(wanted[additions], scores, options.device)

    @property
    def _named_row(self) -> Method:
        """The row with its number and name in results."""
        number, name = f"{self.row.number} {RETRAINED}", f"{self.row.name}, {RETRAINED}"
        return replace(self.row, number=number, name=name) if self.retrained else self.row


@dataclass(frozen=True)
class FigureJob(Job):
    """A figure and its numbers, returned by `draw(seed, callback, **config)`."""

    experiment: str
    draw: Callable[..., tuple[Figure, Line]]
    config: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"Figure: {self.experiment}"

    def identities(self, options: JobOptions) -> list[Line]:
        return [{"experiment": self.experiment, "config": dict(self.config), "seed": options.seed}]

    def lines(self, options: JobOptions, missing: Sequence[Line], callback: Callback | None) -> Iterator[Line]:
        start = time.perf_counter()
        figure, numbers = self.draw(options.seed, callback, **self.config)
        path = options.results.folder / self._file
        path.parent.mkdir(parents=True, exist_ok=True)
        save(figure, path, DOTS_PER_INCH)
        metadata = runner.run_metadata("cpu", time.perf_counter() - start)
        yield {**missing[0], **numbers, "figure": self._file, **metadata}

    def has_outputs(self, options: JobOptions) -> bool:
        return (options.results.folder / self._file).is_file()

    @property
    def _file(self) -> str:
        return f"figures/{self.experiment}.png"


# Called when a job starts, with its index and the number of jobs; returns the callback of its training.
JobListener = Callable[[Job, int, int], Callback]


@dataclass(frozen=True)
class ReproductionResult:
    """The lines of all jobs, the number of lines that existed before, and the titles and errors of failed jobs."""

    lines: list[Line]
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
    groups: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        name = f"{job.experiment} {job.group}, {options.splits} splits from seed {options.seed}"
        groups.setdefault(name, []).append(number)
    with reuse_distances(), closing(Claims(options.results.folder)) as claims:
        for wait in (False, True):  # at last for other processes: reads their lines, and runs what they did not finish
            for name in list(groups):
                with claims.on(name, wait) as claimed:
                    for number in groups.pop(name) if claimed else ():
                        callback = None if listener is None else listener(jobs[number], number, len(jobs))
                        known = ignored[jobs[number].experiment]
                        results[number] = _run(jobs[number], identities[number], options, known, callback)
    ordered = [results[number] for number in range(len(jobs))]
    lines = [line for result in ordered for line in result.lines]
    failures = [failure for result in ordered for failure in result.failures]
    return ReproductionResult(lines, sum(result.reused for result in ordered), failures)


def _run(
    job: Job, identities: Sequence[Line], options: JobOptions, ignored: int, callback: Callback | None
) -> ReproductionResult:
    """Measures the missing lines of a job; returns them with the existing ones after the first `ignored` lines."""
    # Reads them again for every job: another process may have measured it by now.
    existing = options.results.lines(job.experiment)[0][ignored:] if job.has_outputs(options) else []
    lines, missing, failures = [], [], []
    for identity in identities:
        same, cell = _agreeing(existing, identity, IDENTITY), _agreeing(existing, identity, CELL)
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
    return ReproductionResult(lines, reused, failures)


def _agreeing(lines: Sequence[Line], wanted: Line, names: Sequence[str]) -> list[Line]:
    return [line for line in lines if all(line.get(name) == wanted.get(name) for name in names)]
