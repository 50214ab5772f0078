"""Comparing methods on one graph: the same splits and labels for all, a table, and a recommendation."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lggd.app.comparison import CURVE_SPLITS, SHARES, SPLITS, label_splits, summary
from lggd.app.comparison.candidates import read_candidates
from lggd.app.comparison.fit_job import ERROR, FitJob, describe_error
from lggd.app.comparison.jobs import JobOptions, run_jobs, run_jobs_in_processes, run_jobs_on_cluster
from lggd.app.comparison.results import Line, Results
from lggd.app.comparison.summary import MethodSummary
from lggd.app.runs.methods import Method
from lggd.cluster.connection import connect
from lggd.errors import InputTypeError, InputWarning, optional_package
from lggd.html import Facts, bars, card, card_table
from lggd.progress import Callback
from lggd.text import number
from lggd.validation import check_int

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from torch_geometric.data import Data


class MethodFailedWarning(InputWarning):
    """A method failed, and is missing in the table of a comparison."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods compared on one graph, as `lggd.compare` returns it.

    Attributes
    ----------
    lines : list of dict
        Every measurement: method, split, accuracy, time and all that identifies it.
    splits : int
        Number of random splits.
    labels : int or float
        Training labels per class, or the fraction of all labels.
    failed : dict of str to str
        Methods that failed on some split, and why.
    skipped : dict of str to str
        Methods that could not take part, and why.
    seconds : float
        Duration of the comparison, without what was measured before.
    facts : dict
        Numbers of nodes, edges, classes, training, validation and test nodes.

    Examples
    --------
    >>> import lggd
    >>> comparison = lggd.compare(lggd.load("karate"), ["label-propagation", "kernel-ridge"], splits=2, labels=2)
    >>> sorted(row["method"] for row in comparison.rows)
    ['kernel-ridge', 'label-propagation']
    """

    lines: list[Line]
    splits: int
    labels: int | float
    failed: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    facts: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def methods(self) -> list[MethodSummary]:
        """The methods measured on all splits, most accurate first."""
        return summary.summarize(self.lines, self.splits)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table as a list of dicts."""
        return [method.row() for method in self.methods]

    @property
    def table(self) -> DataFrame:
        """The table as a pandas DataFrame: one row per method, most accurate first. Without pandas, see `rows`."""
        with optional_package("table", "lggd[tables]"):
            from pandas import DataFrame

        return DataFrame(self.rows, columns=summary.COLUMNS).set_index("method")

    @property
    def best(self) -> str | None:
        """The method with the highest mean accuracy; None if all failed."""
        return self.methods[0].name if self.methods else None

    @property
    def recommended(self) -> str | None:
        """The fastest method that is as accurate as the best for practical purposes."""
        choice = summary.recommended(self.methods)
        return None if choice is None else choice.name

    @property
    def recommendation(self) -> str:
        """Which method to use and why, in sentences."""
        return summary.recommend(self.methods)

    def plot(self) -> Figure:
        """Return a figure of accuracy, learning curves, calibration, and time against accuracy."""
        from lggd.app.comparison.report import draw_comparison

        return draw_comparison(self)

    def _repr_html_(self) -> str:
        """The table, a bar per method, failures, and the recommendation, for notebooks."""
        columns = ("method", "accuracy (%)", "sd", "seconds per fit", "compared with the best")
        rows = [
            (
                each.name,
                f"{each.mean:.1f}",
                "–" if each.sd is None else f"{each.sd:.1f}",
                number(each.seconds),
                each.verdict,
            )
            for each in self.methods
        ]
        facts: Facts = [("splits", self.splits), *self.facts.items()]
        facts += [(f"{name}, failed", why) for name, why in self.failed.items()]
        facts += [(f"{name}, skipped", why) for name, why in self.skipped.items()]
        pictures = card_table(columns, rows), bars(((each.name, each.mean) for each in self.methods), "accuracy (%)")
        return card("Comparison", facts, *pictures, note=self.recommendation)


