"""Searches for settings by validation accuracy: of rows, and of any model on one split.

Every row gets the same number of trials.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lggd import baselines
from lggd.app.comparison.candidates import GraphLabelSpreading
from lggd.app.comparison.rows import Categorical, Choice, Row, SearchSpace
from lggd.app.comparison.runner import measure
from lggd.app.comparison.settings import Setting
from lggd.app.comparison.short_names import build, complete_settings
from lggd.app.comparison.study import GRACE, Evaluate, Search, SharedStudy, open_journal
from lggd.backbones import GAT, GCN, ChebNet, JKNet
from lggd.cluster.connection import alive_nodes, check_nodes, connect
from lggd.cluster.tasks import run_task
from lggd.errors import error_context
from lggd.models.plus import SelfTraining
from lggd.training.problems import Optimization
from lggd.validation import check_int

JOURNALS = "sweeps"
BACKBONE = "gcn"  # of all trials
DEFAULT_SPLITS = 3
PAUSE = 0.5  # seconds between two checks for the trials of other workers

# Called with the number of finished trials, of all processes, and the total number.
ProgressCallback = Callable[[int, int], None]

# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SearchConfig:
    """The configuration of a search: `trials` per row and dataset, each judged by the first `splits` splits.

    If `splits` is None, a study uses as many as its earlier trials, or three for its first trial. `batch_size` splits
    are trained side by side (default: all); after each batch, a trial below the median is pruned. With `paper_ranges`,
    the search spaces are those in the papers of the methods if they differ, in separate studies.
    """

    trials: int = 20
    splits: int | None = None
    batch_size: int | None = None
    device: str = "cpu"
    seed: int = 0
    results: Path = Path("results")
    root: Path | None = None
    grace: float = GRACE
    paper_ranges: bool = False

    def __post_init__(self) -> None:
        for name, minimum in (("trials", 0), ("seed", 0), ("splits", 1), ("batch_size", 1)):
            if (value := getattr(self, name)) is not None:
                check_int(name, value, minimum)

    def journal(self, row: Row) -> Path:
        return self.results / JOURNALS / f"{row.slug}.journal"


def search_settings(
    config: SearchConfig, rows: Sequence[Row], datasets: Sequence[str], callback: ProgressCallback | None = None,
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
            callback(sum(search.done for search in searches), config.trials * len(searches))

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


def first_settings(row: Row) -> dict[str, Setting]:
    """Returns the settings of the first trial: those of the row if they are in the search space, else its middle."""
    complete = complete_settings(row.method, row.settings, BACKBONE)
    middle = {name: space.middle for name, space in row.search.items()}
    return middle | {name: value for name, value in complete.items() if name in middle and value in row.search[name]}


def _searches(config: SearchConfig, row: Row, datasets: Sequence[str]) -> list[Search]:
    is_paper = config.paper_ranges and bool(row.paper_search)
    if is_paper:
        row = replace(row, search=row.paper_search)
    search = row.search
    about = {
        "splits": config.splits, "seed": config.seed, "method": row.method,
        "settings": {name: value for name, value in row.settings.items() if name not in search},
        "search": {key: list(x.values) if isinstance(x, Categorical) else vars(x) for key, x in search.items()},
    }  # fmt: skip
    with error_context(f"{row.name} ({row.file})"):
        first = first_settings(row)
        # Raises for unknown settings and invalid values before the first trial.
        for name, space in search.items():
            for value in space.ends:
                build(row.method, {**row.settings, **first, name: value}, BACKBONE, seed=0)
    journal, searches = open_journal(config.journal(row)), []
    for dataset in datasets:
        study = SharedStudy(
            journal, f"{row.slug}/{dataset}/{BACKBONE}{'/paper' if is_paper else ''}", space=search,
            first=first, about=about, defaults={"splits": DEFAULT_SPLITS}, seed=config.seed, grace=config.grace,
        )  # fmt: skip
        evaluate = partial(_validation_accuracies, config, row, dataset)
        searches.append(Search(study, evaluate, config.trials, config.batch_size, slug=row.slug, dataset=dataset))
    return searches


def _validation_accuracies(
    config: SearchConfig, row: Row, dataset: str, settings: dict[str, Setting], splits: Sequence[int]
) -> list[float]:
    settings = {**row.settings, **settings}
    where = config.device, BACKBONE, config.seed, config.root
    return measure(row.method, settings, dataset, splits, *where, hide_test=True).val


# -- any model on one split -------------------------------------------------------------------------------------------

DROPOUT, HIDDEN, RESTART, SPREAD = (0.2, 0.5, 0.8), (16, 32, 64), (0.05, 0.1, 0.2), (0.5, 0.8, 0.9, 0.99)
_NETWORK: Mapping[str, tuple[Setting, ...]] = {"hidden": HIDDEN, "dropout": DROPOUT}
# The same for every method that has such a part, the caller's models included. Methods without any, such as kernel
# ridge regression, choose their settings themselves, by leaving one label out.
SPACES: Mapping[type, Mapping[str, tuple[Setting, ...]]] = {
    Optimization: {"weight_decay": (1e-6, 5e-4, 5e-3), "lr": (0.003, 0.01, 0.03)},
    **dict.fromkeys((GCN, GAT, ChebNet, JKNet, baselines.MLPClassifier), _NETWORK),
    **{kind: {**_NETWORK, "alpha": RESTART, "hops": (5, 10)} for kind in (baselines.APPNP, baselines.GPRGNN)},
    baselines.SGC: {"hops": (1, 2, 3, 5)},
    baselines.PPR: {"alpha": RESTART},
    baselines.Heat: {"t": (1.0, 3.0, 5.0)},
    baselines.GDC: {"k": (32, 64, 128)},
    baselines.DropEdge: {"p": (0.2, 0.5, 0.8)},
    baselines.LabelPropagation: {"alpha": SPREAD},
    GraphLabelSpreading: {"alpha": SPREAD},
    baselines.CorrectAndSmooth: {"correct_alpha": SPREAD, "smooth_alpha": SPREAD},
    SelfTraining: {"fraction": (0.0, 0.3, 0.5)},
}


def search_space(model: Any) -> dict[str, SearchSpace]:
    """Returns the space of each setting that can be searched, with the model's own value first.

    >>> from lggd.baselines import SGC
    >>> sorted(search_space(SGC()))
    ['hops', 'optimization__lr', 'optimization__weight_decay']
    """
    if not is_dataclass(model) or not hasattr(model, "get_params"):
        return {}
    params: dict[str, Any] = model.get_params()
    space: dict[str, SearchSpace] = {}
    for path, value in params.items():
        owner, _, field = path.rpartition("__")
        choices = SPACES.get(type(params[owner] if owner else model), {}).get(field, ())
        others = [type(value)(each) for each in choices if each != value]
        if others:
            space[path] = Categorical((value, *others))
    return space


def choose_settings(
    model: Any, evaluate: Evaluate, trials: int, journal: Path, name: str, seed: int
) -> tuple[dict[str, Setting], float | None]:
    """Returns the settings of a model with the highest validation accuracy of `trials` evaluations, and it.

    Trials are in a journal, so that a search that was killed continues. The caller has the only claim on `name`.
    """
    space = search_space(model)
    if not space:
        return {}, None
    first = {path: values.middle for path, values in space.items()}
    about = {"splits": 1, "space": {path: list(values.ends) for path, values in space.items()}}
    full_name = f"{name}/{hashlib.sha256(repr(about).encode()).hexdigest()[:8]}"  # another space is another study
    study = SharedStudy(open_journal(journal), full_name, space=space, first=first, about=about, seed=seed)
    study.abandon_running()  # by processes that were killed
    search = Search(study, evaluate, trials)
    while not search.is_finished:
        if not search.step():
            raise RuntimeError(f"Another process runs trials of {name}, although this one has the claim on them.")
    choice = search.choice()
    if choice.settings is None:
        raise MemoryError(f"none of {trials} trials succeeded: {choice.reason}")
    return dict(choice.settings), choice.validation
