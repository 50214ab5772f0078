"""The paper's tables and figures, made anew: which jobs each consists of, and doing what is not done yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lggd.compare.claims import Claims
from lggd.compare.methods import build, works_on
from lggd.compare.row import (
    Row,
    check_keys,
    configs_folder,
    load_rows,
    read_settings,
    read_toml,
    rows_named,
    table_of,
)
from lggd.compare.runner import finished, is_overtaken
from lggd.data.datasets import PAPER
from lggd.errors import InputError
from lggd.features.reuse import reuse_distances as remembering
from lggd.memory import give_memory_back
from lggd.paper.figure_jobs import GeodesicJob, RobustnessJob
from lggd.paper.jobs import Cell, Job, NewLabels, Setup, takes_labels
from lggd.training.progress import Callback
from lggd.validation import suggestion

BACKBONE_ROWS, BACKBONES = ("01", "09", "14"), ("gat", "chebnet", "jknet")
# Where backbones are compared they must have a say: the nearest class alone would be the same with all of them.
WITH_A_BACKBONE = {"LGGD+": {"readout": "both"}}
DYNAMIC_DATASETS = ("cora", "citeseer", "pubmed")
TOLD_ROWS, RETRAINED_ROWS = ("09", "14"), ("01", "09")
ABLATION = "ablation.toml"
# A look at everything within minutes: its results go to files of their own.
QUICK, QUICK_ROWS, QUICK_DATASETS, QUICK_SPLITS = "-quick", ("01", "07", "08", "09", "11", "14"), ("cora",), 3
Named = TypeVar("Named", Row, str)
QUICK_ROBUSTNESS = RobustnessJob(points=2000, epsilon=0.15, draws=1)


@dataclass(frozen=True)
class Wish:
    """What part of an experiment is wanted; an empty tuple of rows or datasets stands for the usual ones.

    What an experiment has no use for is refused, and with `everything`, a wish for all of them, left out of it.
    """

    rows: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    configs: Path | None = None
    quick: bool = False
    everything: bool = False


class Watcher(Protocol):
    """Who is told what is going on."""

    def begin(self, job: Job, number: int, total: int) -> Callback:
        """The job with this number, from 0, begins; what comes back hears of its epochs."""


@dataclass(frozen=True)
class Failure:
    """A job that came to nothing, and why."""

    title: str
    error: Exception


@dataclass
class Outcome:
    """All lines of what was asked for, how many of them were there before, and what failed."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    kept: int = 0
    failures: list[Failure] = field(default_factory=list)


def plan(experiment: str, wish: Wish = Wish()) -> list[Job]:
    """The jobs of an experiment of `EXPERIMENTS`, or of "all".

    >>> [job.title for job in plan("table1", Wish(rows=("01",), datasets=("cora", "photo")))]
    ['GCN on cora', 'GCN on photo']
    """
    if experiment == "all":
        return [job for one in EXPERIMENTS for job in plan(one, replace(wish, everything=True))]
    if experiment not in EXPERIMENTS:
        close = suggestion(experiment, list(EXPERIMENTS))
        raise InputError("experiment", f"be one of {', '.join(EXPERIMENTS)} or all", repr(experiment), close)
    jobs = EXPERIMENTS[experiment](wish)
    return [replace(job, experiment=f"{job.experiment}{QUICK}") for job in jobs] if wish.quick else jobs  # type: ignore[type-var]


def reproduce(jobs: Sequence[Job], setup: Setup, *, again: bool = False, watcher: Watcher | None = None) -> Outcome:
    """Does all jobs, or those that no earlier call has finished, and adds their lines to the results.

    A line is on disk before the next is begun, so that an interruption loses nothing finished. A job that fails leaves
    no line and does not keep others from being done; wrong settings or missing data are refused before the first.
    Several processes may be asked for the same: they share the work, and each tells of all of it in the end.
    With `again`, what counts as finished is what they have measured since this call.
    """
    pieces = [Piece(job, number, job.identities(setup)) for number, job in enumerate(jobs)]
    setup.results.prepare()
    old = {job.experiment: len(setup.results.lines(job.experiment)[0]) if again else 0 for job in jobs}
    with remembering():
        return _done(pieces, setup, old, watcher)


@dataclass(frozen=True)
class Piece:
    """A job, its number among all, and how its lines begin."""

    job: Job
    number: int
    identities: Sequence[Mapping[str, Any]]

    @property
    def family(self) -> str:
        return f"{self.job.experiment} {self.job.family}"


def _done(pieces: Sequence[Piece], setup: Setup, old: Mapping[str, int], watcher: Watcher | None) -> Outcome:
    """`old` counts the lines of each experiment that are not to be looked at."""
    outcomes: dict[int, Outcome] = {}

    def finish(family: Sequence[Piece]) -> None:
        outcomes.update({piece.number: _finish(piece, len(pieces), setup, old, watcher) for piece in family})

    others = []
    with closing(Claims(setup.results.folder)) as claims:
        for name, grouped in groupby(pieces, lambda piece: piece.family):
            family = list(grouped)
            name = f"{name}, {setup.splits} splits from seed {setup.seed}"
            with claims.on(name) as mine:
                if mine:
                    finish(family)
                else:
                    others.append((name, family))
        # What others were at is looked for when they are through, and done where they came to nothing.
        for name, family in others:
            with claims.on(name, wait=True):
                finish(family)
    in_order = [outcomes[number] for number in sorted(outcomes)]
    return Outcome(
        [line for outcome in in_order for line in outcome.lines],
        sum(outcome.kept for outcome in in_order),
        [failure for outcome in in_order for failure in outcome.failures],
    )