def compare(
    data: Data,
    methods: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    splits: int = SPLITS,
    labels: int | float | None = None,
    trials: int = 0,
    curve: bool = True,
    folder: str | Path | None = None,
    jobs: int = 1,
    seed: int = 0,
    cluster: str | None = None,
    callback: Callback | None = None,
) -> Comparison:
    """Compare methods on your own graph: the same splits, labels and effort for all.

    For every split, a method sees the training and validation labels alone; its predictions are compared with all other
    labels. A method that fails stops nothing: a warning says why it is not in the table.

    Parameters
    ----------
    data : torch_geometric.data.Data
        A graph with classes `y`, -1 where unknown, and possibly node features `x` and `edge_weight`. Its masks are not
        used: splits are drawn from all labels.
    methods : sequence or mapping, optional
        Names of methods, as of `lggd run --method`; or a mapping from names to objects: a `Member` or another
        model with `fit(data)` and `predict_proba()`, a torch module called as `module(x, edge_index)`, or a classifier
        of scikit-learn, which sees `x` alone. A list may have both. By default about nine methods take part, those of
        scikit-network and scikit-learn where installed, and plug-ins: entry points of the group "lggd.methods".
    splits : int, default=10
        Number of random splits.
    labels : int or float, optional
        Training labels of every class: a number such as 5, or a fraction such as 0.025. As many are for validation
        (of a fraction at most half of the rest), and the rest is for testing. The default is 0.6, or that of the
        paper's table for its datasets.
    trials : int, default=0
        For every method and split, choose settings by validation accuracy among so many trials, the first of which has
        the defaults. 0 uses the defaults. Methods that choose settings themselves, by leaving one label out, need none.
    curve : bool, default=True
        Also fit with a quarter and half of the labels of three splits, for learning curves.
    folder : str or Path, optional
        Where every measurement is kept as a line of JSON. The same call continues after an interruption, and several
        processes with the same folder share the work. None keeps nothing.
    jobs : int, default=1
        Number of processes to start.
    seed : int, default=0
        The models of split s have the seed `seed + s`.
    cluster : str, optional
        Address of a Ray cluster, as HOST:PORT or "auto": fits run on its nodes, with the same results. See
        `lggd.cluster.connect`.
    callback : callable, optional
        Called with a `Progress` of the fits, whose stage is the title of the current one.

    Returns
    -------
    Comparison
        With `table`, `best`, `recommendation` and `plot()`.

    Raises
    ------
    InputError
        If an argument is invalid, or a class has too few labels.

    Examples
    --------
    >>> import lggd
    >>> comparison = lggd.compare(lggd.load("karate"), ["label-propagation", "kernel-ridge"], splits=2, labels=2)
    >>> comparison.table.shape
    (2, 11)
    """
    start = time.perf_counter()
    labels = label_splits.check_labels(label_splits.default_labels(data) if labels is None else labels)
    for name, value, minimum in (("splits", splits, 1), ("trials", trials, 0), ("jobs", jobs, 1), ("seed", seed, 0)):
        check_int(name, value, minimum)
    if trials:
        with optional_package("trials", "lggd[sweep]"):
            import optuna  # noqa: F401
    candidates, datas = read_candidates(methods), label_splits.draw_splits(_check_data(data), labels, splits)
    reasons = {each.name: each.reason_to_skip(getattr(data, "x", None) is not None) for each in candidates}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    taking_part = [each for each in candidates if each.name not in skipped]
    planned = _plan(taking_part, data, datas, labels, trials, SHARES if curve else ())
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as kept:
        options = JobOptions(Results(kept), splits, str(data.y.device), seed)
        if cluster is not None:
            with connect(cluster):
                results = run_jobs_on_cluster(planned, options, callback)
        elif jobs > 1:
            results = run_jobs_in_processes(planned, options, jobs, callback)
        else:
            results = run_jobs(planned, options, callback=callback)
    facts = {
        "nodes": int(data.num_nodes), "edges": int(data.edge_index.shape[1]) // 2, "classes": int(data.y.max()) + 1,
        "training labels": int(datas[0].train_mask.sum()), "test nodes": int(datas[0].test_mask.sum()),
    }  # fmt: skip
    lines = results.lines
    # Errors of a method are lines; those that no line could be written for are of the disk or of a cluster.
    failed = {planned[number].method.name: describe_error(error) for number, error in results.failures.items()}
    failed |= {line["method"]: line[ERROR] for line in reversed(lines) if ERROR in line}
    comparison = Comparison(lines, splits, labels, failed, skipped, time.perf_counter() - start, facts)
    measured = {each.name for each in comparison.methods}
    for name, reason in failed.items():
        if name not in measured:
            message = f"{name!r} is not in the table, because it failed: {reason}"
            warnings.warn(MethodFailedWarning(message), stacklevel=2)
    return comparison


def _check_data(data: Data) -> Any:
    y, edges = getattr(data, "y", None), getattr(data, "edge_index", None)
    if not isinstance(y, torch.Tensor) or not isinstance(edges, torch.Tensor):
        rule = "be a PyG Data with edge_index and y"
        raise InputTypeError("data", rule, type(data).__name__, "Use lggd.load, or torch_geometric.data.Data.")
    return data


def _plan(
    methods: Sequence[Method], data: Data, datas: Sequence[Any], labels: Any, trials: int, shares: Sequence[float]
) -> list[FitJob]:
    """Returns all jobs, split by split, so that methods can be compared early; the learning curve is last."""
    problem = label_splits.problem_fingerprint(data)
    planned = [
        FitJob(method, own, problem, labels, split, trials=trials)
        for split, own in enumerate(datas)
        for method in methods
    ]
    for share in label_splits.curve_shares(datas[0], shares):
        for split, own in enumerate(datas[:CURVE_SPLITS]):
            fewer = label_splits.with_fewer_labels(own, share, split)
            planned += [FitJob(each, fewer, problem, labels, split, share, trials) for each in methods]
    return planned