def _finish(piece: Piece, total: int, setup: Setup, old: Mapping[str, int], watcher: Watcher | None) -> Outcome:
    """The lines of a job: those that are there, and those that were missing."""
    outcome, job = Outcome(), piece.job
    callback = None if watcher is None else watcher.begin(job, piece.number, total)
    # Read anew each time: another process may have done it by now.
    before = setup.results.lines(job.experiment)[0][old[job.experiment] :] if job.has_all(setup) else []
    done = [finished(before, identity) for identity in piece.identities]
    for identity, line in zip(piece.identities, done, strict=True):
        if line is not None and is_overtaken(before, identity):
            setup.results.append(job.experiment, line)  # what was asked for last is what counts
    outcome.lines += [line for line in done if line is not None]
    outcome.kept = len(outcome.lines)
    missing = [identity for identity, line in zip(piece.identities, done, strict=True) if line is None]
    try:
        for line in job.lines(setup, missing, callback) if missing else ():
            setup.results.append(job.experiment, line)
            outcome.lines.append(line)
    except Exception as wrong:
        outcome.failures.append(Failure(job.title, wrong))
        give_memory_back()
    return outcome


# -- experiments ------------------------------------------------------------------------------------------------------


def _table1(wish: Wish) -> list[Job]:
    rows = _rows(wish, QUICK_ROWS if wish.quick else None)
    return [
        Cell("table1", row, row.settings_for(dataset, wish.quick), dataset)
        for row in rows
        for dataset in _datasets(wish, PAPER)
    ]


def _backbones(wish: Wish) -> list[Job]:
    return [
        Cell(
            "backbones",
            row,
            {**row.settings_for(dataset, wish.quick), **WITH_A_BACKBONE.get(row.method, {})},
            dataset,
            backbone,
        )
        for row in _fitting(wish, "rows", _rows(wish, BACKBONE_ROWS), _takes_a_backbone, "work on other backbones")
        for dataset in _datasets(wish, PAPER)
        for backbone in BACKBONES  # last, for distances that all of them read are learned once
        if works_on(row.method, backbone)
    ]


def _dynamic(wish: Wish) -> list[Job]:
    told = [row for row in _rows(wish, TOLD_ROWS) if takes_labels(build(row.method, {}, "gcn", 0))]
    jobs = [(row, False) for row in told] + [(row, True) for row in _rows(wish, RETRAINED_ROWS)]
    rule = f"be among {', '.join(PAPER)} where labels arrive later"
    datasets = _fitting(wish, "datasets", _datasets(wish, DYNAMIC_DATASETS), PAPER.__contains__, rule)
    return [
        NewLabels("dynamic", row, row.settings_for(dataset, wish.quick), dataset, retrained)
        for row, retrained in jobs
        for dataset in datasets
    ]


def _ablation(wish: Wish) -> list[Job]:
    """Variants of one row, each with some settings of its own, as `ablation.toml` names them."""
    path = configs_folder(wish.configs) / ABLATION
    read = read_toml(path)
    check_keys(path, "", read, ("base", "variants"))
    rows = load_rows(wish.configs)
    row = rows_named(rows, [str(read.get("base"))])[0]
    asked = rows_named(rows, wish.rows) if wish.rows else [row]
    if not _fitting(wish, "rows", asked, lambda one: one == row, f"be {row.number}, the base of {path}"):
        return []
    named = table_of(path, read, "variants")
    variants = {name: read_settings(path, f"variants.{name}", table_of(path, named, name)) for name in named}
    return [
        Cell(
            "ablation",
            row,
            {**row.settings_for(dataset, wish.quick), **own},
            dataset,
            more={"variant": name},
            file=path,
        )
        for dataset in _datasets(wish, PAPER)
        for name, own in variants.items()
    ]


def _figure(wish: Wish, job: Job) -> list[Job]:
    for name, values in (("rows", wish.rows), ("datasets", wish.datasets)):
        _fitting(wish, name, values, lambda _: False, f"not be given for {job.experiment}, a figure")
    return [] if wish.rows or wish.datasets else [job]


EXPERIMENTS: dict[str, Callable[[Wish], list[Job]]] = {
    "table1": _table1,
    "backbones": _backbones,
    "dynamic": _dynamic,
    "robustness": lambda wish: _figure(wish, QUICK_ROBUSTNESS if wish.quick else RobustnessJob()),
    "geodesic": lambda wish: _figure(wish, GeodesicJob()),
    "ablation": _ablation,
}


def _rows(wish: Wish, usual: Sequence[str] | None) -> list[Row]:
    rows = load_rows(wish.configs)
    if wish.rows:
        return rows_named(rows, wish.rows)
    return rows if usual is None else [row for row in rows if row.number in usual]


def _takes_a_backbone(row: Row) -> bool:
    return any(works_on(row.method, backbone) for backbone in BACKBONES)


def _fitting(wish: Wish, name: str, found: Sequence[Named], fits: Callable[[Named], bool], rule: str) -> list[Named]:
    """Those of the rows or datasets that fit the experiment."""
    wrong = [one.name if isinstance(one, Row) else one for one in found if not fits(one)]
    if wrong and not wish.everything:
        raise InputError(name, rule, ", ".join(wrong), "Leave it out.")
    return [one for one in found if fits(one)]


def _datasets(wish: Wish, usual: Sequence[str] | dict[str, Any]) -> list[str]:
    if wish.datasets:
        return [name.lower() for name in wish.datasets]
    return list(QUICK_DATASETS) if wish.quick else list(usual)
